//! Whatever is asked, it is answered or refused; nothing breaks.

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::World;

/// Names of parameters, and texts that are values or names of none.
const NAMES: [&str; 14] = [
    "resource",
    "type",
    "project",
    "user",
    "pod",
    "state",
    "q",
    "olderThan",
    "sort",
    "page",
    "perPage",
    "level",
    "tenant",
    "$where",
];
const TEXTS: [&str; 30] = [
    "",
    "0",
    "1",
    "-1",
    "101",
    "4294967296",
    "99999999999999999999",
    "1e3",
    "NaN",
    "HELD",
    "held",
    "oldest",
    "expiry",
    "10m",
    "1y",
    "999999999999y",
    "{\"$ne\":1}",
    "$where",
    "\0",
    "a\nb",
    "(",
    "[",
    "\\",
    "\\E",
    "%",
    "é",
    "\u{202e}",
    "'; drop",
    "*.*",
    "global",
];

fn any(rng: &mut fastrand::Rng) -> String {
    let raw = match rng.u8(..) % 4 {
        0 => (0..rng.usize(..40)).map(|_| rng.u8(..)).collect(),
        1 => "x".repeat(rng.usize(..3000)).into_bytes(),
        _ => TEXTS[rng.usize(..TEXTS.len())].as_bytes().to_vec(),
    };
    percent_encode(&raw, NON_ALPHANUMERIC).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_query_or_body_is_answered_with_an_error_of_the_server() {
    let seed = fastrand::u64(..);
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::with_secret(&[]).await;
    let lease = world.held("acme", "ada").await;
    let admin = world.admin("acme", "boss");
    let mut counted = [0; 6];
    for _ in 0..600 {
        let list = ["holders", "counters", "revocations", "overview"][rng.usize(..4)];
        let (method, below, body) = match rng.u8(..6) {
            0..3 => {
                let pairs = (0..rng.usize(1..4))
                    .map(|_| format!("{}={}", NAMES[rng.usize(..NAMES.len())], any(&mut rng)));
                let query = pairs.collect::<Vec<_>>().join("&");
                (Method::GET, format!("{list}?{query}"), None)
            }
            3 => (Method::GET, format!("holders/{}", any(&mut rng)), None),
            4 => {
                let path = format!("holders/{}/revoke", any(&mut rng));
                (Method::POST, path, Some(json!({ "state": "HELD" })))
            }
            _ => {
                let path = match rng.bool() {
                    true => "holders/revoke".to_owned(),
                    false => format!("holders/{lease}/revoke"),
                };
                let text = any(&mut rng);
                let state = ["HELD", "", "held"][rng.usize(..3)];
                let bodies = [
                    json!({ "state": text }),
                    json!({ "state": "HELD", "reason": 7 }),
                    json!({ "holders": [{ "token": text, "state": state }], "reason": "r" }),
                    json!({ "holders": text }),
                    json!([]),
                    Value::Null,
                ];
                (Method::POST, path, Some(bodies[rng.usize(..6)].clone()))
            }
        };
        let (status, said) = admin.call(method, &below, body.clone()).await;
        assert!(
            status < 500,
            "seed {seed}: {below} {body:?}: {status} {said}"
        );
        counted[usize::from(status / 100)] += 1;
    }
    // The page takes the same, and answers in its own way.
    let token = super::signed(json!({ "sub": "boss" }));
    for _ in 0..200 {
        let pairs = (0..rng.usize(1..4))
            .map(|_| format!("{}={}", NAMES[rng.usize(..NAMES.len())], any(&mut rng)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let place = match rng.u8(..6) {
            0 => format!("/holders/{}", any(&mut rng)),
            1 => format!("/holders/{}/revoke", any(&mut rng)),
            2 => format!("/revoke?seen={}", any(&mut rng)),
            3 => format!("/live/{}", any(&mut rng)),
            4 => format!("/live/holders?{query}"),
            _ => format!(
                "/{}?{query}",
                ["holders", "counters", "revocations"][rng.usize(..3)]
            ),
        };
        let path = format!("/insights/acme{place}");
        let answer = world.page(Method::GET, &path, &token).send().await.unwrap();
        let status = answer.status().as_u16();
        assert!(status < 500, "seed {seed}: {path}: {status}");
        counted[usize::from(status / 100)] += 1;
    }
    assert!(counted[2] > 20 && counted[4] > 20, "{counted:?}");
    assert_eq!(world.fleet.state(&lease).await, "HELD");
    assert!(!world.pod.log().contains("panic"), "{}", world.pod.log());
}

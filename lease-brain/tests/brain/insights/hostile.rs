//! Tokens that are no good, each for a reason of its own.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::tokens::{
    ISSUER, MARK, SECRET, Signer, claims, now, part, raw, rsa_public_pem, set, signed_with, token,
};
use super::{World, is};
use crate::fleet::Fleet;

type Row = (&'static str, String, &'static str);

/// Claims that are no good.
fn bad_claims() -> Vec<Row> {
    let invalid = "TOKEN_INVALID";
    let long = "x".repeat(129);
    let rows = [
        ("expired", json!({ "exp": now() - 60 }), "TOKEN_EXPIRED"),
        (
            "expired beyond the leeway",
            json!({ "exp": now() - 12 }),
            "TOKEN_EXPIRED",
        ),
        ("expired in 1970", json!({ "exp": 0 }), "TOKEN_EXPIRED"),
        ("no exp", json!({ "exp": null }), invalid),
        (
            "exp as text",
            json!({ "exp": (now() + 600).to_string() }),
            invalid,
        ),
        ("exp before time", json!({ "exp": -1 }), invalid),
        ("exp after time", json!({ "exp": u64::MAX }), invalid),
        ("exp as a list", json!({ "exp": [now() + 600] }), invalid),
        ("nbf in the future", json!({ "nbf": now() + 60 }), invalid),
        ("nbf as text", json!({ "nbf": "0" }), invalid),
        ("no aud", json!({ "aud": null }), invalid),
        ("another aud", json!({ "aud": MARK }), invalid),
        ("aud in capitals", json!({ "aud": "LEASE" }), invalid),
        ("aud with a prefix", json!({ "aud": "lease2" }), invalid),
        (
            "list without the aud",
            json!({ "aud": ["a", MARK] }),
            invalid,
        ),
        ("empty aud", json!({ "aud": [] }), invalid),
        ("aud as a number", json!({ "aud": 7 }), invalid),
        (
            "list with a number",
            json!({ "aud": ["lease", 7] }),
            invalid,
        ),
        (
            "aud as an object",
            json!({ "aud": { "lease": true } }),
            invalid,
        ),
        ("no iss", json!({ "iss": null }), invalid),
        ("another iss", json!({ "iss": MARK }), invalid),
        ("list of iss", json!({ "iss": [ISSUER, MARK] }), invalid),
        ("no sub", json!({ "sub": null }), invalid),
        ("sub as a number", json!({ "sub": 7 }), invalid),
        ("empty sub", json!({ "sub": "" }), invalid),
        ("long sub", json!({ "sub": long }), invalid),
        (
            "sub with a control character",
            json!({ "sub": format!("{MARK}\u{1b}[2J") }),
            invalid,
        ),
        ("no tenant", json!({ "tenant": null }), invalid),
        ("tenant as a number", json!({ "tenant": 7 }), invalid),
        ("list of tenants", json!({ "tenant": ["acme"] }), invalid),
        ("empty tenant", json!({ "tenant": "" }), invalid),
        ("long tenant", json!({ "tenant": long }), invalid),
        (
            "tenant with a newline",
            json!({ "tenant": "acme\n" }),
            invalid,
        ),
        ("reserved tenant", json!({ "tenant": "_vance" }), invalid),
        ("no roles", json!({ "roles": null }), invalid),
        ("roles as text", json!({ "roles": "ADMIN" }), invalid),
        (
            "roles with a number",
            json!({ "roles": ["ADMIN", 7] }),
            invalid,
        ),
        (
            "roles as an object",
            json!({ "roles": { "ADMIN": true } }),
            invalid,
        ),
        (
            "more than 8 KiB",
            json!({ "more": MARK.repeat(400) }),
            invalid,
        ),
    ];
    let rows = rows.into_iter();
    rows.map(|(name, changes, code)| (name, token(changes), code))
        .collect()
}

/// Signatures and forms that are no good.
fn bad_forms() -> Vec<Row> {
    let good = token(json!({}));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, body) = message.split_once('.').unwrap();
    let claims = claims(json!({}));
    let with = |header: Value| {
        let mut whole = json!({ "alg": "HS256" });
        for (name, value) in header.as_object().unwrap() {
            whole[name] = value.clone();
        }
        raw(&whole.to_string(), &claims.to_string())
    };
    let by = |secret: &[u8], algorithm| signed_with(secret, &Header::new(algorithm), &claims);
    let unsigned = |alg: &str| {
        let header = json!({ "alg": alg, "typ": "JWT" }).to_string();
        format!("{}.{body}.", part(header))
    };
    let own = b"a-secret-that-its-bearer-has-made-up";
    let own_key = Jwk::from_encoding_key(&EncodingKey::from_secret(own).unwrap(), Algorithm::HS256);
    let brings_key = Header {
        jwk: Some(own_key.unwrap()),
        ..Header::default()
    };
    let other_body = part(claims.to_string().replace("acme", "evil"));
    let twice = claims.to_string().replacen('{', r#"{"tenant":"evil","#, 1);
    let flipped = match signature.strip_prefix('A') {
        Some(rest) => format!("{message}.B{rest}"),
        None => format!("{message}.A{}", &signature[1..]),
    };
    let rows = [
        ("empty", String::new()),
        ("a word", "abc".to_owned()),
        ("dots", "..".to_owned()),
        ("two parts", message.to_owned()),
        ("four parts", format!("{good}.{signature}")),
        ("no signature", format!("{message}.")),
        ("short signature", good[..good.len() - 4].to_owned()),
        ("flipped signature", flipped),
        (
            "signature in another alphabet",
            format!("{message}.{}==", signature),
        ),
        (
            "claims changed",
            format!("{header}.{other_body}.{signature}"),
        ),
        (
            "header changed",
            format!("{}.{body}.{signature}", part(r#"{"alg":"HS256"}"#)),
        ),
        ("alg none", unsigned("none")),
        ("alg None", unsigned("None")),
        ("alg nOnE", unsigned("nOnE")),
        ("empty alg", unsigned("")),
        (
            "alg none, signed",
            raw(r#"{"alg":"none"}"#, &claims.to_string()),
        ),
        ("no alg", raw("{}", &claims.to_string())),
        (
            "HS384 with the secret",
            by(SECRET.as_bytes(), Algorithm::HS384),
        ),
        (
            "HS512 with the secret",
            by(SECRET.as_bytes(), Algorithm::HS512),
        ),
        ("another secret", by(own, Algorithm::HS256)),
        (
            "secret with its newline",
            by(format!("{SECRET}\n").as_bytes(), Algorithm::HS256),
        ),
        ("brings its own key", signed_with(own, &brings_key, &claims)),
        (
            "signed with a private key",
            Signer::new("a", Algorithm::ES256).token(),
        ),
        ("unknown crit", with(json!({ "crit": ["exp"], "exp": 1 }))),
        ("crit of its own", with(json!({ "crit": [MARK], MARK: 1 }))),
        ("empty crit", with(json!({ "crit": [] }))),
        ("crit as text", with(json!({ "crit": "b64" }))),
        (
            "body not encoded",
            with(json!({ "b64": false, "crit": ["b64"] })),
        ),
        ("tenant twice", raw(r#"{"alg":"HS256"}"#, &twice)),
        ("claims not JSON", raw(r#"{"alg":"HS256"}"#, MARK)),
        (
            "claims a list",
            raw(r#"{"alg":"HS256"}"#, &json!([claims]).to_string()),
        ),
        ("claims no UTF-8", raw(r#"{"alg":"HS256"}"#, "\u{0}")),
        ("header not JSON", raw(MARK, &claims.to_string())),
    ];
    let rows = rows.into_iter();
    rows.map(|(name, token)| (name, token, "TOKEN_INVALID"))
        .collect()
}

/// Nothing of a token is in this text.
#[track_caller]
fn assert_silent(name: &str, token: &str, text: &str) {
    assert!(!text.contains(MARK), "{name}: {text}");
    let parts = token.split('.').filter(|part| part.len() > 12);
    for part in parts {
        assert!(!text.contains(&part[..12]), "{name}: {text}");
        assert!(!text.contains(&part[part.len() - 12..]), "{name}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_token_is_refused_wherever_it_comes_and_nothing_of_it_is_repeated() {
    let issuer = format!("--jwt-issuer={ISSUER}");
    let world = World::with_secret(&[&issuer]).await;
    assert_eq!(world.tried(&token(json!({}))).await, is(200, "OK"));
    let rows = [bad_claims(), bad_forms()].concat();
    for (name, token, code) in &rows {
        let call = world
            .ask(reqwest::Method::GET, super::ME)
            .bearer_auth(token);
        let answer = call.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        let said: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (status, &said["code"]),
            (401, &json!(code)),
            "{name}: {text}"
        );
        assert_silent(name, token, &text);

        let answer = world
            .form("/insights/acme/login", token)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 401, "{name}");
        assert_eq!(answer.headers().get("set-cookie"), None, "{name}");
        assert_silent(name, token, &answer.text().await.unwrap());

        let cookie = format!("lease_insights={token}");
        let call = world
            .ask(reqwest::Method::GET, super::ME)
            .header("cookie", cookie);
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), 401, "{name}");
        assert_silent(name, token, &answer.text().await.unwrap());
    }
    let log = world.pod.log();
    for (name, token, _) in &rows {
        assert_silent(name, token, &log);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn public_key_is_no_secret_to_sign_with() {
    let signer = Signer::new("rsa", Algorithm::RS256);
    let symmetric = json!({ "kty": "oct", "kid": "shared", "alg": "HS256", "k": part(SECRET) });
    let keys = json!({ "keys": [signer.jwk(), symmetric] }).to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks");
    std::fs::write(&path, &keys).unwrap();
    let jwks = format!("--jwt-jwks={}", path.display());
    let world = World::start(Fleet::new().await, folder, &[&jwks]).await;
    assert_eq!(world.tried(&signer.token()).await, is(200, "OK"));
    let modulus = signer.jwk()["n"].as_str().unwrap().to_owned();
    let only = set(&[&signer]);
    for kid in [None, Some("rsa"), Some("shared")] {
        for (name, secret) in [
            ("the PEM", rsa_public_pem()),
            ("the PEM without its end", rsa_public_pem().trim_end()),
            ("the set", &keys),
            ("the set of one", &only),
            ("the key", &signer.jwk().to_string()),
            ("the modulus", &modulus),
            ("the symmetric key", SECRET),
        ] {
            let header = Header {
                kid: kid.map(str::to_owned),
                ..Header::default()
            };
            let token = signed_with(secret.as_bytes(), &header, &claims(json!({})));
            assert_eq!(
                world.tried(&token).await,
                is(401, "TOKEN_INVALID"),
                "{name}"
            );
        }
    }
    // Only by the algorithm that the key names, and never with another's name on it.
    for header in [
        Header {
            kid: Some("rsa".to_owned()),
            ..Header::new(Algorithm::RS512)
        },
        Header {
            kid: Some("other".to_owned()),
            ..Header::new(Algorithm::RS256)
        },
    ] {
        let token = signer.token_of(&header);
        assert_eq!(
            world.tried(&token).await,
            is(401, "TOKEN_INVALID"),
            "{header:?}"
        );
    }
    let unnamed = signer.token_of(&Header::new(Algorithm::RS256));
    assert_eq!(world.tried(&unnamed).await, is(200, "OK"));
}

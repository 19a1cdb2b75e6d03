use jsonwebtoken::{EncodingKey, encode, get_current_timestamp};
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn access(issuer: Option<&str>) -> Access {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, format!(" {SECRET}\n")).unwrap();
    let secret = SigningSecret::from_file(&path).unwrap();
    let expected = Expected {
        audience: DEFAULT_AUDIENCE.to_owned(),
        issuer: issuer.map(str::to_owned),
    };
    Access::by_secret(&secret, expected)
}

/// A good token but for what is changed; null takes a claim out.
fn token(changes: Value) -> String {
    let mut claims = json!({
        "sub": "ada", "tenant": "acme", "roles": ["ADMIN"], "aud": "lease", "exp": get_current_timestamp() + 60,
    });
    for (claim, value) in changes.as_object().unwrap() {
        claims[claim] = value.clone();
    }
    let claims = claims.as_object_mut().unwrap();
    claims.retain(|_, value| !value.is_null());
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    encode(&Header::default(), &claims, &key).unwrap()
}

#[tokio::test]
async fn good_token_says_who_calls() {
    let caller = access(None).caller(&token(json!({}))).await.unwrap();
    assert_eq!((&*caller.subject, &*caller.tenant), ("ada", "acme"));
    assert_eq!(caller.roles, ["ADMIN"]);
    let left = caller.time_left().as_secs();
    assert!((50..=60).contains(&left), "{left}");
}

#[tokio::test]
async fn what_the_standard_leaves_open_is_taken() {
    let now = get_current_timestamp();
    for changes in [
        json!({ "aud": ["other", "lease"] }),
        json!({ "iss": "anybody" }),
        json!({ "roles": [] }),
        json!({ "nbf": now - 1, "iat": now, "jti": "x", "more": { "deep": [1] } }),
        json!({ "exp": now as f64 + 60.5 }),
        // The clocks of two machines.
        json!({ "exp": now - 5 }),
        json!({ "nbf": now + 5 }),
    ] {
        let called = access(None).caller(&token(changes.clone())).await;
        assert!(called.is_ok(), "{changes}: {called:?}");
    }
}

#[tokio::test]
async fn issuer_counts_where_one_is_configured() {
    let access = access(Some("https://idp"));
    let called = access.caller(&token(json!({ "iss": "https://idp" }))).await;
    assert!(called.is_ok(), "{called:?}");
    for changes in [
        json!({}),
        json!({ "iss": "https://idp/" }),
        json!({ "iss": ["https://idp", "https://other"] }),
    ] {
        let called = access.caller(&token(changes.clone())).await;
        assert!(
            matches!(called, Err(Denied::Invalid(_))),
            "{changes}: {called:?}"
        );
    }
}

#[tokio::test]
async fn time_is_told_apart_from_the_rest() {
    let now = get_current_timestamp();
    let denied = async |changes| access(None).caller(&token(changes)).await.unwrap_err();
    assert_eq!(denied(json!({ "exp": now - 12 })).await, Denied::Expired);
    assert_eq!(
        denied(json!({ "nbf": now + 60 })).await,
        Denied::NotYetValid
    );
    let never = json!({ "exp": i64::MAX });
    assert_eq!(denied(never).await, Denied::Invalid("its `exp` is no time"));
}

#[test]
fn time_left_ends_at_zero() {
    let now = i64::try_from(get_current_timestamp()).unwrap();
    let left = |second| {
        let caller = Caller {
            subject: "ada".to_owned(),
            tenant: "acme".to_owned(),
            roles: Vec::new(),
            expires_at: Timestamp::from_second(second).unwrap(),
        };
        caller.time_left().as_secs()
    };
    assert!((50..=60).contains(&left(now + 60)));
    assert_eq!(left(now - 5), 0);
    assert_eq!(left(Timestamp::MIN.as_second()), 0);
    assert!(left(Timestamp::MAX.as_second()) > 0);
}

#[test]
fn administrator_has_the_very_role_in_the_very_tenant() {
    let caller = |tenant: &str, roles: &[&str]| Caller {
        subject: "ada".to_owned(),
        tenant: tenant.to_owned(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        expires_at: Timestamp::MAX,
    };
    for (tenant, roles, expected) in [
        ("acme", &["ADMIN"][..], true),
        ("acme", &["x", "ADMIN"], true),
        ("acme", &["admin"], false),
        ("acme", &["ADMIN "], false),
        ("acme", &["ADMINISTRATOR"], false),
        ("acme", &[], false),
        ("ACME", &["ADMIN"], false),
        ("acme ", &["ADMIN"], false),
        ("other", &["ADMIN"], false),
    ] {
        let administers = caller(tenant, roles).administers("acme");
        assert_eq!(administers, expected, "{tenant:?} {roles:?}");
    }
}

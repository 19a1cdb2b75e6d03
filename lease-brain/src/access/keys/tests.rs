use serde_json::json;

use super::*;

fn key(mut key: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        key[name] = value.clone();
    }
    key
}

fn encoded(length: usize) -> String {
    URL_SAFE_NO_PAD.encode(vec![7; length])
}

fn rsa(bytes: usize) -> Value {
    json!({ "kty": "RSA", "n": encoded(bytes), "e": "AQAB" })
}

fn ec(curve: &str, length: usize) -> Value {
    json!({ "kty": "EC", "crv": curve, "x": encoded(length), "y": encoded(length) })
}

fn ed(length: usize) -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(length) })
}

#[test]
fn key_verifies_by_what_goes_with_its_type_and_by_nothing_else() {
    use Algorithm::{ES256, ES384, EdDSA, PS256, RS256};
    let alg = |alg: &str| json!({ "alg": alg });
    let none = json!({});
    let rows = [
        (key(rsa(256), none.clone()), RSA.to_vec()),
        (key(rsa(512), alg("RS256")), vec![RS256]),
        (key(rsa(512), alg("PS256")), vec![PS256]),
        (key(ec("P-256", 32), none.clone()), vec![ES256]),
        (key(ec("P-384", 48), alg("ES384")), vec![ES384]),
        (key(ed(32), none), vec![EdDSA]),
        (
            key(
                ed(32),
                json!({ "use": "sig", "key_ops": ["verify"], "alg": "EdDSA" }),
            ),
            vec![EdDSA],
        ),
    ];
    for (key, algorithms) in rows {
        assert_eq!(usable(key.clone()).unwrap().algorithms, algorithms, "{key}");
    }
}

#[test]
fn key_that_must_not_verify_is_left_out_with_the_reason() {
    let rows = [
        (json!({ "kty": "oct", "k": encoded(32) }), "a symmetric key"),
        (
            json!({ "kty": "oct", "k": encoded(32), "alg": "HS256", "use": "sig" }),
            "a symmetric key",
        ),
        (key(rsa(256), json!({ "alg": "HS256" })), "its `alg`"),
        (key(rsa(256), json!({ "alg": "ES256" })), "its `alg`"),
        (key(rsa(256), json!({ "alg": "RSA-OAEP" })), "its `alg`"),
        (key(rsa(256), json!({ "alg": "none" })), "its `alg`"),
        (key(ec("P-256", 32), json!({ "alg": "ES384" })), "its `alg`"),
        (key(rsa(256), json!({ "use": "enc" })), "its `use`"),
        (key(rsa(256), json!({ "use": "" })), "its `use`"),
        (
            key(rsa(256), json!({ "key_ops": ["encrypt"] })),
            "its `key_ops`",
        ),
        (rsa(128), "an RSA key"),
        (rsa(1025), "an RSA key"),
        (ec("P-256", 31), "its point"),
        (ec("P-521", 66), "of its curves"),
        (ec("secp256k1", 32), "its `kty`"),
        (ed(31), "it is no key of Ed25519"),
        (ed(33), "it is no key of Ed25519"),
        (
            json!({ "kty": "OKP", "crv": "X25519", "x": encoded(32) }),
            "its `kty`",
        ),
        (json!({ "kty": "new" }), "its `kty`"),
        (json!({ "kid": 7, "kty": "RSA" }), "not a JWK"),
        (json!("a key"), "not a JWK"),
    ];
    for (key, reason) in rows {
        let left_out = usable(key.clone()).unwrap_err();
        assert!(left_out.starts_with(reason), "{key}: {left_out}");
    }
}

#[test]
fn key_that_cannot_be_used_does_not_spoil_the_others() {
    let set = json!({ "keys": [{ "kty": "oct", "k": encoded(32) }, ed(32), "x"] });
    let (keys, left_out) = KeySet::parse(set.to_string().as_bytes()).unwrap();
    assert_eq!(keys.0.len(), 1);
    assert_eq!(left_out.len(), 2);
    assert!(
        left_out[0].starts_with("key 1: a symmetric key"),
        "{left_out:?}"
    );
    assert_eq!(left_out[1], "key 3: not a JWK");
}

#[test]
fn what_is_no_set_of_keys_is_none() {
    let many = json!({ "keys": vec![ed(32); 65] }).to_string();
    let rows = [
        ("", "is no JWKS"),
        ("[]", "is no JWKS"),
        ("{}", "is no JWKS"),
        ("<html>", "is no JWKS"),
        (&many, "has more than 64 keys"),
    ];
    for (text, problem) in rows {
        let refused = KeySet::parse(text.as_bytes()).unwrap_err();
        assert!(refused.starts_with(problem), "{text}: {refused}");
    }
}

#[test]
fn candidate_has_the_algorithm_and_the_id_if_both_have_one() {
    let named = |id: &str, key_: Value| key(key_, json!({ "kid": id }));
    let set = json!({ "keys": [named("a", ed(32)), named("b", ed(32)), rsa(256)] });
    let (set, _) = KeySet::parse(set.to_string().as_bytes()).unwrap();
    for (key_id, algorithm, count) in [
        (Some("a"), Algorithm::EdDSA, 1),
        (None, Algorithm::EdDSA, 2),
        (Some("c"), Algorithm::EdDSA, 0),
        (Some("A"), Algorithm::EdDSA, 0),
        (Some("a"), Algorithm::RS256, 1),
        (None, Algorithm::HS256, 0),
        (Some("a"), Algorithm::HS256, 0),
        (None, Algorithm::ES256, 0),
    ] {
        let signed = Signed { key_id, algorithm };
        assert_eq!(set.candidates(&signed).count(), count, "{signed:?}");
        assert_eq!(set.knows(&signed), count > 0);
    }
}

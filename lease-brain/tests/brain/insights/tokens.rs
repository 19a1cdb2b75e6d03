//! Tokens, good and bad.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use serde_json::{Value, json};

pub(crate) const SECRET: &str = "the-secret-of-tokens-in-these-tests";
/// In claims that nobody may repeat.
pub(super) const MARK: &str = "marked-text-of-a-claim";
pub(super) const ISSUER: &str = "https://idp.test";

pub(super) fn now() -> u64 {
    get_current_timestamp()
}

/// Good claims but for what is changed; null takes a claim out.
pub(super) fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "sub": MARK, "tenant": "acme", "roles": ["ADMIN"], "aud": "lease", "iss": ISSUER, "exp": now() + 600,
    });
    for (claim, value) in changes.as_object().unwrap() {
        claims[claim] = value.clone();
    }
    claims
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    claims
}

/// A good token but for these claims.
pub(crate) fn token(changes: Value) -> String {
    signed_with(SECRET.as_bytes(), &Header::default(), &claims(changes))
}

pub(super) fn signed_with(secret: &[u8], header: &Header, claims: &Value) -> String {
    encode(header, claims, &EncodingKey::from_secret(secret).unwrap()).unwrap()
}

/// Part of a token, of whatever text.
pub(super) fn part(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// A token of whatever texts, signed with the right secret.
pub(super) fn raw(header: &str, claims: &str) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    // The library signs only what it has written itself, so its signature is taken from there.
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
    format!("{message}.{signature}")
}

/// A key of an identity provider.
pub(super) struct Signer {
    pub(super) id: &'static str,
    pub(super) algorithm: Algorithm,
    key: EncodingKey,
    public: Value,
}

impl Signer {
    pub(super) fn new(id: &'static str, algorithm: Algorithm) -> Self {
        let made = |kind| KeyPair::generate_for(kind).unwrap();
        let ec = |kind| EncodingKey::from_ec_der(&made(kind).serialize_der());
        let public = |key: &EncodingKey| {
            serde_json::to_value(Jwk::from_encoding_key(key, algorithm).unwrap()).unwrap()
        };
        let (key, mut public) = match algorithm {
            Algorithm::EdDSA => {
                // The library takes no public key out of one that has it beside the private one.
                let pair = made(&PKCS_ED25519);
                let x = part(pair.public_key_raw());
                let public = json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": x });
                (EncodingKey::from_ed_der(&pair.serialize_der()), public)
            }
            _ => {
                let key = match algorithm {
                    Algorithm::ES256 => ec(&PKCS_ECDSA_P256_SHA256),
                    Algorithm::ES384 => ec(&PKCS_ECDSA_P384_SHA384),
                    _ => EncodingKey::from_rsa_der(&rsa_private()),
                };
                let public = public(&key);
                (key, public)
            }
        };
        public["kid"] = id.into();
        Self {
            id,
            algorithm,
            key,
            public,
        }
    }

    /// The public key, as in a set.
    pub(super) fn jwk(&self) -> Value {
        self.public.clone()
    }

    pub(super) fn token(&self) -> String {
        self.token_of(&Header {
            kid: Some(self.id.to_owned()),
            ..Header::new(self.algorithm)
        })
    }

    pub(super) fn token_of(&self, header: &Header) -> String {
        encode(header, &claims(json!({})), &self.key).unwrap()
    }
}

/// Made for these tests, and used nowhere: making one takes long without optimisation.
fn rsa_private() -> Vec<u8> {
    let text = include_str!("rsa_private.der.b64").replace('\n', "");
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}

pub(super) fn rsa_public_pem() -> &'static str {
    include_str!("rsa_public.pem")
}

pub(super) fn set(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

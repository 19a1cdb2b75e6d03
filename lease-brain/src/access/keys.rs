//! Which keys of a set may verify which token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, EllipticCurveKeyParameters, Jwk, KeyOperations,
    OctetKeyPairParameters, PublicKeyUse, RSAKeyParameters,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// A token that names no key is tried with all that fit.
const MOST: usize = 64;
/// What RSA keys may have, in bytes: fewer can be factored, more take long.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// A key that verifies.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    /// By these alone. A key must never be used with an algorithm of another family: a public key is a fine secret for
    /// HS256, and everybody knows it.
    algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
}

/// What a token says of its signature, before that is verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) key_id: Option<&'a str>,
    pub(super) algorithm: Algorithm,
}

/// Keys that verify.
#[derive(Debug)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    pub(super) fn of_secret(decoding: DecodingKey) -> Self {
        Self(vec![Key {
            id: None,
            algorithms: vec![Algorithm::HS256],
            decoding,
        }])
    }

    /// The set that this text (JWKS) is, and why which of its keys were left out.
    ///
    /// # Errors
    /// It is no set of keys.
    pub(super) fn parse(text: &[u8]) -> Result<(Self, Vec<String>), &'static str> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(text)
            .map_err(|_| "is no JWKS: a JSON object with a list `keys`")?;
        if set.keys.len() > MOST {
            return Err("has more than 64 keys");
        }
        let (mut keys, mut left_out) = (Vec::new(), Vec::new());
        for (index, key) in set.keys.into_iter().enumerate() {
            match usable(key) {
                Ok(key) => keys.push(key),
                Err(problem) => left_out.push(format!("key {}: {problem}", index + 1)),
            }
        }
        Ok((Self(keys), left_out))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys that may have signed this. A key or a token without an id goes with any.
    pub(super) fn candidates<'a>(&'a self, signed: &Signed<'a>) -> impl Iterator<Item = &'a Key> {
        let signed = *signed;
        self.0.iter().filter(move |key| {
            let named = match (key.id.as_deref(), signed.key_id) {
                (Some(id), Some(wanted)) => id == wanted,
                _ => true,
            };
            named && key.algorithms.contains(&signed.algorithm)
        })
    }

    pub(super) fn knows(&self, signed: &Signed<'_>) -> bool {
        self.candidates(signed).next().is_some()
    }
}

fn usable(key: Value) -> Result<Key, &'static str> {
    let key: Jwk = serde_json::from_value(key).map_err(|_| "not a JWK")?;
    let common = &key.common;
    if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return Err("its `use` is not `sig`");
    }
    let operations = common.key_operations.as_deref();
    if operations.is_some_and(|given| !given.contains(&KeyOperations::Verify)) {
        return Err("its `key_ops` have no `verify`");
    }
    let possible = possible(&key.algorithm)?;
    let algorithms = match common.key_algorithm {
        None => possible.to_vec(),
        Some(named) => match Algorithm::try_from(named) {
            Ok(named) if possible.contains(&named) => vec![named],
            _ => return Err("its `alg` does not go with its `kty` and `crv`, or is not known"),
        },
    };
    Ok(Key {
        id: common.key_id.clone(),
        algorithms,
        decoding: DecodingKey::from_jwk(&key).map_err(|_| "its numbers cannot be read")?,
    })
}

/// The algorithms that go with a key's type. Lengths are judged here: the library trusts them.
fn possible(parameters: &AlgorithmParameters) -> Result<&'static [Algorithm], &'static str> {
    match parameters {
        AlgorithmParameters::RSA(RSAKeyParameters { n, .. }) => match bytes(n) {
            Some(length) if RSA_BYTES.contains(&length) => Ok(RSA),
            _ => Err("an RSA key must have 2048 to 8192 bits"),
        },
        AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters { curve, x, y, .. }) => {
            let (length, algorithms): (_, &[_]) = match curve {
                EllipticCurve::P256 => (32, &[Algorithm::ES256]),
                EllipticCurve::P384 => (48, &[Algorithm::ES384]),
                _ => return Err("of its curves, only P-256 and P-384 are known"),
            };
            match bytes(x) == Some(length) && bytes(y) == Some(length) {
                true => Ok(algorithms),
                false => Err("its point is not one of its curve"),
            }
        }
        AlgorithmParameters::OctetKeyPair(OctetKeyPairParameters { curve, x, .. }) => {
            match (curve, bytes(x)) {
                (EllipticCurve::Ed25519, Some(32)) => Ok(&[Algorithm::EdDSA]),
                _ => Err("it is no key of Ed25519"),
            }
        }
        AlgorithmParameters::OctetKey(_) => Err(
            "a symmetric key: who can verify with it can sign, so it does not belong in a set of public keys",
        ),
        _ => Err("its `kty` or `crv` is not known"),
    }
}

fn bytes(encoded: &str) -> Option<usize> {
    URL_SAFE_NO_PAD.decode(encoded).ok().map(|it| it.len())
}

#[cfg(test)]
mod tests;

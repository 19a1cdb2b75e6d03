//! What the fields of our configuration documents are made of. Each refuses in words what it is not.

use std::time::Duration;

use reqwest::Url;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::secrets::SecretName;

/// How many seconds something may take.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=3600;

/// Null is not absence: somebody meant to write something.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(source).map(Some)
}

/// A text that is not empty.
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        match String::deserialize(source)? {
            text if text.is_empty() => {
                Err(D::Error::custom("is empty: write a text, or remove it"))
            }
            text => Ok(Self(text)),
        }
    }
}

/// The name of a secret. What stands there instead may be the secret itself, so no error shows it.
pub(crate) struct Secret(pub(crate) SecretName);

pub(crate) const REFERENCE: &str =
    "must be {{secret:NAME}} in quotes, and nothing else: a secret does not stand in a document";

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let Ok(serde_yaml::Value::String(text)) = serde_yaml::Value::deserialize(source) else {
            return Err(D::Error::custom(REFERENCE));
        };
        let name = SecretName::from_reference(&text);
        name.map(Self).ok_or_else(|| D::Error::custom(REFERENCE))
    }
}

/// A number of seconds.
pub(crate) struct Seconds(pub(crate) Duration);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let seconds = u64::deserialize(source)?;
        if SECONDS.contains(&seconds) {
            return Ok(Self(Duration::from_secs(seconds)));
        }
        let (least, most) = (SECONDS.start(), SECONDS.end());
        let problem = format!("`{seconds}`: must be a number of seconds from {least} to {most}");
        Err(D::Error::custom(problem))
    }
}

/// The URL of a server; or what is wrong with it. What cannot be read may hold a password: it is not shown.
pub(crate) fn plain_url(text: &str) -> Result<Url, &'static str> {
    const RULE: &str = "must be a URL like http://server.internal:3901/path, without a user, a password and a fragment";
    let url = Url::parse(text).map_err(|_| RULE)?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none();
    if !plain {
        return Err(RULE);
    }
    match text.contains("{{secret:") {
        true => Err("must hold no secret: addresses are shown and logged"),
        false => Ok(url),
    }
}

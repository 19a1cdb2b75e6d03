//! A tool's document as it is written: each field by itself. What fields mean together is judged in [`super`].

use std::collections::BTreeMap;
use std::fmt;

use lease_shared::definition::InlineDefinition;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Setting;
use crate::document_fields::{REFERENCE, Seconds, Secret, Text, present};
use crate::secrets::SecretName;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Written {
    pub(super) r#type: Type,
    #[serde(default, deserialize_with = "present")]
    pub(super) name: Option<String>,
    #[serde(default, rename = "description", deserialize_with = "present")]
    pub(super) _description: Option<Text>,
    pub(super) parameters: Parameters,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Type {
    McpServer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Parameters {
    pub(super) transport: TransportName,
    #[serde(default, deserialize_with = "present")]
    pub(super) url: Option<Text>,
    #[serde(default, deserialize_with = "present")]
    pub(super) event_stream: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(super) auth: Option<Hidden>,
    #[serde(default, deserialize_with = "present")]
    pub(super) command: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) cwd: Option<Text>,
    #[serde(default, deserialize_with = "present")]
    pub(super) env: Option<Unique<Setting>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) timeout_seconds: Option<Seconds>,
    #[serde(default, deserialize_with = "present")]
    pub(super) init_timeout_seconds: Option<Seconds>,
    #[serde(default, deserialize_with = "present")]
    pub(super) default_args: Option<Unique<serde_json::Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) lease: Option<Lease>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum TransportName {
    Http,
    Stdio,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WrittenAuth {
    pub(super) r#type: AuthType,
    #[serde(default, deserialize_with = "present")]
    pub(super) token: Option<Secret>,
    #[serde(default, deserialize_with = "present")]
    pub(super) user: Option<Text>,
    #[serde(default, deserialize_with = "present")]
    pub(super) password: Option<Secret>,
    #[serde(default, deserialize_with = "present")]
    pub(super) name: Option<Text>,
    #[serde(default, deserialize_with = "present")]
    pub(super) value: Option<Secret>,
}

#[derive(Clone, Copy)]
pub(super) enum AuthType {
    None,
    Bearer,
    Basic,
    Header,
}

const AUTH: &str = "must be a mapping like {type: bearer, token: \"{{secret:NAME}}\"}";

/// What stands there instead may be a credential, so no error shows it.
pub(super) struct Hidden(pub(super) WrittenAuth);

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Hidden;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Hidden, A::Error> {
                WrittenAuth::deserialize(MapAccessDeserializer::new(map)).map(Hidden)
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<Hidden, E> {
                Err(E::custom(AUTH))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Hidden, E> {
                Err(E::custom(AUTH))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Hidden, E> {
                Err(E::custom(AUTH))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Hidden, E> {
                Err(E::custom(AUTH))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Hidden, E> {
                Err(E::custom(AUTH))
            }
        }
        source.deserialize_any(Fields)
    }
}

impl<'de> Deserialize<'de> for AuthType {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let written = serde_yaml::Value::deserialize(source)?;
        match written.as_str() {
            Some("none") => Ok(Self::None),
            Some("bearer") => Ok(Self::Bearer),
            Some("basic") => Ok(Self::Basic),
            Some("header") => Ok(Self::Header),
            _ => Err(D::Error::custom("must be none, bearer, basic or header")),
        }
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let Ok(serde_yaml::Value::String(text)) = serde_yaml::Value::deserialize(source) else {
            return Err(D::Error::custom("must be a text: write numbers in quotes"));
        };
        if let Some(name) = SecretName::from_reference(&text) {
            return Ok(Self::Secret(name));
        }
        match text.contains("{{secret:") || text.contains('\0') {
            true => Err(D::Error::custom(REFERENCE)),
            false => Ok(Self::Plain(text)),
        }
    }
}

/// A name, or a definition of its own.
pub(super) enum Lease {
    Named(String),
    Inline(InlineDefinition),
}

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        match serde_yaml::Value::deserialize(source)? {
            serde_yaml::Value::String(name) => Ok(Self::Named(name)),
            serde_yaml::Value::Null => Err(D::Error::custom(
                "is empty: write a lease's name or an inline definition, or remove it for none",
            )),
            value => InlineDefinition::deserialize(value)
                .map(Self::Inline)
                .map_err(D::Error::custom),
        }
    }
}

/// A mapping that has each key once.
pub(super) struct Unique<T>(pub(super) BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Once<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Once<T> {
            type Value = Unique<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<T>, A::Error> {
                let mut read = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if read.contains_key(&key) {
                        map.next_value::<IgnoredAny>()?;
                        let problem = format!("`{key}` stands there a second time: keep one");
                        return Err(A::Error::custom(problem));
                    }
                    let value = map.next_value()?;
                    read.insert(key, value);
                }
                Ok(Unique(read))
            }
        }
        source.deserialize_map(Once(std::marker::PhantomData))
    }
}

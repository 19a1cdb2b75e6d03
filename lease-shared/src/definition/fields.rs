//! Reads the fields of a definition from any serde format and refuses, with the field and the rule, what breaks one.
//! Documents and inline definitions share it; an inline one has fewer fields.

mod key;
mod node;

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};

use self::key::KeySeed;
use self::node::Node;
use super::Caps;
use super::document_error::{escaped, shown};
use crate::level::{Cap, TtlSeconds, WaitMs};
use crate::name::{LeaseName, Resource};

/// What was read, and the first refusal.
#[derive(Default)]
pub(super) struct Reading<'a> {
    /// The name that must stand there, in a document.
    pub(super) expected: Option<&'a LeaseName>,
    /// An inline definition: only what a project may own.
    pub(super) inline: bool,
    pub(super) fields: RefCell<Fields>,
    pub(super) refusal: RefCell<Option<Refusal>>,
}

/// The fields that were mentioned.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) name: Option<LeaseName>,
    pub(super) resource: Option<Resource>,
    pub(super) caps: Caps,
    pub(super) ttl: Option<TtlSeconds>,
    pub(super) wait: Option<WaitMs>,
}

/// Why a text was refused. Where in it, the format's own error knows.
pub(super) struct Refusal {
    pub(super) field: Option<String>,
    /// The value as this format gave it; its source text may be found at the error's location.
    pub(super) value: Option<String>,
    pub(super) at: At,
    pub(super) problem: String,
}

/// What stands at the location of the format's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// The document, or a mapping that lacks something.
    Whole,
    /// A key; the value follows it.
    Key,
    /// The value.
    Value,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{}: ", shown(field))?;
        }
        if let Some(value) = &self.value {
            write!(f, "`{}`: ", shown(value))?;
        }
        f.write_str(&escaped(&self.problem))
    }
}

impl Reading<'_> {
    /// Reads a whole definition.
    pub(super) fn read<'de, D: Deserializer<'de>>(&self, source: D) -> Result<(), D::Error> {
        self.node(Node::Definition).deserialize(source)
    }

    fn node(&self, node: Node) -> NodeSeed<'_> {
        NodeSeed {
            reading: self,
            node,
        }
    }

    fn refuse<E: Error>(&self, refusal: Refusal) -> E {
        let error = E::custom(&refusal);
        self.refusal.borrow_mut().get_or_insert(refusal);
        error
    }
}

/// A value that is not a mapping.
enum Written<'a> {
    Null,
    Number(u64),
    Text(&'a str),
    /// A boolean, a number that no field takes, a list: shown, never accepted.
    Other(String),
}

struct NodeSeed<'a> {
    reading: &'a Reading<'a>,
    node: Node,
}

impl NodeSeed<'_> {
    fn refusal(&self, value: Option<String>, problem: impl Into<String>) -> Refusal {
        Refusal {
            field: self.node.path().map(str::to_owned),
            value,
            at: At::Value,
            problem: problem.into(),
        }
    }

    /// Takes a value that is not a mapping.
    fn take<E: Error>(self, written: Written<'_>) -> Result<(), E> {
        let mut fields = self.reading.fields.borrow_mut();
        let taken = match (self.node, &written) {
            (Node::Name, Written::Text(text)) => match LeaseName::new(*text) {
                Ok(name) if self.reading.expected.is_none_or(|file| *file == name) => {
                    fields.name = Some(name);
                    true
                }
                Ok(name) => {
                    let file = self
                        .reading
                        .expected
                        .map(LeaseName::as_str)
                        .unwrap_or_default();
                    let problem = format!(
                        "must equal the file's name: write `name: {file}` or rename the file"
                    );
                    let refusal = self.refusal(Some(name.into()), problem);
                    return Err(self.reading.refuse(refusal));
                }
                Err(_) => false,
            },
            (Node::Resource, Written::Text(text)) => {
                fields.resource = Resource::new(*text).ok();
                fields.resource.is_some()
            }
            (Node::Level(level), Written::Number(slots)) => {
                *fields.caps.at_mut(level) = Cap::new(*slots);
                fields.caps.at(level).is_some()
            }
            (Node::TtlSeconds, Written::Number(seconds)) => {
                fields.ttl = TtlSeconds::new(*seconds);
                fields.ttl.is_some()
            }
            (Node::WaitMs, Written::Number(millis)) => {
                fields.wait = WaitMs::new(*millis);
                fields.wait.is_some()
            }
            _ => false,
        };
        if taken {
            return Ok(());
        }
        let refusal = match (self.node, written) {
            (Node::Definition, Written::Null) => Refusal {
                at: At::Whole,
                ..self.refusal(None, "is empty: write at least its name, or remove it")
            },
            (node, Written::Null) => self.refusal(None, format!("is empty: {}", node.rule())),
            (node, Written::Number(n)) => self.refusal(Some(n.to_string()), node.rule()),
            (node, Written::Text(text)) => self.refusal(Some(text.to_owned()), node.rule()),
            (node, Written::Other(what)) => self.refusal(Some(what), node.rule()),
        };
        Err(self.reading.refuse(refusal))
    }

    fn other<E: Error>(self, value: impl fmt::Display) -> Result<(), E> {
        self.take(Written::Other(value.to_string()))
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.node.path().unwrap_or("a definition"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.node.children().is_empty() {
            return self.other("a mapping");
        }
        let mut seen = Vec::new();
        while let Some(child) = map.next_key_seed(KeySeed {
            parent: &self,
            seen: &seen,
        })? {
            seen.push(child);
            map.next_value_seed(self.reading.node(child))?;
        }
        if self.node == Node::Definition && !seen.contains(&Node::Name) {
            let problem = match self.reading.expected {
                Some(file) => format!("is missing: write `name: {file}`"),
                None => "is missing: every inline definition needs its own".to_owned(),
            };
            return Err(self.reading.refuse(Refusal {
                field: Some("name".to_owned()),
                value: None,
                at: At::Whole,
                problem,
            }));
        }
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.take(Written::Null)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.take(Written::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        self.deserialize(source)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<(), E> {
        self.take(Written::Number(n))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<(), E> {
        match u64::try_from(n) {
            Ok(n) => self.take(Written::Number(n)),
            Err(_) => self.other(n),
        }
    }

    fn visit_u128<E: Error>(self, n: u128) -> Result<(), E> {
        self.other(n)
    }

    fn visit_i128<E: Error>(self, n: i128) -> Result<(), E> {
        self.other(n)
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<(), E> {
        self.other(n)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<(), E> {
        self.other(yes)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.take(Written::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.other("a list")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        let (tag, _) = tagged.variant::<String>()?;
        self.other(format_args!("!{tag}"))
    }
}

/// Reads an inline definition's fields, which any format may carry.
pub(super) fn inline<'de, D: Deserializer<'de>>(source: D) -> Result<Fields, D::Error> {
    let reading = Reading {
        inline: true,
        ..Reading::default()
    };
    reading.read(source)?;
    Ok(reading.fields.into_inner())
}

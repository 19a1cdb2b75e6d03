use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

use super::node::Node;
use super::{At, NodeSeed, Refusal};

/// Reads a key of `parent` and finds which of its children it names.
pub(super) struct KeySeed<'a, 'b> {
    pub(super) parent: &'b NodeSeed<'a>,
    pub(super) seen: &'b [Node],
}

impl KeySeed<'_, '_> {
    fn refuse<E: Error>(&self, key: &str, problem: impl Into<String>) -> E {
        let field = match self.parent.node.path() {
            Some(parent) => format!("{parent}.{key}"),
            None => key.to_owned(),
        };
        self.parent.reading.refuse(Refusal {
            field: Some(field),
            value: None,
            at: At::Key,
            problem: problem.into(),
        })
    }
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_, '_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Node, D::Error> {
        source.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed<'_, '_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Node, E> {
        let children = self.parent.node.children();
        let inline = self.parent.reading.inline;
        let Some((_, child)) = children.iter().find(|(name, _)| *name == key) else {
            let known = children
                .iter()
                .filter(|(_, child)| !inline || child.refused_inline().is_none())
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(self.refuse(key, format!("is not a known key; known here: {known}")));
        };
        if let Some(problem) = child.refused_inline().filter(|_| inline) {
            return Err(self.refuse(key, problem));
        }
        if self.seen.contains(child) {
            return Err(self.refuse(key, "stands here a second time: keep one of the two"));
        }
        Ok(*child)
    }
}

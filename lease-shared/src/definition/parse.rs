//! One YAML document into a [`LayerDocument`], or an error that names line, field and value.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Visitor};
use serde_yaml::Location;

use super::document_error::DocumentError;
use super::documents::DocumentAddress;
use super::fields::{At, Reading, Refusal};
use super::layer::{Layer, LayerDocument};
use crate::name::LeaseName;

/// How deep lists and mappings may nest.
const MAX_DEPTH: usize = 16;
/// How many may open in all, comments included. The parser's time grows with depth times length, and a bracket in a
/// quoted text or a comment cannot be told from a real one without parsing.
const MAX_BRACKETS: usize = 256;

pub(super) fn document(
    text: &str,
    layer: Option<Layer>,
    address: &DocumentAddress,
    name: &LeaseName,
) -> Result<LayerDocument, DocumentError> {
    Source::checked(text, layer, address)?.read(name)
}

/// Reads one YAML document of another kind than a lease definition: by the same rules of size, characters, nesting and
/// number, into a type that refuses what it does not know (`deny_unknown_fields`).
///
/// # Errors
/// One that names the line, and, as far as the format knows them, the field and the value.
pub fn read_document<T: DeserializeOwned>(
    text: &str,
    layer: Option<Layer>,
    address: &DocumentAddress,
) -> Result<T, DocumentError> {
    let source = Source::checked(text, layer, address)?;
    let mut documents = serde_yaml::Deserializer::from_str(source.text);
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
    let first = documents
        .next()
        .filter(|_| !source.text.lines().all(says_nothing));
    let Some(first) = first else {
        return Err(source.error("is empty: write it, or remove it"));
    };
    let read = serde_path_to_error::deserialize(first).map_err(|error| source.typed(&error))?;
    match documents.next() {
        Some(second) => Err(source.second_document(second)),
        None => Ok(read),
    }
}

struct Source<'a> {
    text: &'a str,
    layer: Option<Layer>,
    address: &'a DocumentAddress,
}

impl<'a> Source<'a> {
    fn checked(
        text: &'a str,
        layer: Option<Layer>,
        address: &'a DocumentAddress,
    ) -> Result<Self, DocumentError> {
        let source = Self {
            text: text.strip_prefix('\u{feff}').unwrap_or(text),
            layer,
            address,
        };
        source.check_size(text)?;
        source.check_characters()?;
        source.check_nesting()?;
        Ok(source)
    }

    /// What a type refused, or the parser: the format puts the field before its words and the place behind them.
    fn typed(&self, error: &serde_path_to_error::Error<serde_yaml::Error>) -> DocumentError {
        let (path, error) = (error.path().to_string(), error.inner());
        let mut text = error.to_string();
        let place = error.location();
        if let Some(place) = &place {
            let at = format!(" at line {} column {}", place.line(), place.column());
            text = text.replacen(&at, "", 1);
        }
        let problem = match text.split_once(": ") {
            Some((own, problem)) if is_path(own) && path.starts_with(own) => problem,
            _ => text.as_str(),
        };
        let error = self.error(problem);
        if path == "." {
            return match place {
                Some(place) => error.at(self.line(&place)),
                None => error,
            };
        }
        // What a type of ours refuses, the format places at the mapping that it stands in.
        match (line_of_field(self.text, &path), place) {
            (Some(line), _) => error.at(line),
            (None, Some(place)) => error.at(self.line(&place)),
            (None, None) => error,
        }
        .field(Some(&path))
    }

    fn error(&self, problem: &str) -> DocumentError {
        DocumentError::new(self.layer, self.address, problem)
    }

    fn check_size(&self, whole: &str) -> Result<(), DocumentError> {
        let (bytes, most) = (whole.len(), LayerDocument::MAX_BYTES);
        if bytes > most {
            return Err(self.error(&format!("has {bytes} bytes; a document has at most {most}")));
        }
        Ok(())
    }

    /// Refuses what YAML does not allow, here because the parser would not name its line.
    fn check_characters(&self) -> Result<(), DocumentError> {
        let forbidden = |c: char| {
            !matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
                || c == '\u{feff}'
        };
        let Some((at, c)) = self.text.char_indices().find(|(_, c)| forbidden(*c)) else {
            return Ok(());
        };
        let problem = format!(
            "holds the character U+{:04X}, which YAML does not allow: remove it",
            u32::from(c)
        );
        let line = line_of(self.text, at);
        Err(self
            .error(&problem)
            .at(line)
            .value(trimmed_line(self.text, line)))
    }

    fn check_nesting(&self) -> Result<(), DocumentError> {
        let (mut depth, mut opened) = (0_usize, 0_usize);
        for (at, byte) in self.text.bytes().enumerate() {
            match byte {
                b'[' | b'{' => (depth, opened) = (depth + 1, opened + 1),
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_DEPTH || opened > MAX_BRACKETS {
                let problem = format!(
                    "opens too many lists or mappings: at most {MAX_DEPTH} nest and {MAX_BRACKETS} open in a document, brackets in comments included"
                );
                let line = line_of(self.text, at);
                return Err(self
                    .error(&problem)
                    .at(line)
                    .value(trimmed_line(self.text, line)));
            }
        }
        Ok(())
    }

    fn read(&self, name: &LeaseName) -> Result<LayerDocument, DocumentError> {
        let reading = Reading {
            expected: Some(name),
            ..Reading::default()
        };
        let mut documents = serde_yaml::Deserializer::from_str(self.text);
        if let Some(first) = documents.next()
            && let Err(error) = reading.read(first)
        {
            let refusal = reading.refusal.into_inner();
            return Err(self.refused(&error, refusal));
        }
        if let Some(second) = documents.next() {
            return Err(self.second_document(second));
        }
        let fields = reading.fields.into_inner();
        Ok(LayerDocument {
            name: name.clone(),
            resource: fields.resource,
            caps: fields.caps,
            ttl: fields.ttl,
            wait: fields.wait,
        })
    }

    fn refused(&self, error: &serde_yaml::Error, refusal: Option<Refusal>) -> DocumentError {
        let place = error.location();
        let Some(refusal) = refusal else {
            return self.broken(error);
        };
        let value = match (&place, refusal.at) {
            (Some(place), At::Value) => {
                self.written(place, false)
                    .map(|source| match &refusal.value {
                        // A plain text may hold the commas at which `written` stops.
                        Some(value) if value.starts_with(source) => value.as_str(),
                        Some(_) => source,
                        None => source,
                    })
                    .filter(|source| refusal.value.is_some() || is_null(source))
            }
            (Some(place), At::Key) => self.written(place, true),
            _ => None,
        };
        let error = self
            .error(&refusal.problem)
            .field(refusal.field.as_deref())
            .value(value.or(refusal.value.as_deref()));
        match place {
            // An empty document has no place at which something should be.
            Some(place) if refusal.field.is_some() || refusal.at != At::Whole => {
                error.at(self.line(&place))
            }
            _ => error,
        }
    }

    /// The line of `place`. The parser counts the end of the text as a line of its own.
    fn line(&self, place: &Location) -> usize {
        place.line().min(self.text.lines().count()).max(1)
    }

    /// The parser's own error.
    fn broken(&self, error: &serde_yaml::Error) -> DocumentError {
        let mut problem = format!("is not valid YAML: {error}");
        let Some(place) = error.location() else {
            return self.error(&problem);
        };
        let number = self.line(&place);
        let line = self.text.lines().nth(number - 1).unwrap_or_default();
        let indent = &line[..line.len() - line.trim_start().len()];
        if indent.contains('\t') {
            problem += "; indent with spaces, not with tabs";
        }
        self.error(&problem)
            .at(number)
            .value(trimmed_line(self.text, number))
    }

    fn second_document(&self, second: serde_yaml::Deserializer<'_>) -> DocumentError {
        let error = match Unwanted::deserialize(second) {
            Err(error) => error,
            Ok(Unwanted) => return self.error("holds more than one YAML document"),
        };
        if !error.to_string().contains(NO_SECOND) {
            return self.broken(&error);
        }
        let problem = "holds a second YAML document: keep one, without `---` after it";
        match error.location() {
            Some(place) => {
                let line = self.line(&place);
                self.error(problem)
                    .at(line)
                    .value(trimmed_line(self.text, line))
            }
            None => self.error(problem),
        }
    }

    /// The value at `place`, or behind the key at `place`, as the document writes it, within its line.
    fn written(&self, place: &Location, behind_key: bool) -> Option<&str> {
        // The parser counts characters.
        let (start, _) = self.text.char_indices().nth(place.index())?;
        let mut rest = self.text[start..].split(['\n', '\r']).next()?;
        if behind_key {
            let key = match quoted(rest) {
                Some(key) => key.len(),
                None => rest.find(':')?,
            };
            rest = rest[key..].trim_start().strip_prefix(':')?.trim_start();
        }
        if let Some(text) = quoted(rest) {
            return Some(text);
        }
        let value = rest.split(" #").next()?;
        let value = if value.starts_with(['[', '{', '&', '*', '!', '|', '>']) {
            value
        } else {
            value.split([',', ']', '}']).next()?
        };
        let value = value.trim();
        (!value.is_empty() && !value.starts_with('#')).then_some(value)
    }
}

/// What the format says was expected of a second document.
const NO_SECOND: &str = "no second document";

/// Takes any value and refuses it, so that the format's error tells where the value stands.
struct Unwanted;

impl<'de> Deserialize<'de> for Unwanted {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Refuse;

        impl<'de> Visitor<'de> for Refuse {
            type Value = Unwanted;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(NO_SECOND)
            }
        }
        source.deserialize_any(Refuse)
    }
}

/// `parameters.auth.type`, `command[0]`: what the format puts before its words, if it knows where it is.
fn is_path(text: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']');
    !text.is_empty() && text.chars().all(part)
}

/// The line in which the field at `path` is written, as far as a look at the keys tells: each part's key behind the one
/// before. Of what is missing, or within a list, it is the line of what it should stand in.
pub(super) fn line_of_field(text: &str, path: &str) -> Option<usize> {
    // The keys of settings have dots.
    if let Some(at) = key_at(text, 0, path) {
        return Some(line_of(text, at));
    }
    let (mut from, mut found) = (0, None);
    for part in path.split('.') {
        let key = part.split('[').next().unwrap_or(part);
        let Some(at) = key_at(text, from, key) else {
            break;
        };
        (from, found) = (at, Some(line_of(text, at)));
    }
    found
}

/// Where `key` is first written as one, at `from` or behind.
fn key_at(text: &str, from: usize, key: &str) -> Option<usize> {
    let is_key = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + key.len()..]
            .trim_start_matches(['"', '\''])
            .trim_start();
        before.is_none_or(|c| c.is_whitespace() || matches!(c, '{' | ',' | '"' | '\''))
            && after.starts_with(':')
    };
    let mut places = text[from..].match_indices(key).map(|(at, _)| from + at);
    places.find(is_key)
}

fn is_null(text: &str) -> bool {
    matches!(text, "~" | "null" | "Null" | "NULL")
}

/// The quoted text that `text` begins with, its quotes included.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            c if c == quote => return Some(&text[..=at]),
            _ => {}
        }
    }
    None
}

/// The number of the line, from 1, in which the byte `at` stands.
fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].bytes().filter(|byte| *byte == b'\n').count()
}

fn trimmed_line(text: &str, line: usize) -> Option<&str> {
    let line = text.lines().nth(line.saturating_sub(1))?.trim();
    (!line.is_empty()).then_some(line)
}

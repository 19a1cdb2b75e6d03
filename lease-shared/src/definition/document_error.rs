use std::fmt;

use super::documents::DocumentAddress;
use super::layer::Layer;
use super::parse::line_of_field;

/// A document that does not hold to its rules: where, what stands there, and what should.
///
/// Displays as one line. Texts taken from the document are cut to 80 characters, their control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct DocumentError {
    /// The layer of the document; `None` at an address that belongs to none.
    pub layer: Option<Layer>,
    /// Where the document is. A bundled one shows the system layer's tenant and project.
    pub address: Box<DocumentAddress>,
    /// The line, from 1, unless the document as a whole is at fault.
    pub line: Option<usize>,
    /// The field as a path, for example `levels.user`.
    pub field: Option<String>,
    /// What is written there.
    pub value: Option<String>,
    /// The rule that is broken, and what would be valid.
    pub problem: String,
}

impl DocumentError {
    /// A refusal of the document at `address` as a whole.
    pub fn new(layer: Option<Layer>, address: &DocumentAddress, problem: &str) -> Self {
        Self {
            layer,
            address: Box::new(address.clone()),
            line: None,
            field: None,
            value: None,
            problem: escaped(problem),
        }
    }

    /// In this field of `text`, and in the line where that is written, as far as a look at the keys tells.
    #[must_use]
    pub fn in_field(self, text: &str, path: &str) -> Self {
        let error = self.field(Some(path));
        match line_of_field(text, path) {
            Some(line) => error.at(line),
            None => error,
        }
    }

    /// In this line, from 1.
    #[must_use]
    pub fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    /// In this field.
    #[must_use]
    pub fn field(mut self, field: Option<&str>) -> Self {
        self.field = field.map(shown);
        self
    }

    /// For this value. Not for a secret: it is shown.
    #[must_use]
    pub fn value(mut self, value: Option<&str>) -> Self {
        self.value = value.map(shown);
        self
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Some(Layer::Bundled) => write!(f, "bundled document {}", self.address.path())?,
            Some(layer) => write!(f, "{layer} document {}", self.address)?,
            None => write!(f, "document {}", self.address)?,
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match (&self.field, &self.value) {
            (Some(field), Some(value)) => write!(f, ": {field}: `{value}`")?,
            (Some(field), None) => write!(f, ": {field}")?,
            (None, Some(value)) => write!(f, ": `{value}`")?,
            (None, None) => {}
        }
        write!(f, ": {}", self.problem)
    }
}

/// A document's own text, fit for a one-line message.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => escaped(&text[..end]) + "…",
        None => escaped(text),
    }
}

/// Escapes what would break a line or reorder it on a terminal.
pub(super) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || reorders {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

//! What of a payload may be shown.

use mongodb::bson::{Bson, Document};
use serde::Serialize;
use utoipa::ToSchema;

/// How many fields are shown, and how many characters of a value. What is cut, says so.
const FIELDS: usize = 100;
const LENGTH: usize = 300;

/// One field of a payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PayloadField {
    /// Where it stands, for example `server.url`.
    pub(crate) name: String,
    /// Its value; nothing if that is hidden, for it looks like a secret.
    pub(crate) value: Option<String>,
}

/// Words that say of a field that its value opens something. A session's id is as good as a password to its server.
const SECRET_NAMES: [&str; 18] = [
    "auth",
    "bearer",
    "conn",
    "cookie",
    "cred",
    "dsn",
    "jwt",
    "key",
    "otp",
    "pass",
    "pin",
    "private",
    "pwd",
    "secret",
    "session",
    "sid",
    "signature",
    "token",
];
/// Words that say the same where they stand in a value, as in `--password` or `Pwd=…`.
const SECRET_WORDS: [&str; 8] = [
    "api-key", "api_key", "apikey", "bearer", "pass", "pwd", "secret", "token",
];

/// The fields of a payload, those inside others by their path.
pub(crate) fn shown(payload: &Document) -> Vec<PayloadField> {
    let mut shown = Shown::default();
    for (name, value) in payload {
        shown.collect(name, value, false);
    }
    shown.all()
}

#[derive(Default)]
struct Shown {
    fields: Vec<PayloadField>,
    left_out: usize,
}

impl Shown {
    fn collect(&mut self, path: &str, value: &Bson, inside_secret: bool) {
        if self.fields.len() >= FIELDS {
            self.left_out += count(value);
            return;
        }
        let name = path.rsplit('.').next().unwrap_or(path);
        // Whoever puts a secret where a name belongs: it is not shown either.
        if looks_secret(name) {
            let (name, value) = ("(hidden)".to_owned(), None);
            self.fields.push(PayloadField { name, value });
            return;
        }
        let secret = inside_secret || is_secret_name(name);
        match value {
            Bson::Document(inner) if !inner.is_empty() => {
                for (name, value) in inner {
                    self.collect(&format!("{path}.{name}"), value, secret);
                }
            }
            Bson::Array(inner) if !inner.is_empty() => {
                // Of arguments, one may say what the next is.
                let secret = secret || inner.iter().any(says_secret);
                for (at, value) in inner.iter().enumerate() {
                    self.collect(&format!("{path}.{at}"), value, secret);
                }
            }
            value => {
                let name = path.to_owned();
                let value = shown_value(value, secret);
                self.fields.push(PayloadField { name, value });
            }
        }
    }

    fn all(mut self) -> Vec<PayloadField> {
        let more = match self.left_out {
            0 => return self.fields,
            1 => "1 more field is not shown".to_owned(),
            more => format!("{more} more fields are not shown"),
        };
        self.fields.push(PayloadField {
            name: "…".to_owned(),
            value: Some(more),
        });
        self.fields
    }
}

/// How many fields there are in a value.
fn count(value: &Bson) -> usize {
    match value {
        Bson::Document(inner) if !inner.is_empty() => inner.values().map(count).sum(),
        Bson::Array(inner) if !inner.is_empty() => inner.iter().map(count).sum(),
        _ => 1,
    }
}

/// Nothing if it is to be hidden.
fn shown_value(value: &Bson, secret: bool) -> Option<String> {
    let text = match value {
        Bson::String(text) => text.clone(),
        Bson::DateTime(time) => time
            .try_to_rfc3339_string()
            .unwrap_or_else(|_| time.to_string()),
        other => other.to_string(),
    };
    let harmless = matches!(
        value,
        Bson::Boolean(_) | Bson::Null | Bson::Array(_) | Bson::Document(_)
    );
    let hidden = !harmless && (secret || looks_secret(&text));
    (!hidden).then(|| cut(text))
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LENGTH) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn says_secret(value: &Bson) -> bool {
    value.as_str().is_some_and(has_secret_word)
}

fn has_secret_word(text: &str) -> bool {
    let text = text.to_lowercase();
    SECRET_WORDS.iter().any(|word| text.contains(word))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// A value that opens something wherever it stands: a signed token, an authorisation, a private key, a URL with a password
/// or a query, or a long run of letters and digits that nobody would make up as a name.
fn looks_secret(text: &str) -> bool {
    // A name to be looked up is no secret.
    let named = text.starts_with("{{secret:") && text.ends_with("}}");
    if named {
        return false;
    }
    if has_secret_word(text) {
        return true;
    }
    let lower = text.to_lowercase();
    let begins = ["bearer ", "basic ", "digest ", "-----begin", "eyj"];
    if begins
        .iter()
        .any(|begin| lower.trim_start().starts_with(begin))
        || lower.contains("private key")
    {
        return true;
    }
    if let Some((_, rest)) = text.split_once("://") {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') || rest.contains('?') {
            return true;
        }
    }
    // As in `sa:password@tcp(db)`.
    let signs_in = |text: &str| {
        text.split_once('@')
            .is_some_and(|(before, _)| before.contains(':'))
    };
    if !text.contains("://") && signs_in(text) {
        return true;
    }
    let runs = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '=')));
    runs.into_iter().any(is_random)
}

fn is_random(run: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| run.bytes().any(|byte| kind(&byte));
    let letters_and_digits = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let both_cases = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    run.len() >= 20 && (letters_and_digits || both_cases)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_hidden_wherever_it_stands() {
        let hidden = [
            doc! { "password": "x" },
            doc! { "sessionId": "s-1" },
            doc! { "headers": { "Authorization": "abc" } },
            doc! { "apiKeys": ["one", "two"] },
            doc! { "secrets": { "a": { "b": "plain" } } },
            doc! { "pin": 1234 },
            doc! { "note": "Bearer abc" },
            doc! { "note": "eyJhbGciOi.J9.x" },
            doc! { "note": "-----BEGIN RSA PRIVATE KEY-----" },
            doc! { "url": "https://ada:pw@host/x" },
            doc! { "url": "https://host/x?sig=abc" },
            doc! { "jobId": "ghp16C7e42F292c6912E7710c838347Ae178B4a" },
            doc! { "env": ["DB_PASSWORD=hunter2"] },
            doc! { "args": ["run", "--password", "hunter2"] },
            doc! { "at": "sa:hunter2@tcp(db)/x" },
            doc! { "db": "Server=db;Uid=sa;Pwd=Hunter2" },
            doc! { "otp": 123456 },
            doc! { "hook": "https://hooks.test/services/T000/B000/XxXxXxXxXxXxXxXxXxXxXxXx" },
            doc! { "ghp16C7e42F292c6912E7710c838347Ae178B4a": "in the name" },
        ];
        for payload in hidden {
            let shown = shown(&payload);
            assert!(!shown.is_empty());
            for field in shown {
                assert_eq!(field.value, None, "{payload}: {}", field.name);
            }
        }
    }

    #[test]
    fn the_rest_is_shown_by_its_path() {
        let payload = doc! {
            "jobId": "job-17",
            "server": { "url": "https://host/path", "auth": "{{secret:TOKEN}}" },
            "ports": [80, 443],
            "bound": true,
            "none": Bson::Null,
        };
        let fields = shown(&payload);
        let shown: Vec<_> = fields
            .iter()
            .map(|field| (field.name.as_str(), field.value.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("jobId", Some("job-17")),
                ("server.url", Some("https://host/path")),
                ("server.auth", None),
                ("ports.0", Some("80")),
                ("ports.1", Some("443")),
                ("bound", Some("true")),
                ("none", Some("null")),
            ]
        );
    }

    #[test]
    fn what_is_cut_says_so() {
        let whole = "é ".repeat(LENGTH / 2);
        let fields = shown(&doc! { "whole": &whole, "cut": format!("{whole}é") });
        assert_eq!(fields[0].value.as_deref(), Some(&*whole));
        assert_eq!(fields[1].value, Some(format!("{whole}…")));

        let of = |count: i32| shown(&doc! { "all": (0..count).collect::<Vec<_>>() });
        assert_eq!(of(100).len(), FIELDS);
        assert_eq!(of(100)[99].name, "all.99");
        for (count, words) in [
            (101, "1 more field is not shown"),
            (103, "3 more fields are not shown"),
        ] {
            let fields = of(count);
            let last = fields.last().unwrap();
            assert_eq!(fields.len(), FIELDS + 1);
            assert_eq!((&*last.name, last.value.as_deref()), ("…", Some(words)));
        }
    }
}

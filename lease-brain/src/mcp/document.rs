//! What a tool document says.

mod written;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lease_shared::LeaseRef;
use lease_shared::definition::{DocumentAddress, DocumentError, Layer, read_document};
use reqwest::Url;
use reqwest::header::HeaderName;

use crate::document_fields::{Seconds, Text, plain_url};
use crate::secrets::SecretName;
use written::{AuthType, Hidden, Lease, Parameters, TransportName, Type, Unique, Written};

/// A tool document, checked as a whole.
#[derive(Debug, Clone)]
pub(crate) struct ToolDocument {
    pub(crate) transport: Transport,
    pub(crate) lease: LeaseRef,
    pub(crate) call_timeout: Duration,
    pub(crate) init_timeout: Duration,
    pub(crate) default_args: serde_json::Map<String, serde_json::Value>,
}

/// How the server is reached.
#[derive(Debug, Clone)]
pub(crate) enum Transport {
    Http {
        url: Url,
        auth: Auth,
        event_stream: bool,
    },
    Stdio {
        program: String,
        args: Vec<String>,
        cwd: Option<PathBuf>,
        env: BTreeMap<String, Setting>,
    },
}

/// What each request to the server carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Auth {
    None,
    Bearer { token: SecretName },
    Basic { user: String, password: SecretName },
    Header { name: HeaderName, value: SecretName },
}

/// A value that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    Plain(String),
    Secret(SecretName),
}

impl ToolDocument {
    /// Reads and checks the text of the tool document at `address`.
    ///
    /// # Errors
    /// It breaks a rule, or names a command in a layer that may name none.
    pub(crate) fn parse(
        text: &str,
        layer: Layer,
        address: &DocumentAddress,
        project_commands: bool,
    ) -> Result<Self, DocumentError> {
        let written: Written = read_document(text, Some(layer), address)?;
        let Type::McpServer = written.r#type;
        let refuse = Refuse {
            text,
            layer,
            address,
        };
        let file = address.path().rsplit('/').next().unwrap_or_default();
        if let Some(name) = written.name.filter(|name| file != format!("{name}.yaml")) {
            let problem = "must equal the file's name: correct it, or remove it";
            return Err(refuse.at_key("name", problem).value(Some(&name)));
        }
        let may_execute = project_commands || matches!(layer, Layer::Bundled | Layer::System);
        refuse.checked(written.parameters, may_execute)
    }
}

/// What is refused after the document was read.
struct Refuse<'a> {
    text: &'a str,
    layer: Layer,
    address: &'a DocumentAddress,
}

impl Refuse<'_> {
    fn because(&self, field: &str, problem: &str) -> DocumentError {
        self.at_key(&format!("parameters.{field}"), problem)
    }

    fn at_key(&self, field: &str, problem: &str) -> DocumentError {
        DocumentError::new(Some(self.layer), self.address, problem).in_field(self.text, field)
    }

    fn checked(&self, p: Parameters, may_execute: bool) -> Result<ToolDocument, DocumentError> {
        let strangers: &[(&str, bool)] = match p.transport {
            TransportName::Http => &[
                ("command", p.command.is_some()),
                ("cwd", p.cwd.is_some()),
                ("env", p.env.is_some()),
            ],
            TransportName::Stdio => &[
                ("url", p.url.is_some()),
                ("auth", p.auth.is_some()),
                ("eventStream", p.event_stream.is_some()),
            ],
        };
        if let Some((stranger, _)) = strangers.iter().find(|(_, there)| *there) {
            let problem = match p.transport {
                TransportName::Http => "belongs to the transport stdio: remove it",
                TransportName::Stdio => "belongs to the transport http: remove it",
            };
            return Err(self.because(stranger, problem));
        }
        let transport = match p.transport {
            TransportName::Http => Transport::Http {
                url: self.url(p.url)?,
                auth: self.auth(p.auth)?,
                event_stream: p.event_stream.unwrap_or(true),
            },
            TransportName::Stdio => self.stdio(p.command, p.cwd, p.env, may_execute)?,
        };
        let lease = match p.lease {
            None => LeaseRef::None,
            Some(Lease::Inline(definition)) => LeaseRef::inline(definition),
            Some(Lease::Named(name)) => LeaseRef::named(&name)
                .map_err(|error| self.because("lease", error.rule).value(Some(&error.value)))?,
        };
        let args = p.default_args.map(|args| args.0).unwrap_or_default();
        if args
            .values()
            .any(|value| value.to_string().contains("{{secret:"))
        {
            let problem = "must hold no secret: arguments are the server's to log and to show";
            return Err(self.because("defaultArgs", problem));
        }
        let seconds = |given: Option<Seconds>, otherwise| {
            given.map_or(Duration::from_secs(otherwise), |given| given.0)
        };
        Ok(ToolDocument {
            transport,
            lease,
            call_timeout: seconds(p.timeout_seconds, 60),
            init_timeout: seconds(p.init_timeout_seconds, 5),
            default_args: args.into_iter().collect(),
        })
    }

    fn url(&self, given: Option<Text>) -> Result<Url, DocumentError> {
        let Some(Text(given)) = given else {
            return Err(self.because("url", "is missing: the transport http needs one"));
        };
        plain_url(&given).map_err(|problem| self.because("url", problem))
    }

    fn auth(&self, given: Option<Hidden>) -> Result<Auth, DocumentError> {
        let Some(Hidden(auth)) = given else {
            return Ok(Auth::None);
        };
        let needed: &[&str] = match auth.r#type {
            AuthType::None => &[],
            AuthType::Bearer => &["token"],
            AuthType::Basic => &["user", "password"],
            AuthType::Header => &["name", "value"],
        };
        let given = [
            ("token", auth.token.is_some()),
            ("user", auth.user.is_some()),
            ("password", auth.password.is_some()),
            ("name", auth.name.is_some()),
            ("value", auth.value.is_some()),
        ];
        for (field, there) in given {
            let problem = match (there, needed.contains(&field)) {
                (true, false) => "does not belong to this type of auth: remove it",
                (false, true) => "is missing: this type of auth needs it",
                _ => continue,
            };
            return Err(self.because(&format!("auth.{field}"), problem));
        }
        Ok(
            match (auth.token, auth.user, auth.password, auth.name, auth.value) {
                (Some(token), ..) => Auth::Bearer { token: token.0 },
                (_, Some(user), Some(password), ..) => {
                    if user.0.contains(':') || user.0.chars().any(char::is_control) {
                        let problem = "must have no colon and no control characters";
                        return Err(self.because("auth.user", problem));
                    }
                    Auth::Basic {
                        user: user.0,
                        password: password.0,
                    }
                }
                (.., Some(name), Some(value)) => Auth::Header {
                    name: self.header(&name.0)?,
                    value: value.0,
                },
                _ => Auth::None,
            },
        )
    }

    fn header(&self, name: &str) -> Result<HeaderName, DocumentError> {
        const OURS: [&str; 14] = [
            "accept",
            "content-type",
            "content-length",
            "content-encoding",
            "transfer-encoding",
            "te",
            "trailer",
            "upgrade",
            "expect",
            "host",
            "connection",
            "mcp-session-id",
            "mcp-protocol-version",
            "last-event-id",
        ];
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            self.because("auth.name", "must be the name of an HTTP header")
                .value(Some(name))
        })?;
        match OURS.contains(&header.as_str()) {
            true => Err(self
                .because("auth.name", "is a header of the protocol: choose another")
                .value(Some(name))),
            false => Ok(header),
        }
    }

    fn stdio(
        &self,
        command: Option<Vec<Text>>,
        cwd: Option<Text>,
        env: Option<Unique<Setting>>,
        may_execute: bool,
    ) -> Result<Transport, DocumentError> {
        let mut command = command.unwrap_or_default().into_iter().map(|text| text.0);
        let Some(program) = command.next() else {
            let problem =
                "is missing: the transport stdio needs a list of a program and its arguments";
            return Err(self.because("command", problem));
        };
        if !may_execute {
            let problem = format!(
                "a {}'s document may name no command to execute: write it in the system layer, or start the brain with \
                 --allow-project-commands",
                self.layer
            );
            return Err(self.because("command", &problem).value(Some(&program)));
        }
        let args: Vec<String> = command.collect();
        let words = || [&program].into_iter().chain(&args);
        if words().any(|text| text.contains('\0')) {
            return Err(self.because("command", "must have no NUL characters"));
        }
        if words().any(|text| text.contains("{{secret:")) {
            let problem =
                "must hold no secret, for other users of the machine see it: write it under env";
            return Err(self.because("command", problem));
        }
        let cwd = cwd.map(|cwd| PathBuf::from(cwd.0));
        if let Some(relative) = cwd.as_ref().filter(|cwd| !cwd.is_absolute()) {
            let problem = "must be an absolute path";
            let value = relative.display().to_string();
            return Err(self.because("cwd", problem).value(Some(&value)));
        }
        let env = env.map(|env| env.0).unwrap_or_default();
        let odd = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = env.keys().find(odd) {
            let problem = "must be the names of variables, without `=`";
            return Err(self.because("env", problem).value(Some(name)));
        }
        Ok(Transport::Stdio {
            program,
            args,
            cwd,
            env,
        })
    }
}

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};

use super::InvalidArgs;
use crate::access::file::read_at_most;
use crate::cluster::check_endpoint;

/// No secret is longer.
const MAX_BYTES: usize = 64 * 1024;

/// Where the brain listens, and who may call what is not for everybody.
#[derive(Args, Clone)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// The address to listen on. Port 0 takes any that is free.
    #[arg(
        long,
        env = "BRAIN_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7311"
    )]
    listen: SocketAddr,
    /// The URL at which the other pods reach this one [default: http://ADDRESS:PORT of --listen].
    ///
    /// Needed where --listen is every address of the machine (0.0.0.0 or [::]).
    #[arg(long, env = "BRAIN_ADVERTISE", value_name = "URL")]
    advertise: Option<String>,
    /// The secret that the brains and their operators share, at least 16 bytes. Without one every internal call is
    /// refused, so that a lease of another pod cannot be cleaned up there. Better given as a file.
    #[arg(
        long,
        env = "LEASE_INTERNAL_TOKEN",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    internal_token: Option<SecretString>,
    /// A file with that secret; white space around it does not count.
    #[arg(long, env = "LEASE_INTERNAL_TOKEN_FILE", value_name = "PATH")]
    internal_token_file: Option<PathBuf>,
}

/// Where the brain listens, and who may call what is not for everybody.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Where others reach it.
    pub advertise: Advertise,
    /// What an internal call must show. Without it, all are refused.
    pub internal_token: Option<SecretString>,
}

/// Where others reach this pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advertise {
    /// At this URL.
    At(String),
    /// Where it listens.
    WhereBound,
}

impl HttpArgs {
    pub(super) fn resolve(self) -> Result<HttpSettings, InvalidArgs> {
        let advertise = match self.advertise {
            Some(url) => {
                check_endpoint("advertise", &url)?;
                Advertise::At(url.trim_end_matches('/').to_owned())
            }
            None if self.listen.ip().is_unspecified() => {
                return Err(InvalidArgs::Wildcard(self.listen));
            }
            None => Advertise::WhereBound,
        };
        Ok(HttpSettings {
            listen: self.listen,
            advertise,
            internal_token: internal_token(
                "--internal-token",
                self.internal_token,
                self.internal_token_file,
            )?,
        })
    }
}

impl HttpSettings {
    /// The URL at which others reach it when it has been bound to this address.
    pub fn endpoint(&self, bound: SocketAddr) -> String {
        match &self.advertise {
            Advertise::At(url) => url.clone(),
            Advertise::WhereBound => format!("http://{bound}"),
        }
    }
}

/// The secret of internal calls, from the text that `option` gave or from a file. White space around it does not count
/// in a file.
///
/// # Errors
/// Both are given, the file cannot be read, or the secret can be guessed.
pub fn internal_token(
    option: &str,
    given: Option<SecretString>,
    file: Option<PathBuf>,
) -> Result<Option<SecretString>, InvalidArgs> {
    let (option, token) = match (given, file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(InvalidArgs::TwoTokens),
        (Some(token), None) => (option.to_owned(), token),
        (None, Some(path)) => {
            let option = format!("--internal-token-file {}", path.display());
            (option, from_file(path)?)
        }
    };
    let text = token.expose_secret();
    match text.len() {
        length @ 0..16 => Err(InvalidArgs::ShortToken { option, length }),
        _ if !text.bytes().all(|b| b.is_ascii_graphic()) => Err(InvalidArgs::OddToken { option }),
        _ => Ok(Some(token)),
    }
}

fn from_file(path: PathBuf) -> Result<SecretString, InvalidArgs> {
    let bytes = match read_at_most(&path, MAX_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(InvalidArgs::LongToken(path)),
        Err(error) => return Err(InvalidArgs::TokenFile { path, error }),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(SecretString::from(text.trim())),
        Err(_) => Err(InvalidArgs::OddToken {
            option: format!("--internal-token-file {}", path.display()),
        }),
    }
}

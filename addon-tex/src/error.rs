//! Why there is no PDF, split by what the person who wants it can do.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use lease_toolpack::{GuardError, SessionLost, SessionUnavailable};

use crate::job::{Engine, MainFile};

/// An error of whoever is asked for a credential, or of the transport.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why there is no PDF.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TexError {
    /// The sources are not taken.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// There is no such engine.
    #[error("no engine is called {0}: choose pdflatex, xelatex or lualatex")]
    EngineUnknown(String),
    /// The engine may not be used here.
    #[error("{engine} is not allowed here: {cure}")]
    EngineRefused {
        /// The engine.
        engine: Engine,
        /// What to do.
        cure: &'static str,
    },
    /// A program is missing on this machine.
    #[error(
        "{program} is not installed: on Debian, apt-get install --no-install-recommends {packages}"
    )]
    NotInstalled {
        /// The program.
        program: &'static str,
        /// The Debian packages that have it.
        packages: &'static str,
    },
    /// The guard let nothing begin, or could not say that the session is still ours.
    #[error(transparent)]
    Unavailable(#[from] SessionUnavailable),
    /// The session was revoked, so the compilation was ended.
    #[error("{lost}: the compilation was ended{}", runs_on(*.remote_runs_on))]
    Revoked {
        /// Why.
        lost: SessionLost,
        /// The remote job could not be.
        remote_runs_on: bool,
    },
    /// The document does not compile.
    #[error("the document does not compile: {message}")]
    Latex {
        /// latexmk's exit status, if it exited.
        exit_code: Option<i32>,
        /// The first error of the log.
        message: String,
    },
    /// The compilation wrote too much.
    #[error(
        "the compilation wrote more than {limit} bytes and was ended: make the document smaller"
    )]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It took too long.
    #[error("TIMEOUT: no PDF within {limit:?}: simplify the document, or split it{}", runs_on(*.remote_runs_on))]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// The remote job could not be ended.
        remote_runs_on: bool,
    },
    /// The remote service gave no PDF.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// This machine could not run the compilation.
    #[error("this machine could not run the compilation ({step}): tell its operator")]
    Local {
        /// What failed.
        step: &'static str,
        /// How.
        #[source]
        source: BoxError,
    },
    /// This program failed. Whatever ran was ended.
    #[error("the compilation failed through a bug here: report it with the time of day")]
    Internal,
}

impl TexError {
    /// A word that stays, to tell errors apart by.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Sources(_) => "TEX_SOURCES_INVALID",
            Self::EngineUnknown(_) | Self::EngineRefused { .. } => "TEX_ENGINE_REFUSED",
            Self::NotInstalled { .. } => "TEX_NOT_INSTALLED",
            Self::Unavailable(_) => "TEX_UNAVAILABLE",
            Self::Revoked { .. } => "TEX_REVOKED",
            Self::Latex { .. } => "TEX_FAILED",
            Self::TooLarge { .. } => "TEX_TOO_LARGE",
            Self::TimedOut { .. } => "TEX_TIMED_OUT",
            Self::Remote(_) => "TEX_REMOTE",
            Self::Local { .. } => "TEX_LOCAL",
            Self::Internal => "TEX_INTERNAL",
        }
    }

    /// The error with its causes, in one line.
    pub fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }

    pub(crate) fn local(step: &'static str, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        Self::Local { step, source }
    }

    /// The same, saying whether a remote job runs on.
    pub(crate) fn with_remote(mut self, runs_on: bool) -> Self {
        match &mut self {
            Self::Revoked { remote_runs_on, .. } | Self::TimedOut { remote_runs_on, .. } => {
                *remote_runs_on = runs_on;
            }
            Self::Remote(error) => error.runs_on = runs_on,
            _ => {}
        }
        self
    }
}

impl From<GuardError> for TexError {
    fn from(error: GuardError) -> Self {
        match error {
            GuardError::Lost(lost) => lost.into(),
            GuardError::Unavailable(unavailable) => unavailable.into(),
        }
    }
}

impl From<SessionLost> for TexError {
    fn from(lost: SessionLost) -> Self {
        let remote_runs_on = false;
        Self::Revoked {
            lost,
            remote_runs_on,
        }
    }
}

impl From<RemoteFailure> for TexError {
    fn from(failure: RemoteFailure) -> Self {
        let runs_on = false;
        Self::Remote(RemoteError { failure, runs_on })
    }
}

fn runs_on(remote_runs_on: bool) -> &'static str {
    if remote_runs_on {
        "; the remote job runs on until it ends by itself"
    } else {
        ""
    }
}

/// What is wrong with sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourcesError {
    /// No zip file, or a broken one.
    #[error("the zip file cannot be read: pack it again, plain or deflated")]
    Zip(#[source] zip::result::ZipError),
    /// The zip file is too large.
    #[error("the zip file has more than {limit} bytes: leave out what the document does not need")]
    ZipTooLarge {
        /// The limit.
        limit: u64,
    },
    /// The files are too large.
    #[error(
        "the files have more than {limit} bytes, unpacked: leave out what the document does not need"
    )]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// There are too many.
    #[error(
        "there are more than {limit} files and folders: leave out what the document does not need"
    )]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// A file cannot be taken.
    #[error("the file {path:?} is not taken: {why}")]
    Path {
        /// Its path, as far as it can be shown.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// One name, two files.
    #[error("{path} is there twice: rename one")]
    Twice {
        /// Its path, as far as it can be shown.
        path: String,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// Where it is.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The main file's name is none.
    #[error(
        "the main file {path:?} is not taken: name it by a relative path to letters, digits, _, - and . ending in .tex"
    )]
    MainFile {
        /// What was given.
        path: String,
    },
    /// There is no such main file.
    #[error("the main file {main} is not among the {files} files of the document: name another")]
    NoMain {
        /// Its path.
        main: MainFile,
        /// How many there are.
        files: usize,
    },
}

/// The remote service gave no PDF.
#[derive(Debug)]
pub struct RemoteError {
    /// Why.
    pub failure: RemoteFailure,
    /// It may have taken the job, and not be done with it.
    pub runs_on: bool,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.failure, runs_on(self.runs_on))
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure.source()
    }
}

/// What came of asking the remote service. Texts of the service are cut to 200 characters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteFailure {
    /// The configured address or key cannot be used.
    #[error("the TeX service cannot be asked: {0}")]
    Config(&'static str),
    /// The key could not be had.
    #[error("the API key of the TeX service could not be read: tell its operator")]
    Key(#[source] BoxError),
    /// No answer in time.
    #[error("the TeX service did not answer within {limit:?} ({step}): try again later")]
    Silent {
        /// What it was asked.
        step: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// There is no way to it.
    #[error("the TeX service cannot be reached: check its address, or try again later")]
    Unreachable(#[source] BoxError),
    /// The connection broke.
    #[error("the connection to the TeX service broke ({step}): try again later")]
    Connection {
        /// What it was asked.
        step: &'static str,
        /// How.
        #[source]
        source: BoxError,
    },
    /// It did not do what it was asked.
    #[error("the TeX service refused ({step}, {status}): {text}{}", cure(*.status))]
    Refused {
        /// What it was asked.
        step: &'static str,
        /// The HTTP status.
        status: u16,
        /// Its words.
        text: String,
    },
    /// It took no job.
    #[error("the TeX service did not take the document: {0}")]
    NotTaken(String),
    /// It made no PDF.
    #[error("the TeX service made no PDF: {text}{}", hint(.text))]
    Failed {
        /// Its words.
        text: String,
    },
    /// It does not know the job any more.
    #[error("the TeX service has forgotten the job: compile again")]
    Forgotten,
    /// Its answer makes no sense.
    #[error(
        "the TeX service answered with {what} ({step}): check that its address is that of a tex2pdf service"
    )]
    Strange {
        /// What it was asked.
        step: &'static str,
        /// What it answered.
        what: &'static str,
    },
}

fn cure(status: u16) -> &'static str {
    match status {
        300..=399 => ": redirects are not followed; set the address that it leads to",
        401 | 403 => ": set its API key",
        404 | 405 => ": check that its address is that of a tex2pdf service",
        429 => ": try again in a minute",
        500..=599 => ": try again later, or tell its operator",
        _ => "",
    }
}

/// The service, up to 2.5.2 at least, reports a bug of its own in place of LaTeX's errors.
fn hint(text: &str) -> &'static str {
    if text.contains("no such column: details") {
        " (the service hides LaTeX's own errors behind this one: look for a mistake in the document, compiling it locally)"
    } else {
        ""
    }
}

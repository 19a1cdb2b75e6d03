//! What `brain` says of itself while it runs: lines for people on a terminal, JSON for whoever collects it.

use std::env::{self, VarError};
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

const VARIABLE: &str = "BRAIN_LOG";
/// Not unless it is asked for: it logs the ids of sessions, and who knows one can use the session. What matters of it comes
/// as errors.
const SILENT: &str = "rmcp=off";

/// What is to be logged cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The variable does not parse.
    #[error(
        "BRAIN_LOG={value:?} must be a level, or TARGET=LEVEL with commas between them, like info,lease_brain=debug"
    )]
    Filter {
        /// What it says.
        value: String,
        /// What is wrong with it.
        #[source]
        error: ParseError,
    },
    /// The variable is no text.
    #[error("BRAIN_LOG is not UTF-8")]
    NotUnicode,
}

/// Logs to standard error from now on: `info`, or what BRAIN_LOG says. To be called once, by the binary; where something
/// logs already, that goes on.
///
/// # Errors
/// A BRAIN_LOG that says nothing that can be done.
pub fn init() -> Result<(), TelemetryError> {
    let filter = match env::var(VARIABLE) {
        Ok(value) => filter(&value)?,
        Err(VarError::NotPresent) => filter("")?,
        Err(VarError::NotUnicode(_)) => return Err(TelemetryError::NotUnicode),
    };
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(filter);
    let begun = if io::stderr().is_terminal() {
        log.try_init()
    } else {
        log.json().flatten_event(true).try_init()
    };
    if let Err(error) = begun {
        tracing::debug!(%error, "this process logs already");
    }
    Ok(())
}

fn filter(value: &str) -> Result<EnvFilter, TelemetryError> {
    // As with most variables, empty is as good as absent.
    let wanted = if value.trim().is_empty() {
        "info"
    } else {
        value
    };
    EnvFilter::try_new(format!("{SILENT},{wanted}")).map_err(|error| TelemetryError::Filter {
        value: value.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_logged_is_a_filter_or_refused() {
        for (value, shown) in [
            ("", "rmcp=off,info"),
            (" ", "rmcp=off,info"),
            ("debug", "rmcp=off,debug"),
            ("info,lease_brain=trace", "lease_brain=trace,rmcp=off,info"),
            ("info,rmcp=debug", "rmcp=debug,info"),
        ] {
            assert_eq!(filter(value).unwrap().to_string(), shown);
        }
        let error = filter("lease_brain=loud").unwrap_err().to_string();
        assert!(
            error.starts_with("BRAIN_LOG=\"lease_brain=loud\" must be"),
            "{error}"
        );
    }
}

//! `lease run`: a command that lives no longer than its lease.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lease_shared::{CheckError, Lease, Level, Release};
use supervise::{BootInstant, ChildCommand, Deadlines, Ended, Supervised};

use super::acquire::Ask;
use super::on_revoke::{NEVER_CALLED, OnRevoke};
use super::signals::Signals;
use super::state_file::{Standing, StateFile};
use crate::brain;
use crate::connection::Connection;
use crate::exit::{INVALID, LOST, coded};

/// Run a command under a lease: wait for a slot, run, give the slot back.
///
/// The command finds LEASE_TOKEN, LEASE_RESOURCE and LEASE_STATE_FILE (JSON: state, and when it expires unless it is
/// checked again; rewritten at each check) in its environment. The lease is checked at a third of its time to live. When it is lost, or could not be confirmed
/// in time, the command with everything it started gets TERM and then KILL before the time to live may have run out:
/// also when this process is killed or stopped. What the command leaves running is ended when it exits.
///
/// TERM, INT, HUP and QUIT are passed on to the command. One that ignores them keeps its lease for as long as it runs.
///
/// The exit code is the command's own, 128 + n if a signal ended it, 76 if the lease was lost under it; 69, 75 and 78 if
/// it never ran.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease run tex --tenant acme --project thesis --user ada --wait 20m -- latexmk -pdf paper.tex\n  \
    lease run bench --on-revoke https://plug.example/bench/off --on-revoke-header 'Authorization={{secret:PLUG}}' -- ./measure")]
pub(crate) struct Opts {
    /// How long before the end of the time to live the command gets TERM, in which it may end by itself; 5 s, or a third
    /// of a time to live below 15 s, if not said. A time to live below three times this is refused.
    #[arg(long, value_name = "DURATION", value_parser = lease_brain::args::duration)]
    kill_grace: Option<Duration>,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    on_revoke: OnRevoke,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND", help_heading = None::<&str>)]
    command: Vec<OsString>,
}

/// Which part of the grace is left for the killing itself, so that it is over by the end of the time to live.
const KILL_MARGIN: u32 = 3;

pub(crate) async fn run(opts: Opts, connection: Connection) -> anyhow::Result<ExitCode> {
    let on_revoke = opts.on_revoke.payload()?;
    let (name, tenancy) = (opts.ask.name()?, opts.ask.tenancy()?);
    let leases = connection.leases().await?;
    // Refused before a wait of 20 minutes rather than after it.
    let definition = leases.definitions().resolve(&tenancy, &name).await?;
    if Level::NARROW_TO_WIDE
        .into_iter()
        .any(|level| definition.cap(level).is_some())
    {
        grace(opts.kill_grace, definition.ttl.as_duration())?;
    }
    let mut signals = Signals::new()?;
    let lease = opts
        .ask
        .acquire(&leases, &mut signals, on_revoke.as_ref())
        .await?;
    if lease.is_noop() && on_revoke.is_some() {
        eprintln!("lease: warning: {NEVER_CALLED}");
    }
    let result = under(&lease, &opts, &mut signals).await;
    // The command has ended, so the slot is free whatever came of it.
    let released = lease.release().await;
    leases.close().await;
    match result {
        Ok(code) => {
            match released {
                Ok(Release::Released | Release::Noop) => {}
                Ok(Release::AlreadyReleased) => {
                    eprintln!("lease: warning: the lease was lost shortly before the command ended")
                }
                Err(error) => eprintln!(
                    "lease: warning: the command has ended, but its slot could not be given back and will expire: {:#}",
                    anyhow::Error::from(error)
                ),
            }
            Ok(ExitCode::from(code))
        }
        Err(error) => Err(error),
    }
}

fn grace(asked: Option<Duration>, ttl: Duration) -> anyhow::Result<Duration> {
    let grace = asked.unwrap_or_else(|| Duration::from_secs(5).min(ttl / 3));
    if ttl < grace.saturating_mul(3) {
        let problem = format!(
            "the lease's time to live ({ttl:?}) is below three times the kill grace ({grace:?}): raise ttlSeconds in \
             its definition, or pass a shorter --kill-grace"
        );
        return Err(coded(INVALID, problem));
    }
    Ok(grace)
}

/// Runs the command and gives its exit code; an error if the lease did not last, or the command could not be guarded.
async fn under(lease: &Lease, opts: &Opts, signals: &mut Signals) -> anyhow::Result<u8> {
    let state = StateFile::new()?;
    let term = match lease.ttl() {
        Some(ttl) => Some(Term {
            ttl,
            grace: grace(opts.kill_grace, ttl)?,
        }),
        None => None,
    };
    // The acquire may have answered late, so its time is counted from a check whose sending is known.
    let sent = BootInstant::now();
    let first = match term {
        Some(term) => {
            lease.check().await?;
            state.write(lease, term.standing("held", sent))?;
            term.deadlines(sent)
        }
        None => {
            state.write(lease, Standing::without_end("noop"))?;
            let never = BootInstant::now() + Duration::from_secs(u32::MAX.into());
            Deadlines {
                term_at: never,
                kill_at: never + Duration::from_secs(5),
            }
        }
    };
    let mut child = match Supervised::spawn(&command(lease, opts, &state), first).await {
        Ok(child) => child,
        Err(error) => match error.exit_code() {
            Some(code) => {
                eprintln!("lease: {error}");
                return Ok(code);
            }
            None => return Err(error.into()),
        },
    };
    let (news, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let checking = async {
        match term {
            Some(term) => term.keep_checking(lease, sent, &state, news).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(checking);
    let mut last_error = None;
    let mut lost = None;
    let ended = loop {
        tokio::select! {
            ended = child.wait() => break ended,
            error = &mut checking, if lost.is_none() => {
                lost = Some(error);
                child.end();
            }
            Some(news) = heard.recv() => match news {
                Ok(deadlines) => {
                    last_error = None;
                    child.extend(deadlines);
                }
                Err(error) => last_error = Some(error),
            },
            signal = signals.next() => child.signal(signal),
        }
    };
    match (lost, ended.exit_code()) {
        (Some(lost), _) => Err(anyhow::Error::from(lost).context("the command was ended")),
        (None, Some(code)) => Ok(code),
        (None, None) => Err(cut_short(ended, last_error)),
    }
}

fn cut_short(ended: Ended, last_error: Option<CheckError>) -> anyhow::Error {
    if ended == Ended::GuardianDied {
        return coded(
            1,
            "the guardian of the command was killed, so the command was ended",
        );
    }
    let problem =
        "the lease could not be confirmed within its time to live, so the command was ended";
    let cause = last_error
        .map(|error| format!(": {:#}", anyhow::Error::from(error)))
        .unwrap_or_default();
    coded(LOST, format!("LEASE_LOST: {problem}{cause}"))
}

fn command(lease: &Lease, opts: &Opts, state: &StateFile) -> ChildCommand {
    let text = |text: Option<&str>| OsString::from(text.unwrap_or_default());
    ChildCommand {
        program: opts.command[0].clone(),
        args: opts.command[1..].to_vec(),
        envs: vec![
            (
                "LEASE_TOKEN".into(),
                text(lease.token().map(|token| token.as_str())),
            ),
            (
                "LEASE_RESOURCE".into(),
                text(lease.resource().map(|resource| resource.as_str())),
            ),
            ("LEASE_STATE_FILE".into(), state.path().into()),
        ],
        // With that it could revoke anybody.
        withheld: brain::SECRET_VARIABLES.map(OsString::from).into(),
        scratch: state.path().parent().map(Into::into),
    }
}

/// The times of one lease.
#[derive(Clone, Copy)]
struct Term {
    ttl: Duration,
    grace: Duration,
}

impl Term {
    /// Until when the command may run after a check that was sent then and succeeded.
    fn deadlines(self, sent: BootInstant) -> Deadlines {
        Deadlines {
            term_at: sent + (self.ttl - self.grace),
            kill_at: sent + (self.ttl - self.grace / KILL_MARGIN),
        }
    }

    fn standing(self, state: &'static str, confirmed: BootInstant) -> Standing {
        Standing {
            state,
            confirmed: Some((confirmed, self.ttl)),
        }
    }

    /// Checks at a third of the time to live, sooner after a failure, and tells what came of it. The last check before
    /// was sent when `confirmed` says. Returns when the lease is lost.
    async fn keep_checking(
        self,
        lease: &Lease,
        mut confirmed: BootInstant,
        state: &StateFile,
        news: tokio::sync::mpsc::UnboundedSender<Result<Deadlines, CheckError>>,
    ) -> CheckError {
        let mut pause = self.ttl / 3;
        loop {
            tokio::time::sleep(pause).await;
            let sent = BootInstant::now();
            let (standing, said) = match lease.check().await {
                Ok(()) => {
                    confirmed = sent;
                    pause = self.ttl / 3;
                    ("held", Ok(self.deadlines(sent)))
                }
                Err(lost @ CheckError::Lost(_)) => {
                    note(state.write(lease, Standing::without_end("lost")));
                    return lost;
                }
                Err(unavailable) => {
                    pause = Duration::from_millis(500).min(self.ttl / 10);
                    ("unconfirmed", Err(unavailable))
                }
            };
            note(state.write(lease, self.standing(standing, confirmed)));
            if news.send(said).is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// A state file that cannot be written must not end the command.
fn note(written: std::io::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, "could not write the state file");
    }
}

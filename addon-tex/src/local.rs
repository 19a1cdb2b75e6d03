//! Compiling with the latexmk of this machine.

mod latexmk;
mod output;
mod remove;
mod scratch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lease_toolpack::{SessionEnd, SessionGuard, SessionPayload};
use supervise::{Ended, Piped, SpawnError};
use tokio::select;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout, timeout_at};

use self::latexmk::Latexmk;
use self::output::Output;
use self::scratch::Scratch;
use crate::error::TexError;
use crate::job::{Engine, Progress, TexJob};
use crate::sources::Sources;

/// How long each step of an end may take. What is asked to end is killed long before.
const END_LIMIT: Duration = Duration::from_secs(10);
/// A larger PDF is not taken.
const PDF_LIMIT: u64 = 100 << 20;

/// latexmk on this machine, confined.
#[derive(Debug, Clone)]
pub struct LocalExecutor {
    /// Where each compilation gets a folder, removed at its end; the system's place for such, unless given.
    pub scratch: Option<PathBuf>,
    /// How long a compilation may take.
    pub time_limit: Duration,
    /// How much it may write, all its files together.
    pub scratch_limit: u64,
    /// How often the guard is asked, and the size looked at: well below the lease's time to live.
    pub poll_interval: Duration,
    /// Whether documents may run Lua programs.
    pub allow_lualatex: bool,
    /// Run also where the kernel cannot confine latexmk. Documents can then read what this process can.
    pub allow_unconfined: bool,
    /// Where latexmk and the engines are looked up; this process's `PATH`, unless given.
    pub path: Option<OsString>,
    /// What a compilation may read besides the system's programs, libraries and TeX: a TeX installed elsewhere.
    pub readable: Vec<PathBuf>,
    /// The program to guard latexmk, see [`supervise::PipedCommand`]; this one, unless given.
    pub guardian: Option<PathBuf>,
}

impl Default for LocalExecutor {
    fn default() -> Self {
        Self {
            scratch: None,
            time_limit: Duration::from_secs(150),
            scratch_limit: 256 << 20,
            poll_interval: Duration::from_secs(3),
            allow_lualatex: false,
            allow_unconfined: false,
            path: None,
            readable: Vec::new(),
            guardian: None,
        }
    }
}

pub(crate) struct LocalRun {
    executor: LocalExecutor,
    latexmk: Latexmk,
    sources: Sources,
    /// In tasks, so that what a dropped start was about to make is known.
    making: Option<JoinHandle<std::io::Result<Scratch>>>,
    starting: Option<JoinHandle<Result<Piped, SpawnError>>>,
    scratch: Option<Scratch>,
    piped: Option<Piped>,
    output: Output,
}

impl LocalRun {
    pub(crate) fn prepare(executor: &LocalExecutor, job: &TexJob) -> Result<Self, TexError> {
        if job.engine == Engine::Lualatex && !executor.allow_lualatex {
            return Err(TexError::EngineRefused {
                engine: job.engine,
                cure: "choose pdflatex or xelatex, or ask the operator to allow it",
            });
        }
        Ok(Self {
            latexmk: Latexmk::find(executor, job)?,
            executor: executor.clone(),
            sources: job.sources.below(job.main.folder()),
            making: None,
            starting: None,
            scratch: None,
            piped: None,
            output: Output::default(),
        })
    }

    pub(crate) async fn work(
        &mut self,
        guard: &dyn SessionGuard,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Vec<u8>, TexError> {
        let limit = self.executor.time_limit;
        let ends_at = Instant::now() + limit;
        let timed_out = || TexError::TimedOut {
            limit,
            remote_runs_on: false,
        };
        let started = timeout_at(ends_at, self.start()).await;
        let job_id = started.map_err(|_| timed_out())??;
        let payload = SessionPayload::from_iter([("jobId".to_owned(), job_id.clone().into())]);
        guard.opened(payload).await?;
        progress(Progress::Started { job_id });

        let period = self.executor.poll_interval;
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ended = loop {
            let Some(piped) = &mut self.piped else {
                return Err(TexError::Internal);
            };
            select! {
                biased;
                ended = piped.wait() => break ended,
                () = sleep_until(ends_at) => return Err(timed_out()),
                _ = ticks.tick() => {}
            }
            guard.used().await?;
            progress(Progress::Running(self.output.last_line()));
            self.check_size().await?;
        };
        // One that was filled to the limit ends by itself, too.
        self.check_size().await?;
        let from_outside = |how| Err(TexError::local("it was ended from outside", how));
        let exit_code = match ended {
            Ended::Exited(code) => Some(code),
            Ended::Signalled(_) => None,
            Ended::OnRequest | Ended::DeadlinePassed => return from_outside("it was asked to end"),
            Ended::GuardianDied => return from_outside("its guardian was killed"),
        };
        let finished = timeout_at(ends_at, self.output.finish()).await;
        finished.map_err(|_| timed_out())?;
        match exit_code {
            Some(0) => self.pdf().await,
            _ => Err(self.failed(exit_code)),
        }
    }

    /// Unpacks the sources and starts latexmk. Gives a name for that.
    async fn start(&mut self) -> Result<String, TexError> {
        let (base, sources) = (self.executor.scratch.clone(), self.sources.clone());
        let making = spawn_blocking(move || {
            Scratch::sweep(base.as_deref());
            let scratch = Scratch::create(base.as_deref())?;
            scratch.unpack(&sources)?;
            Ok(scratch)
        });
        let made = self.making.insert(making).await;
        self.making = None;
        let made = made.map_err(|error| TexError::local("unpack", error))?;
        let scratch = self
            .scratch
            .insert(made.map_err(|error| TexError::local("unpack", error))?);

        let (command, confinement) = self.latexmk.command(scratch.path(), &self.executor);
        let starting = tokio::spawn(async move {
            match confinement {
                Some(confinement) => Piped::spawn_confined(&command, &confinement).await,
                None => Piped::spawn(&command).await,
            }
        });
        let started = self.starting.insert(starting).await;
        self.starting = None;
        let mut piped = match started.map_err(|error| TexError::local("start", error))? {
            Err(error @ SpawnError::Confinement(_)) => {
                return Err(TexError::local(
                    "confine it: use Linux with Landlock, or the remote service",
                    error,
                ));
            }
            started => started.map_err(|error| TexError::local("start", error))?,
        };
        self.output.read(piped.stdout.take());
        self.output.read(piped.stderr.take());
        // Asked for a missing file, an engine shall read the end.
        piped.stdin = None;
        self.piped = Some(piped);
        Ok(scratch.name())
    }

    async fn check_size(&self) -> Result<(), TexError> {
        let limit = self.executor.scratch_limit;
        let Some(path) = self.scratch.as_ref().map(|it| it.path().to_owned()) else {
            return Ok(());
        };
        let size = spawn_blocking(move || scratch::size(&path, limit)).await;
        if size.map_err(|error| TexError::local("measure", error))? > limit {
            return Err(TexError::TooLarge { limit });
        }
        Ok(())
    }

    async fn pdf(&mut self) -> Result<Vec<u8>, TexError> {
        let Some(scratch) = self.scratch.take() else {
            return Err(TexError::Internal);
        };
        let path = self.latexmk.pdf();
        let reading = spawn_blocking(move || {
            let read = scratch.read_file(&path, PDF_LIMIT);
            (scratch, read)
        });
        let (scratch, read) = reading
            .await
            .map_err(|error| TexError::local("read the PDF", error))?;
        self.scratch = Some(scratch);
        match read {
            Ok(Some(pdf)) if pdf.starts_with(b"%PDF-") => Ok(pdf),
            Ok(Some(_)) => Err(self.failed(Some(0))),
            Ok(None) => Err(TexError::TooLarge { limit: PDF_LIMIT }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(self.failed(Some(0))),
            Err(error) => Err(TexError::local("read the PDF", error)),
        }
    }

    fn failed(&self, exit_code: Option<i32>) -> TexError {
        let message = self
            .output
            .first_error()
            .unwrap_or_else(|| match exit_code {
                Some(0) => "it has no pages".to_owned(),
                Some(code) => format!("latexmk ended with status {code}, see the log"),
                None => "latexmk was killed, perhaps for want of memory; see the log".to_owned(),
            });
        TexError::Latex { exit_code, message }
    }

    /// What has not ended in time is left to itself: a session that never closes would keep its slot for ever.
    pub(crate) async fn end(mut self, log: &mut String) -> SessionEnd {
        let mut unknown = None;
        // What was dropped while it began: it may be there by now.
        if let Some(mut starting) = self.starting.take() {
            match timeout(END_LIMIT, &mut starting).await {
                Ok(Ok(Ok(piped))) => self.piped = Some(piped),
                // Nothing runs.
                Ok(_) => {}
                Err(_) => {
                    // Its guardian, should it go on, sees that nobody is there.
                    starting.abort();
                    unknown = Some("latexmk did not start in time, and may still do so");
                }
            }
        }
        if let Some(piped) = &mut self.piped {
            match timeout(END_LIMIT, piped.end()).await {
                Ok(Ended::GuardianDied) => {
                    unknown = Some(
                        "the guardian of latexmk was killed, and what left its group may run on",
                    );
                }
                Ok(_) => {}
                Err(_) => unknown = Some("latexmk did not end in time, and may run on"),
            }
        }
        if timeout(END_LIMIT, self.output.finish()).await.is_err() {
            unknown = unknown.or(Some(
                "someone still holds the output of latexmk, and may run on",
            ));
        }
        *log = self.output.tail();
        if let Some(making) = self.making.take()
            && let Ok(Ok(scratch)) = making.await
        {
            self.scratch = Some(scratch);
        }
        if let Some(scratch) = self.scratch.take() {
            let folder = scratch.path().to_owned();
            let removed = spawn_blocking(move || scratch.remove()).await;
            if let Err(error) = removed.unwrap_or_else(|error| Err(error.into())) {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "the folder of a compilation could not be removed");
            }
        }
        match unknown {
            Some(problem) => SessionEnd::Unknown(problem.to_owned()),
            None => SessionEnd::Gone,
        }
    }
}

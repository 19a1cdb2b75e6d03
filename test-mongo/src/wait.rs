//! Waiting for a condition with a deadline, and finishing work from a `Drop`.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::{Instant, sleep, timeout, timeout_at};

const PAUSE: Duration = Duration::from_millis(20);

/// How long a guard's last work may take before its thread gives up.
const LAST_WORK: Duration = Duration::from_secs(10);

/// Asks `probe` again and again until it says yes; an error of the probe counts as "not yet".
///
/// After `within` it fails, naming `what` was awaited and the probe's last error.
pub async fn eventually<Probe, Answer>(what: &str, within: Duration, mut probe: Probe) -> Result<()>
where
    Probe: FnMut() -> Answer,
    Answer: Future<Output = Result<bool>>,
{
    let ask = || {
        let answer = probe();
        async { Ok(answer.await?.then_some(())) }
    };
    wait_for(what, within, ask).await
}

/// The same for a value that the probe finds.
///
/// Not an `AsyncFnMut`, since the compiler cannot show that such a probe may move between threads.
pub(crate) async fn wait_for<T, Probe, Answer>(
    what: &str,
    within: Duration,
    mut probe: Probe,
) -> Result<T>
where
    Probe: FnMut() -> Answer,
    Answer: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + within;
    let mut last_error = None;
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(Some(found))) => return Ok(found),
            Ok(Ok(None)) => last_error = None,
            Ok(Err(error)) => last_error = Some(error),
            Err(_) => {
                let error = last_error.unwrap_or_else(|| anyhow!("the last probe hung"));
                return Err(error.context(format!("{what}: not within {within:?}")));
            }
        }
        if Instant::now() >= deadline {
            let error = last_error.unwrap_or_else(|| anyhow!("the answer was no"));
            return Err(error.context(format!("{what}: not within {within:?}")));
        }
        sleep(PAUSE).await;
    }
}

/// Runs a guard's last work to its end from `Drop`, on a thread and runtime of its own: the runtime of
/// the test may be blocked by this very call. Failure is printed.
pub(crate) fn finish(what: &str, work: impl Future<Output = Result<()>> + Send + 'static) {
    let worker = thread::spawn(move || -> Result<()> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(async { timeout(LAST_WORK, work).await? })
    });
    match worker.join() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => eprintln!("test-mongo: {what}: {error:#}"),
        Err(_) => eprintln!("test-mongo: {what}: panicked"),
    }
}

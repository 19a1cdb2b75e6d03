//! Runs handlers in this pod, whoever asks for them: one at a time for a lease, not too many of all, within their time, and
//! whatever they do.

use std::collections::{BTreeMap, HashMap};
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use lease_shared::{Cleanups, LeaseToken, LeaseType, Revocation, in_full};
use supervise::BootInstant;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::places::{ALONE, PLACES};
use crate::handlers::HandlerRegistry;
use crate::metrics;

/// The time a handler has.
const HANDLER: Duration = Duration::from_secs(30);

type Outcome = Result<(), String>;
type Running = Shared<BoxFuture<'static, Outcome>>;

/// The handlers of this pod, and what of them runs.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    registry: HandlerRegistry,
    gate: Arc<Gate>,
    running: Arc<Mutex<HashMap<LeaseToken, Running>>>,
    /// What other pods asked for, by their claims, and until when that is remembered.
    asked: Arc<Mutex<HashMap<String, (Running, BootInstant)>>>,
    tasks: TaskTracker,
    /// Cancelled when the brain is gone, and its handlers with it.
    gone: CancellationToken,
}

/// How many handlers run at a time, whether this pod's dispatcher asked for them, other pods did, or a late heartbeat.
/// No type takes all places, however long its handlers hang.
#[derive(Debug)]
struct Gate {
    all: Semaphore,
    types: BTreeMap<LeaseType, Semaphore>,
}

impl Gate {
    /// Runs `work` when there is room. The semaphores are never closed.
    async fn pass<T>(&self, lease_type: &LeaseType, work: impl Future<Output = T>) -> T {
        let _of_type = match self.types.get(lease_type) {
            Some(places) => places.acquire().await.ok(),
            None => None,
        };
        let _of_all = self.all.acquire().await.ok();
        work.await
    }
}

impl Runner {
    /// Whose handlers are ended, wherever they are, when `gone` is cancelled.
    pub(crate) fn new(registry: HandlerRegistry, gone: CancellationToken) -> Self {
        let types = registry.types().into_iter();
        let gate = Gate {
            all: Semaphore::new(PLACES),
            types: types.map(|of| (of, Semaphore::new(ALONE))).collect(),
        };
        Self {
            registry,
            gate: Arc::new(gate),
            running: Arc::default(),
            asked: Arc::default(),
            tasks: TaskTracker::new(),
            gone,
        }
    }

    /// Runs the handler to its end, or until its time is over, which it is at `until` at the latest. It goes on if the
    /// caller goes. Whoever asks for a lease whose handler runs gets what becomes of that.
    pub(crate) async fn run(&self, revocation: Revocation, until: BootInstant) -> Outcome {
        self.running(revocation, until).await
    }

    /// What runs for this lease, or what is begun now.
    fn running(&self, revocation: Revocation, until: BootInstant) -> Running {
        let token = revocation.token.clone();
        let mut all = lock(&self.running);
        if let Some(running) = all.get(&token) {
            return running.clone();
        }
        let running = self.start(revocation, until);
        all.insert(token, running.clone());
        running
    }

    /// Runs it for another pod, which asks under its claim. Asked again, because the answer was lost, it says what came of it
    /// and begins nothing, for as long as the claim may last.
    pub(crate) async fn run_for_another(
        &self,
        claim: &str,
        revocation: Revocation,
        until: BootInstant,
    ) -> Outcome {
        let running = {
            let mut asked = lock(&self.asked);
            asked.retain(|_, (_, until)| !until.has_passed());
            let (running, _) = asked.entry(claim.to_owned()).or_insert_with(|| {
                let forgotten = BootInstant::now() + Cleanups::CLAIM;
                (self.running(revocation, until), forgotten)
            });
            running.clone()
        };
        running.await
    }

    fn start(&self, revocation: Revocation, until: BootInstant) -> Running {
        let token = revocation.token.clone();
        let handler = self.registry.get(&revocation.lease_type).cloned();
        let gate = Arc::clone(&self.gate);
        let work = async move {
            let lease_type = revocation.lease_type.as_str();
            let Some(handler) = handler else {
                return Err(format!(
                    "the pod of its holder has no handler for lease type `{lease_type}`"
                ));
            };
            let run = async {
                let deadline = until.min(BootInstant::now() + HANDLER);
                let run = AssertUnwindSafe(async { handler.on_revoked(&revocation).await });
                before(deadline, run.catch_unwind()).await
            };
            let run = gate.pass(&revocation.lease_type, run);
            let outcome = match before(until, run).await.flatten() {
                Some(Ok(Ok(()))) => Ok(()),
                Some(Ok(Err(error))) => Err(in_full(error.as_ref())),
                Some(Err(_)) => Err("the handler panicked".to_owned()),
                None => Err("the handler did not end in its time".to_owned()),
            };
            metrics::handled(lease_type, outcome.is_ok());
            outcome
        };
        let all = Arc::clone(&self.running);
        let gone = self.gone.clone();
        let task = self.tasks.spawn(async move {
            let outcome = gone.run_until_cancelled(work).await;
            lock(&all).remove(&token);
            outcome
        });
        ended(task).boxed().shared()
    }

    /// Waits until no handler runs.
    pub(crate) async fn idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ended(task: JoinHandle<Option<Outcome>>) -> Outcome {
    match task.await {
        Ok(Some(outcome)) => outcome,
        // Who waits for this ends as well, and must not write that the handler failed.
        Ok(None) => std::future::pending().await,
        Err(_) => Err("the process is ending".to_owned()),
    }
}

/// Polls `work` only while the deadline has not passed, by a clock that counts the time in which this process, or its
/// machine, stood still: a handler must not go on when its claim has run out meanwhile and another pod has begun.
async fn before<T>(deadline: BootInstant, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut alarm = pin!(tokio::time::sleep(deadline.remaining()));
    poll_fn(move |context| {
        if deadline.has_passed() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        if alarm.as_mut().poll(context).is_ready() {
            if deadline.has_passed() {
                return Poll::Ready(None);
            }
            // The timer's clock and this one differ a little.
            alarm.set(tokio::time::sleep(deadline.remaining()));
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use lease_shared::{HandlerError, LeaseHandler, RevocationReason, SlotReturn, Tenancy};

    use super::*;

    /// Polled at once again each time, and counts that.
    async fn forever(polls: &mut usize, mut each: impl FnMut()) {
        poll_fn(|context| {
            *polls += 1;
            each();
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
    }

    #[derive(Debug)]
    struct Hangs;

    impl LeaseHandler for Hangs {
        fn slot_return(&self) -> SlotReturn {
            SlotReturn::AfterCleanup
        }

        fn on_revoked<'a>(&'a self, _: &'a Revocation) -> BoxFuture<'a, Result<(), HandlerError>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn handler_that_ends_with_its_brain_is_not_told_to_have_failed() {
        let lease_type = LeaseType::new("bench").unwrap();
        let mut registry = HandlerRegistry::default();
        registry
            .register(lease_type.clone(), Arc::new(Hangs))
            .unwrap();
        let gone = CancellationToken::new();
        let runner = Runner::new(registry, gone.clone());
        let revocation = Revocation {
            token: LeaseToken::new("0123456789abcdef0123456789abcdef").unwrap(),
            lease_type,
            reason: RevocationReason::Idle,
            tenancy: Tenancy::new("acme", "thesis", "ada").unwrap(),
            holder_ref: String::new(),
            pod: None,
            pod_bound: false,
            payload: Default::default(),
        };
        let until = BootInstant::now() + Duration::from_secs(60);
        let mut told = pin!(runner.run(revocation, until));
        assert_eq!(told.as_mut().now_or_never(), None);
        gone.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(10), runner.idle());
        ended.await.expect("it ends");
        assert_eq!(told.as_mut().now_or_never(), None);
    }

    #[tokio::test]
    async fn what_has_no_time_left_is_not_begun() {
        let mut polls = 0;
        let ended = before(BootInstant::now(), forever(&mut polls, || ())).await;
        assert_eq!((ended, polls), (None, 0));
    }

    #[tokio::test]
    async fn what_stood_still_until_its_time_was_over_does_not_go_on() {
        let mut polls = 0;
        let deadline = BootInstant::now() + Duration::from_secs(1);
        let stand_still = || {
            while !deadline.has_passed() {
                std::thread::yield_now();
            }
        };
        let ended = before(deadline, forever(&mut polls, stand_still)).await;
        assert_eq!((ended, polls), (None, 1));
    }

    #[tokio::test]
    async fn what_is_never_woken_ends_with_its_time() {
        let deadline = BootInstant::now() + Duration::from_millis(20);
        let ended = before(deadline, std::future::pending::<()>()).await;
        assert_eq!(ended, None);
    }
}

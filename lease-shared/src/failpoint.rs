//! Places at which a test can stop or kill a process: before and after every round trip to the store.
//!
//! Without the feature `testing` this is an empty type and every call is nothing.

/// Which side of a round trip.
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "public to tests")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The command has not been sent.
    Before,
    /// It has been answered, or given up on.
    After,
}

#[cfg(not(feature = "testing"))]
#[derive(Debug, Clone, Default)]
pub(crate) struct Failpoints {}

#[cfg(not(feature = "testing"))]
impl Failpoints {
    #[expect(clippy::unused_async, reason = "awaited like the real one")]
    pub(crate) async fn reached(&self, _step: &'static str, _phase: Phase) {}
}

#[cfg(feature = "testing")]
pub use enabled::{Failpoints, Gate};

#[cfg(feature = "testing")]
mod enabled {
    use std::sync::{Arc, Mutex, PoisonError};

    use tokio::sync::Semaphore;

    use super::Phase;

    /// The failpoints of one service. Clones share them.
    #[derive(Debug, Clone, Default)]
    pub struct Failpoints(Arc<Mutex<Plan>>);

    #[derive(Debug, Default)]
    struct Plan {
        hits: usize,
        abort_at: Option<usize>,
        gates: Vec<(&'static str, Phase, Gate)>,
        panics: Vec<(&'static str, Phase)>,
    }

    /// A place where one task waits until the test lets it go on.
    #[derive(Debug, Clone)]
    pub struct Gate {
        arrived: Arc<Semaphore>,
        open: Arc<Semaphore>,
    }

    impl Gate {
        /// Returns when a task has come to the gate.
        pub async fn reached(&self) {
            if let Ok(permit) = self.arrived.acquire().await {
                permit.forget();
            }
        }

        /// Lets the task that waits, or the next that comes, go on.
        pub fn open(&self) {
            self.open.add_permits(1);
        }

        async fn pass(&self) {
            self.arrived.add_permits(1);
            if let Ok(permit) = self.open.acquire().await {
                permit.forget();
            }
        }
    }

    impl Failpoints {
        /// How often a failpoint has been reached so far.
        pub fn hits(&self) -> usize {
            self.plan(|plan| plan.hits)
        }

        /// Aborts the process, as a crash would, when `more` further failpoints have been reached.
        pub fn abort_after(&self, more: usize) {
            self.plan(|plan| plan.abort_at = Some(plan.hits + more));
        }

        /// The next task that comes to this side of `step` stops there until the gate is opened.
        pub fn pause(&self, step: &'static str, phase: Phase) -> Gate {
            let gate = Gate {
                arrived: Arc::new(Semaphore::new(0)),
                open: Arc::new(Semaphore::new(0)),
            };
            self.plan(|plan| plan.gates.push((step, phase, gate.clone())));
            gate
        }

        /// The next task that comes to this side of `step` panics there.
        pub fn panic(&self, step: &'static str, phase: Phase) {
            self.plan(|plan| plan.panics.push((step, phase)));
        }

        pub(crate) async fn reached(&self, step: &'static str, phase: Phase) {
            let panics = self.plan(|plan| {
                let here = plan.panics.iter().position(|at| *at == (step, phase))?;
                Some(plan.panics.remove(here))
            });
            if let Some((step, phase)) = panics {
                panic!("made to panic {phase:?} {step:?}");
            }
            let gate = self.plan(|plan| {
                plan.hits += 1;
                if plan.abort_at == Some(plan.hits) {
                    std::process::abort();
                }
                let here = plan
                    .gates
                    .iter()
                    .position(|gate| (gate.0, gate.1) == (step, phase))?;
                Some(plan.gates.remove(here).2)
            });
            if let Some(gate) = gate {
                gate.pass().await;
            }
        }

        fn plan<T>(&self, look: impl FnOnce(&mut Plan) -> T) -> T {
            look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

//! The one lease service of an actor, and how it carries out an order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_shared::{
    AcquireError, CheckError, Gate, KnownTypes, Lease, LeaseRef, LeaseRequest, LeaseService,
    LeaseToken, LeaseType, OnBusy, Phase, Release, SlotReturn, Tenancy, apply_time_limits,
};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};

use crate::contest;
use crate::crowd::Each;
use crate::protocol::{Answer, Order, Want};

pub(crate) struct Stage {
    pub(crate) leases: LeaseService,
    pub(crate) database: Database,
    held: Mutex<HashMap<String, Arc<Lease>>>,
    gates: Mutex<Vec<Gate>>,
    commands: Arc<AtomicUsize>,
    stopped: AtomicBool,
}

impl Stage {
    pub(crate) async fn set(uri: &str, database: &str) -> Self {
        let commands = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&commands);
        let mut options = ClientOptions::parse(uri).await.expect("a URI");
        apply_time_limits(&mut options);
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event
                && let Ok(collection) = started.command.get_str(&started.command_name)
                && collection.starts_with("resource_lease_")
            {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }));
        let database = Client::with_options(options)
            .expect("a client")
            .database(database);
        let types = KnownTypes::new()
            .with(lease_type("soft"), SlotReturn::AtOnce)
            .with(lease_type("hard"), SlotReturn::AfterCleanup);
        let leases = LeaseService::builder(database.clone())
            .listener(Arc::new(types))
            .follow_changes(false)
            .start()
            .await
            .expect("a lease service");
        Self {
            leases,
            database,
            held: Mutex::default(),
            gates: Mutex::default(),
            commands,
            stopped: AtomicBool::new(false),
        }
    }

    pub(crate) async fn perform(self: &Arc<Self>, order: Order) -> Answer {
        match order {
            Order::Acquire(want) => self.acquire(&want).await,
            Order::Burst(want, times) => self.burst(want, times).await,
            Order::Queue(want, times) => self.queue(&want, times).await,
            Order::Check(token) => match self.check(&token).await {
                Ok(true) => Answer::Done,
                Ok(false) => Answer::Lost,
                Err(failed) => failed,
            },
            Order::Release(token) => self.release(&token).await,
            Order::CheckAll(tokens) => self.each(tokens, Each::Check).await,
            Order::ReleaseAll(tokens) => self.each(tokens, Each::Release).await,
            Order::Contend(contest) => contest::run(self, contest).await,
            Order::Revoke(_)
            | Order::ForceRevoke(_)
            | Order::RevokePod(_)
            | Order::CleanUp(..)
            | Order::RetryCleanUp(_)
            | Order::AbandonCleanUp(_) => match self.end_others(order).await {
                Ok(()) => Answer::Done,
                Err(error) => failed(error),
            },
            Order::Sweep => self.sweep().await,
            Order::Reconcile => self.reconcile().await,
            Order::SweepOn => self.again(Again::Sweep).await,
            Order::ReconcileOn => self.again(Again::Reconcile).await,
            Order::Stop => {
                self.stopped.store(true, Ordering::SeqCst);
                Answer::Done
            }
            Order::Close => {
                self.leases.close().await;
                Answer::Done
            }
            Order::Count => Answer::Counted {
                hits: self.leases.failpoints().hits(),
                commands: self.commands.load(Ordering::SeqCst),
            },
            Order::AbortAfter(hits) => {
                self.leases.failpoints().abort_after(hits);
                Answer::Done
            }
            Order::Pause { step, after } => {
                let phase = if after { Phase::After } else { Phase::Before };
                let gate = self.leases.failpoints().pause(step.leak(), phase);
                let mut gates = self.gates.lock().unwrap();
                gates.push(gate);
                Answer::Gate(gates.len() - 1)
            }
            Order::Reached(gate) => {
                self.gate(gate).reached().await;
                Answer::Done
            }
            Order::Open(gate) => {
                self.gate(gate).open();
                Answer::Done
            }
        }
    }

    pub(crate) async fn acquire(&self, want: &Want) -> Answer {
        match self.leases.acquire(request(want, None)).await {
            Ok(lease) => Answer::Held(self.keep(lease)),
            Err(AcquireError::Busy(_)) => Answer::Busy,
            Err(other) => failed(other),
        }
    }

    pub(crate) fn keep(&self, lease: Lease) -> String {
        let token = lease.token().expect("not a NOOP").to_string();
        let lease = Arc::new(lease);
        self.held.lock().unwrap().insert(token.clone(), lease);
        token
    }

    async fn release(&self, token: &str) -> Answer {
        let lease = self.held.lock().unwrap().remove(token);
        let released = match &lease {
            Some(lease) => lease.release().await,
            None => self.leases.release_token(&parse(token)).await,
        };
        match released {
            Ok(Release::AlreadyReleased) => Answer::AlreadyReleased,
            Ok(Release::Released | Release::Noop) => Answer::Done,
            Err(error) => failed(error),
        }
    }

    async fn sweep(&self) -> Answer {
        let report = self.leases.sweep().await;
        match report.failed.first() {
            Some(failure) => Answer::Failed(failure.clone()),
            // A revoked command may be finished by another than who revoked it; it counts once.
            None => Answer::Times(report.idle + report.stale),
        }
    }

    async fn reconcile(&self) -> Answer {
        match self.leases.reconciler().reconcile(false).await {
            Ok(report) if report.drift.is_empty() => Answer::Times(report.orphans.len()),
            Ok(report) => Answer::Failed(format!("{:?}", report.drift)),
            Err(error) => failed(error),
        }
    }

    /// Goes on until `Stop` and says how many times it did.
    async fn again(&self, what: Again) -> Answer {
        let mut times = 0;
        while !self.stopped.swap(false, Ordering::SeqCst) {
            let answer = match what {
                Again::Sweep => self.sweep().await,
                Again::Reconcile => self.reconcile().await,
            };
            if let failed @ Answer::Failed(_) = answer {
                return failed;
            }
            times += 1;
        }
        Answer::Times(times)
    }

    pub(crate) async fn check(&self, token: &str) -> Result<bool, Answer> {
        match self.leases.check_token(&parse(token)).await {
            Ok(()) => Ok(true),
            Err(CheckError::Lost(_)) => Ok(false),
            Err(other) => Err(failed(other)),
        }
    }

    fn gate(&self, number: usize) -> Gate {
        self.gates.lock().unwrap()[number].clone()
    }
}

/// What to do again and again.
#[derive(Clone, Copy)]
enum Again {
    Sweep,
    Reconcile,
}

pub(crate) fn request(want: &Want, on_busy: Option<OnBusy>) -> LeaseRequest {
    let [tenant, project, user] = &want.tenancy;
    LeaseRequest::builder()
        .lease_type(lease_type(&want.kind))
        .lease(LeaseRef::named(&want.lease).expect("a lease name"))
        .tenancy(Tenancy::new(tenant, project, user).expect("a tenancy"))
        .holder_ref("actor")
        .wait(Duration::from_millis(want.wait_ms))
        .maybe_on_busy(on_busy)
        .build()
}

pub(crate) fn parse(token: &str) -> LeaseToken {
    token.parse().expect("a token")
}

fn lease_type(kind: &str) -> LeaseType {
    LeaseType::new(kind).expect("a lease type")
}

pub(crate) fn failed(error: impl std::error::Error) -> Answer {
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    Answer::Failed(format!("{error}: {cause}"))
}

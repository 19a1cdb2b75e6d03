//! Three nodes: a URI that reads from lagging secondaries and trusts one node changes nothing, and a primary that dies
//! takes no lease with it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lease_shared::{AcquireError, LeaseService, Release, apply_time_limits};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::{Acknowledgment, ClientOptions, ReadPreference, SelectionCriteria};
use test_mongo::{ReplicaSet, TestMongo};

use crate::stage::{ACQUIRE_LIMIT, assert_all_comes_free, assert_truly_held, assert_within_caps};
use crate::support::{World, busy, request, service, token, waiting};

const CAP: usize = 2;

struct Nodes {
    world: World,
    set: ReplicaSet,
}

impl Nodes {
    async fn start() -> Self {
        let set = ReplicaSet::start(3).await.unwrap();
        let mongo = TestMongo::at(&set.uri()).await.unwrap();
        let world = World::on(mongo, |_| {}).await;
        let body =
            format!("levels: {{ user: 1, global: {CAP}, tenant: 9, project: 9 }}\nttlSeconds: 600");
        world.define("pdf", &body).await;
        Self { world, set }
    }

    /// A service whose client follows a URI that could not be worse.
    async fn badly_configured(&self, heard: &Heard) -> LeaseService {
        let uri = format!(
            "{}&readPreference=secondaryPreferred&w=1&journal=false",
            self.set.uri()
        );
        let written = ClientOptions::parse(&uri).await.unwrap();
        let mut options = written.clone();
        apply_time_limits(&mut options);
        // This much is set for everybody's reads and writes; the service does not count on it.
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        assert_eq!(options.selection_criteria, Some(primary));
        let concern = options.write_concern.take().unwrap();
        assert_eq!(
            (concern.w, concern.journal),
            (Some(Acknowledgment::Majority), Some(true))
        );
        options.selection_criteria = written.selection_criteria;
        options.write_concern = written.write_concern;
        options.command_event_handler = Some(heard.handler());
        let client = Client::with_options(options).unwrap();
        service(&client.database(self.world.mongo.name())).await.0
    }
}

/// The commands a client sent, and to which node.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(Document, String)>>>);

impl Heard {
    fn handler(&self) -> EventHandler<CommandEvent> {
        let heard = Arc::clone(&self.0);
        EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event {
                let node = started.connection.address.to_string();
                heard.lock().unwrap().push((started.command, node));
            }
        })
    }

    fn take(&self) -> Vec<(Document, String)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Each command since the last time as its name and the write concern it asked for; all went to `primary`.
    fn concerns(&self, primary: &str) -> Vec<(String, &'static str)> {
        let heard = self.take().into_iter();
        heard
            .map(|(command, node)| {
                assert_eq!(node, primary, "{command}");
                let preference = command.get_document("$readPreference");
                let mode = preference.map(|preference| preference.get_str("mode").unwrap());
                assert_eq!(mode.unwrap_or("primary"), "primary", "{command}");
                (command.keys().next().unwrap().clone(), concern_of(&command))
            })
            .collect()
    }
}

fn concern_of(command: &Document) -> &'static str {
    let majority = doc! { "w": "majority", "j": true, "wtimeout": 4000 };
    match command.get_document("writeConcern") {
        Ok(concern) if *concern == majority => "majority",
        Ok(concern) if *concern == doc! { "w": 1 } => "one node",
        Ok(other) => panic!("{other}"),
        Err(_) => "",
    }
}

fn sent(commands: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    commands
        .iter()
        .map(|(name, concern)| ((*name).to_owned(), *concern))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_uri_that_reads_from_lagging_secondaries_and_trusts_one_node_changes_nothing() {
    let nodes = Nodes::start().await;
    let heard = Heard::default();
    let leases = nodes.badly_configured(&heard).await;
    let port = nodes.set.nodes()[nodes.set.primary().await.unwrap()].port();
    let primary = &format!("127.0.0.1:{port}");
    let warm_up = leases.acquire(request("pdf", "warm-up")).await.unwrap();
    warm_up.release().await.unwrap();
    leases.close().await;
    heard.concerns(primary);

    let lease = leases.acquire(request("pdf", "ada")).await.unwrap();
    // What opens the holder is covered by the booking after it.
    let acquire = [
        ("update", "one node"),
        ("update", "majority"),
        ("update", "majority"),
    ];
    assert_eq!(heard.concerns(primary), sent(&acquire));
    lease.check().await.unwrap();
    lease.update_payload(doc! { "a": 1 }).await.unwrap();
    assert_eq!(heard.concerns(primary), sent(&[("update", "majority"); 2]));
    busy(leases.acquire(request("pdf", "ada")).await);
    let reads = heard.concerns(primary);
    for read in ["find", "aggregate"] {
        assert!(reads.iter().any(|(name, _)| name == read), "{reads:?}");
    }
    lease.release().await.unwrap();
    leases.close().await;
    // A lost unbooking leaves an orphan, which harms nobody.
    let release = [("findAndModify", "majority"), ("update", "one node")];
    assert_eq!(heard.concerns(primary), sent(&release));

    let idle = leases.acquire(request("pdf", "ada")).await.unwrap();
    nodes
        .world
        .age(&token(&idle), Duration::from_secs(700))
        .await;
    heard.take();
    assert_eq!(leases.sweep().await.idle, 1);
    let sweep = heard.concerns(primary);
    assert!(
        sweep.contains(&("findAndModify".to_owned(), "majority")),
        "{sweep:?}"
    );
    leases.reconciler().reconcile(false).await.unwrap();
    leases.views().counters(&Default::default()).await.unwrap();
    assert!(heard.concerns(primary).len() > 3);
    drop(idle);
    leases.close().await;
    lag_over_admits_nobody(&nodes).await;
}

async fn lag_over_admits_nobody(nodes: &Nodes) {
    let world = &nodes.world;
    let leases = nodes.badly_configured(&Heard::default()).await;
    // The other secondary still makes a majority.
    let lagging = nodes.set.secondaries().await[0];
    let lag = nodes.set.lag(lagging).await.unwrap();
    let kept = leases.acquire(request("pdf", "kept")).await.unwrap();
    let inside = Arc::new(AtomicUsize::new(1));
    let workers: Vec<_> = ["ada", "bob", "eve"]
        .map(|who| {
            let (leases, inside) = (leases.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let wait = Duration::from_secs(60);
                    let lease = leases.acquire(waiting("pdf", who, wait)).await.unwrap();
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    assert!(others < CAP, "over the cap");
                    lease.check().await.unwrap();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    lease.release().await.unwrap();
                }
            })
        })
        .into();
    let mut rounds = 0;
    while rounds < 30 || workers.iter().any(|worker| !worker.is_finished()) {
        let swept = leases.sweep().await;
        assert_eq!((swept.idle, swept.stale, swept.failed.len()), (0, 0, 0));
        let report = leases.reconciler().reconcile(false).await.unwrap();
        let freed = report
            .orphans
            .iter()
            .any(|orphan| orphan.token == token(&kept).as_str());
        assert!(!freed, "round {rounds}: {report:?}");
        assert_truly_held(world, &token(&kept)).await;
        assert_within_caps(world).await;
        rounds += 1;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(kept.release().await.unwrap(), Release::Released);
    leases.close().await;
    lag.off().await.unwrap();
    assert_all_comes_free(world, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_killed_takes_no_lease_with_it_and_lets_no_cap_be_passed() {
    let mut nodes = Nodes::start().await;
    let leases = nodes.badly_configured(&Heard::default()).await;
    let kept = leases.acquire(request("pdf", "kept")).await.unwrap();
    let inside = Arc::new(AtomicUsize::new(1));
    let served = Arc::new(AtomicUsize::new(0));
    let enough = Arc::new(AtomicUsize::new(usize::MAX));
    let workers: Vec<_> = ["ada", "bob", "eve"]
        .map(|who| {
            let (leases, inside) = (leases.clone(), Arc::clone(&inside));
            let (served, enough) = (Arc::clone(&served), Arc::clone(&enough));
            tokio::spawn(async move {
                let wait = Duration::from_secs(15);
                while served.load(Ordering::SeqCst) < enough.load(Ordering::SeqCst) {
                    let started = Instant::now();
                    let acquired = leases.acquire(waiting("pdf", who, wait)).await;
                    assert!(started.elapsed() < wait + ACQUIRE_LIMIT);
                    let lease = match acquired {
                        Ok(lease) => lease,
                        Err(AcquireError::Busy(_) | AcquireError::Unavailable(_)) => continue,
                        Err(other) => panic!("{other:?}"),
                    };
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    assert!(others < CAP, "over the cap");
                    // It may be that nobody can be asked; that it is lost must not be.
                    let checked = lease.check().await;
                    assert!(!matches!(checked, Err(lease_shared::CheckError::Lost(_))));
                    inside.fetch_sub(1, Ordering::SeqCst);
                    // One that fails is tried again by the drop.
                    if lease.release().await.is_ok() {
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .into();
    let until = async |count: usize| {
        test_mongo::eventually("leases served", Duration::from_secs(60), async || {
            Ok(served.load(Ordering::SeqCst) >= count)
        })
        .await
        .unwrap();
    };
    until(10).await;
    let primary = nodes.set.primary().await.unwrap();
    nodes.set.kill(primary).unwrap();
    let before = served.load(Ordering::SeqCst);
    enough.store(before + 20, Ordering::SeqCst);
    until(before + 20).await;
    for worker in workers {
        worker.await.unwrap();
    }
    kept.check().await.unwrap();
    assert_truly_held(&nodes.world, &token(&kept)).await;
    assert_within_caps(&nodes.world).await;
    kept.release().await.unwrap();
    leases.close().await;
    assert_all_comes_free(&nodes.world, CAP).await;
}

//! A server of one's own to make trouble on, beside a healthy service that sees what is true.

use std::collections::BTreeSet;
use std::time::Duration;

use lease_shared::{Lease, LeaseService, LeaseToken};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ClientOptions;
use test_mongo::{FailCommand, FailPoint, Mongod, TestMongo, admin_command, eventually};

use crate::support::{World, busy, client, request, service};

/// The `appName` of the services that are to suffer.
pub(crate) const VICTIM: &str = "victim";

/// What an acquire without a wait may take, what a check or a release may take, and a little for a busy machine.
pub(crate) const ACQUIRE_LIMIT: Duration = Duration::from_millis(5000 + SLACK);
pub(crate) const USE_LIMIT: Duration = Duration::from_millis(4500 + SLACK);
const SLACK: u64 = 1000;

/// Dropped in this order: the database goes before its server.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) server: Mongod,
}

impl Stage {
    /// The lease `pdf` with four levels, of which the global one has `cap` slots and each user has one.
    pub(crate) async fn new(cap: usize) -> Self {
        let server = Mongod::start().await.unwrap();
        let mongo = TestMongo::at(&server.uri()).await.unwrap();
        let world = World::on(mongo, |_| {}).await;
        let body = format!(
            "levels: {{ user: 1, project: {cap}, tenant: {cap}, global: {cap} }}\nttlSeconds: 600"
        );
        world.define("pdf", &body).await;
        Self { world, server }
    }

    /// A service that suffers, and knows the definition already.
    pub(crate) async fn victim(&self) -> LeaseService {
        self.victim_with(|_| {}).await
    }

    pub(crate) async fn victim_with(
        &self,
        change: impl FnOnce(&mut ClientOptions),
    ) -> LeaseService {
        let client = client(&self.world.mongo, |options| {
            options.app_name = Some(VICTIM.to_owned());
            change(options);
        });
        let database = client.await.database(self.world.mongo.name());
        let leases = service(&database).await.0;
        let warm_up = leases.acquire(request("pdf", "warm-up")).await.unwrap();
        warm_up.release().await.unwrap();
        leases.close().await;
        leases
    }

    pub(crate) async fn fail(&self, fault: FailCommand) -> FailPoint {
        let fault = fault.app_name(VICTIM);
        fault.set(&self.server.uri()).await.unwrap()
    }

    /// Switches the fault off and gives how many commands faults have hit since the server started.
    pub(crate) async fn heal(&self) -> i64 {
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        let reply = admin_command(&self.server.uri(), off).await.unwrap();
        let count = reply.get_i32("count").map(i64::from);
        count.or_else(|_| reply.get_i64("count")).unwrap()
    }
}

/// The holder of `token` is HELD and stands in the counter of every level it lists, and others are told so.
pub(crate) async fn assert_truly_held(world: &World, token: &LeaseToken) {
    world.leases.check_token(token).await.unwrap();
    let filter = doc! { "_id": token.as_str() };
    let holder = world.holders().find_one(filter).await.unwrap().unwrap();
    assert_eq!(holder.get_str("state").unwrap(), "HELD");
    let levels = texts(&holder, "levels");
    assert_eq!(levels.len(), 4);
    assert_eq!(booked_at(world, token).await, levels);
}

/// The counters that list `token`.
pub(crate) async fn booked_at(world: &World, token: &LeaseToken) -> BTreeSet<String> {
    let counters = world.all_counters().await.into_iter();
    counters
        .filter(|counter| texts(counter, "tokens").contains(token.as_str()))
        .map(|counter| counter.get_str("_id").unwrap().to_owned())
        .collect()
}

fn texts(document: &Document, field: &str) -> BTreeSet<String> {
    let array = document.get_array(field).unwrap().iter();
    array.filter_map(Bson::as_str).map(str::to_owned).collect()
}

/// No counter lists more tokens than its cap.
pub(crate) async fn assert_within_caps(world: &World) {
    for counter in world.all_counters().await {
        let cap = usize::try_from(counter.get_i32("cap").unwrap()).unwrap();
        assert!(
            counter.get_array("tokens").unwrap().len() <= cap,
            "{counter}"
        );
    }
}

/// Waits, with no sweep and no reconcile, until only these are left.
pub(crate) async fn only_these_stay(world: &World, tokens: &[LeaseToken]) {
    let expected: BTreeSet<String> = tokens.iter().map(ToString::to_string).collect();
    let found = std::sync::Mutex::new(String::new());
    let settled = eventually("only these stay", Duration::from_secs(20), async || {
        let holders = world.all_holders().await;
        let left: BTreeSet<String> = holders
            .iter()
            .map(|holder| holder.get_str("_id").unwrap().to_owned())
            .collect();
        let counters = world.all_counters().await;
        let booked: BTreeSet<String> = counters.iter().flat_map(|c| texts(c, "tokens")).collect();
        *found.lock().unwrap() =
            format!("expected {expected:?}\nholders {holders:?}\ncounters {counters:?}");
        Ok(left == expected && booked == expected)
    });
    settled
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", found.lock().unwrap()));
    world.assert_counters_equal_holders().await;
}

/// Lets the time of every holder of `pdf` run out.
pub(crate) async fn age_all(world: &World) {
    let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$lastSeenAt", 700_000] } } };
    world
        .holders()
        .update_many(doc! {}, vec![older])
        .await
        .unwrap();
}

/// After one sweep of aged documents and one reconcile no slot is held by nobody: all of `cap` can be acquired.
pub(crate) async fn assert_all_comes_free(world: &World, cap: usize) {
    age_all(world).await;
    let swept = world.leases.sweep().await;
    assert_eq!(swept.failed, Vec::<String>::new());
    let reconciled = world.leases.reconciler().reconcile(false).await.unwrap();
    assert_eq!(reconciled.drift, []);
    // What was reaped waits for its handler, and books nothing meanwhile.
    let handled = doc! { "state": "REVOKING", "slotReturn": "AT_ONCE" };
    world.holders().delete_many(handled).await.unwrap();
    assert_eq!(world.all_holders().await, Vec::<Document>::new());
    assert_eq!(world.in_use().await.values().sum::<usize>(), 0);
    let mut held: Vec<Lease> = Vec::new();
    for n in 0..cap {
        held.push(
            world
                .leases
                .acquire(request("pdf", &format!("filler-{n}")))
                .await
                .unwrap(),
        );
    }
    busy(world.leases.acquire(request("pdf", "one-too-many")).await);
    for lease in held {
        lease.release().await.unwrap();
    }
    world.leases.close().await;
}

/// An error and all its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

//! The pictures of the documentation.

use std::path::Path;

use lease_shared::{LeaseRef, LeaseRequest, LeaseToken, LeaseType, PodId, Tenancy};
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use test_browser::tools;
use test_mongo::paths;

use super::Desk;
use crate::asking::sweep;
use crate::fleet::{Answer, Fleet, Plug, Pod, PodOptions, token};
use crate::insights::World;

/// With `1`, they replace those in `docs/`.
const TO_DOCS: &str = "SCREENSHOTS_TO_DOCS";

const DEFINITIONS: [(&str, &str); 4] = [
    (
        "latex",
        "resource: tex\nlevels: { user: 3, tenant: 12 }\nttlSeconds: 900",
    ),
    (
        "browser",
        "levels: { project: 3, tenant: 6 }\nttlSeconds: 1800",
    ),
    ("bench", "levels: { user: 2 }\nttlSeconds: 7200"),
    ("gpu", "levels: { tenant: 3 }\nttlSeconds: 14400"),
];

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

/// The lease, project, user, reference, which pod, and for how many seconds it is held and was not used.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    usize,
    i64,
    i64,
);

const HELD: [Row; 19] = [
    (
        "gpu",
        "apollo",
        "margaret",
        "landing-simulation",
        1,
        3 * HOUR + 40 * MINUTE,
        6 * MINUTE,
    ),
    (
        "gpu",
        "apollo",
        "katherine",
        "orbit-fit-7",
        2,
        2 * HOUR + 12 * MINUTE,
        80,
    ),
    (
        "bench",
        "compiler",
        "grace",
        "flow-matic nightly",
        1,
        74 * MINUTE,
        31,
    ),
    (
        "browser",
        "handbook",
        "barbara",
        "link check",
        2,
        66 * MINUTE,
        12,
    ),
    (
        "bench",
        "compiler",
        "john",
        "fortran loops",
        1,
        52 * MINUTE,
        190,
    ),
    ("gpu", "thesis", "alan", "morphogenesis", 2, 41 * MINUTE, 55),
    (
        "browser",
        "handbook",
        "donald",
        "figures of volume 4",
        3,
        38 * MINUTE,
        26 * MINUTE,
    ),
    (
        "bench",
        "thesis",
        "ada",
        "bernoulli numbers",
        1,
        33 * MINUTE,
        17,
    ),
    (
        "browser",
        "handbook",
        "donald",
        "figures of volume 4",
        1,
        24 * MINUTE,
        44,
    ),
    (
        "latex",
        "handbook",
        "donald",
        "volume-4.tex",
        1,
        19 * MINUTE,
        21,
    ),
    (
        "browser",
        "apollo",
        "margaret",
        "mission dashboard",
        2,
        14 * MINUTE,
        9,
    ),
    (
        "latex",
        "thesis",
        "ada",
        "notes-on-the-engine.tex",
        2,
        11 * MINUTE,
        5,
    ),
    (
        "latex",
        "handbook",
        "barbara",
        "clu-manual.tex",
        1,
        8 * MINUTE,
        2,
    ),
    (
        "latex",
        "thesis",
        "alan",
        "chapter-3.tex",
        2,
        4 * MINUTE,
        14,
    ),
    ("latex", "apollo", "margaret", "error-list.tex", 2, 171, 3),
    ("latex", "compiler", "grace", "report-1952.tex", 1, 95, 8),
    (
        "latex",
        "handbook",
        "donald",
        "volume-4-index.tex",
        1,
        48,
        1,
    ),
    (
        "latex",
        "thesis",
        "ada",
        "table-of-operations.tex",
        2,
        21,
        4,
    ),
    ("bench", "apollo", "katherine", "re-entry", 1, 9, 2),
];

struct Tenant<'a> {
    world: &'a World,
    pods: [PodId; 3],
}

impl Tenant<'_> {
    async fn lease(
        &self,
        (lease, project, user, reference, pod, held, unused): Row,
        url: &str,
    ) -> LeaseToken {
        let request = LeaseRequest::builder()
            .lease_type(LeaseType::new("webhook").unwrap())
            .lease(LeaseRef::named(lease).unwrap())
            .tenancy(Tenancy::new("acme", project, user).unwrap())
            .holder_ref(reference)
            .maybe_pod(pod.checked_sub(1).map(|at| self.pods[at].clone()))
            .payload(doc! { "url": url })
            .build();
        let lease = token(self.world.fleet.leases.acquire(request).await.unwrap());
        let ago = |seconds: i64| doc! { "$subtract": ["$$NOW", 1000 * seconds] };
        let aged =
            doc! { "createdAt": ago(held), "acquiredAt": ago(held), "lastSeenAt": ago(unused) };
        self.set(&lease, aged).await;
        lease
    }

    async fn set(&self, lease: &LeaseToken, fields: Document) {
        let filter = doc! { "_id": lease.as_str() };
        let set = vec![doc! { "$set": fields }];
        let holders = self.world.fleet.holders();
        holders.update_one(filter, set).await.unwrap();
    }

    /// As if it had been revoked, and tried, that long ago.
    async fn revoked(&self, lease: &LeaseToken, by: &str, note: &str, ago: i64, more: Document) {
        self.world.fleet.revoke(lease).await;
        let at = doc! { "$subtract": ["$$NOW", 1000 * ago] };
        let mut fields = doc! { "revocation.by": by, "revocation.note": note, "revocation.at": at };
        fields.extend(more);
        self.set(lease, fields).await;
    }
}

async fn seed(world: &World, plug: &Plug, other: &Pod) {
    for (name, body) in DEFINITIONS {
        world.fleet.define(name, body).await;
    }
    let dead = PodId::new("render-7").unwrap();
    let pods = [world.pod.id.clone(), other.id.clone(), dead];
    let tenant = Tenant { world, pods };
    for row in HELD {
        tenant.lease(row, "http://127.0.0.1:9/").await;
    }
    // Its document is lost, and its slot still taken.
    let lost = (
        "browser",
        "apollo",
        "katherine",
        "trajectory plots",
        1,
        HOUR,
        0,
    );
    let lost = tenant.lease(lost, "http://127.0.0.1:9/").await;
    world
        .fleet
        .holders()
        .delete_one(doc! { "_id": lost.as_str() })
        .await
        .unwrap();
    let counters: Collection<Document> = world
        .fleet
        .mongo
        .database()
        .collection("resource_lease_counters");
    let lowered = doc! { "resource": "gpu", "level": "tenant" };
    counters
        .update_one(lowered, doc! { "$set": { "cap": 2 } })
        .await
        .unwrap();
    let day = doc! { "updatedAt": { "$subtract": ["$updatedAt", 37 * MINUTE * 1000] } };
    let quiet = doc! { "resource": { "$in": ["gpu", "bench"] } };
    counters
        .update_many(quiet, vec![doc! { "$set": day }])
        .await
        .unwrap();

    let then = |seconds: i64| doc! { "$add": ["$$NOW", 1000 * seconds] };
    let failed = (
        "latex",
        "compiler",
        "john",
        "backus-report.tex",
        1,
        2 * HOUR,
        100,
    );
    let failed = tenant.lease(failed, "http://127.0.0.1:9/").await;
    let refused = doc! {
        "revocation.failed": true, "revocation.attempts": 8, "revocation.nextTryAt": then(540),
        "revocation.lastError": "POST http://tex-2.acme.example/jobs/4711/stop was answered with 500 Internal Server Error",
    };
    tenant
        .revoked(
            &failed,
            "ada",
            "blocks the release build",
            52 * MINUTE,
            refused,
        )
        .await;
    let retried = (
        "bench",
        "handbook",
        "barbara",
        "iterators",
        1,
        95 * MINUTE,
        70,
    );
    let retried = tenant.lease(retried, "http://127.0.0.1:9/").await;
    let timed_out = doc! {
        "revocation.attempts": 2, "revocation.nextTryAt": then(47),
        "revocation.lastError": "POST http://bench-1.acme.example/off was not answered within 10 s",
    };
    tenant
        .revoked(
            &retried,
            "ada",
            "the bench is being moved",
            4 * MINUTE,
            timed_out,
        )
        .await;
    let ending = (
        "bench",
        "thesis",
        "alan",
        "bombe replica",
        0,
        55 * MINUTE,
        20,
    );
    let ending = tenant.lease(ending, "http://127.0.0.1:9/").await;
    tenant
        .revoked(&ending, "grace", "forgotten over lunch", 100, doc! {})
        .await;
    let running = (
        "bench",
        "apollo",
        "margaret",
        "priority display",
        1,
        20 * MINUTE,
        9,
    );
    let running = tenant.lease(running, &plug.url("/off")).await;
    tenant
        .revoked(&running, "ada", "needed for the demo", 6, doc! {})
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_show_a_tenant_as_it_may_be() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let patient = ["--reap-interval=1h", "--stale=1m"];
    let world = World::on_pod(Fleet::new().await, "build-1", &patient).await;
    let other = world
        .fleet
        .pod_with("build-2", PodOptions::with(&patient))
        .await;
    let plug = Plug::new(Answer::Hang).await;
    sweep(&world.pod).await;
    seed(&world, &plug, &other).await;
    let desk = Desk::of_ada(&tools, &world).await;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let to_docs = std::env::var_os(TO_DOCS).is_some_and(|said| said == "1");
    for (place, name, words) in [
        ("", "overview", "over cap by 1"),
        ("/holders", "holders", "showing 23 of 23 leases"),
        ("/counters", "counters", "drift +1"),
        ("/revocations", "revocations", "500 Internal Server Error"),
    ] {
        desk.watch(&format!("/insights/acme{place}")).await;
        desk.until_text("main", words).await.unwrap();
        let file = format!("insights-{name}.png");
        let picture = paths::target().join("screenshots").join(&file);
        desk.screenshot_to(&picture).await.unwrap();
        if to_docs {
            desk.screenshot_to(&docs.join(&file)).await.unwrap();
        }
    }
    desk.is_quiet().await;
}

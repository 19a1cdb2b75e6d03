//! The bundled caps, counted at the service itself.

use std::sync::Arc;

use lease_shared::definition::DocumentAddress;

use super::service::PDF;
use super::{ADA, Whose, compile, document, request, zip};
use crate::asking::Reply;
use crate::fleet::Fleet;

const TENANTS: [&str; 4] = ["t1", "t2", "t3", "t4"];
const PROJECTS: [&str; 3] = ["p1", "p2", "p3"];

#[tokio::test(flavor = "multi_thread")]
async fn twelve_at_once_are_never_more_than_the_caps_and_as_many() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    // As bundled, but for the wait: all get their turn.
    fleet.define("tex", "waitMs: 120000").await;
    let pods = Arc::new([fleet.pod("a").await, fleet.pod("b").await]);
    let mut compiling = tokio::task::JoinSet::new();
    for (number, tenant) in TENANTS.into_iter().enumerate() {
        for project in PROJECTS {
            let pods = Arc::clone(&pods);
            compiling.spawn(async move {
                let whose = Whose {
                    tenant,
                    project,
                    user: "ada",
                };
                let main = format!("{tenant}-{project}.tex");
                let zip = zip(&[(&main, &document("hi"))]);
                compile(&pods[number % 2], whose, &main, zip).await
            });
        }
    }
    // Six are reached, and then one ends after the other.
    service
        .until("six run", |service| service.running() == 6)
        .await;
    for submitted in 6..=12 {
        service
            .until("the next has begun", |service| {
                service.submitted() >= submitted
            })
            .await;
        service.end_one("completed");
    }
    for _ in 0..5 {
        service
            .until("it runs", |service| service.running() > 0)
            .await;
        service.end_one("completed");
    }
    while let Some(compiled) = compiling.join_next().await {
        let compiled = compiled.unwrap();
        assert!(compiled.outcome.success, "{compiled:?}");
        assert_eq!(compiled.pdf, PDF);
    }
    assert_eq!(service.most(""), 6);
    for tenant in TENANTS {
        assert!(service.most(&format!("{tenant}-")) <= 3);
        for project in PROJECTS {
            assert_eq!(service.most(&format!("{tenant}-{project}.tex")), 1);
        }
    }
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_of_a_project_is_busy_and_says_with_whom() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    fleet.define("tex", "waitMs: 0").await;
    let pod = Arc::new(fleet.pod("a").await);
    let first = tokio::spawn({
        let pod = Arc::clone(&pod);
        async move { compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")])).await }
    });
    service
        .until("it runs", |service| service.running() == 1)
        .await;
    let second = compile(&pod, ADA, "b.tex", zip(&[("b.tex", "x")])).await;
    second.failed("LEASE_BUSY", "1 of 1 in use at level project");
    second.failed("LEASE_BUSY", "tex a.tex");
    // Another project of the tenant does not wait. One that lifts its own cap has its own more, and no more than that.
    let address = DocumentAddress::lease("acme", "paper", &"tex".parse().unwrap());
    let lifted = "name: tex\nlevels: { project: 9, tenant: 99, global: 99 }\n";
    fleet
        .leases
        .definitions()
        .put(&address.unwrap(), lifted)
        .await
        .unwrap();
    let paper = Whose {
        project: "paper",
        ..ADA
    };
    let mut more = tokio::task::JoinSet::new();
    for name in ["c.tex", "d.tex"] {
        let pod = Arc::clone(&pod);
        more.spawn(async move { compile(&pod, paper, name, zip(&[(name, "x")])).await });
    }
    service
        .until("three of the tenant run", |service| service.running() == 3)
        .await;
    let fourth = compile(&pod, paper, "e.tex", zip(&[("e.tex", "x")])).await;
    fourth.failed("LEASE_BUSY", "3 of 3 in use at level tenant");
    for _ in 0..3 {
        service.end_one("completed");
    }
    assert!(first.await.unwrap().outcome.success);
    while let Some(compiled) = more.join_next().await {
        assert!(compiled.unwrap().outcome.success);
    }
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_lease_nothing_is_limited() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    fleet.settings("acme", "thesis", "tex.lease: none").await;
    let pod = Arc::new(fleet.pod("a").await);
    let mut compiling = tokio::task::JoinSet::new();
    for name in ["a.tex", "b.tex"] {
        let pod = Arc::clone(&pod);
        compiling.spawn(async move { compile(&pod, ADA, name, zip(&[(name, "x")])).await });
    }
    service
        .until("both run", |service| service.running() == 2)
        .await;
    assert_eq!(fleet.booked().await, 0);
    service.end_one("completed");
    service.end_one("completed");
    while let Some(compiled) = compiling.join_next().await {
        assert!(compiled.unwrap().outcome.success);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn project_lifts_neither_the_tenants_nor_the_global_cap() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    fleet.define("tex", "waitMs: 0").await;
    let pod = Arc::new(fleet.pod("a").await);
    let lifted = "name: tex\nlevels: { project: 9, tenant: 99, global: 99 }\n";
    let mut running = tokio::task::JoinSet::new();
    for tenant in ["t1", "t2", "t3"] {
        let address = DocumentAddress::lease(tenant, "thesis", &"tex".parse().unwrap());
        let definitions = fleet.leases.definitions();
        definitions.put(&address.unwrap(), lifted).await.unwrap();
        if tenant == "t3" {
            break;
        }
        for number in 0..3 {
            let pod = Arc::clone(&pod);
            let main = format!("{tenant}-{number}.tex");
            let whose = Whose { tenant, ..ADA };
            running.spawn(async move { compile(&pod, whose, &main, zip(&[(&main, "x")])).await });
        }
    }
    service
        .until("six run", |service| service.running() == 6)
        .await;
    for (tenant, full) in [
        ("t1", "3 of 3 in use at level tenant"),
        ("t3", "6 of 6 in use at level global"),
    ] {
        let more = compile(
            &pod,
            Whose { tenant, ..ADA },
            "x.tex",
            zip(&[("x.tex", "x")]),
        )
        .await;
        more.failed("LEASE_BUSY", full);
    }
    for _ in 0..6 {
        service.end_one("completed");
    }
    while let Some(compiled) = running.join_next().await {
        assert!(compiled.unwrap().outcome.success);
    }
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compilation_outlives_a_time_to_live_that_is_shorter_than_a_poll() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    fleet.define("tex", "ttlSeconds: 1").await;
    let text = format!(
        "tex.executor: rbehzadan\ntex.rbehzadan.url: {}\ntex.rbehzadan.pollIntervalSeconds: 3\n",
        service.url()
    );
    fleet.settings("acme", "_tenant", &text).await;
    let pod = fleet.pod("a").await;
    let ending = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        service.end_one("completed");
    };
    let (compiled, ()) = tokio::join!(compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")])), ending);
    assert!(compiled.outcome.success, "{compiled:?}");
    assert!(
        compiled.outcome.elapsed_ms > 2500,
        "a poll takes three times as long as the lease lives"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_takes_no_more_documents_than_it_has_room_for() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    fleet.settings("acme", "thesis", "tex.lease: none").await;
    let pod = Arc::new(fleet.pod("a").await);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..16 {
        let pod = Arc::clone(&pod);
        let main = format!("a{number}.tex");
        running.spawn(async move { compile(&pod, ADA, &main, zip(&[(&main, "x")])).await });
    }
    service
        .until("all run", |service| service.running() == 16)
        .await;
    let reply = request(&pod, ADA, "b.tex", zip(&[("b.tex", "x")]))
        .send()
        .await;
    let reply = Reply::of(reply.unwrap()).await;
    assert_eq!(reply.refusal(), (503, "TOO_MANY".to_owned()));
    for _ in 0..16 {
        service.end_one("completed");
    }
    while let Some(compiled) = running.join_next().await {
        assert!(compiled.unwrap().outcome.success);
    }
}

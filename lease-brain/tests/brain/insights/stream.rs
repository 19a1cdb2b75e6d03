//! What an open page is sent while leases come and go.

use std::time::Duration;

use mongodb::bson::doc;
use reqwest::{Method, Response};
use rustix::process::Signal;
use serde_json::{Value, json};
use test_mongo::{Mongod, TestMongo, eventually};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use super::World;
use super::tokens::{now, token};
use crate::fleet::{Fleet, SOON};

/// The events of one page.
pub(super) struct Events {
    answer: Response,
    read: String,
}

impl Events {
    pub(super) async fn of(world: &World, place: &str, token: &str) -> Self {
        let call = world.page(Method::GET, &format!("/insights/acme/live/{place}"), token);
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self {
            answer,
            read: String::new(),
        }
    }

    /// The next event and what it says; nothing, if there are no more.
    pub(super) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().trim().to_owned()
                };
                let said = serde_json::from_str(&field("data:")).unwrap();
                let event = (field("event:"), said);
                self.read = rest.to_owned();
                return Some(event);
            }
            let chunk = tokio::time::timeout(SOON, self.answer.chunk()).await;
            let chunk = chunk.expect("an event in time").ok()??;
            self.read.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event that is more than a sign of life.
    async fn update(&mut self) -> Value {
        loop {
            let (kind, said) = self.next().await.expect("an event");
            if kind != "beat" {
                assert_eq!(kind, "update", "{said}");
                return said;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_page_is_sent_what_changes_and_nothing_else() {
    let world = World::with_secret(&[]).await;
    let admin = token(json!({}));
    let ada = world.odd_lease("acme", "ada", "x").await;
    let mut events = Events::of(&world, "holders?sort=oldest", &admin).await;
    let first = events.update().await;
    let rows = &first["lists"]["rows"];
    assert_eq!(rows["order"], json!([ada.as_str()]));
    assert!(rows["items"][ada.as_str()].is_string(), "{first}");
    assert!(first["now"].is_string(), "{first}");

    world.odd_lease("other", "eve", "x").await;
    let (kind, beat) = events.next().await.unwrap();
    assert_eq!(kind, "beat", "{beat}");
    assert_eq!(beat.get("lists"), None, "{beat}");

    let grace = world.odd_lease("acme", "grace", "x").await;
    let second = events.update().await;
    let rows = &second["lists"]["rows"];
    assert_eq!(rows["order"], json!([ada.as_str(), grace.as_str()]));
    assert!(rows["items"][grace.as_str()].is_string(), "{second}");
    assert!(rows["items"].get(ada.as_str()).is_none(), "{second}");

    let detail = format!("holders/{ada}");
    let mut one = Events::of(&world, &detail, &admin).await;
    assert!(one.update().await["parts"]["lease"].is_string());
    world
        .fleet
        .holders()
        .delete_one(mongodb::bson::doc! { "_id": ada.as_str() })
        .await
        .unwrap();
    while let Some((kind, said)) = one.next().await {
        if kind == "gone" {
            return;
        }
        assert_ne!(kind, "down", "{said}");
    }
    panic!("the page was not told that its lease is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_ends_with_the_sign_in() {
    let world = World::with_secret(&[]).await;
    // Over, but for what is forgiven for clocks that differ.
    let short = token(json!({ "exp": now() - 8 }));
    let mut events = Events::of(&world, "overview", &short).await;
    let mut last = String::new();
    while let Some((kind, _)) = events.next().await {
        last = kind;
    }
    assert_eq!(last, "expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_holds_up_no_drain() {
    let mut world = World::with_secret(&["--drain=20s"]).await;
    let admin = token(json!({}));
    let mut events = Events::of(&world, "counters", &admin).await;
    events.update().await;
    world.pod.signal(Signal::TERM);
    while events.next().await.is_some() {}
    world.pod.ended(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_that_takes_nothing_holds_up_no_drain() {
    let mut world = World::with_secret(&["--drain=60s"]).await;
    // More than the buffers between two processes take.
    let keys = (0..20_000).map(|n| (format!("{n:0100}"), mongodb::bson::Bson::Int32(1)));
    let payload: mongodb::bson::Document = keys.collect();
    for user in ["ada", "bob", "cyd", "dan", "eve"] {
        let lease = world.held("acme", user).await;
        let its = doc! { "_id": lease.as_str() };
        let large = doc! { "$set": { "payload": &payload } };
        world.fleet.holders().update_one(its, large).await.unwrap();
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = world.pod.bound().parse().unwrap();
    let mut unread = socket.connect(address).await.unwrap();
    let request = format!(
        "GET /api/insights/acme/holders HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        token(json!({}))
    );
    unread.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(
        unread.peek(&mut [0]).await.unwrap(),
        1,
        "it is being answered"
    );
    world.pod.signal(Signal::TERM);
    world.pod.ended(Duration::from_secs(30)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_pages_are_kept_up_to_date() {
    let world = World::with_secret(&[]).await;
    let admin = token(json!({}));
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(Events::of(&world, "overview", &admin).await);
    }
    let more = world.get("/insights/acme/live/overview", &admin).await;
    assert_eq!(more.status, 503, "{more:?}");
    assert!(more.text.contains("too many pages"), "{more:?}");
    let page = world.get("/insights/acme", &admin).await;
    assert_eq!(page.status, 200, "{page:?}");
    // Another tenant's pages have places of their own.
    let other = token(json!({ "tenant": "other" }));
    let theirs = world.page(Method::GET, "/insights/other/live/overview", &other);
    assert_eq!(theirs.send().await.unwrap().status(), 200);
    open.pop();
    eventually("a place is free again", SOON, async || {
        let call = world.page(Method::GET, "/insights/acme/live/overview", &admin);
        Ok(call.send().await?.status() == 200)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn page_and_stream_say_that_the_store_is_down_and_recover() {
    let server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let patient = ["--heartbeat=10s", "--stale=1m", "--reap-interval=1h"];
    let world = World::on(fleet, &patient).await;
    let admin = token(json!({}));
    let mut events = Events::of(&world, "holders", &admin).await;
    events.update().await;
    server.pause().unwrap();
    let reply = world.get("/insights/acme/holders", &admin).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(
        reply.text.contains("acquires are failing closed"),
        "{reply:?}"
    );
    let until = async |events: &mut Events, wanted: &str| {
        while events.next().await.expect("an event").0 != wanted {}
    };
    until(&mut events, "down").await;
    server.resume().unwrap();
    until(&mut events, "beat").await;
}

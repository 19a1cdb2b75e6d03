//! What the periodic round takes back, and what it leaves alone.

mod broken;
mod cost;
mod idle;
mod majority;
mod mass;
mod outage;
mod pods;

use mongodb::bson::doc;
use test_mongo::eventually;

use crate::asking::sweep;
use crate::fleet::{Fleet, Pod, SOON, token};

/// Waits until the pod takes others for dead at once: it has been in touch with the store for long enough.
pub(crate) async fn in_touch(fleet: &Fleet, pod: &Pod) {
    let probe = token(
        fleet
            .lease("probe", Some(pod), true, "http://127.0.0.1:1")
            .await,
    );
    let nobody = doc! { "$set": { "pod": "nobody" } };
    let its = doc! { "_id": probe.as_str() };
    fleet.holders().update_one(its, nobody).await.unwrap();
    eventually("it believes that somebody is dead", SOON, || async {
        sweep(pod).await;
        // Its slot is the last that goes, so nothing is left of the probe.
        let booked = doc! { "tokens": probe.as_str() };
        Ok(fleet.counters().find_one(booked).await?.is_none())
    })
    .await
    .unwrap();
}

//! Contenders who acquire, use and release, and write down for an observer when each is inside.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lease_shared::{AcquireError, Lease, Release};
use mongodb::bson::{Document, doc};

use crate::protocol::{Answer, Contest, Want};
use crate::stage::{Stage, failed, request};

/// Until all rounds are done; the first failure ends it.
pub(crate) async fn run(stage: &Arc<Stage>, contest: Contest) -> Answer {
    let journal = OpenOptions::new()
        .append(true)
        .open(&contest.journal)
        .expect("a journal");
    let journal = Arc::new(journal);
    let left = Arc::new(AtomicUsize::new(contest.rounds));
    let contest = Arc::new(contest);
    let contenders: Vec<_> = (0..contest.contenders)
        .map(|n| {
            let want = Want {
                lease: contest.lease.clone(),
                kind: "soft".to_owned(),
                tenancy: contest.tenancies[n % contest.tenancies.len()].clone(),
                wait_ms: 120_000,
            };
            let (stage, journal) = (Arc::clone(stage), Arc::clone(&journal));
            let (contest, left) = (Arc::clone(&contest), Arc::clone(&left));
            tokio::spawn(async move {
                let more = |left: usize| left.checked_sub(1);
                let take = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
                while take().is_ok() {
                    round(&stage, &want, &journal, &contest).await?;
                }
                Ok(())
            })
        })
        .collect();
    for contender in contenders {
        if let Err(failed) = contender.await.expect("a contender") {
            return failed;
        }
    }
    stage.leases.close().await;
    Answer::Times(contest.rounds)
}

/// Inside is who has been granted the lease and has not begun to release it.
async fn round(
    stage: &Stage,
    want: &Want,
    journal: &File,
    contest: &Contest,
) -> Result<(), Answer> {
    let lease = loop {
        match stage.leases.acquire(request(want, None)).await {
            // The store is too busy to be certain in time. What the attempt left is undone; the next may do better.
            Err(AcquireError::Unavailable(_)) => {}
            other => break other.map_err(failed)?,
        }
    };
    note(journal, '+', want);
    lease.check().await.map_err(failed)?;
    while contest.meet > 0 && most_inside(&contest.journal) < contest.meet {
        lease.check().await.map_err(failed)?;
    }
    if contest.look_in > 0 {
        look(stage, &lease, contest.look_in).await?;
    }
    note(journal, '-', want);
    match lease.release().await.map_err(failed)? {
        Release::Released => Ok(()),
        other => Err(Answer::Failed(format!("release said {other:?}"))),
    }
}

/// A lease that is held stands in all its counters.
async fn look(stage: &Stage, lease: &Lease, in_counters: u64) -> Result<(), Answer> {
    let token = lease.token().expect("not a NOOP").as_str();
    let counters = stage
        .database
        .collection::<Document>("resource_lease_counters");
    let found = counters.count_documents(doc! { "tokens": token }).await;
    match found.map_err(failed)? {
        found if found == in_counters => Ok(()),
        found => Err(Answer::Failed(format!(
            "a live lease stands in {found} of its {in_counters} counters"
        ))),
    }
}

/// One short line in one write to a file opened for appending: the kernel keeps the lines of all processes apart and in
/// order.
fn note(mut journal: &File, sign: char, want: &Want) {
    let [tenant, project, user] = &want.tenancy;
    let line = format!("{sign} {tenant} {project} {user}\n");
    journal.write_all(line.as_bytes()).expect("a journal");
}

/// How many have been inside together until now. The journal is short while that matters.
fn most_inside(journal: &Path) -> usize {
    let text = std::fs::read_to_string(journal).expect("a journal");
    let (mut inside, mut most) = (0_usize, 0);
    for line in text.lines() {
        match line.starts_with('+') {
            true => inside += 1,
            false => inside -= 1,
        }
        most = most.max(inside);
    }
    most
}

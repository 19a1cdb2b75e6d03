use lease_shared::{LeaseType, RevocationReason, Tenancy};
use mongodb::bson::Document;

use super::*;

fn revocation(token: &LeaseToken) -> Revocation {
    Revocation {
        token: token.clone(),
        lease_type: LeaseType::new("mcp").unwrap(),
        reason: RevocationReason::Revoke,
        tenancy: Tenancy::new("acme", "thesis", "ada").unwrap(),
        holder_ref: String::new(),
        pod: None,
        pod_bound: false,
        payload: Document::new(),
    }
}

fn token(digit: &str) -> LeaseToken {
    LeaseToken::new(digit.repeat(32)).unwrap()
}

#[tokio::test]
async fn revocation_reaches_its_own_session_and_waits_for_its_end() {
    let tracker = Tracker::default();
    let (one, other) = (token("1"), token("2"));
    let mine = tracker.register(&one);
    assert_eq!(tracker.end(&revocation(&other)).await, None);
    let ending = tokio::spawn({
        let (tracker, one) = (tracker.clone(), one.clone());
        async move { tracker.end(&revocation(&one)).await }
    });
    let lost = mine.revoked().await;
    assert!(
        lost.to_string().contains("an operator revoked it"),
        "{lost}"
    );
    assert!(!ending.is_finished());
    mine.ended(SessionEnd::Unknown("no answer".to_owned()));
    let end = SessionEnd::Unknown("no answer".to_owned());
    assert_eq!(ending.await.unwrap(), Some(Ended::Closed(end)));
}

#[tokio::test]
async fn session_that_has_ended_leaves_nothing() {
    let tracker = Tracker::default();
    let one = token("1");
    drop(tracker.register(&one));
    assert_eq!(tracker.end(&revocation(&one)).await, None);
    assert!(tracker.lock().is_empty());
}

#[tokio::test]
async fn guard_that_is_dropped_without_a_word_ends_the_wait() {
    let tracker = Tracker::default();
    let one = token("1");
    let mine = tracker.register(&one);
    let ending = tokio::spawn({
        let (tracker, one) = (tracker.clone(), one.clone());
        async move { tracker.end(&revocation(&one)).await }
    });
    mine.revoked().await;
    drop(mine);
    assert_eq!(ending.await.unwrap(), Some(Ended::Dropped));
}

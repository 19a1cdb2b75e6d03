//! REVOKING documents that cannot be read.

use mongodb::bson::{Bson, DateTime, Document, doc};
use test_mongo::eventually;

use crate::fleet::{Answer, Fleet, Plug, SOON, token};

#[tokio::test(flavor = "multi_thread")]
async fn broken_document_is_parked_with_its_error_and_the_others_go_on() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let breaks: Vec<Document> = vec![
        doc! { "$unset": { "revocation": "" } },
        doc! { "$set": { "revocation": "revoke" } },
        doc! { "$set": { "revocation": [1, 2] } },
        doc! { "$unset": { "revocation.reason": "" } },
        doc! { "$set": { "revocation.reason": "whim" } },
        doc! { "$set": { "revocation.at": "yesterday" } },
        doc! { "$set": { "revocation.attempts": "three" , "tenantId": 7 } },
        doc! { "$set": { "revocation.nextTryAt": "soon", "payload": 7 } },
        doc! { "$unset": { "revocation.nextTryAt": "", "podBound": "" } },
        doc! { "$set": { "levels": Bson::Null } },
        doc! { "$set": { "revocation.claim": 7, "tenantId": "" } },
    ];
    let mut broken = Vec::new();
    for (user, breaks) in breaks.iter().enumerate() {
        let payload = doc! { "url": plug.url("/broken") };
        let user = format!("u{user}");
        let lease = fleet.lease_of("webhook", &user, None, false, payload).await;
        fleet.revoke(&lease).await;
        let due = doc! { "$set": { "revocation.nextTryAt": DateTime::from_millis(0) } };
        for change in [&due, breaks] {
            let id = doc! { "_id": lease.as_str() };
            let changed = fleet
                .holders()
                .update_one(id, change.clone())
                .await
                .unwrap();
            assert_eq!(changed.matched_count, 1);
        }
        broken.push((lease, breaks));
    }
    let pod = fleet.pod("a").await;
    let good = token(
        fleet
            .lease("ada", Some(&pod), true, &plug.url("/good"))
            .await,
    );
    fleet.revoke(&good).await;
    fleet.gone_alone(&good).await;
    for (lease, breaks) in &broken {
        let parked = async || {
            let holder = fleet.holder(lease).await?;
            let revocation = holder.get_document("revocation").ok()?.clone();
            revocation.get_bool("failed").ok()?.then_some(revocation)
        };
        eventually(&breaks.to_string(), SOON, async || {
            Ok(parked().await.is_some())
        })
        .await
        .unwrap();
        let revocation = parked().await.unwrap();
        assert!(!revocation.get_str("lastError").unwrap().is_empty());
        let next = revocation.get_datetime("nextTryAt").unwrap();
        assert!(
            next.timestamp_millis() > fleet.now().await + 3_000_000,
            "{breaks}"
        );
        assert_eq!(revocation.get_i64("attempts").unwrap(), 1, "{breaks}");
    }
    assert_eq!(plug.calls("/broken").begun, 0);
    assert_eq!(plug.calls("/good").begun, 1);
}

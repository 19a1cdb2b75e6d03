//! A clean slate for one crash, and the looks at it afterwards. Caps: user 1, project 2, tenant 3, global 4.

use std::time::Duration;

use lease_shared::{Lease, LeaseRef, LeaseRequest, Level, Tenancy};
use mongodb::bson::{Bson, doc};

use crate::cleanup::{cleaner, types};
use crate::support::{World, busy, in_revocation, lease_type, pod_id, token};

pub(crate) struct Scene<'a> {
    pub(crate) world: &'a World,
}

/// Longer ago than any time to live here.
const LONG_AGO: i64 = 90_000;

/// Longer than any claim here, and than any pause before another try.
const CLEANUP_OVER: Duration = Duration::from_secs(90);

impl<'a> Scene<'a> {
    pub(crate) async fn clean(world: &'a World) -> Self {
        for collection in [world.holders(), world.counters()] {
            collection.delete_many(doc! {}).await.unwrap();
        }
        Self { world }
    }

    /// A lease in a pod that lives by its token.
    pub(crate) async fn hold_in(&self, pod: &str, kind: &str, user: &str) -> String {
        let request = LeaseRequest::builder()
            .lease_type(lease_type(kind))
            .lease(LeaseRef::named("pdf").unwrap())
            .tenancy(Tenancy::new("acme", "thesis", user).unwrap())
            .pod(pod_id(pod))
            .build();
        let lease = self.world.leases.acquire(request).await.unwrap();
        lease.into_token().unwrap().to_string()
    }

    /// Turns a holder into one that has just been revoked.
    pub(crate) async fn revoked(&self, token: &str) {
        let token = token.parse().unwrap();
        self.world.set(&token, in_revocation("idle")).await;
    }

    /// A lease of `tenant/project/user` that lives by its token.
    pub(crate) async fn hold(&self, kind: &str, whose: &str) -> String {
        let lease = self.acquire(kind, whose, Duration::ZERO).await;
        lease.unwrap().into_token().unwrap().to_string()
    }

    async fn acquire(
        &self,
        kind: &str,
        whose: &str,
        wait: Duration,
    ) -> Result<Lease, lease_shared::AcquireError> {
        let parts: Vec<&str> = whose.split('/').collect();
        let request = LeaseRequest::builder()
            .lease_type(lease_type(kind))
            .lease(LeaseRef::named("pdf").unwrap())
            .tenancy(Tenancy::new(parts[0], parts[1], parts[2]).unwrap())
            .wait(wait)
            .build();
        self.world.leases.acquire(request).await
    }

    /// Fills the counter at which `acme/thesis/ada` is to be refused, and none of the narrower ones.
    pub(crate) async fn fill(&self, level: Level) -> Vec<String> {
        let whose: &[&str] = match level {
            Level::User => &["acme/other/ada"],
            Level::Project => &["acme/thesis/bob", "acme/thesis/cid"],
            Level::Tenant => &["acme/p/bob", "acme/p/cid", "acme/q/dan"],
            Level::Global => &["a/p/a", "a/p/b", "a/q/c", "b/p/d"],
        };
        let mut tokens = Vec::new();
        for whose in whose {
            tokens.push(self.hold("soft", whose).await);
        }
        tokens
    }

    /// Makes one holder look long unused.
    pub(crate) async fn age(&self, token: &str) {
        self.age_where(doc! { "_id": token }).await;
    }

    pub(crate) async fn age_all_but(&self, tokens: &[String]) {
        self.age_where(doc! { "_id": { "$nin": tokens } }).await;
    }

    async fn age_where(&self, filter: mongodb::bson::Document) {
        let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$$NOW", LONG_AGO] } } };
        let holders = self.world.holders();
        holders.update_many(filter, vec![older]).await.unwrap();
    }

    /// Turns a holder into one whose acquire never came to its end.
    pub(crate) async fn never_finished(&self, token: &str) {
        let pending = doc! { "$set": { "state": "PENDING" }, "$unset": { "acquiredAt": 1 } };
        let holders = self.world.holders();
        holders
            .update_one(doc! { "_id": token }, pending)
            .await
            .unwrap();
    }

    /// Turns a token into an orphan.
    pub(crate) async fn forget(&self, token: &str) {
        let holders = self.world.holders();
        holders.delete_one(doc! { "_id": token }).await.unwrap();
    }

    pub(crate) async fn release(&self, tokens: &[String]) {
        for token in tokens {
            let token = token.parse().unwrap();
            self.world.leases.release_token(&token).await.unwrap();
        }
        self.world.leases.close().await;
    }

    /// Is there anything whose slot comes back only after a clean-up that nobody does here?
    pub(crate) async fn waits_for_a_handler(&self) -> bool {
        let exclusive = doc! { "type": "hard" };
        let holders = self.world.holders();
        holders.count_documents(exclusive).await.unwrap() > 0
    }

    /// Another process with handlers does what is left, once the claim of the one that died has run out.
    pub(crate) async fn finish_clean_ups(&self, point: usize) {
        for holder in self.world.all_holders().await {
            if holder
                .get_str("state")
                .is_ok_and(|state| state == "REVOKING")
            {
                let token = holder.get_str("_id").unwrap().parse().unwrap();
                self.world.age_cleanup(&token, CLEANUP_OVER).await;
            }
        }
        let cleanups = self.world.leases.cleanups();
        for due in cleanups.due(&types(), 100).await.unwrap() {
            let claimed = cleanups.claim(&due.token, &cleaner()).await.unwrap();
            let cleanup = claimed.unwrap_or_else(|| panic!("at point {point}: {due:?}"));
            assert!(cleanup.finish().await.unwrap(), "at point {point}: {due:?}");
        }
    }

    pub(crate) async fn assert_only_these_are_left(&self, bystanders: &[String], point: usize) {
        let others = doc! { "_id": { "$nin": bystanders } };
        let left = self.world.holders().find_one(others).await.unwrap();
        assert_eq!(left, None, "at point {point}");
    }

    /// Besides the bystanders, only clean-ups are left that a process with handlers does.
    pub(crate) async fn assert_only_handlers_are_awaited(&self, bystanders: &[String]) {
        let handled = doc! { "state": "REVOKING", "type": { "$ne": "command" } };
        let others = doc! { "_id": { "$nin": bystanders }, "$nor": [handled] };
        let holders = self.world.holders();
        assert_eq!(holders.find_one(others).await.unwrap(), None);
    }

    pub(crate) async fn assert_none_over_cap(&self, point: usize) {
        for counter in self.world.all_counters().await {
            let tokens = counter.get_array("tokens").unwrap().len();
            let number = |field| counter.get(field).and_then(Bson::as_i32).unwrap() as usize;
            assert!(
                tokens <= number("cap") && tokens == number("count"),
                "at point {point}: {counter}"
            );
        }
    }

    /// Four acquirers fill every counter of `acme/thesis/ada` to its cap, and a fifth is refused.
    pub(crate) async fn assert_all_slots_can_be_had(&self, point: usize) {
        let wait = Duration::from_secs(5);
        let mut leases = Vec::new();
        for whose in [
            "acme/thesis/ada",
            "acme/thesis/bob",
            "acme/other/cid",
            "else/p/dan",
        ] {
            match self.acquire("soft", whose, wait).await {
                Ok(lease) => leases.push(lease),
                Err(error) => panic!("at point {point}, {whose}: {error:?}"),
            }
        }
        busy(self.acquire("soft", "third/p/eve", Duration::ZERO).await);
        self.world.leases.close().await;
        let in_use = self.world.in_use().await;
        for (key, cap) in [
            ("pdf|user|acme/ada", 1),
            ("pdf|project|acme/thesis", 2),
            ("pdf|tenant|acme", 3),
            ("pdf|global|", 4),
        ] {
            assert_eq!(in_use[key], cap, "at point {point}, {key}");
        }
        for lease in &leases {
            lease.check().await.unwrap();
        }
        let tokens: Vec<String> = leases
            .iter()
            .map(|lease| token(lease).to_string())
            .collect();
        self.release(&tokens).await;
    }
}

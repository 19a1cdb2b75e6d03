//! Check and release by token: what a [`crate::Lease`] does, and what a shell does with the token it was given.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Inner, LeaseService};
use crate::error::{CheckError, Lost};
use crate::lease::Release;
use crate::metrics;
use crate::name::LeaseToken;
use crate::store::documents::HolderState;
use crate::store::{Acknowledge, StoreError, deadline, until_known};

impl LeaseService {
    /// Checks a lease that was acquired elsewhere; see [`crate::Lease::check`].
    pub async fn check_token(&self, token: &LeaseToken) -> Result<(), CheckError> {
        self.inner.check(token).await
    }

    /// Releases a lease that was acquired elsewhere; see [`crate::Lease::release`].
    pub async fn release_token(&self, token: &LeaseToken) -> Result<Release, StoreError> {
        let keys = self.inner.store.keys_of(token, deadline()).await?;
        self.inner
            .release(token, keys.unwrap_or_default(), None)
            .await
    }
}

impl Inner {
    /// One conditional write. Only when it says no is the reason looked up.
    pub(crate) async fn check(&self, token: &LeaseToken) -> Result<(), CheckError> {
        let deadline = deadline();
        let touch = || self.store.touch(token, deadline);
        self.still_held(token, touch, deadline).await
    }

    /// Runs a conditional write whose filter is "still held", until its outcome is known.
    pub(crate) async fn still_held<F>(
        &self,
        token: &LeaseToken,
        write: impl FnMut() -> F,
        deadline: Instant,
    ) -> Result<(), CheckError>
    where
        F: Future<Output = Result<bool, StoreError>>,
    {
        let answer = until_known(deadline, write)
            .await
            .map_err(CheckError::Unavailable)?;
        if answer.value {
            Ok(())
        } else {
            Err(CheckError::Lost(self.lost(token, deadline).await))
        }
    }

    /// Why the lease is lost, as far as the store still knows. That it is lost is certain.
    async fn lost(&self, token: &LeaseToken, deadline: Instant) -> Lost {
        let holder = self.store.holder(token, deadline).await.ok().flatten();
        let holder = holder.filter(|holder| holder.state == HolderState::Revoking);
        let millis = |millis: i64| Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        Lost {
            token: token.clone(),
            reason: holder
                .as_ref()
                .and_then(|holder| Some(holder.revocation.as_ref()?.reason)),
            last_seen: holder.as_ref().map(|holder| millis(holder.idle_millis())),
            ttl: holder.as_ref().map(|holder| millis(holder.ttl_millis())),
        }
    }

    /// Releases in a task of its own, which goes on if the caller does not wait for it. `keys` are the lease's own, `label`
    /// its resource in metrics.
    pub(crate) async fn release(
        self: &Arc<Self>,
        token: &LeaseToken,
        keys: Vec<String>,
        label: Option<String>,
    ) -> Result<Release, StoreError> {
        let (inner, token) = (Arc::clone(self), token.clone());
        let release = async move { inner.release_now(token, keys, label).await };
        match self.background.spawn_on(release, &self.runtime).await {
            Ok(released) => released,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(StoreError::malformed("release", "the process is ending")),
            },
        }
    }

    async fn release_now(
        self: Arc<Self>,
        token: LeaseToken,
        keys: Vec<String>,
        label: Option<String>,
    ) -> Result<Release, StoreError> {
        let (begun, deadline) = (Instant::now(), deadline());
        let store = &self.store;
        let take = || store.take(&token, Acknowledge::Majority, deadline);
        let taken = until_known(deadline, take).await?;
        if let Some(keys) = taken.value {
            self.slots_back(token, keys, label, begun);
            return Ok(Release::Released);
        }
        // A command that was revoked keeps its slot until its wrapper says that it has ended, which is now.
        let finish = || store.finish_ended_command(&token, deadline);
        if let Some(keys) = until_known(deadline, finish).await?.value {
            self.slots_back(token, keys, label, begun);
            return Ok(Release::AlreadyReleased);
        }
        // Another exclusive lease without a pod is cleaned up once its holder has ended, which is now.
        let confirm = || store.confirm_end(&token, deadline);
        if until_known(deadline, confirm).await?.value {
            return Ok(Release::AlreadyReleased);
        }
        // A document that is still there is being revoked, and its slots are the revocation's to return. If there is
        // none, an earlier sending of ours may have removed it without our knowing, and nobody else will unbook it soon.
        let gone = store.holder(&token, deadline).await?.is_none();
        let ours = gone && taken.sent_before;
        if gone {
            // Of another's release it is not known when that was.
            self.slots_back(token, keys, label.filter(|_| ours), begun);
        }
        Ok(match ours {
            true => Release::Released,
            false => Release::AlreadyReleased,
        })
    }

    /// Best effort, for a lease whose handle is gone. Its time to live is the guarantee.
    pub(crate) fn release_dropped(
        self: &Arc<Self>,
        token: LeaseToken,
        keys: Vec<String>,
        label: String,
    ) {
        let inner = Arc::clone(self);
        self.spawn(async move {
            if let Err(error) = inner.release_now(token.clone(), keys, Some(label)).await {
                tracing::warn!(%error, lease.token = %token, "could not release a dropped lease; it will expire");
            }
        });
    }

    fn slots_back(
        self: &Arc<Self>,
        token: LeaseToken,
        keys: Vec<String>,
        label: Option<String>,
        begun: Instant,
    ) {
        let inner = Arc::clone(self);
        self.spawn(async move {
            let free = inner.unbook_all(&token, &keys).await;
            if let (true, Some(label)) = (free, label) {
                metrics::slots_free(&label, begun.elapsed());
            }
        });
    }
}

//! Revocation by decision and by a pod's death; expiry is the reaper's own.

use super::LeaseService;
use crate::cleanup::Cleanups;
use crate::name::{LeaseToken, PodId};
use crate::reaper::Reaped;
use crate::revocation::Revoked;
pub use crate::store::holders::Decision;
use crate::store::holdings::Held;
pub use crate::store::holdings::Holding;
use crate::store::{StoreError, deadline};
use crate::view::HolderView;

impl LeaseService {
    /// Takes a lease from its holder because somebody decided so: its next check says *lost*.
    ///
    /// The tenant and the pod of the decision are in the filter of the write, so another's lease is never touched.
    ///
    /// # Errors
    /// It is not known whether the lease was revoked. To do it again does no harm.
    pub async fn revoke(
        &self,
        token: &LeaseToken,
        decision: &Decision,
    ) -> Result<Revoked, StoreError> {
        self.inner.reaper.revoke_decided(token, decision).await
    }

    /// Up to `limit` leases that a pod holds.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn held_by(&self, pod: &PodId, limit: i64) -> Result<Vec<Holding>, StoreError> {
        self.inner.store.holdings_of(pod, limit, deadline()).await
    }

    /// How many leases a pod holds now; nothing if it holds none.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn count_held_by(&self, pod: &PodId) -> Result<Option<Held>, StoreError> {
        self.inner.store.count_holdings(pod, deadline()).await
    }

    /// Up to `limit` of these that the pod still holds, and none that it has begun to acquire since.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn still_held(&self, held: &Held, limit: i64) -> Result<Vec<Holding>, StoreError> {
        self.inner.store.still_holds(held, limit, deadline()).await
    }

    /// The pods that hold anything.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn pods_with_leases(&self) -> Result<Vec<PodId>, StoreError> {
        self.inner.store.pods_with_leases(deadline()).await
    }

    /// Revokes a lease whose pod is dead. To be safe, the pod must have been found dead *after* the lease was listed: a
    /// pod that comes back later and uses the lease keeps it.
    ///
    /// False: it was used, released or revoked since.
    ///
    /// # Errors
    /// It is not known whether the lease was revoked. The next sweep looks again.
    pub async fn revoke_of_dead_pod(&self, holding: &Holding) -> Result<bool, StoreError> {
        self.inner.reaper.revoke_unused(holding).await
    }

    /// Revokes all that a dead pod holds, a batch at a time. `still_dead` is asked after each listing,
    /// for the reason given at [`Self::revoke_of_dead_pod`]. What could not be revoked is added to `failed`, a line each,
    /// and keeps the others from nothing.
    ///
    /// # Errors
    /// It could not be listed, or `still_dead` failed. What was revoked until then stays so.
    pub async fn revoke_all_of_dead_pod<E, F>(
        &self,
        pod: &PodId,
        still_dead: impl Fn() -> F,
        failed: &mut Vec<String>,
    ) -> Result<Reaped, E>
    where
        E: From<StoreError>,
        F: Future<Output = Result<bool, E>>,
    {
        let reaper = &self.inner.reaper;
        reaper.revoke_all_of(pod, still_dead, failed).await
    }

    /// Revokes a lease, or one that is being revoked already, and gives its slots back at once, whatever still runs. Its
    /// clean-up stays to be done by a process with handlers. Gives the lease as it then is; nothing if there is none.
    ///
    /// # Errors
    /// It is not known whether that was done. To do it again does no harm.
    pub async fn force_revoke(
        &self,
        token: &LeaseToken,
        decision: &Decision,
    ) -> Result<Option<HolderView>, StoreError> {
        let forced = self.inner.reaper.force(token, decision).await?;
        Ok(forced.map(HolderView::from))
    }

    /// What is left to do for revoked leases.
    pub fn cleanups(&self) -> Cleanups {
        Cleanups::of(self.inner.store.clone(), self.inner.lines.clone())
    }
}

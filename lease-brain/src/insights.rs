//! What a tenant's administrator sees of the tenant's leases, and does about them. For the API and the page alike.
//!
//! The tenant is in the filter of every read and write, so what is another's does not exist here. The global level belongs
//! to no tenant, and is not shown.

pub(crate) mod answer;
pub(crate) mod params;
mod payload;
pub(crate) mod revoke;
pub(crate) mod turns;

use lease_shared::{
    Cleanups, CounterQuery, HolderOrder, HolderQuery, HolderState, HolderView, InvalidName,
    LeaseService, LeaseToken, Part, PodId, StoreError, TenantCounter, TenantViews, ViewError,
};
use mongodb::Database;

use crate::cluster::{PodError, PodLiveness};
use crate::sweeper::Sweeper;
use crate::with_pod::WithPod;
use crate::words;
use answer::{HolderDetail, Listing, Moment, Overview};
use params::{CounterParams, HolderParams, InvalidParam, Paged, Params as _, RevocationParams};

/// How many counters, and how many leases of each kind, an overview shows.
const FULLEST: u32 = 8;
const NOTABLE: u32 = 5;

/// The leases of one tenant.
#[derive(Debug, Clone)]
pub(crate) struct Insights {
    views: TenantViews,
    leases: LeaseService,
    database: Database,
    own: PodId,
    sweeper: Sweeper,
}

/// Why an answer could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InsightsError {
    #[error(transparent)]
    Param(#[from] InvalidParam),
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Pods(#[from] PodError),
    /// The document of a lease is there, and cannot be read.
    #[error("this lease cannot be read, and an operator has to look: {0}")]
    Unreadable(String),
    #[error(
        "no lease {0} in this tenant: it was released, or revoked and cleaned up, or never was"
    )]
    NoSuchLease(LeaseToken),
}

impl From<ViewError> for InsightsError {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Invalid(error) => Self::Name(error),
            ViewError::Unreadable(problem) => Self::Unreadable(problem),
            ViewError::Store(error) => Self::Store(error),
        }
    }
}

impl Insights {
    pub(crate) fn new(
        tenant: &str,
        leases: LeaseService,
        database: Database,
        own: PodId,
        sweeper: Sweeper,
    ) -> Result<Self, InvalidName> {
        Ok(Self {
            views: leases.views().of_tenant(tenant)?,
            leases,
            database,
            own,
            sweeper,
        })
    }

    /// How many leases there are, what is nearly full, and what an administrator should look at.
    pub(crate) async fn overview(&self) -> Result<Overview, InsightsError> {
        let totals = self.views.totals().await?;
        let all = CounterQuery::default();
        let counters = self.views.counters(&all, first(FULLEST)).await?;
        let liveness = self.liveness().await?;
        let held = self.of_state(HolderState::Held, HolderOrder::Oldest);
        let oldest = self.views.holders(&held, first(NOTABLE)).await?;
        let revoking = self.of_state(HolderState::Revoking, HolderOrder::NextTry);
        let revoking = self.views.holders(&revoking, first(NOTABLE)).await?;
        let last_sweep = self.sweeper.state.last_sweep();
        Ok(Overview {
            now: revoking.now.or(oldest.now).or(counters.now),
            totals,
            counters: counters.matching,
            fullest: counters.entries,
            oldest: judged(oldest.entries, &liveness),
            revoking: judged(revoking.entries, &liveness),
            unreadable: [counters.unreadable, oldest.unreadable, revoking.unreadable].concat(),
            last_sweep_seconds: last_sweep.map(|last| last.elapsed().as_secs()),
        })
    }

    /// How many leases and counters there are: for the tabs.
    pub(crate) async fn counts(&self) -> Result<answer::Counts, InsightsError> {
        let totals = self.views.totals().await?;
        let counters = self.views.counter_count().await?;
        Ok(answer::Counts { totals, counters })
    }

    pub(crate) async fn holders(
        &self,
        params: &HolderParams,
    ) -> Result<Listing<WithPod>, InsightsError> {
        self.listed(&params.query()?, params.paged()?).await
    }

    /// The leases that are being revoked.
    pub(crate) async fn revocations(
        &self,
        params: &RevocationParams,
    ) -> Result<Listing<WithPod>, InsightsError> {
        self.listed(&params.query()?, params.paged()?).await
    }

    pub(crate) async fn counters(
        &self,
        params: &CounterParams,
    ) -> Result<Listing<TenantCounter>, InsightsError> {
        let paged = params.paged()?;
        let part = self.views.counters(&params.query()?, paged.part()).await?;
        Ok(Listing::of(part, paged))
    }

    /// One lease of the tenant, in any state.
    pub(crate) async fn holder(&self, token: &LeaseToken) -> Result<HolderDetail, InsightsError> {
        let Some(whole) = self.views.holder(token).await? else {
            return Err(InsightsError::NoSuchLease(token.clone()));
        };
        let moments = Moment::of(&whole.holder);
        let lease = WithPod::judged(whole.holder, &self.liveness().await?);
        Ok(HolderDetail {
            now: whole.now,
            on_revocation: words::dispatch(&lease),
            may_still_run: words::may_still_run(&lease),
            payload: payload::shown(&whole.payload),
            moments,
            lease,
        })
    }

    /// Those of these leases that are the tenant's, in any state and order.
    pub(crate) async fn holders_named(
        &self,
        tokens: &[LeaseToken],
    ) -> Result<Vec<WithPod>, InsightsError> {
        let found = self.views.holders_named(tokens).await?;
        Ok(judged(found, &self.liveness().await?))
    }

    async fn listed(
        &self,
        query: &HolderQuery,
        paged: Paged,
    ) -> Result<Listing<WithPod>, InsightsError> {
        let part = self.views.holders(query, paged.part()).await?;
        let liveness = self.liveness().await?;
        let part = part.map(|holder| WithPod::judged(holder, &liveness));
        Ok(Listing::of(part, paged))
    }

    fn of_state(&self, state: HolderState, order: HolderOrder) -> HolderQuery {
        let mut query = HolderQuery {
            order,
            ..HolderQuery::default()
        };
        query.filter.state = Some(state);
        query
    }

    async fn liveness(&self) -> Result<PodLiveness, InsightsError> {
        Ok(PodLiveness::read(&self.database, Some(&self.own)).await?)
    }

    fn cleanups(&self) -> Cleanups {
        self.leases.cleanups()
    }
}

fn first(limit: u32) -> Part {
    Part { skip: 0, limit }
}

fn judged(holders: Vec<HolderView>, liveness: &PodLiveness) -> Vec<WithPod> {
    let judged = |holder| WithPod::judged(holder, liveness);
    holders.into_iter().map(judged).collect()
}

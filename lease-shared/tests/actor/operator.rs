//! Orders that end what others hold, and what is left to do afterwards.

use lease_shared::{Decision, PodId, StoreError};

use crate::protocol::{CleanUp, Order};
use crate::stage::{Stage, parse};

impl Stage {
    pub(crate) async fn end_others(&self, order: Order) -> Result<(), StoreError> {
        let (leases, decision) = (&self.leases, Decision::default());
        match order {
            Order::Revoke(token) => leases.revoke(&parse(&token), &decision).await.map(drop),
            Order::ForceRevoke(token) => {
                let forced = leases.force_revoke(&parse(&token), &decision).await;
                forced.map(drop)
            }
            Order::RevokePod(pod) => {
                let pod = PodId::new(pod).expect("a pod");
                for holding in leases.held_by(&pod, 100).await? {
                    leases.revoke_of_dead_pod(&holding).await?;
                }
                leases.cleanups().stop_waiting_for(&pod).await
            }
            Order::CleanUp(token, what) => self.clean_up(&token, what).await,
            Order::RetryCleanUp(token) => leases.cleanups().retry(&parse(&token)).await.map(drop),
            Order::AbandonCleanUp(token) => {
                let abandoned = leases.cleanups().abandon(&parse(&token)).await;
                abandoned.map(drop)
            }
            other => panic!("not one of these: {other:?}"),
        }
    }

    async fn clean_up(&self, token: &str, what: CleanUp) -> Result<(), StoreError> {
        let pod = PodId::new("actor").expect("a pod");
        let claimed = self.leases.cleanups().claim(&parse(token), &pod).await?;
        let mut cleanup = claimed.expect("it is due");
        match what {
            CleanUp::Finish => cleanup.finish().await.map(drop),
            CleanUp::RenewAndFinish => {
                cleanup.renew().await?;
                cleanup.finish().await.map(drop)
            }
            CleanUp::Fail => cleanup.failed("the actor failed", false).await.map(drop),
        }
    }
}

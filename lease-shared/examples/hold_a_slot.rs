//! Acquire, check, release: the whole life of a lease, on the MongoDB of `MONGODB_URI`.

use std::time::Duration;

use lease_shared::definition::DocumentAddress;
use lease_shared::{
    CheckError, Lease, LeaseRef, LeaseRequest, LeaseService, LeaseType, Tenancy, connect,
};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::var("MONGODB_URI")
        .map_err(|_| "set MONGODB_URI, for example to what `cargo xtask mongo uri` prints")?;
    let database = connect(&uri).await?.database("lease_example");
    let leases = LeaseService::builder(database).start().await?;

    // An operator writes this once, with `lease document put`.
    let address = DocumentAddress::lease("_vance", "_tenant", &"bench".parse()?)?;
    let definition = "name: bench\nlevels: { global: 4, user: 1 }\n";
    leases.definitions().put(&address, definition).await?;

    let request = LeaseRequest::builder()
        .lease_type(LeaseType::command())
        .lease(LeaseRef::named("bench")?)
        .tenancy(Tenancy::new("acme", "thesis", "ada")?)
        .holder_ref("process-17")
        .build();
    let lease = leases.acquire(request).await?; // waits as long as the definition says
    let worked = work(&lease).await;
    lease.release().await?; // also a lost one: it says that nothing runs under it any more
    leases.close().await;
    Ok(worked?)
}

/// Uses the slot three times.
async fn work(lease: &Lease) -> Result<(), CheckError> {
    let mut step = 1;
    while step <= 3 {
        // Before every use of the resource.
        match lease.check().await {
            Ok(()) => {
                eprintln!("step {step}: the slot is ours");
                step += 1;
            }
            // The slot may be another's by now: stop.
            Err(lost @ CheckError::Lost(_)) => return Err(lost),
            // Nothing is known: begin nothing, and ask again. What runs already has to end before the time to live is
            // over, counted from the last check that succeeded.
            Err(CheckError::Unavailable(_)) => sleep(Duration::from_secs(1)).await,
        }
    }
    Ok(())
}

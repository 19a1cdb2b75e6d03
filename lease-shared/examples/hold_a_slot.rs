//! Acquire, check, release: the whole life of a lease, on the MongoDB of `MONGODB_URI`.

use lease_shared::definition::DocumentAddress;
use lease_shared::{LeaseRef, LeaseRequest, LeaseService, LeaseType, Tenancy, connect};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::var("MONGODB_URI")
        .map_err(|_| "set MONGODB_URI, for example to what `cargo xtask mongo uri` prints")?;
    let leases = LeaseService::builder(connect(&uri).await?.database("lease_example"))
        .start()
        .await?;

    // An operator writes this once, with `lease document put`.
    let address = DocumentAddress::lease("_vance", "_tenant", &"bench".parse()?)?;
    let definition = "name: bench\nlevels: { global: 4, user: 1 }\n";
    leases.definitions().put(&address, definition).await?;

    let request = LeaseRequest::builder()
        .lease_type(LeaseType::command())
        .lease(LeaseRef::named("bench")?)
        .tenancy(Tenancy::new("acme", "thesis", "ada")?)
        .holder_ref("hold_a_slot")
        .build();
    let lease = leases.acquire(request).await?;
    for step in 1..=3 {
        lease.check().await?;
        eprintln!("step {step}: the slot is ours");
    }
    lease.release().await?;
    leases.close().await;
    Ok(())
}

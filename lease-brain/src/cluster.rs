//! Which pods there are, and which of them are alive.
//!
//! A pod is one process that holds leases for others. It writes a row of its own into `brain_pods` before it acquires
//! anything ([`PodRegistry::join`]), and says again and again that it is there ([`PodRegistry::keep_alive`]). Everybody
//! else reads those rows through [`PodLiveness`], the one definition of *alive*: the sweep, the dispatcher and the views
//! must not differ on whom they take for dead.
//!
//! All times are the server's. How long a pod may be silent stands in its row, so that a reader with other settings does
//! not judge it by its own. Every write is one conditional command that may be sent again, and waits for a majority and
//! the journal; every read goes to the primary; every round trip has 4.5 seconds, after which its outcome is unknown.

mod beat;
mod claim;
mod error;
mod liveness;
mod registry;
mod row;
mod rows;
mod settings;

pub use error::{Claimant, PodError, PodStoreError};
pub use liveness::{PodLiveness, PodView};
pub use registry::PodRegistry;
pub use row::{PodRow, PodStatus};
pub use settings::{InvalidPodSettings, PodSettings, check_endpoint};

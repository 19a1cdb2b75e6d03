//! The commands about leases, one file each.

pub(crate) mod acquire;
pub(crate) mod check;
pub(crate) mod cleanup;
pub(crate) mod counters;
pub(crate) mod definition;
mod force;
mod found;
pub(crate) mod list;
mod on_revoke;
pub(crate) mod pods;
mod progress;
pub(crate) mod reconcile;
pub(crate) mod release;
pub(crate) mod revoke;
pub(crate) mod revoke_pod;
pub(crate) mod run;
pub(crate) mod show;
mod signals;
mod state_file;
pub(crate) mod sweep;
mod until_gone;

//! What becomes of the leases of pods: of those that died, and of one that was taken for dead and was not.

mod dead;
mod here;

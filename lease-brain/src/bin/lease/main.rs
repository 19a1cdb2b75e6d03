//! `lease`: put a command under a lease, look at leases, and mend what drifted.
fn main() {}

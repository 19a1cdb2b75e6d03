//! Configuration documents: where they are.

mod address;

pub use address::DocumentAddress;

//! The parts of the command line that stand on their own.

pub mod supervise;

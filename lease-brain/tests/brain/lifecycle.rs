//! From nothing to a pod and back: what a start waits for, what it refuses, and how it ends.

mod dropped;
mod end;
mod process;
mod start;

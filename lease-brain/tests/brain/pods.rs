//! Pods: who is there, under which name, and who takes whom for dead.

mod liveness;
mod names;
mod rows;
mod silence;
mod stage;

//! Races on the real server, among the processes of the test and its actors, and steps between which others act.

mod caps;
mod cast;
mod idle;
mod paused;
mod reap;
mod reconcile;
mod stopped;
mod unsure;

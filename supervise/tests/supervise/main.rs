//! A supervised child never outlives its deadline, one behind pipes never its holder, whichever process is killed or
//! stopped.
//!
//! Linux only: the observer reads `/proc`.
#![cfg(target_os = "linux")]

mod child;
mod guardian;
mod holder;
mod piped;
mod run;
mod screen;
mod terminal;
mod wrapper;

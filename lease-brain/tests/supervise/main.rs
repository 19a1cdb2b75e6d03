//! A supervised child never outlives its deadline, whichever process is killed or stopped.
//!
//! Linux only: the observer reads `/proc`.
#![cfg(target_os = "linux")]

mod child;
mod guardian;
mod run;
mod screen;
mod terminal;
mod wrapper;

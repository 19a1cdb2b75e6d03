//! What a user sees of a compilation, what its guard is told, and what a hostile document gets.
//!
//! Linux only: the observer reads `/proc`.
#![cfg(target_os = "linux")]

mod bench;
mod directories;
mod ends;
mod guard;
mod hostile;
mod local;
mod moments;
mod remote;
mod service;
mod xelatex;
mod zips;

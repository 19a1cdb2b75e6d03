//! The real servers do what their types promise: answer, hold a browser, and leave nothing behind.

mod asking;
mod everything;
mod parent;
mod playwright;
mod skipping;
mod stdio;

//! The brain, on a real MongoDB with a database for each test.

mod dispatch;
mod fleet;
mod pods;
mod webhook;

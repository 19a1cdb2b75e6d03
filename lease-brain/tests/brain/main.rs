//! The brain, on a real MongoDB with a database for each test.

mod pods;
mod webhook;

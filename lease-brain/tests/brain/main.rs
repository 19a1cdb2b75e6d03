//! The process with handlers, part by part.

mod webhook;

//! The browser does what its types promise: shows, judges, and leaves nothing behind.

mod accessibility;
mod parent;
mod policy;
mod site;
mod skipping;
mod viewing;

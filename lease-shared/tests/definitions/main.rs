//! Definitions: documents, layers, and the resolver over real stores.

mod bad_input;
mod directory;
mod documents;
mod merge;
mod resolver;
mod support;
mod watch;

//! Definitions: documents, layers, and the resolver over real stores.

mod bad_input;
mod merge;

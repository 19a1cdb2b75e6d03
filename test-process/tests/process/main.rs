//! Programs of others are found or visibly skipped, and leave nothing behind.

mod parent;
mod skipping;

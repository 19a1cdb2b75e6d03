//! Where tools and data are kept: below the build's target folder, so that `cargo clean` removes them.

use std::env;
use std::path::{Path, PathBuf};

/// The build's target folder: `CARGO_TARGET_DIR` where it is set, else `target/` in the workspace.
///
/// Tests run in their crate's folder and cargo in the caller's, so a relative `CARGO_TARGET_DIR` is
/// read from the workspace's root, where people mostly call cargo.
pub fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."));
    match env::var_os("CARGO_TARGET_DIR") {
        Some(chosen) if !chosen.is_empty() => workspace.join(chosen),
        _ => workspace.join("target"),
    }
}

/// The folder of fetched programs.
pub fn tools() -> PathBuf {
    target().join("tools")
}

/// The folder below which every server keeps its data.
pub fn server_data() -> PathBuf {
    target().join("mongo")
}

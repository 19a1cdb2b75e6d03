//! Configuration documents compiled into the binaries: the *bundled* layer, beneath everything an
//! operator, a tenant or a project writes.

use include_dir::{Dir, include_dir};

static VANCE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/_vance");

/// The bundled document at `path`, if there is one.
///
/// ```
/// assert!(defaults::bundled("_vance/config/lease/tex.yaml").is_some());
/// assert!(defaults::bundled("_vance/config/lease/nothing.yaml").is_none());
/// ```
pub fn bundled(path: &str) -> Option<&'static str> {
    VANCE
        .get_file(path.strip_prefix("_vance/")?)?
        .contents_utf8()
}

//! The secret that signs tokens where there is no identity provider.

use std::io;
use std::path::{Path, PathBuf};

use jsonwebtoken::{DecodingKey, EncodingKey};

use super::file::read_at_most;

/// A secret shorter than the digest of HS256 can be guessed sooner than its signature forged.
const MIN_BYTES: usize = 32;
/// No secret is longer.
const MAX_BYTES: usize = 64 * 1024;

/// A secret that signs tokens with HS256, and verifies them.
#[derive(Debug, Clone)]
pub struct SigningSecret {
    // Neither shows what it is when printed, and both wipe it when dropped.
    decoding: DecodingKey,
    encoding: EncodingKey,
}

/// A file that has no such secret in it. Never shows what it has.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSecret {
    /// It cannot be read.
    #[error(
        "{} cannot be read ({error}): make it with `openssl rand -hex 32`",
        path.display()
    )]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It can be guessed.
    #[error(
        "{} has {length} bytes: it must have at least 32, as from `openssl rand -hex 32`",
        path.display()
    )]
    Short {
        /// Its path.
        path: PathBuf,
        /// How long it is, without the white space around it.
        length: usize,
    },
    /// It is something else.
    #[error("{} has more than 64 KiB: make a secret with `openssl rand -hex 32`", .0.display())]
    Long(PathBuf),
}

impl SigningSecret {
    /// Reads it from a file; white space around it does not count.
    ///
    /// # Errors
    /// There is none, or one that can be guessed.
    pub fn from_file(path: &Path) -> Result<Self, InvalidSecret> {
        let bytes = read_at_most(path, MAX_BYTES).map_err(|error| {
            let path = path.to_owned();
            InvalidSecret::Unreadable { path, error }
        })?;
        let bytes = bytes.ok_or_else(|| InvalidSecret::Long(path.to_owned()))?;
        let short = |length| {
            let path = path.to_owned();
            InvalidSecret::Short { path, length }
        };
        let secret = bytes.trim_ascii();
        if secret.len() < MIN_BYTES {
            return Err(short(secret.len()));
        }
        // Only what is empty is refused there.
        let keys = DecodingKey::from_secret(secret).and_then(|decoding| {
            let encoding = EncodingKey::from_secret(secret)?;
            Ok(Self { decoding, encoding })
        });
        keys.map_err(|_| short(secret.len()))
    }

    pub(super) fn decoding_key(&self) -> DecodingKey {
        self.decoding.clone()
    }

    pub(super) fn encoding_key(&self) -> &EncodingKey {
        &self.encoding
    }
}

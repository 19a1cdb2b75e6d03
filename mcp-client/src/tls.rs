//! The one provider of cryptography.

use rustls::crypto::{CryptoProvider, ring};

/// Names the provider that the HTTP clients of this process use. Building one before that panics.
pub(crate) fn install_provider() {
    if CryptoProvider::get_default().is_none() {
        // An error says that another thread has just named one.
        let _ = ring::default_provider().install_default();
    }
}

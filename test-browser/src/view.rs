//! What the page is looked at through.

use serde_json::{Value, json};

/// The viewport, and the colours that its user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// As a phone does it: the page's `<meta name="viewport">` counts, and without one it is laid out 980 wide.
    pub mobile: bool,
    /// What `prefers-color-scheme` answers.
    pub scheme: Scheme,
}

/// The colours that the user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl View {
    /// A window on a desk.
    pub const DESKTOP: Self = Self {
        width: 1280,
        height: 900,
        mobile: false,
        scheme: Scheme::Light,
    };

    /// A phone held upright.
    pub const PHONE: Self = Self {
        width: 390,
        height: 844,
        mobile: true,
        scheme: Scheme::Light,
    };

    /// The same for one who prefers light on dark.
    pub const fn dark(self) -> Self {
        Self {
            scheme: Scheme::Dark,
            ..self
        }
    }

    /// The commands of the DevTools protocol that bring it about. A window could not be made as narrow as a phone.
    pub(crate) fn commands(self) -> [(&'static str, Value); 2] {
        let scheme = match self.scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let metrics = json!({
            "width": self.width, "height": self.height, "deviceScaleFactor": 1, "mobile": self.mobile,
        });
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        [
            ("Emulation.setDeviceMetricsOverride", metrics),
            ("Emulation.setEmulatedMedia", media),
        ]
    }
}

//! The four layers, what each may say, and what one document of a layer does say.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::documents::DocumentAddress;
use super::{Caps, DocumentError, parse};
use crate::level::{Level, TtlSeconds, WaitMs};
use crate::name::{LeaseName, Resource};
use crate::scope::{SYSTEM_TENANT, TENANT_PROJECT};

/// Where a document stands, from the least specific to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Compiled into the binary.
    Bundled,
    /// Written by the operator, for everybody.
    System,
    /// Written by a tenant, for its projects.
    Tenant,
    /// Written by a project, for itself.
    Project,
}

impl Layer {
    /// All layers, the least specific first.
    pub const ALL: [Self; 4] = [Self::Bundled, Self::System, Self::Tenant, Self::Project];

    /// The layer's name as it stands in documents and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::System => "system",
            Self::Tenant => "tenant",
            Self::Project => "project",
        }
    }

    /// Whether a document of this layer may set `field`. Where it may not, what it says is ignored.
    pub fn may_own(self, field: Field) -> bool {
        match self {
            Self::Bundled | Self::System => true,
            Self::Tenant => field != Field::Level(Level::Global),
            Self::Project => !matches!(
                field,
                Field::Resource | Field::Level(Level::Global | Level::Tenant)
            ),
        }
    }

    /// The layer that a stored document at `address` belongs to. `None` where no holder's definition comes from:
    /// `_vance` has no projects of its own, and no tenant is called `_tenant`.
    pub fn of(address: &DocumentAddress) -> Option<Self> {
        match (address.tenant(), address.project()) {
            (SYSTEM_TENANT, TENANT_PROJECT) => Some(Self::System),
            (SYSTEM_TENANT | TENANT_PROJECT, _) | (_, SYSTEM_TENANT) => None,
            (_, TENANT_PROJECT) => Some(Self::Tenant),
            _ => Some(Self::Project),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One field of a definition, the name aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `resource`
    Resource,
    /// `levels.<level>`
    Level(Level),
    /// `ttlSeconds`
    TtlSeconds,
    /// `waitMs`
    WaitMs,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 7] = [
        Self::Resource,
        Self::Level(Level::Global),
        Self::Level(Level::Tenant),
        Self::Level(Level::Project),
        Self::Level(Level::User),
        Self::TtlSeconds,
        Self::WaitMs,
    ];

    /// The field's path in a document, for example `levels.global`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Level(Level::Global) => "levels.global",
            Self::Level(Level::Tenant) => "levels.tenant",
            Self::Level(Level::Project) => "levels.project",
            Self::Level(Level::User) => "levels.user",
            Self::TtlSeconds => "ttlSeconds",
            Self::WaitMs => "waitMs",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one layer's document says, checked as a whole. Absent is what it does not mention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerDocument {
    /// The name, equal to the file's.
    pub name: LeaseName,
    /// What is counted.
    pub resource: Option<Resource>,
    /// The caps.
    pub caps: Caps,
    /// How long a lease lives after its last use.
    pub ttl: Option<TtlSeconds>,
    /// How long an acquire waits.
    pub wait: Option<WaitMs>,
}

impl LayerDocument {
    /// The largest document: 64 KiB.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// A document that mentions nothing but its name.
    pub fn empty(name: LeaseName) -> Self {
        Self {
            name,
            resource: None,
            caps: Caps::default(),
            ttl: None,
            wait: None,
        }
    }

    /// Reads and checks the YAML text of the document that defines `name` in `layer`. The whole document is refused
    /// for any fault in it, also in a field that the layer may not own.
    pub fn parse(
        text: &str,
        layer: Layer,
        address: &DocumentAddress,
        name: &LeaseName,
    ) -> Result<Self, DocumentError> {
        parse::document(text, Some(layer), address, name)
    }

    /// Checks a text that is to be stored at `address`; `None` if the path is not one of a lease definition.
    ///
    /// Refused are also a file name that is no lease name, and an address that belongs to no layer: such a document
    /// would never be read.
    pub fn check(address: &DocumentAddress, text: &str) -> Result<Option<Self>, DocumentError> {
        let layer = Layer::of(address);
        let name = match address.lease_name() {
            None => return Ok(None),
            Some(Ok(name)) => name,
            Some(Err(invalid)) => {
                let problem = format!(
                    "the file's name is the lease's and {}, then .yaml",
                    invalid.rule
                );
                return Err(DocumentError::new(layer, address, &problem)
                    .field(Some("name"))
                    .value(Some(&invalid.value)));
            }
        };
        if layer.is_none() {
            let problem = "no layer reads this address; the system layer is _vance/_tenant, a tenant's <tenant>/_tenant";
            return Err(DocumentError::new(None, address, problem));
        }
        parse::document(text, layer, address, &name).map(Some)
    }

    /// Whether the document mentions `field`.
    pub fn mentions(&self, field: Field) -> bool {
        match field {
            Field::Resource => self.resource.is_some(),
            Field::Level(level) => self.caps.at(level).is_some(),
            Field::TtlSeconds => self.ttl.is_some(),
            Field::WaitMs => self.wait.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Cap;

    /// The rows of the reference's first table, without their heads: field, meaning, range, default, layers.
    fn reference() -> Vec<Vec<String>> {
        let text = include_str!("../../docs/definitions.md");
        let table = text.lines().skip_while(|line| !line.starts_with("| field"));
        let rows = table.take_while(|line| line.starts_with('|')).skip(2);
        rows.map(|row| {
            let cells = row.trim_matches('|').split(" | ");
            cells
                .map(|cell| cell.trim().trim_matches('`').to_owned())
                .collect()
        })
        .collect()
    }

    /// Whether just the numbers of the range are taken.
    fn assert_range(range: &str, takes: impl Fn(u64) -> bool) {
        let (least, most) = range.split_once(" to ").expect(range);
        let (least, most): (u64, u64) = (least.parse().unwrap(), most.parse().unwrap());
        assert!(takes(least) && takes(most), "{range}");
        assert!(!takes(most + 1), "{range}");
        assert!(least == 0 || !takes(least - 1), "{range}");
    }

    #[test]
    fn reference_says_what_holds() {
        let rows = reference();
        let written: Vec<&str> = rows.iter().map(|row| &*row[0]).collect();
        let fields = Field::ALL.iter().map(|field| field.as_str());
        assert_eq!(
            written,
            ["name"].into_iter().chain(fields).collect::<Vec<_>>()
        );
        for (field, row) in Field::ALL.into_iter().zip(&rows[1..]) {
            let [_, _, range, default, layers] = &row[..] else {
                panic!("{row:?} has not five cells");
            };
            let owners = Layer::ALL
                .into_iter()
                .filter(|layer| layer.may_own(field))
                .map(Layer::as_str);
            assert_eq!(*layers, owners.collect::<Vec<_>>().join(", "), "{field}");
            let by_default = match field {
                Field::Resource => "the name".to_owned(),
                Field::Level(_) => "no cap".to_owned(),
                Field::TtlSeconds => TtlSeconds::DEFAULT.get().to_string(),
                Field::WaitMs => WaitMs::DEFAULT.get().to_string(),
            };
            assert_eq!(*default, by_default, "{field}");
            match field {
                Field::Resource => {
                    for (name, taken) in [(128, true), (129, false)] {
                        assert_eq!(Resource::new("x".repeat(name)).is_ok(), taken);
                    }
                    assert!(range.starts_with("1 to 128 bytes"), "{range}");
                }
                Field::Level(_) => assert_range(range, |slots| Cap::new(slots).is_some()),
                Field::TtlSeconds => {
                    assert_range(range, |seconds| TtlSeconds::new(seconds).is_some());
                }
                Field::WaitMs => assert_range(range, |millis| WaitMs::new(millis).is_some()),
            }
        }
    }
}

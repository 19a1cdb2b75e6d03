//! From the layers' documents to one definition, field by field.

use serde::{Serialize, Serializer};

use super::layer::{Field, Layer, LayerDocument};
use super::{Caps, LeaseDefinition};
use crate::level::{Cap, Level, TtlSeconds, WaitMs};
use crate::metrics;
use crate::name::{LeaseName, Resource};

/// Where a merged field's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// No layer says.
    Default,
    /// The most specific layer that says and may.
    Layer(Layer),
}

impl Source {
    /// The layer's name, or `default`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Layer(layer) => layer.as_str(),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// The value that holds.
    pub value: T,
    /// Which layer says so.
    #[serde(rename = "layer")]
    pub source: Source,
}

/// What a layer says and may not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// The field, for example `levels.global`.
    #[serde(serialize_with = "as_path")]
    pub field: Field,
    /// The layer that says it.
    pub layer: Layer,
    /// Why it does not count.
    pub reason: String,
}

/// A definition as the layers together make it, with the source of each field.
///
/// Serialises as `{name, resource: {value, layer}, globalResource: {value, layer} or null,
/// levels: {global|tenant|project|user: {value, layer} or null},
/// ttlSeconds: {value, layer}, waitMs: {value, layer}, ignored: [{field, layer, reason}]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MergedDefinition {
    /// The name.
    pub name: LeaseName,
    /// What the user, project and tenant counters count.
    pub resource: Sourced<Resource>,
    /// What the global counter counts: the resource of the bundled and system layers alone. Nothing if neither defines the
    /// name; then there is no global cap either.
    pub global_resource: Option<Sourced<Resource>>,
    /// The caps.
    pub levels: MergedCaps,
    /// How long a lease lives after its last use.
    #[serde(rename = "ttlSeconds")]
    pub ttl: Sourced<TtlSeconds>,
    /// How long an acquire waits.
    #[serde(rename = "waitMs")]
    pub wait: Sourced<WaitMs>,
    /// What was said where it may not be said, by layer.
    pub ignored: Vec<Ignored>,
}

/// The merged caps, each with its source; `None` is no bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergedCaps {
    /// Slots of everybody together.
    pub global: Option<Sourced<Cap>>,
    /// Slots of the tenant.
    pub tenant: Option<Sourced<Cap>>,
    /// Slots of the project.
    pub project: Option<Sourced<Cap>>,
    /// Slots of one user.
    pub user: Option<Sourced<Cap>>,
}

impl MergedCaps {
    /// The cap of `level`, if it has one.
    pub fn at(&self, level: Level) -> Option<&Sourced<Cap>> {
        match level {
            Level::User => self.user.as_ref(),
            Level::Project => self.project.as_ref(),
            Level::Tenant => self.tenant.as_ref(),
            Level::Global => self.global.as_ref(),
        }
    }
}

impl MergedDefinition {
    /// What an acquisition goes by.
    pub fn definition(&self) -> LeaseDefinition {
        let mut caps = Caps::default();
        for level in Level::NARROW_TO_WIDE {
            *caps.at_mut(level) = self.levels.at(level).map(|cap| cap.value);
        }
        let shared = self.global_resource.as_ref().map(|shared| &shared.value);
        LeaseDefinition {
            name: self.name.clone(),
            resource: self.resource.value.clone(),
            global_resource: shared.cloned().unwrap_or_else(|| (&self.name).into()),
            caps,
            ttl: self.ttl.value,
            wait: self.wait.value,
            metric_label: shared.map_or(metrics::PRIVATE, Resource::as_str).to_owned(),
        }
    }
}

/// Merges the documents of the layers that define `name`, in any order, at most one a layer. Each field comes from
/// the most specific layer that mentions it and may own it. `None` if there is no document at all: the name is
/// undefined.
pub fn merge(name: &LeaseName, documents: &[(Layer, LayerDocument)]) -> Option<MergedDefinition> {
    if documents.is_empty() {
        return None;
    }
    let mut documents: Vec<_> = documents.iter().collect();
    documents.sort_by_key(|(layer, _)| std::cmp::Reverse(*layer));
    let layers = Layers(&documents);

    let named = || Resource::from(name);
    let resource = |layers: &[&(Layer, LayerDocument)]| {
        Layers(layers)
            .pick(Field::Resource, |document| document.resource.clone())
            .unwrap_or_else(|| by_default(named()))
    };
    // The tenant's word on the resource ends below the global counter.
    let below_tenant = documents.partition_point(|(layer, _)| *layer >= Layer::Tenant);
    let cap = |level| layers.pick(Field::Level(level), |document| document.caps.at(level));
    Some(MergedDefinition {
        name: name.clone(),
        resource: resource(&documents),
        global_resource: match &documents[below_tenant..] {
            [] => None,
            shared => Some(resource(shared)),
        },
        levels: MergedCaps {
            global: cap(Level::Global),
            tenant: cap(Level::Tenant),
            project: cap(Level::Project),
            user: cap(Level::User),
        },
        ttl: layers
            .pick(Field::TtlSeconds, |document| document.ttl)
            .unwrap_or(by_default(TtlSeconds::DEFAULT)),
        wait: layers
            .pick(Field::WaitMs, |document| document.wait)
            .unwrap_or(by_default(WaitMs::DEFAULT)),
        ignored: layers.ignored(),
    })
}

/// The documents, the most specific first.
struct Layers<'a>(&'a [&'a (Layer, LayerDocument)]);

impl Layers<'_> {
    fn pick<T>(
        &self,
        field: Field,
        read: impl Fn(&LayerDocument) -> Option<T>,
    ) -> Option<Sourced<T>> {
        let allowed = self.0.iter().filter(|(layer, _)| layer.may_own(field));
        allowed
            .filter_map(|(layer, document)| {
                read(document).map(|value| Sourced {
                    value,
                    source: Source::Layer(*layer),
                })
            })
            .next()
    }

    fn ignored(&self) -> Vec<Ignored> {
        let mut ignored = Vec::new();
        for (layer, document) in self.0.iter().rev() {
            ignored.extend(document.ignored_in(*layer));
        }
        ignored
    }
}

impl LayerDocument {
    /// What it says that a document of this layer may not.
    pub fn ignored_in(&self, layer: Layer) -> Vec<Ignored> {
        let said = Field::ALL.into_iter().filter(|field| self.mentions(*field));
        said.filter(|field| !layer.may_own(*field))
            .map(|field| {
                let owners: Vec<_> = Layer::ALL
                    .into_iter()
                    .filter(|layer| layer.may_own(field))
                    .map(Layer::as_str)
                    .collect();
                let owners = owners.join(", ");
                Ignored {
                    field,
                    layer,
                    reason: format!(
                        "a {layer} document may not set {field}: only {owners} documents may"
                    ),
                }
            })
            .collect()
    }
}

fn by_default<T>(value: T) -> Sourced<T> {
    Sourced {
        value,
        source: Source::Default,
    }
}

fn as_path<S: Serializer>(field: &Field, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(field.as_str())
}

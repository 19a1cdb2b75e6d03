use serde::{Deserialize, Deserializer};

use super::{Caps, LeaseDefinition, fields};
use crate::level::{Cap, TtlSeconds, WaitMs};
use crate::metrics;
use crate::name::{LeaseName, Resource};
use crate::scope::Tenancy;

/// A definition inside a consumer's own configuration: `{name, levels: {project, user}, ttlSeconds, waitMs}`.
///
/// A project may write that configuration, so this owns what a project may own and lacks the rest. Deserialising
/// refuses `resource`, `levels.tenant` and `levels.global` with the reason, and so it does unknown keys, nulls and
/// values out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineDefinition {
    /// Tells it apart from the project's other inline definitions: those of one name share their counters.
    pub name: LeaseName,
    /// Slots of the project.
    pub project: Option<Cap>,
    /// Slots of one user.
    pub user: Option<Cap>,
    /// How long a lease lives after its last use; 120 s where not said.
    pub ttl: Option<TtlSeconds>,
    /// How long an acquire waits; 10 s where not said.
    pub wait: Option<WaitMs>,
}

impl InlineDefinition {
    /// The definition for a holder of `tenancy`, on a resource of that project and this name alone.
    pub fn resolve(&self, tenancy: &Tenancy) -> LeaseDefinition {
        let resource = Resource::inline(tenancy.tenant(), tenancy.project(), &self.name);
        LeaseDefinition {
            name: self.name.clone(),
            global_resource: resource.clone(),
            resource,
            caps: Caps {
                project: self.project,
                user: self.user,
                ..Caps::default()
            },
            ttl: self.ttl.unwrap_or(TtlSeconds::DEFAULT),
            wait: self.wait.unwrap_or(WaitMs::DEFAULT),
            metric_label: metrics::INLINE.to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for InlineDefinition {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let fields = fields::inline(source)?;
        let name = fields
            .name
            .ok_or_else(|| serde::de::Error::missing_field("name"))?;
        Ok(Self {
            name,
            project: fields.caps.project,
            user: fields.caps.user,
            ttl: fields.ttl,
            wait: fields.wait,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<InlineDefinition, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn owns_what_a_project_may_own() {
        let inline =
            read("{name: browser, levels: {project: 2, user: 1}, ttlSeconds: 60, waitMs: 0}")
                .unwrap();
        let tenancy = Tenancy::new("acme", "thesis", "ada").unwrap();
        let definition = inline.resolve(&tenancy);
        assert_eq!(
            definition.resource.as_str(),
            "mcp-inline:acme/thesis/browser"
        );
        assert_eq!(definition.global_resource, definition.resource);
        assert_eq!(definition.caps.project, Cap::new(2));
        assert_eq!(definition.caps.user, Cap::new(1));
        assert_eq!(
            (definition.caps.tenant, definition.caps.global),
            (None, None)
        );
        assert_eq!((definition.ttl.get(), definition.wait.get()), (60, 0));

        let bare = read("name: browser").unwrap().resolve(&tenancy);
        assert_eq!(
            (bare.ttl, bare.wait),
            (TtlSeconds::DEFAULT, WaitMs::DEFAULT)
        );
        assert_eq!(bare.caps, Caps::default());
    }

    #[test]
    fn refuses_the_rest_with_the_reason() {
        for (text, field, reason) in [
            (
                "{name: b, resource: tex2pdf}",
                "resource: ",
                "private resource",
            ),
            (
                "{name: b, levels: {tenant: 9}}",
                "levels.tenant: ",
                "not the project's",
            ),
            (
                "{name: b, levels: {global: 9}}",
                "levels.global: ",
                "not the project's",
            ),
            ("{levels: {user: 1}}", "name: ", "is missing"),
            ("{name: 7}", "name: `7`: ", "in quotes"),
            ("{name: a/b}", "name: `a/b`: ", "must be text"),
            ("{name: b, levels: }", "levels: ", "is empty"),
            ("{name: b, levels: {user: ~}}", "levels.user: ", "is empty"),
            (
                "{name: b, levels: {user: 0}}",
                "levels.user: `0`: ",
                "1 to 1000",
            ),
            (
                "{name: b, levels: {usr: 1}}",
                "levels.usr: ",
                "known here: project, user",
            ),
            (
                "{name: b, ttl: 1}",
                "ttl: ",
                "known here: name, levels, ttlSeconds, waitMs",
            ),
            ("{name: b, name: b}", "name: ", "second time"),
            ("tex", "`tex`: ", "must be a mapping"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(field) && error.contains(reason),
                "{text}: {error}"
            );
        }
    }
}

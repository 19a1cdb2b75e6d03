//! Merging, for every field, every layer and every subset of layers.

use lease_shared::definition::{Field, Layer, LayerDocument, MergedDefinition, Source, merge};
use lease_shared::{Cap, LeaseName, Level, Resource, TtlSeconds, WaitMs};
use proptest::prelude::*;

fn name() -> LeaseName {
    LeaseName::new("tex").unwrap()
}

/// A document of `layer` that mentions `fields`, each with a value that only this layer has.
fn document(layer: Layer, fields: &[Field]) -> LayerDocument {
    let n = 1 + layer as u64;
    let mut document = LayerDocument::empty(name());
    for field in fields {
        match field {
            Field::Resource => document.resource = Some(Resource::new(layer.as_str()).unwrap()),
            Field::Level(Level::Global) => document.caps.global = Cap::new(n),
            Field::Level(Level::Tenant) => document.caps.tenant = Cap::new(10 + n),
            Field::Level(Level::Project) => document.caps.project = Cap::new(20 + n),
            Field::Level(Level::User) => document.caps.user = Cap::new(30 + n),
            Field::TtlSeconds => document.ttl = TtlSeconds::new(40 + n),
            Field::WaitMs => document.wait = WaitMs::new(50 + n),
        }
    }
    document
}

/// The value and the source of `field`, as texts.
fn field(merged: &MergedDefinition, field: Field) -> (Option<String>, Option<Source>) {
    fn pair<T: ToString>(
        value: &lease_shared::definition::Sourced<T>,
    ) -> (Option<String>, Option<Source>) {
        (Some(value.value.to_string()), Some(value.source))
    }
    match field {
        Field::Resource => pair(&merged.resource),
        Field::Level(level) => merged.levels.at(level).map_or((None, None), pair),
        Field::TtlSeconds => (
            Some(merged.ttl.value.get().to_string()),
            Some(merged.ttl.source),
        ),
        Field::WaitMs => (
            Some(merged.wait.value.get().to_string()),
            Some(merged.wait.source),
        ),
    }
}

#[test]
fn every_field_of_every_layer_counts_or_is_ignored() {
    use Layer::{Bundled, Project, System, Tenant};
    #[rustfmt::skip]
    let table = [
        (Field::Resource, "resource", [(Bundled, true), (System, true), (Tenant, true), (Project, false)]),
        (Field::Level(Level::Global), "levels.global", [(Bundled, true), (System, true), (Tenant, false), (Project, false)]),
        (Field::Level(Level::Tenant), "levels.tenant", [(Bundled, true), (System, true), (Tenant, true), (Project, false)]),
        (Field::Level(Level::Project), "levels.project", [(Bundled, true), (System, true), (Tenant, true), (Project, true)]),
        (Field::Level(Level::User), "levels.user", [(Bundled, true), (System, true), (Tenant, true), (Project, true)]),
        (Field::TtlSeconds, "ttlSeconds", [(Bundled, true), (System, true), (Tenant, true), (Project, true)]),
        (Field::WaitMs, "waitMs", [(Bundled, true), (System, true), (Tenant, true), (Project, true)]),
    ];
    assert_eq!(table.map(|(field, _, _)| field), Field::ALL);
    for (what, path, layers) in table {
        assert_eq!(what.as_str(), path);
        for (layer, counts) in layers {
            let merged = merge(&name(), &[(layer, document(layer, &[what]))]).unwrap();
            let source = field(&merged, what).1;
            assert_eq!(
                source == Some(Source::Layer(layer)),
                counts,
                "{what} of {layer}"
            );
            let ignored: Vec<_> = merged
                .ignored
                .iter()
                .map(|ignored| (ignored.field, ignored.layer))
                .collect();
            let expected: &[_] = if counts { &[] } else { &[(what, layer)] };
            assert_eq!(ignored, expected);

            // The same field of a less specific layer that may own it shows through, and is overruled otherwise.
            if layer != Bundled {
                let both = [
                    (Bundled, document(Bundled, &[what])),
                    (layer, document(layer, &[what])),
                ];
                let merged = merge(&name(), &both).unwrap();
                let winner = if counts { layer } else { Bundled };
                assert_eq!(
                    field(&merged, what),
                    field(
                        &merge(&name(), &[(winner, document(winner, &[what]))]).unwrap(),
                        what
                    )
                );
            }
        }
    }
}

#[test]
fn no_document_is_undefined_and_an_empty_one_caps_nothing() {
    assert_eq!(merge(&name(), &[]), None);
    let merged = merge(&name(), &[(Layer::Project, LayerDocument::empty(name()))]).unwrap();
    let definition = merged.definition();
    assert_eq!((definition.ttl.get(), definition.wait.get()), (120, 10_000));
    assert_eq!(definition.resource.as_str(), "tex");
    assert_eq!(definition.global_resource.as_str(), "tex");
    assert_eq!(definition.caps, lease_shared::definition::Caps::default());
    assert_eq!(merged.ttl.source, Source::Default);
}

#[test]
fn a_tenants_resource_leaves_the_global_counter_alone() {
    let tenant = (Layer::Tenant, document(Layer::Tenant, &[Field::Resource]));
    let alone = merge(&name(), std::slice::from_ref(&tenant))
        .unwrap()
        .definition();
    assert_eq!(alone.resource_at(Level::Tenant).as_str(), "tenant");
    assert_eq!(alone.resource_at(Level::Global).as_str(), "tex");

    let system = (Layer::System, document(Layer::System, &Field::ALL));
    let both = merge(&name(), &[tenant, system]).unwrap().definition();
    for level in [Level::User, Level::Project, Level::Tenant] {
        assert_eq!(both.resource_at(level).as_str(), "tenant");
    }
    assert_eq!(both.resource_at(Level::Global).as_str(), "system");
    assert_eq!(both.cap(Level::Global), Cap::new(2));
}

#[test]
fn serialises_as_promised() {
    let mut system = document(
        Layer::System,
        &[Field::Resource, Field::Level(Level::Global)],
    );
    system.wait = WaitMs::new(0);
    let documents = [
        (Layer::System, system),
        (
            Layer::Tenant,
            document(Layer::Tenant, &[Field::Resource, Field::Level(Level::User)]),
        ),
        (
            Layer::Project,
            document(
                Layer::Project,
                &[Field::Level(Level::User), Field::Level(Level::Global)],
            ),
        ),
    ];
    let merged = merge(&name(), &documents).unwrap();
    assert_eq!(
        serde_json::to_value(&merged).unwrap(),
        serde_json::json!({
            "name": "tex",
            "resource": {"value": "tenant", "layer": "tenant"},
            "globalResource": {"value": "system", "layer": "system"},
            "levels": {
                "global": {"value": 2, "layer": "system"},
                "tenant": null,
                "project": null,
                "user": {"value": 34, "layer": "project"},
            },
            "ttlSeconds": {"value": 120, "layer": "default"},
            "waitMs": {"value": 0, "layer": "system"},
            "ignored": [{
                "field": "levels.global",
                "layer": "project",
                "reason": "a project document may not set levels.global: only bundled, system documents may",
            }],
        })
    );
}

fn layers() -> impl Strategy<Value = Vec<(Layer, LayerDocument)>> {
    let one = |layer| {
        prop::option::of(prop::sample::subsequence(
            Field::ALL.to_vec(),
            0..=Field::ALL.len(),
        ))
        .prop_map(move |fields| fields.map(|fields| (layer, document(layer, &fields))))
    };
    Layer::ALL
        .map(one)
        .prop_map(|all| all.into_iter().flatten().collect())
}

proptest! {
    #[test]
    fn each_field_is_the_most_specific_layers_that_may_own_it(documents in layers()) {
        let Some(merged) = merge(&name(), &documents) else {
            prop_assert!(documents.is_empty());
            return Ok(());
        };
        for what in Field::ALL {
            let owner = documents
                .iter()
                .rev()
                .find(|(layer, document)| layer.may_own(what) && document.mentions(what));
            let expected = match owner {
                Some((layer, document)) => {
                    let alone = merge(&name(), &[(*layer, document.clone())]).unwrap();
                    field(&alone, what)
                }
                None => field(&merge(&name(), &[(Layer::System, LayerDocument::empty(name()))]).unwrap(), what),
            };
            prop_assert_eq!(field(&merged, what), expected, "{}", what);
        }
        let said = documents.iter().flat_map(|(layer, document)| {
            Field::ALL.into_iter().filter(|what| document.mentions(*what) && !layer.may_own(*what)).map(|what| (what, *layer))
        });
        let ignored = merged.ignored.iter().map(|ignored| (ignored.field, ignored.layer));
        prop_assert!(said.eq(ignored));
    }

    #[test]
    fn the_order_of_documents_is_nothing(
        (sorted, shuffled) in layers().prop_flat_map(|sorted| (Just(sorted.clone()), Just(sorted).prop_shuffle()))
    ) {
        prop_assert_eq!(merge(&name(), &sorted), merge(&name(), &shuffled));
    }

    #[test]
    fn no_tenant_or_project_touches_the_global_counter(documents in layers()) {
        let upper: Vec<_> = documents.iter().filter(|(layer, _)| *layer <= Layer::System).cloned().collect();
        let bare = vec![(Layer::System, LayerDocument::empty(name()))];
        let upper = merge(&name(), if upper.is_empty() { &bare } else { &upper }).unwrap().definition();
        if let Some(merged) = merge(&name(), &documents) {
            let merged = merged.definition();
            prop_assert_eq!(merged.caps.global, upper.caps.global);
            prop_assert_eq!(merged.global_resource, upper.global_resource);
        }
    }
}

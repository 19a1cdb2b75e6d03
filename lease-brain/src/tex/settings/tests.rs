use lease_shared::definition::DirectoryDocuments;

use super::*;

/// What holds for ada in acme/thesis, with these documents by tenant and project.
async fn find(documents: &[(&str, &str)]) -> Result<TexSettings, String> {
    let root = tempfile::tempdir().unwrap();
    for (at, text) in documents {
        let file = root.path().join(at).join(PATH);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let documents = ConfigDocuments::Directory(DirectoryDocuments::new(root.path()));
    let tenancy = Tenancy::new("acme", "thesis", "ada").unwrap();
    let found = TexSettings::find(&documents, &tenancy).await;
    found.map_err(|error| error.to_string())
}

const SYSTEM: &str = "_vance/_tenant";
const TENANT: &str = "acme/_tenant";
const PROJECT: &str = "acme/thesis";

fn name(lease: &LeaseRef) -> Option<&str> {
    match lease {
        LeaseRef::Named(name) => Some(name.as_str()),
        LeaseRef::None => None,
        LeaseRef::Inline(_) => panic!("no setting is one"),
    }
}

#[tokio::test]
async fn without_settings_documents_are_compiled_here_under_the_lease_tex() {
    let settings = find(&[]).await.unwrap();
    assert_eq!(name(&settings.lease), Some("tex"));
    assert_eq!(settings.executor, ExecutorSettings::Local);
    assert!(!settings.allow_lualatex);
}

#[tokio::test]
async fn lease_is_said_by_the_most_specific_layer() {
    for (documents, expected) in [
        (
            vec![
                (SYSTEM, "tex.lease: a"),
                (TENANT, "tex.lease: b"),
                (PROJECT, "tex.lease: c"),
            ],
            Some("c"),
        ),
        (
            vec![(SYSTEM, "tex.lease: a"), (TENANT, "tex.lease: b")],
            Some("b"),
        ),
        (
            vec![(SYSTEM, "tex.lease: a"), (TENANT, "tex.lease: none")],
            None,
        ),
        (vec![(SYSTEM, "tex.lease: ''")], None),
        (vec![(SYSTEM, "tex.lease:")], None),
        (
            vec![(SYSTEM, "tex.lease: a"), ("other/_tenant", "tex.lease: b")],
            Some("a"),
        ),
    ] {
        let settings = find(&documents).await.unwrap();
        assert_eq!(name(&settings.lease), expected, "{documents:?}");
    }
}

#[tokio::test]
async fn executor_is_one_group_from_one_layer() {
    let system = "tex.executor: rbehzadan\ntex.rbehzadan.url: http://system/\ntex.rbehzadan.apiKey: '{{secret:KEY}}'\n";
    let tenant = "tex.executor: rbehzadan\ntex.rbehzadan.url: http://tenant/\ntex.rbehzadan.timeoutSeconds: 9\n";
    let url = |settings: &TexSettings| match &settings.executor {
        ExecutorSettings::Rbehzadan(service) => {
            let key = service.api_key.clone();
            (
                service.url.to_string(),
                key.map(|key| (key.name.to_string(), key.layer)),
            )
        }
        ExecutorSettings::Local => ("local".to_owned(), None),
    };
    let one = find(&[(SYSTEM, system)]).await.unwrap();
    let key = Some(("KEY".to_owned(), Layer::System));
    assert_eq!(url(&one), ("http://system/".to_owned(), key));
    // The system's key does not go to the tenant's address.
    let both = find(&[(SYSTEM, system), (TENANT, tenant)]).await.unwrap();
    assert_eq!(url(&both), ("http://tenant/".to_owned(), None));
    let ExecutorSettings::Rbehzadan(service) = both.executor else {
        panic!("{both:?}");
    };
    assert_eq!(service.timeout, Duration::from_secs(9));
    assert_eq!(service.poll_interval, Duration::from_secs(3));
    let back = find(&[(SYSTEM, system), (TENANT, "tex.executor: local")])
        .await
        .unwrap();
    assert_eq!(url(&back).0, "local");
}

#[tokio::test]
async fn refusal_names_the_place_and_the_cure() {
    for (at, text, place, cure) in [
        (
            PROJECT,
            "tex.lease: a/b",
            ":1: tex.lease: `a/b`",
            "`none` is for no lease",
        ),
        (PROJECT, "tex.lese: a", "tex.lese", "`tex.lease`"),
        (
            PROJECT,
            "\ntex.executor: local",
            ":2: tex.executor",
            "remove it",
        ),
        (
            PROJECT,
            "tex.rbehzadan.url: http://a/",
            ":1: tex.rbehzadan.url",
            "remove it",
        ),
        (
            TENANT,
            "tex.allowLualatex: true",
            ":1: tex.allowLualatex",
            "system layer",
        ),
        (
            TENANT,
            "tex.rbehzadan.url: http://a/",
            "tex.executor",
            "is missing",
        ),
        (
            TENANT,
            "tex.executor: rbehzadan",
            "tex.rbehzadan.url",
            "is missing",
        ),
        (
            TENANT,
            "tex.executor: remote",
            ":1: tex.executor",
            "`rbehzadan`",
        ),
        (
            SYSTEM,
            "tex.executor: rbehzadan\ntex.rbehzadan.url: http://u:hunter2@a/",
            ":2: tex.rbehzadan.url",
            "without a user",
        ),
        (
            SYSTEM,
            "tex.executor: local\ntex.rbehzadan.apiKey: hunter2",
            ":2: tex.rbehzadan.apiKey",
            "{{secret:NAME}}",
        ),
        (
            SYSTEM,
            "tex.executor: local\ntex.rbehzadan.timeoutSeconds: 0",
            ":2: tex.rbehzadan.timeoutSeconds",
            "from 1 to 3600",
        ),
        (
            SYSTEM,
            "tex.executor: rbehzadan\ntex.rbehzadan.url: http://a/?k=v",
            ":2: tex.rbehzadan.url",
            "no query",
        ),
        (SYSTEM, "- a", "settings.yaml", "invalid type"),
        (SYSTEM, "", "settings.yaml", "is empty"),
    ] {
        let error = find(&[(at, text)]).await.expect_err(text);
        assert!(
            error.contains(place) && error.contains(cure),
            "{text}\n{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }
}

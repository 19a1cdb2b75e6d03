use std::fs;
use std::path::Path;

use lease_shared::definition::DirectoryDocuments;
use tempfile::TempDir;

use super::*;

struct Stage {
    root: TempDir,
    tools: Tools,
}

const PATH: &str = "_vance/config/tools/browser.yaml";

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

impl Stage {
    /// Documents by tenant and project, secrets by tenant, project and name.
    fn new(documents: &[(&str, &str)], secrets: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (at, text) in documents {
            write(root.path(), &format!("documents/{at}/{PATH}"), text);
        }
        fs::create_dir_all(root.path().join("documents")).unwrap();
        for (at, value) in secrets {
            write(root.path(), &format!("secrets/{at}"), value);
        }
        let documents = DirectoryDocuments::new(root.path().join("documents"));
        let tools = Tools {
            documents: ConfigDocuments::Directory(documents),
            secrets: Secrets::new(Some(root.path().join("secrets"))),
            project_commands: false,
        };
        Self { root, tools }
    }

    async fn find(&self) -> Result<Tool, ToolError> {
        let tenancy = Tenancy::new("acme", "thesis", "ada").unwrap();
        let name = ToolName::new("browser").unwrap();
        self.tools.find(&tenancy, &name).await
    }

    async fn headers(&self) -> Result<HeaderMap, String> {
        let found = self.find().await.unwrap();
        let McpTransport::Http(server) = found.server.transport else {
            panic!("it is no HTTP server");
        };
        (server.headers)().await.map_err(|error| error.to_string())
    }
}

fn http(url: &str, auth: &str) -> String {
    format!("type: mcp_server\nparameters:\n  transport: http\n  url: {url}\n  auth: {{{auth}}}\n")
}

const BEARER: &str = "type: bearer, token: '{{secret:KEY}}'";

async fn url(stage: &Stage) -> String {
    match stage.find().await.unwrap().server.transport {
        McpTransport::Http(server) => server.url.to_string(),
        McpTransport::Stdio(server) => server.program,
    }
}

#[tokio::test]
async fn most_specific_document_holds_whole() {
    let system = http("http://system/", BEARER);
    let layers = [
        ("acme/thesis", http("http://project/", "type: none")),
        ("acme/_tenant", http("http://tenant/", BEARER)),
        ("_vance/_tenant", system),
        ("other/thesis", http("http://other/", BEARER)),
        ("acme/paper", http("http://paper/", BEARER)),
    ];
    for (first, expected) in ["http://project/", "http://tenant/", "http://system/"]
        .into_iter()
        .enumerate()
    {
        let documents: Vec<_> = layers[first..]
            .iter()
            .map(|(at, text)| (*at, text.as_str()))
            .collect();
        let stage = Stage::new(&documents, &[("_vance/_tenant/KEY", "the-systems")]);
        assert_eq!(url(&stage).await, expected);
    }
    let stage = Stage::new(
        &[
            ("acme/thesis", &layers[0].1),
            ("_vance/_tenant", &layers[2].1),
        ],
        &[],
    );
    // What the system's document says of credentials does not hold for the project's address.
    assert!(stage.headers().await.unwrap().is_empty());
    let error = Stage::new(&[], &[]).find().await.unwrap_err();
    assert!(matches!(error, ToolError::Undefined { .. }), "{error}");
    assert!(error.to_string().contains(PATH), "{error}");
}

#[tokio::test]
async fn broken_document_is_not_passed_over() {
    let documents = [
        ("acme/thesis", "type: shell"),
        ("_vance/_tenant", &http("http://a/", "type: none")),
    ];
    let error = Stage::new(&documents, &[]).find().await.unwrap_err();
    assert!(matches!(error, ToolError::Broken(_)), "{error}");
    assert!(error.to_string().contains("acme/thesis"), "{error}");
}

#[tokio::test]
async fn document_has_the_secrets_of_its_own_layer_alone() {
    let secrets = [
        ("_vance/_tenant/KEY", "hunter2-of-the-system"),
        ("acme/_tenant/KEY", "of-the-tenant"),
        ("acme/thesis/OWN", "of-the-project"),
    ];
    for (layer, expected) in [
        ("_vance/_tenant", "Bearer hunter2-of-the-system"),
        ("acme/_tenant", "Bearer of-the-tenant"),
    ] {
        let stage = Stage::new(&[(layer, &http("http://a/", BEARER))], &secrets);
        assert_eq!(stage.headers().await.unwrap()[AUTHORIZATION], expected);
    }
    let stage = Stage::new(&[("acme/thesis", &http("http://a/", BEARER))], &secrets);
    let error = stage.headers().await.unwrap_err();
    for part in [
        "project document acme/thesis",
        "parameters.auth.token",
        "secret KEY",
        "own secrets",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn authorisation_is_read_at_each_request() {
    let basic = "type: basic, user: ada, password: '{{secret:KEY}}'";
    let stage = Stage::new(
        &[("acme/thesis", &http("http://a/", basic))],
        &[("acme/thesis/KEY", "one")],
    );
    assert_eq!(
        stage.headers().await.unwrap()[AUTHORIZATION],
        "Basic YWRhOm9uZQ=="
    );
    write(stage.root.path(), "secrets/acme/thesis/KEY", "two");
    let headers = stage.headers().await.unwrap();
    assert_eq!(headers[AUTHORIZATION], "Basic YWRhOnR3bw==");
    assert!(headers[AUTHORIZATION].is_sensitive());

    let header = "type: header, name: X-Api-Key, value: '{{secret:KEY}}'";
    let stage = Stage::new(
        &[("acme/thesis", &http("http://a/", header))],
        &[("acme/thesis/KEY", "one")],
    );
    assert_eq!(stage.headers().await.unwrap()["x-api-key"], "one");
    write(stage.root.path(), "secrets/acme/thesis/KEY", "a\nb");
    let error = stage.headers().await.unwrap_err();
    assert!(
        error.contains("no header can carry") && !error.contains("a\nb"),
        "{error}"
    );
}

#[tokio::test]
async fn childs_variables_may_be_secrets() {
    let text = "type: mcp_server\nparameters:\n  transport: stdio\n  command: [server]\n  env: {A: plain, KEY: '{{secret:KEY}}'}\n";
    let mut stage = Stage::new(&[("acme/thesis", text)], &[("acme/thesis/KEY", "own")]);
    let error = stage.find().await.unwrap_err();
    assert!(
        error.to_string().contains("--allow-project-commands"),
        "{error}"
    );
    stage.tools.project_commands = true;
    let McpTransport::Stdio(server) = stage.find().await.unwrap().server.transport else {
        panic!("it is no child");
    };
    let env = (server.env)().await.unwrap();
    assert_eq!(env["A"], "plain");
    assert_eq!(env["KEY"], "own");
}

#[tokio::test]
async fn version_changes_with_text_and_layer() {
    let (one, two) = (
        http("http://a/", "type: none"),
        http("http://b/", "type: none"),
    );
    let version =
        async |at: &str, text: &str| Stage::new(&[(at, text)], &[]).find().await.unwrap().version;
    let first = version("acme/thesis", &one).await;
    assert_eq!(first, version("acme/thesis", &one).await);
    assert_ne!(first, version("acme/thesis", &two).await);
    assert_ne!(first, version("acme/_tenant", &one).await);
}

#[test]
fn tool_that_would_be_refused_is_not_stored() {
    let address = |tenant, project, path| DocumentAddress::new(tenant, project, path).unwrap();
    let good = http("http://a/", "type: none");
    let check =
        |at: &DocumentAddress, text: &str| check_tool(at, text).map_err(|error| error.to_string());
    assert_eq!(check(&address("acme", "thesis", PATH), &good), Ok(true));
    assert_eq!(
        check(&address("acme", "thesis", "notes.txt"), "x"),
        Ok(false)
    );
    for (at, text, problem) in [
        (address("acme", "thesis", PATH), "type: shell", "mcp_server"),
        (
            address("_vance", "thesis", PATH),
            good.as_str(),
            "no layer reads",
        ),
        (
            address("acme", "thesis", "_vance/config/tools/a.yml"),
            &good,
            "then .yaml",
        ),
        (
            address("acme", "thesis", "_vance/config/tools/a/b.yaml"),
            &good,
            "then .yaml",
        ),
    ] {
        let error = check(&at, text).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}

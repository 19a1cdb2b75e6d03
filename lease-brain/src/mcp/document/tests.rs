use super::*;

const HTTP: &str =
    "type: mcp_server\nparameters:\n  transport: http\n  url: http://localhost:1/mcp\n";
const STDIO: &str = "type: mcp_server\nparameters:\n  transport: stdio\n  command: [npx, server]\n";

fn parse(text: &str, layer: Layer) -> Result<ToolDocument, String> {
    let (tenant, project) = match layer {
        Layer::Bundled | Layer::System => ("_vance", "_tenant"),
        Layer::Tenant => ("acme", "_tenant"),
        Layer::Project => ("acme", "thesis"),
    };
    let path = "_vance/config/tools/browser.yaml";
    let address = DocumentAddress::new(tenant, project, path).unwrap();
    ToolDocument::parse(text, layer, &address, false).map_err(|error| error.to_string())
}

#[test]
fn what_is_not_said_has_a_default() {
    let tool = parse(HTTP, Layer::Project).unwrap();
    assert_eq!(tool.call_timeout, Duration::from_secs(60));
    assert_eq!(tool.init_timeout, Duration::from_secs(5));
    assert!(tool.default_args.is_empty());
    assert!(matches!(tool.lease, LeaseRef::None));
    let Transport::Http {
        url,
        auth,
        event_stream,
    } = tool.transport
    else {
        panic!("{:?}", tool.transport);
    };
    assert_eq!(url.as_str(), "http://localhost:1/mcp");
    assert_eq!((auth, event_stream), (Auth::None, true));
}

#[test]
fn everything_can_be_said() {
    let text = "
        name: browser
        type: mcp_server
        description: a browser
        parameters:
          transport: http
          url: https://mcp.internal/mcp?team=a
          auth: {type: basic, user: ada, password: '{{secret:PASS}}'}
          eventStream: false
          timeoutSeconds: 7
          initTimeoutSeconds: 3600
          defaultArgs: {headless: true, depth: 3, name: x}
          lease: {name: browser, levels: {project: 1}}
    ";
    let tool = parse(text, Layer::Project).unwrap();
    assert_eq!(tool.call_timeout, Duration::from_secs(7));
    assert_eq!(tool.init_timeout, Duration::from_secs(3600));
    assert_eq!(tool.default_args["depth"], 3);
    assert!(matches!(tool.lease, LeaseRef::Inline(_)));
    let Transport::Http {
        auth, event_stream, ..
    } = tool.transport
    else {
        panic!("{:?}", tool.transport);
    };
    assert!(!event_stream);
    let password = SecretName::new("PASS").unwrap();
    let user = "ada".to_owned();
    assert_eq!(auth, Auth::Basic { user, password });

    let text = format!(
        "{STDIO}  cwd: /tmp\n  env: {{A: b, KEY: '{{{{secret:KEY}}}}'}}\n  lease: browser\n"
    );
    let tool = parse(&text, Layer::System).unwrap();
    assert!(matches!(tool.lease, LeaseRef::Named(_)));
    let Transport::Stdio {
        program,
        args,
        cwd,
        env,
    } = tool.transport
    else {
        panic!("{:?}", tool.transport);
    };
    assert_eq!((program.as_str(), args), ("npx", vec!["server".to_owned()]));
    assert_eq!(cwd, Some(PathBuf::from("/tmp")));
    assert_eq!(env["A"], Setting::Plain("b".to_owned()));
    assert_eq!(env["KEY"], Setting::Secret(SecretName::new("KEY").unwrap()));
}

#[test]
fn refusal_names_the_place_and_the_cure() {
    let http = |line: &str| format!("{HTTP}  {line}\n");
    let auth = |auth: &str| http(&format!("auth: {{{auth}}}"));
    for (text, place, cure) in [
        (String::new(), "browser.yaml", "is empty"),
        (
            "type: mcp_server".to_owned(),
            "",
            "missing field `parameters`",
        ),
        (
            HTTP.replace("mcp_server", "shell"),
            ":1: type",
            "`mcp_server`",
        ),
        (
            HTTP.replace("http\n", "sse\n"),
            ":3: parameters.transport",
            "`http` or `stdio`",
        ),
        (
            format!("{HTTP}extra: 1\n"),
            ":5: extra",
            "unknown field `extra`",
        ),
        (
            format!("name: other\n{HTTP}"),
            ":1: name: `other`",
            "the file's name",
        ),
        (
            http("timeout: 5"),
            ":5: parameters.timeout",
            "`timeoutSeconds`",
        ),
        (
            http("timeoutSeconds: 0"),
            ":5: parameters.timeoutSeconds",
            "from 1 to 3600",
        ),
        (
            http("timeoutSeconds: 1h"),
            ":5: parameters.timeoutSeconds",
            "invalid type",
        ),
        (
            http("timeoutSeconds: ~"),
            ":5: parameters.timeoutSeconds",
            "invalid type: unit value",
        ),
        (
            http("timeoutSeconds: 5\n  timeoutSeconds: 6"),
            ":2: parameters",
            "duplicate field",
        ),
        (
            http("eventStream: maybe"),
            ":5: parameters.eventStream",
            "a boolean",
        ),
        (
            http("command: [sh]"),
            ":5: parameters.command",
            "stdio: remove it",
        ),
        (
            http("lease: a/b"),
            ":5: parameters.lease: `a/b`",
            "[A-Za-z0-9]",
        ),
        (
            http("lease:"),
            ":5: parameters.lease",
            "or remove it for none",
        ),
        (
            http("lease: {levels: {user: 1}}"),
            "parameters.lease",
            "name: is missing",
        ),
        (
            http("lease: {name: b, levels: {global: 1}}"),
            "parameters.lease",
            "levels.global",
        ),
        (
            http("defaultArgs: {a: 1, a: 2}"),
            "parameters.defaultArgs",
            "a second time",
        ),
        (
            HTTP.replace("http://localhost:1/mcp", "ftp://a/b"),
            ":4: parameters.url",
            "must be a URL",
        ),
        (
            HTTP.replace("localhost", "u:hunter2@localhost"),
            ":4: parameters.url",
            "without a user",
        ),
        (
            HTTP.replace("/mcp", "/{{secret:A}}"),
            ":4: parameters.url",
            "no secret",
        ),
        (
            HTTP.replace("  url: http://localhost:1/mcp\n", ""),
            "parameters.url",
            "is missing",
        ),
        (
            auth("type: bearer"),
            ":5: parameters.auth.token",
            "is missing",
        ),
        (
            auth("type: none, token: '{{secret:A}}'"),
            ":5: parameters.auth.token",
            "remove it",
        ),
        (
            auth("type: bearer, token: hunter2"),
            ":5: parameters.auth.token",
            "{{secret:NAME}}",
        ),
        (
            auth("type: bearer, token: 482907"),
            ":5: parameters.auth.token",
            "{{secret:NAME}}",
        ),
        (
            auth("type: bearer, token: [hunter2]"),
            ":5: parameters.auth.token",
            "{{secret:NAME}}",
        ),
        (
            auth("type: bearer, token: 'Bearer {{secret:A}}'"),
            ":5: parameters.auth.token",
            "nothing else",
        ),
        (
            auth("type: header, name: Mcp-Session-Id, value: '{{secret:A}}'"),
            ":5: parameters.auth.name: `Mcp-Session-Id`",
            "header of the protocol",
        ),
        (
            auth("type: header, name: 'a b', value: '{{secret:A}}'"),
            ":5: parameters.auth.name: `a b`",
            "name of an HTTP header",
        ),
        (
            auth("type: oauth"),
            ":5: parameters.auth.type",
            "must be none, bearer, basic or header",
        ),
        (
            auth("type: hunter2"),
            ":5: parameters.auth.type",
            "must be none",
        ),
        (
            http("auth: hunter2"),
            ":5: parameters.auth",
            "must be a mapping like",
        ),
        (
            http("auth: 482907"),
            ":5: parameters.auth",
            "must be a mapping like",
        ),
        (
            auth("type: header, name: TE, value: '{{secret:A}}'"),
            ":5: parameters.auth.name",
            "header of the protocol",
        ),
        (
            http("defaultArgs: {key: '{{secret:A}}'}"),
            ":5: parameters.defaultArgs",
            "must hold no secret",
        ),
    ] {
        let error = parse(&text, Layer::Project).expect_err(&text);
        assert!(
            error.contains(place) && error.contains(cure),
            "{text}\n{error}"
        );
        assert!(
            error.starts_with("project document acme/thesis/_vance/config/tools/browser.yaml"),
            "{error}"
        );
        assert!(
            !error.contains("hunter2") && !error.contains("482907"),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
    for (text, place, cure) in [
        (
            STDIO.replace("[npx, server]", "npx server"),
            ":4: parameters.command",
            "a sequence",
        ),
        (
            STDIO.replace("[npx, server]", "[]"),
            ":4: parameters.command",
            "is missing",
        ),
        (
            STDIO.replace("server]", "'--key={{secret:A}}']"),
            ":4: parameters.command",
            "write it under env",
        ),
        (
            format!("{STDIO}  cwd: tmp\n"),
            ":5: parameters.cwd: `tmp`",
            "absolute",
        ),
        (
            format!("{STDIO}  env: {{A: 1}}\n"),
            "parameters.env",
            "in quotes",
        ),
        (
            format!("{STDIO}  env: {{A: 'x {{{{secret:B}}}}'}}\n"),
            "parameters.env",
            "nothing else",
        ),
        (
            format!("{STDIO}  env: {{'A=': x}}\n"),
            ":5: parameters.env: `A=`",
            "without `=`",
        ),
        (
            format!("{STDIO}  url: http://a/\n"),
            ":5: parameters.url",
            "transport http: remove it",
        ),
    ] {
        let error = parse(&text, Layer::System).expect_err(&text);
        assert!(
            error.contains(place) && error.contains(cure),
            "{text}\n{error}"
        );
    }
}

#[test]
fn command_counts_from_the_operator_alone() {
    for layer in [Layer::Bundled, Layer::System] {
        assert!(parse(STDIO, layer).is_ok(), "{layer}");
    }
    for layer in [Layer::Tenant, Layer::Project] {
        let error = parse(STDIO, layer).unwrap_err();
        assert!(error.contains(":4: parameters.command: `npx`"), "{error}");
        assert!(error.contains("--allow-project-commands"), "{error}");
        let address = DocumentAddress::new("acme", "thesis", "t.yaml").unwrap();
        assert!(ToolDocument::parse(STDIO, layer, &address, true).is_ok());
    }
}

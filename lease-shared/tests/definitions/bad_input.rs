//! Every way in which a lease document can be wrong, with the place, the field and the value that the error names.

use std::time::{Duration, Instant};

use lease_shared::definition::{DocumentAddress, DocumentError, Layer, LayerDocument};
use lease_shared::{LeaseName, Level};
use proptest::prelude::*;

fn address() -> DocumentAddress {
    DocumentAddress::new("acme", "thesis", "_vance/config/lease/tex.yaml").unwrap()
}

fn parse(text: &str) -> Result<LayerDocument, DocumentError> {
    let name = LeaseName::new("tex").unwrap();
    LayerDocument::parse(text, Layer::Project, &address(), &name)
}

/// `text` is refused at `line` for what `field` holds, and `problem` is part of what the error says.
#[track_caller]
fn refused(text: &str, line: Option<usize>, field: &str, value: &str, problem: &str) {
    let error = parse(text).unwrap_err();
    let found = (
        error.line,
        error.field.as_deref().unwrap_or(""),
        error.value.as_deref().unwrap_or(""),
    );
    assert_eq!(found, (line, field, value), "{error}");
    assert!(error.problem.contains(problem), "{error}");
    assert_eq!(
        (error.layer, &*error.address),
        (Some(Layer::Project), &address())
    );

    let message = error.to_string();
    let place = match line {
        Some(line) => format!("project document acme/thesis/_vance/config/lease/tex.yaml:{line}: "),
        None => "project document acme/thesis/_vance/config/lease/tex.yaml: ".to_owned(),
    };
    assert!(message.starts_with(&place), "{message}");
    assert!(
        message.contains(field) && message.contains(value),
        "{message}"
    );
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(message.len() < 700, "{message}");
}

#[test]
fn good_documents_are_read() {
    let full = "name: tex\nresource: tex2pdf\nlevels: { global: 6, tenant: 3, project: 1, user: 1000 }\nttlSeconds: 604800\nwaitMs: 0\n";
    let bom_and_crlf = format!("\u{feff}{}", full.replace('\n', "\r\n"));
    let json = r#"{"name": "tex", "resource": "tex2pdf", "levels": {"global": 6, "tenant": 3, "project": 1, "user": 1000}, "ttlSeconds": 604800, "waitMs": 0}"#;
    let marked = format!("---\n# comment [[[\n{full}...\n");
    for text in [full, &bom_and_crlf, json, &marked] {
        let document = parse(text).unwrap();
        assert_eq!(document.resource.unwrap().as_str(), "tex2pdf");
        let caps = Level::NARROW_TO_WIDE.map(|level| document.caps.at(level).unwrap().get());
        assert_eq!(caps, [1000, 1, 3, 6]);
        assert_eq!(
            (document.ttl.unwrap().get(), document.wait.unwrap().get()),
            (604_800, 0)
        );
    }
    let name = LeaseName::new("tex").unwrap();
    for bare in [
        "name: tex",
        "name: 'tex'",
        "name: \"tex\" # why",
        "name: tex\nlevels: {}",
    ] {
        assert_eq!(
            parse(bare).unwrap(),
            LayerDocument::empty(name.clone()),
            "{bare}"
        );
    }
    let aliased = parse("name: tex\nlevels: { user: &one 1, project: *one }\n").unwrap();
    assert_eq!(aliased.caps.project, aliased.caps.user);
}

#[test]
fn quoted_numbers_are_names() {
    for name in ["123", "true", "1e3", "0x10"] {
        let address = DocumentAddress::new("a", "b", "c").unwrap();
        let lease = LeaseName::new(name).unwrap();
        let parse = |text: &str| LayerDocument::parse(text, Layer::System, &address, &lease);
        assert!(parse(&format!("name: \"{name}\"")).is_ok());
        let error = parse(&format!("name: {name}")).unwrap_err();
        assert_eq!(error.value.as_deref(), Some(name));
        assert!(error.problem.contains("in quotes"), "{error}");
    }
}

#[test]
#[rustfmt::skip]
fn broken_yaml_is_refused() {
    refused("name: tex\nlevels: {user: 1", Some(2), "", "levels: {user: 1", "not valid YAML");
    refused("name: tex\nresource: \"tex\nlevels: 3", Some(3), "", "levels: 3", "not valid YAML");
    refused("name: tex\nlevels: {user: 1]}", Some(2), "", "levels: {user: 1]}", "not valid YAML");
    refused("name: tex\nlevels: *gone", Some(2), "", "levels: *gone", "unknown anchor");
    refused("name: tex\nlevels:\n\tuser: 1", Some(3), "", "user: 1", "not with tabs");
    refused("resource: a\n  name: tex", Some(2), "", "name: tex", "not valid YAML");
    refused("name: \"\u{1F600}\u{1F600}\"\nlevels: {user: six}", Some(1), "name", "\"\u{1F600}\u{1F600}\"", "must be text");
    refused("# \u{1F600}\u{1F600}\nname: tex\nlevels: {user: six}", Some(3), "levels.user", "six", "1 to 1000");
}

#[test]
#[rustfmt::skip]
fn characters_that_yaml_does_not_allow_are_refused() {
    refused("name: tex\nresource: a\0b", Some(2), "", "resource: a\\u{0}b", "U+0000");
    refused("name: tex\nresource: \u{1b}[31m", Some(2), "", "resource: \\u{1b}[31m", "U+001B");
    refused("name: tex\n\u{feff}resource: a", Some(2), "", "\\u{feff}resource: a", "U+FEFF");
    refused("name: tex\nresource: \"a\\0b\"", Some(2), "resource", "\"a\\0b\"", "control characters");
}

#[test]
fn documents_without_content_are_refused() {
    for text in ["", " \n\n", "# nothing\n# here\n", "---\n", "~\n"] {
        let error = parse(text).unwrap_err();
        let place = (error.line, &error.field, &error.value);
        assert_eq!(place, (None, &None, &None), "{text:?}");
        assert!(error.problem.contains("is empty"), "{error}");
    }
    for text in ["tex", "- name: tex", "7"] {
        refused(text, Some(1), "", text, "must be a mapping");
    }
}

#[test]
#[rustfmt::skip]
fn a_second_document_is_refused() {
    refused("name: tex\n---\nname: tex\n", Some(3), "", "name: tex", "second YAML document");
    let error = parse("name: tex\n---\n").unwrap_err();
    assert!(error.problem.contains("second YAML document"), "{error}");
    assert!(error.line.is_some(), "{error}");
}

#[test]
#[rustfmt::skip]
fn keys_are_known_and_stand_once() {
    refused("name: tex\nwaitMS: 5\n", Some(2), "waitMS", "5", "name, resource, levels, ttlSeconds, waitMs");
    refused("name: tex\nlevels:\n  usr: 5 # me\n", Some(3), "levels.usr", "5", "global, tenant, project, user");
    refused("name: tex\nlevels: {usr: 5, user: 1}\n", Some(2), "levels.usr", "5", "known");
    refused("name: tex\n<<: {user: 1}\n", Some(2), "<<", "{user: 1}", "known");
    refused("name: tex\n7: 1\n", Some(2), "7", "1", "known");
    refused("name: tex\n\"a\\nb\": 1\n", Some(2), "a\\nb", "1", "known");
    refused("name: tex\nwaitMs: 5\nwaitMs: 6\n", Some(3), "waitMs", "6", "second time");
    refused("name: tex\nlevels:\n  user: 1\n  user: 2\n", Some(4), "levels.user", "2", "second time");
    let long = "k".repeat(60_000);
    let error = parse(&format!("name: tex\n{long}: 1")).unwrap_err();
    assert_eq!(error.line, Some(2));
    assert!(error.to_string().len() < 700);
}

#[test]
#[rustfmt::skip]
fn the_name_is_the_files() {
    refused("waitMs: 5\n", Some(1), "name", "", "write `name: tex`");
    refused("# why\nname: tax\n", Some(2), "name", "tax", "write `name: tex` or rename");
    refused("name: 123\n", Some(1), "name", "123", "in quotes");
    refused("name: 1.10\n", Some(1), "name", "1.10", "in quotes");
    refused("name: true\n", Some(1), "name", "true", "in quotes");
    refused("name:\nwaitMs: 5\n", Some(1), "name", "", "is empty");
    refused("name: [tex]\n", Some(1), "name", "[tex]", "must be text");
    let long = "x".repeat(65);
    for name in ["a/b", "..", "a|b", "a.b", "-a", &long] {
        refused(&format!("name: \"{name}\"\n"), Some(1), "name", &format!("\"{name}\""), "[A-Za-z0-9]");
    }
}

#[test]
#[rustfmt::skip]
fn caps_are_whole_numbers_from_1_to_1000() {
    for cap in ["six", "\"6\"", "'6'", "0", "-1", "1.5", "6.0", "1e3", "1001", "4294967296", "99999999999999999999", "010", "1_000", "true", ".nan", ".inf", "[1]", "{at: 1}", "!much 6", "0x7D1", "2026-01-01"] {
        let text = format!("name: tex\nlevels:\n  # the ceiling\n  global: {cap} # not {{so}}\n");
        refused(&text, Some(4), "levels.global", cap, "whole number from 1 to 1000");
    }
    for cap in ["six", "\"6, or 7\"", "0", "1001"] {
        for level in ["user", "project", "tenant"] {
            let text = format!("name: tex\nlevels: {{ {level}: {cap}, global: 1 }}\n");
            refused(&text, Some(2), &format!("levels.{level}"), cap, "whole number from 1 to 1000");
        }
    }
}

#[test]
#[rustfmt::skip]
fn null_is_not_absence() {
    refused("name: tex\nlevels:\n  user:\n  project: 1\n", Some(3), "levels.user", "", "leave the line out");
    refused("name: tex\nlevels:\n  user: ~\n", Some(3), "levels.user", "~", "leave the line out");
    refused("name: tex\nlevels: {user: null}\n", Some(2), "levels.user", "null", "leave the line out");
    refused("name: tex\nlevels:\nwaitMs: 1\n", Some(2), "levels", "", "leave the line out");
    refused("name: tex\nresource:\n", Some(2), "resource", "", "is empty");
    refused("name: tex\nttlSeconds: ~\n", Some(2), "ttlSeconds", "~", "1 to 604800");
    refused("name: tex\nwaitMs: Null\n", Some(2), "waitMs", "Null", "0 to 86400000");
}

#[test]
#[rustfmt::skip]
fn times_are_bounded() {
    for ttl in ["0", "-1", "604801", "1000000000000", "1.5", "2m", "\"60\""] {
        refused(&format!("name: tex\nttlSeconds: {ttl}\n"), Some(2), "ttlSeconds", ttl, "1 to 604800");
    }
    for wait in ["-1", "86400001", "1e3", "10s", "\"0\""] {
        refused(&format!("name: tex\nwaitMs: {wait}\n"), Some(2), "waitMs", wait, "0 to 86400000");
    }
}

#[test]
fn resources_are_text_and_not_inline_ones() {
    let long = "r".repeat(129);
    for resource in ["7", "true", "mcp-inline:acme/thesis/browser", "[a]", &long] {
        let error = parse(&format!("name: tex\nresource: {resource}\n")).unwrap_err();
        assert_eq!(
            (error.line, error.field.as_deref()),
            (Some(2), Some("resource"))
        );
        let value = error.value.as_deref().unwrap();
        assert!(resource.starts_with(value.trim_end_matches('…')), "{error}");
    }
    assert!(parse("name: tex\nresource: \"7\"").is_ok());
}

#[test]
#[rustfmt::skip]
fn hostile_sizes_are_refused_in_time() {
    let begun = Instant::now();
    let comment = format!("name: tex\n#{}", "x".repeat(64 * 1024 - 11));
    assert_eq!(comment.len(), 64 * 1024);
    assert!(parse(&comment).is_ok());
    refused(&format!("{comment}x"), None, "", "", "65537 bytes");

    let mut bomb = "name: tex\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..10 {
        let refs = format!("*a{},", i - 1).repeat(10);
        bomb += &format!("a{i}: &a{i} [{refs}]\n");
    }
    refused(&bomb, Some(2), "a0", "&a0 [x,x,x,x,x,x,x,x,x,x]", "known");
    refused(&bomb.replace("a9:", "levels:").replace("a0:", "resource:"), Some(2), "resource", "&a0 [x,x,x,x,x,x,x,x,x,x]", "must be text");

    let deep = format!("name: tex\nlevels: {}", "[".repeat(17));
    refused(&deep, Some(2), "", &deep[10..], "16 nest");
    refused(&format!("name: tex\nlevels: {}", "[".repeat(40_000)), Some(2), "", &format!("levels: {}…", "[".repeat(72)), "16 nest");
    refused(&format!("name: tex\nlevels: {}", "{a: ".repeat(16_000)), Some(2), "", &format!("levels: {}…", "{a: ".repeat(18)), "16 nest");
    refused(&format!("name: tex\nlevels: {}", "[']',".repeat(12_000)), Some(2), "", &format!("levels: {}['…", "[']',".repeat(14)), "256 open");

    for nest in ["- ", "? ", "! ", "&a ", "- ? "] {
        let text = format!(
            "name: tex\nlevels: \n  {}",
            nest.repeat(65_000 / nest.len())
        );
        assert!(parse(&text).is_err(), "{nest}");
    }
    let mut block = "name: tex\nlevels:\n".to_owned();
    for depth in 1..300 {
        block += &format!("{}a:\n", " ".repeat(depth));
    }
    refused(&block, Some(3), "levels.a", "", "known");
    let wide = format!("name: tex\nlevels: [{}", "a,".repeat(32_000));
    assert!(parse(&wide).is_err());
    let nested = format!(
        "name: tex\nlevels: {}{}",
        "[".repeat(16),
        "a,".repeat(32_000)
    );
    assert!(parse(&nested).is_err());
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_document_is_checked_for_where_it_is_to_stand() {
    let check = |tenant: &str, project: &str, path: &str| {
        let address = DocumentAddress::new(tenant, project, path).unwrap();
        LayerDocument::check(&address, "name: tex\nlevels: {user: 0}")
    };
    let tex = "_vance/config/lease/tex.yaml";
    for (tenant, project, layer) in [
        ("_vance", "_tenant", Some(Layer::System)),
        ("acme", "_tenant", Some(Layer::Tenant)),
        ("acme", "thesis", Some(Layer::Project)),
        ("_vance", "thesis", None),
        ("acme", "_vance", None),
        ("_tenant", "_tenant", None),
    ] {
        let error = check(tenant, project, tex).unwrap_err();
        assert_eq!(error.layer, layer);
        assert_eq!(
            (error.address.tenant(), error.address.project()),
            (tenant, project)
        );
        assert_eq!(error.field.is_some(), layer.is_some(), "{error}");
    }
    assert_eq!(
        check("acme", "thesis", "_vance/config/tools/x.yaml"),
        Ok(None)
    );
    let long = "x".repeat(65);
    for name in ["a|b", "a b", "é", &long] {
        let error = check(
            "acme",
            "thesis",
            &format!("_vance/config/lease/{name}.yaml"),
        )
        .unwrap_err();
        assert_eq!(
            (error.field.as_deref(), error.value.as_deref()),
            (Some("name"), Some(name))
        );
        assert!(error.problem.contains("[A-Za-z0-9]"), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in prop::collection::vec(fragment(), 0..24)) {
        let text = text.concat();
        if let Err(error) = parse(&text) {
            let message = error.to_string();
            prop_assert!(!message.chars().any(char::is_control), "{:?}", message);
            prop_assert!(message.len() < 1000, "{}", message);
            let lines = text.split('\n').count();
            prop_assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{} of {}", message, lines);
        }
    }
}

/// What YAML gives a meaning to, what a definition does, and anything else.
fn fragment() -> impl Strategy<Value = String> {
    let known = [
        "name: tex\n",
        "name",
        "tex",
        "levels",
        "user",
        "ttlSeconds: ",
        "waitMs: ",
        "resource: ",
        "global: 1",
        ": ",
        ":",
        "\n",
        "\n  ",
        "\n- ",
        "- ",
        "? ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "&a ",
        "*a",
        "!t ",
        "!!int ",
        "!!str ",
        "<<: ",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "\\",
        "#",
        " # ",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "%",
        "@",
        "`",
        "~",
        "null",
        "0",
        "-1",
        "1e3",
        "\t",
        "\r\n",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "\u{1F600}",
        "\0",
    ];
    prop_oneof![
        9 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

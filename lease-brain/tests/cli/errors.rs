//! What is refused: by which code, in one line, with nothing on standard output.

use crate::support::{Output, World, bare};

#[tokio::test(flavor = "multi_thread")]
async fn undefined_lease_is_not_taken_for_one_without_limit() {
    let world = World::new().await;
    for args in [
        &["acquire", "typo"][..],
        &["run", "typo", "--", "true"],
        &["definition", "typo"],
    ] {
        let output = world.lease(args);
        let error = output.error(78);
        assert!(error.starts_with("LEASE_UNDEFINED: "), "{error}");
        let advice = "write _vance/config/lease/typo.yaml in the system, tenant or project layer";
        assert!(
            error.contains("for acme/thesis") && error.ends_with(advice),
            "{error}"
        );
    }
}

#[test]
fn bad_names_and_tokens_are_refused_without_a_server() {
    let dead = "mongodb://127.0.0.1:1";
    let rule = "must match [A-Za-z0-9][A-Za-z0-9_-]{0,63}";
    let plain = "must be 1 to 128 bytes without control characters";
    let kept = "is reserved for configuration documents and holds no leases";
    let token = "must be 32 lower-case hexadecimal digits, as printed by an acquire";
    let cases: [(&[&str], String); 10] = [
        (
            &["acquire", "../pdf"],
            format!("lease name \"../pdf\" {rule}"),
        ),
        (
            &["run", "a b", "--", "true"],
            format!("lease name \"a b\" {rule}"),
        ),
        (&["definition", "é"], format!("lease name \"é\" {rule}")),
        (
            &["acquire", "pdf", "--tenant", "_vance"],
            format!("tenant \"_vance\" {kept}"),
        ),
        (
            &["acquire", "pdf", "--project", "_tenant"],
            format!("project \"_tenant\" {kept}"),
        ),
        (
            &["acquire", "pdf", "--user", "a\x1b[2Jb"],
            format!("user \"a\\u{{1b}}[2Jb\" {plain}"),
        ),
        (&["check", "abc"], format!("lease token \"abc\" {token}")),
        (&["release", "ABC"], format!("lease token \"ABC\" {token}")),
        (&["show", ""], format!("lease token \"\" {token}")),
        (&["list", "--pod", ""], format!("pod id \"\" {plain}")),
    ];
    for (args, problem) in cases {
        let output = Output::of(bare(args).env("MONGODB_URI", dead));
        assert_eq!(
            output.error(78),
            format!("LEASE_INVALID: {problem}"),
            "{args:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_succeed_is_refused_as_invalid() {
    let world = World::with_pdf(60).await;
    let output = world.lease(&["acquire", "pdf", "--wait", "25h"]);
    assert_eq!(
        output.error(78),
        "LEASE_INVALID: a wait of 1day 1h is longer than the longest allowed, one day (86400 s)"
    );
    let output = world.lease(&["acquire", "pdf", "--holder-ref", "\x1b[2J"]);
    let error = output.error(78);
    assert!(
        error.starts_with("LEASE_INVALID: holder ref \"\\u{1b}[2J\" "),
        "{error}"
    );
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_is_told_with_level_scope_and_the_oldest_holder() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 9, user: 1 }").await;
    world.acquire(&["pdf", "--holder-ref", "first job"]);
    for args in [
        &["acquire", "pdf", "--wait", "0s"][..],
        &["run", "pdf", "--wait", "0s", "--", "true"],
    ] {
        let output = world.lease(args);
        let error = output.error(75);
        let starts = "LEASE_BUSY: pdf is busy: 1 of 1 in use at level user (acme/ada); the oldest holder has had it for ";
        assert!(error.starts_with(starts), "{error}");
        assert!(error.contains(": first job (acme/thesis/ada)"), "{error}");
    }
    // The user of another project is the same user, the one of another tenant is not.
    world
        .lease(&["acquire", "pdf", "--project", "b", "--wait", "0s"])
        .error(75);
    world.acquire(&["pdf", "--tenant", "b", "--wait", "0s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_that_is_not_there_is_lost() {
    let world = World::new().await;
    let token = "0123456789abcdef0123456789abcdef";
    let show = world.lease(&["show", token]);
    assert_eq!(
        show.error(76),
        format!(
            "no lease {token}: it is not held any more; released, or reaped and cleaned up, or never was"
        )
    );
    let check = world.lease(&["check", token]);
    assert_eq!(
        check.error(76),
        format!(
            "LEASE_LOST: lease {token} is lost: it is not held any more; released, or reaped and cleaned up"
        )
    );
}

#[test]
fn wrong_usage_has_its_own_code_and_is_told_on_standard_error() {
    let cases: [&[&str]; 10] = [
        &[],
        &["bogus"],
        &["acquire"],
        &["acquire", "pdf", "--wait", "soon"],
        &["run", "pdf"],
        &["run", "pdf", "--"],
        &["run", "pdf", "true"],
        &["list", "--state", "odd"],
        &["list", "--documents", "dir:"],
        &["document"],
    ];
    for args in cases {
        let output = Output::of(&mut bare(args));
        assert_eq!((output.code, &*output.stdout), (Some(64), ""), "{args:?}");
        assert!(
            output.stderr.contains("--help") || output.stderr.contains("Usage"),
            "{output:?}"
        );
    }
    let output = Output::of(bare(&["acquire", "pdf"]).env_remove("LEASE_USER"));
    assert_eq!(output.code, Some(64));
    assert!(output.stderr.contains("--user <USER>"), "{output:?}");
}

#[test]
fn missing_options_are_named_with_their_variables_and_nothing_else_is_called_required() {
    // What has a variable that is set looks as if it had been given.
    let command = || {
        let mut command = bare(&["run", "pdf", "--", "true"]);
        command
            .env("MONGODB_URI", "mongodb://127.0.0.1:1")
            .env("LEASE_DATABASE", "x");
        command
    };
    let mut all = command();
    for variable in ["LEASE_TENANT", "LEASE_PROJECT", "LEASE_USER"] {
        all.env_remove(variable);
    }
    let output = Output::of(&mut all);
    assert_eq!(output.code, Some(64));
    let tip = "tip: options can also come from the environment: --tenant as LEASE_TENANT, --project as LEASE_PROJECT, --user as \
               LEASE_USER\n";
    assert!(output.stderr.contains(tip), "{output:?}");
    let usage = "\nUsage: lease run [OPTIONS] --tenant <TENANT> --project <PROJECT> --user <USER> <NAME> -- <COMMAND>...\n";
    assert!(output.stderr.contains(usage), "{output:?}");
    let output = Output::of(command().env_remove("LEASE_USER"));
    let tip = "environment: --user as LEASE_USER\n";
    assert!(output.stderr.contains(tip), "{output:?}");
    // What has no variable is not said to have one.
    let output = Output::of(&mut bare(&["show"]));
    assert!(!output.stderr.contains("tip:"), "{output:?}");
}

#[test]
fn duration_that_is_none_is_refused_with_one_that_is() {
    let token = "0123456789abcdef0123456789abcdef";
    let cases: [&[&str]; 6] = [
        &["acquire", "pdf", "--wait", "soon"],
        &["run", "pdf", "--kill-grace", "soon", "--", "true"],
        &["revoke", token, "--wait", "--timeout", "soon"],
        &["mcp", "tools", "t", "--timeout", "soon"],
        &["tex", "compile", ".", "--timeout", "soon"],
        &["token", "--ttl", "soon"],
    ];
    for args in cases {
        let output = Output::of(&mut bare(args));
        assert_eq!(output.code, Some(64), "{args:?}");
        let form = "'soon' for '--";
        assert!(output.stderr.contains(form), "{output:?}");
        let form = "; write it like `2h 30m`";
        assert!(output.stderr.contains(form), "{output:?}");
    }
}

#[test]
fn command_without_its_dashes_is_told_where_it_stands() {
    let tip = "tip: the command to run stands after `--`: lease run NAME -- COMMAND\n";
    let output = Output::of(&mut bare(&["run", "pdf", "sleep", "1"]));
    assert_eq!((output.code, &*output.stdout), (Some(64), ""));
    assert!(output.stderr.contains(tip), "{output:?}");
    for args in [
        &["run", "pdf", "--wiat", "1s", "--", "true"][..],
        &["run", "pdf", "x", "--", "true"],
        &["show", "pdf", "sleep"],
    ] {
        let output = Output::of(&mut bare(args));
        assert_eq!(output.code, Some(64), "{args:?}");
        assert!(!output.stderr.contains(tip), "{output:?}");
    }
}

#[test]
fn help_of_every_command_shows_an_example_on_standard_output() {
    let commands: [&[&str]; 21] = [
        &["run"],
        &["acquire"],
        &["check"],
        &["release"],
        &["list"],
        &["show"],
        &["counters"],
        &["definition"],
        &["reconcile"],
        &["pods"],
        &["revoke"],
        &["revoke-pod"],
        &["sweep"],
        &["cleanup", "list"],
        &["cleanup", "retry"],
        &["cleanup", "abandon"],
        &["document", "put"],
        &["document", "get"],
        &["document", "list"],
        &["document", "rm"],
        &["token"],
    ];
    for command in commands {
        let output = Output::of(&mut bare(&[command, &["--help"]].concat()));
        output.assert(0, "");
        let example = format!("lease {}", command.join(" "));
        let (_, examples) = output
            .stdout
            .split_once("\nExample:\n")
            .expect("an example");
        assert!(examples.contains(&example), "{command:?}: {examples}");
    }
    let whole = Output::of(&mut bare(&["--help"]));
    whole.assert(0, "");
    for code in [
        "64 usage",
        "69 the store",
        "75 busy",
        "76 the lease is lost",
        "77 only a part",
        "79 done by force",
        "80 revoked but not cleaned up",
        "78 undefined or invalid",
    ] {
        assert!(whole.stdout.contains(code), "{code}");
    }
}

//! `lease acquire`, `check` and `release`, as shells use them.

use mongodb::bson::doc;
use rustix::process::Signal;

use crate::{
    processes::{await_handler, signal},
    support::{Output, World, bare},
};

#[tokio::test(flavor = "multi_thread")]
async fn example_of_the_help_works_in_a_shell() {
    let world = World::with_pdf(60).await;
    let script = "eval \"$(lease acquire pdf --export-env)\" && \
        lease check \"$LEASE_TOKEN\" && echo \"$LEASE_RESOURCE $LEASE_TTL_SECONDS\" && lease list >&2; \
        sh -c 'lease release \"$LEASE_TOKEN\"'";
    let output = Output::of(&mut world.shell(script));
    assert_eq!(
        (output.code, &*output.stdout),
        (Some(0), "pdf 60\n"),
        "{output:?}"
    );
    assert!(output.stderr.contains("HELD"), "{output:?}");
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_all_there_is_on_standard_output_unless_more_is_asked_for() {
    let world = World::with_pdf(60).await;
    let plain = world.lease(&["acquire", "pdf"]);
    plain.assert(0, "");
    let token = plain.stdout.strip_suffix('\n').unwrap();
    world.lease(&["release", token]).assert(0, "");
    let json = world.lease(&["acquire", "pdf", "--json"]);
    json.assert(0, "");
    let token = json.json()["token"].clone();
    let whole =
        serde_json::json!({ "token": token, "resource": "pdf", "ttlSeconds": 60, "noop": false });
    assert_eq!(json.json(), whole);
    world
        .lease(&["check", token.as_str().unwrap()])
        .assert(0, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_resource_name_is_executed_by_the_shell() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "it's $(touch bad1) `touch bad2`",
        "';touch bad3;'",
        "\\'; touch bad4 #",
        "\"$(touch bad5)\" & touch bad6 |&; *?[a] ~ !x $HOME",
    ];
    for name in names {
        let body = format!(
            "resource: {}\nlevels: {{ global: 1 }}",
            serde_json::json!(name)
        );
        world.define("odd", &body).await;
        let script = "eval \"$(lease acquire odd --export-env)\"; printf %s \"$LEASE_RESOURCE\"; lease release \"$LEASE_TOKEN\"";
        let output = Output::of(world.shell(script).current_dir(folder.path()));
        output.assert(0, "");
        assert_eq!(output.stdout, name);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_whose_token_nobody_would_learn_is_not_kept() {
    let world = World::with_pdf(60).await;
    for form in ["", "--json", "--export-env"] {
        // Not a pipe at all, and one that nobody reads.
        let closed = format!("exec lease acquire pdf {form} >&-");
        let output = Output::of(&mut world.shell(&closed));
        let error = output.error(1);
        assert!(error.starts_with("standard output is closed"), "{error}");

        let mut command = world.command(&["acquire", "pdf"]);
        command.args(Some(form).filter(|it| !it.is_empty()));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Output::of(command.stdout(writer));
        assert_eq!(
            output.error(1),
            "nothing is held: Broken pipe (os error 32)"
        );
        assert_eq!(world.stored().await, (0, 0), "{form}");
    }
    // Who throws the token away knows what they do: the lease ends with its time.
    let output = Output::of(&mut world.shell("exec lease acquire pdf >/dev/null"));
    output.assert(0, "");
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_ends_a_wait_and_leaves_nothing_behind() {
    let world = World::with_pdf(60).await;
    world.acquire(&["pdf"]);
    for (number, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        for command in [&["acquire", "pdf"][..], &["run", "pdf", "--", "true"]] {
            let (verb, rest) = command.split_first().unwrap();
            let args = [&[*verb, "--user", "bob", "--wait", "20m"], rest].concat();
            let waiter = world.command(&args).spawn().unwrap();
            let pid = waiter.id().cast_signed();
            await_handler(pid, number);
            signal(pid, number);
            let output = Output::of_child(waiter);
            assert_eq!(output.error(code), "stopped while waiting; nothing is held");
        }
    }
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn check_restarts_the_time_to_live_and_tells_what_is_lost() {
    let world = World::with_pdf(60).await;
    let token = world.acquire(&["pdf"]);
    world.age(std::time::Duration::from_secs(50)).await;
    world.lease(&["check", &token]).assert(0, "");
    let left = world.lease(&["show", &token, "--json"]).json()["expiresInSeconds"].as_i64();
    assert!(left.unwrap() > 20, "{left:?}");
    let held = world.lease(&["check", &token, "--json"]);
    held.assert(0, "");
    assert_eq!(
        held.json(),
        serde_json::json!({ "token": token, "held": true })
    );

    let revocation =
        doc! { "reason": "revoke", "at": "$$NOW", "attempts": 0, "nextTryAt": "$$NOW" };
    let revoked = doc! { "$set": { "state": "REVOKING", "revocation": revocation } };
    world
        .holders()
        .update_many(doc! {}, vec![revoked])
        .await
        .unwrap();
    let lost = world.lease(&["check", &token, "--json"]);
    assert_eq!(lost.code, Some(76));
    assert!(lost.error_line().starts_with("LEASE_LOST: "), "{lost:?}");
    assert_eq!(
        lost.json(),
        serde_json::json!({ "token": token, "held": false, "reason": "revoke" })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn second_release_says_so_and_does_no_harm() {
    let world = World::with_pdf(60).await;
    let token = world.acquire(&["pdf"]);
    world.lease(&["release", &token]).assert(0, "");
    let next = world.acquire(&["pdf", "--user", "bob", "--wait", "0s"]);
    let again = world.lease(&["release", &token]);
    again.assert(
        0,
        &format!("lease: {token} was not held any more: released, or reaped, before\n"),
    );
    let json = world.lease(&["release", &token, "--json"]);
    json.assert(0, "");
    assert_eq!(
        json.json(),
        serde_json::json!({ "token": token, "released": false })
    );
    world.lease(&["check", &next]).assert(0, "");
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_without_caps_has_no_token_to_print() {
    let world = World::new().await;
    world.define("free", "").await;
    let plain = world.lease(&["acquire", "free"]);
    assert!(
        plain.error(78).contains("use --json or --export-env"),
        "{plain:?}"
    );
    let json = world.lease(&["acquire", "free", "--json"]);
    json.assert(0, "");
    assert_eq!(
        json.json(),
        serde_json::json!({ "token": null, "resource": "free", "ttlSeconds": null, "noop": true })
    );
    let shell = world.lease(&["acquire", "free", "--export-env"]);
    shell.assert(0, "");
    assert!(
        shell.stdout.starts_with("export LEASE_TOKEN='none'\n"),
        "{shell:?}"
    );
    for verb in ["check", "release"] {
        world.lease(&[verb, "none"]).assert(0, "");
        let empty = world.lease(&[verb, ""]);
        assert!(
            empty.error(64).starts_with("the token is empty"),
            "{empty:?}"
        );
    }
    // The command line says one or the other.
    bare(&["acquire", "free", "--json", "--export-env"]);
    let both = world.lease(&["acquire", "free", "--json", "--export-env"]);
    assert_eq!((both.code, &*both.stdout), (Some(64), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_that_fails_fails_in_the_shell_that_evaluates_it() {
    let world = World::with_pdf(60).await;
    world.acquire(&["pdf"]);
    let script = "LEASE_TOKEN=old; eval \"$(lease acquire pdf --wait 0s --export-env)\"; echo \"$? ${LEASE_TOKEN-unset}\"";
    let output = Output::of(&mut world.shell(script));
    assert_eq!(
        (output.code, &*output.stdout),
        (Some(0), "75 unset\n"),
        "{output:?}"
    );
}

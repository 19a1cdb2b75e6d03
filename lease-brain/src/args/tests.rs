use std::fs;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    brain: BrainArgs,
}

/// The settings of a brain that is told this, or the one line in which it refuses. The environment of the tests says
/// nothing to it.
fn resolve(args: &[&str]) -> Result<BrainSettings, String> {
    let cli =
        Cli::try_parse_from([&["brain"], args].concat()).map_err(|error| error.to_string())?;
    cli.brain.resolve().map_err(|error| error.to_string())
}

#[track_caller]
fn assert_refused(args: &[&str], expected: &str) {
    match resolve(args) {
        Ok(_) => panic!("{args:?} is not refused"),
        Err(line) => assert_eq!(line, expected, "{args:?}"),
    }
}

#[test]
fn options_are_well_formed_and_each_has_a_variable() {
    use clap::CommandFactory;
    let command = Cli::command();
    command.clone().debug_assert();
    for option in command.get_arguments() {
        assert!(option.get_env().is_some(), "{option}");
        assert!(option.get_help().is_some(), "{option}");
        assert!(option.get_long().is_some(), "{option}");
    }
}

#[test]
fn every_time_says_what_breaks_when_it_is_too_small() {
    use clap::CommandFactory;
    let command = Cli::command();
    let is_time = |option: &&clap::Arg| {
        let names = option.get_value_names().unwrap_or_default();
        names.iter().any(|name| name.as_str() == "DURATION")
    };
    let times: Vec<_> = command.get_arguments().filter(is_time).collect();
    assert_eq!(times.len(), 5);
    for time in times {
        let help = time.get_help().unwrap().to_string();
        let time = time.get_id();
        assert!(help.contains("Too small, and"), "{time}: {help}");
    }
}

#[test]
fn times_that_nobody_can_mean_are_refused_in_one_line_with_the_cure() {
    let often = "must be at least 100ms";
    for (option, most, usual) in [
        ("reap-interval", "1day", "30s"),
        ("reconcile-interval", "30days", "5m"),
        ("drain", "1day", "25s"),
        (
            "heartbeat",
            "20m, a third of what a pod may be silent for",
            "10s",
        ),
    ] {
        let long = most.split(',').next().unwrap();
        // The most that can be said, and what is just too much.
        for (said, shown) in [
            ("500000000000y", "500000000000years"),
            ("584542046090years", "584542046090years"),
            (&*format!("{long} 1ms"), &*format!("{long} 1ms")),
        ] {
            assert_refused(
                &[&format!("--{option}={said}")],
                &format!("--{option} {shown:?} must be at most {most}; {usual} is usual"),
            );
        }
        if option != "drain" {
            for said in ["0s", "99ms"] {
                assert_refused(
                    &[&format!("--{option}={said}")],
                    &format!("--{option} {said:?} {often}; {usual} is usual"),
                );
            }
        }
    }
    for said in ["500000000000y", "1h 1ms"] {
        let shown = said.replace('y', "years");
        assert_refused(
            &[&format!("--stale={said}")],
            &format!(
                "--stale {shown:?} must be at most 1h: a pod that was silent for so long is forgotten"
            ),
        );
    }
    for most in [
        &["--reap-interval=1d"][..],
        &["--reconcile-interval=30d"],
        &["--drain=1d"],
        &["--heartbeat=20m", "--stale=1h"],
    ] {
        assert!(resolve(most).is_ok(), "{most:?}");
    }
    for least in [
        &["--reap-interval=100ms"][..],
        &["--reconcile-interval=100ms"],
        &["--drain=0s"],
        &["--heartbeat=100ms", "--stale=300ms"],
    ] {
        assert!(resolve(least).is_ok(), "{least:?}");
    }
    // What cannot be read is refused by whoever reads it.
    for option in ["reap-interval", "drain", "stale", "heartbeat"] {
        let said = resolve(&[&format!("--{option}=99999999999999999999y")]);
        assert!(said.is_err(), "{option}");
    }
}

#[test]
fn brain_that_is_told_nothing_runs_by_itself() {
    let settings = resolve(&[]).unwrap();
    let bound = "127.0.0.1:4711".parse().unwrap();
    let endpoint = settings.http.endpoint(bound);
    assert_eq!(endpoint, "http://127.0.0.1:4711");
    assert_eq!(settings.http.listen.to_string(), "127.0.0.1:7311");
    assert!(settings.http.internal_token.is_none());
    let pod = settings.cluster.pod(endpoint, bound.port()).unwrap();
    assert_eq!(pod.cluster_id, "default");
    assert!(pod.node_name.ends_with(":4711"), "{}", pod.node_name);
    assert!(pod.node_name.len() > ":4711".len());
    assert_eq!(
        (pod.heartbeat, pod.stale),
        (Duration::from_secs(10), Duration::from_secs(30))
    );
    assert_eq!(settings.lease.reap_interval, Duration::from_secs(30));
    assert!(!settings.lease.allow_project_commands);
}

#[test]
fn what_is_said_is_what_it_runs_with() {
    let settings = resolve(&[
        "--listen=[::]:0",
        "--advertise=https://brain.example/",
        "--cluster-id=blue",
        "--node-name=a|b",
        "--labels=zone=b,$rack=,eq=a=b",
        "--heartbeat=200ms",
        "--stale=1s",
        "--reap-interval=1s",
        "--allow-project-commands",
        "--internal-token=0123456789abcdef",
    ])
    .unwrap();
    let bound = "[::]:4711".parse().unwrap();
    let endpoint = settings.http.endpoint(bound);
    let pod = settings.cluster.pod(endpoint, bound.port()).unwrap();
    assert_eq!(pod.endpoint, "https://brain.example");
    assert_eq!((&*pod.cluster_id, &*pod.node_name), ("blue", "a|b"));
    let labels: Vec<_> = pod.labels.iter().map(|(k, v)| format!("{k}:{v}")).collect();
    assert_eq!(labels, ["$rack:", "eq:a=b", "zone:b"]);
    assert!(settings.lease.allow_project_commands);
    let shown = format!("{:?}", settings.http);
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
}

#[test]
fn nonsense_is_refused_in_one_line_with_the_cure() {
    assert_refused(
        &["--listen=0.0.0.0:7311"],
        "--listen 0.0.0.0:7311 is every address of this machine: say with --advertise at which URL the other pods reach \
         this one",
    );
    assert_refused(
        &["--advertise=brain:7311"],
        "--advertise \"brain:7311\" must be a URL at which the other pods reach this one, like http://10.0.0.7:7311",
    );
    assert_refused(
        &["--stale=29s"],
        "--stale \"29s\" must be at least three heartbeats of 10s, so 30s or more: one lost heartbeat is no death",
    );
    assert_refused(
        &["--node-name="],
        "--node-name \"\" must be 1 to 128 bytes without control characters",
    );
    assert_refused(
        &["--labels=a=1,b=2,a=3"],
        "--labels has \"a\" twice: keep one",
    );
    assert_refused(
        &["--labels=a=\u{7}"],
        "--labels \"\\u{7}\" must be 1 to 128 bytes without control characters",
    );
    assert_refused(
        &["--secrets-dir=/nonexistent"],
        "--secrets-dir /nonexistent is no directory: create it, or leave the option out",
    );
    assert_refused(
        &["--documents=dir:/nonexistent"],
        "--documents dir:/nonexistent is no directory: create it, or leave the option out",
    );
    assert_refused(
        &["--mongodb-uri="],
        "the MongoDB URI is not usable: --mongodb-uri (MONGODB_URI) is empty; it looks like \
         mongodb://USER:PASSWORD@HOST:PORT/DATABASE, with special characters in user and password percent-encoded",
    );
    let durations = ["--reap-interval=soon", "--heartbeat=soon", "--drain=9"];
    for duration in durations {
        let refused = resolve(&[duration]).err().unwrap_or_default();
        assert!(refused.contains("; write it like `2h 30m`"), "{refused}");
    }
    assert!(resolve(&["--labels=a"]).is_err_and(|it| it.contains("must be NAME=VALUE")));
    assert!(resolve(&["--documents=dir:"]).is_err());
}

#[test]
fn database_has_a_name_that_a_server_takes() {
    let rule = r#"the name of a MongoDB database must be 1 to 63 bytes without blanks and any of / \ . " $"#;
    let long = "x".repeat(100_000);
    let shown = format!("{}…", "x".repeat(63));
    for (name, shown) in [
        ("", ""),
        ("a.b", "a.b"),
        ("a b", "a b"),
        ("$a", "$a"),
        (&long, &shown),
    ] {
        let expected = format!("--database (LEASE_DATABASE) {shown:?}: {rule}");
        assert_refused(&[&format!("--database={name}")], &expected);
    }
    for name in ["a", "lease-2_ü", &"x".repeat(63)] {
        assert!(resolve(&[&format!("--database={name}")]).is_ok(), "{name}");
    }
}

#[test]
fn token_is_long_enough_and_never_shown() {
    use secrecy::ExposeSecret;
    let folder = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let path = folder.path().join("token");
        fs::write(&path, text).unwrap();
        format!("--internal-token-file={}", path.display())
    };
    let told = file("\n 0123456789abcdef\n");
    let settings = resolve(&[&told]).unwrap();
    let token = settings.http.internal_token.unwrap();
    assert_eq!(token.expose_secret(), "0123456789abcdef");

    let path = folder.path().join("token");
    let path = path.display();
    let rule = "it must have at least 16, as from `openssl rand -hex 16`";
    for (text, length) in [("", 0), (" \n", 0), ("  hunter2-hunter2  ", 15)] {
        let expected = format!("--internal-token-file {path} has {length} bytes: {rule}");
        assert_refused(&[&file(text)], &expected);
    }
    for odd in [
        "0123456789\nabcdef",
        "0123456789 abcdef",
        "0123456789abcdéf",
    ] {
        let said = format!(
            "--internal-token-file {path} must have letters, digits and punctuation of ASCII only, as from `openssl \
             rand -hex 16`"
        );
        assert_refused(&[&file(odd)], &said);
    }
    assert_refused(
        &["--internal-token=hunter2-hunter2"],
        &format!("--internal-token has 15 bytes: {rule}"),
    );
    assert_refused(
        &["--internal-token="],
        &format!("--internal-token has 0 bytes: {rule}"),
    );
    assert_refused(
        &[
            "--internal-token=0123456789abcdef",
            &file("0123456789abcdef"),
        ],
        "the internal token is given twice, as LEASE_INTERNAL_TOKEN and as a file (--internal-token-file or \
         LEASE_INTERNAL_TOKEN_FILE): keep one",
    );
    let long = "x".repeat(64 * 1024 + 1);
    assert_refused(
        &[&file(&long)],
        &format!(
            "--internal-token-file {path} has more than 64 KiB: make a secret with `openssl rand -hex 16`"
        ),
    );
    // It has no end, and is no file.
    assert_refused(
        &["--internal-token-file=/dev/zero"],
        "--internal-token-file /dev/zero",
    );
    assert_refused(
        &["--internal-token-file=/nonexistent"],
        "--internal-token-file /nonexistent",
    );
}

#[test]
fn tokens_are_verified_by_one_kind_of_keys_or_not_at_all() {
    assert!(resolve(&[]).unwrap().access.is_none());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let file = format!("--jwt-secret-file={}", path.display());
    let path = path.display();
    fs::write(
        folder.path().join("secret"),
        " 0123456789abcdef0123456789abcdef\n",
    )
    .unwrap();
    let settings = resolve(&[&file, "--jwt-issuer=https://idp"]).unwrap();
    let shown = format!("{:?}", settings.access.unwrap());
    assert!(
        !shown.contains("0123456789abcdef") && shown.contains("lease"),
        "{shown}"
    );
    assert!(
        resolve(&["--jwt-jwks=https://idp.example/jwks"])
            .unwrap()
            .access
            .is_some()
    );

    assert_refused(
        &[&file, "--jwt-jwks=https://idp.example/jwks"],
        "what verifies tokens is given twice, as --jwt-secret-file (LEASE_JWT_SECRET_FILE) and as --jwt-jwks \
         (LEASE_JWT_JWKS): keep one",
    );
    assert_refused(
        &["--jwt-secret-file=/nonexistent"],
        "--jwt-secret-file /nonexistent cannot be read (No such file or directory (os error 2)): make it with `openssl \
         rand -hex 32`",
    );
    assert_refused(
        &["--jwt-jwks=/nonexistent"],
        "--jwt-jwks /nonexistent cannot be read (No such file or directory (os error 2)): name the file with the \
         provider's public keys",
    );
    assert_refused(
        &["--jwt-jwks=http://idp.example/jwks"],
        "--jwt-jwks must be an https URL: over http, anybody on the way could put in keys of their own",
    );
    assert_refused(
        &[&file, "--jwt-audience="],
        "--jwt-audience is empty: leave it out, or say what tokens have",
    );
    for (text, length) in [("", 0), ("  0123456789abcdef0123456789abcde \n", 31)] {
        fs::write(folder.path().join("secret"), text).unwrap();
        assert_refused(
            &[&file],
            &format!(
                "--jwt-secret-file {path} has {length} bytes: it must have at least 32, as from `openssl rand -hex 32`"
            ),
        );
    }
}

//! `lease token`: a token on standard output, and nothing of the secret anywhere.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Output, bare};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), format!("\n{SECRET} \n")).unwrap();
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with the secret, away from any server.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = bare(&[&["token"], args].concat());
        command
            .env("MONGODB_URI", "mongodb://127.0.0.1:1")
            .env("LEASE_JWT_SECRET_FILE", self.file("secret"));
        command
    }

    fn token(&self, args: &[&str]) -> Output {
        let output = Output::of(&mut self.command(args));
        assert!(!format!("{output:?}").contains(SECRET), "{args:?}");
        output
    }
}

/// What a token says, if this secret has signed it for this audience.
fn claims(token: &str, audience: &str) -> Value {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.set_audience(&[audience]);
    let key = DecodingKey::from_secret(SECRET.as_bytes()).unwrap();
    let claims = decode::<Value>(token, &key, &validation).unwrap().claims;
    assert_eq!(decode_header(token).unwrap().alg, Algorithm::HS256);
    claims
}

#[test]
fn token_stands_alone_on_standard_output_and_says_who_it_is_for() {
    let desk = Desk::new();
    let output = desk.token(&[]);
    output.assert(0, "");
    let said = claims(output.stdout.strip_suffix('\n').unwrap(), "lease");
    let lasts = said["exp"].as_u64().unwrap() - said["iat"].as_u64().unwrap();
    assert_eq!(lasts, 3600);
    for (claim, expected) in [
        ("sub", json!("ada")),
        ("tenant", json!("acme")),
        ("roles", json!(["ADMIN"])),
        ("aud", json!("lease")),
        ("iss", Value::Null),
    ] {
        assert_eq!(said[claim], expected, "{claim}");
    }
    let args = [
        "--tenant=b/c",
        "--role=ADMIN",
        "--role=x",
        "--subject=eve",
        "--audience=other",
        "--issuer=here",
        "--ttl=1d",
        "--json",
    ];
    let output = desk.token(&args);
    output.assert(0, "");
    let made = output.json();
    let said = claims(made["token"].as_str().unwrap(), "other");
    for claim in ["tenant", "roles"] {
        assert_eq!(said[claim], made[claim], "{claim}");
    }
    assert_eq!(made["roles"], json!(["ADMIN", "x"]));
    assert_eq!(
        (&made["tenant"], &made["subject"]),
        (&json!("b/c"), &json!("eve"))
    );
    assert_eq!(
        (&said["sub"], &said["iss"]),
        (&json!("eve"), &json!("here"))
    );
    let expires: jiff::Timestamp = made["expiresAt"].as_str().unwrap().parse().unwrap();
    assert_eq!(expires.as_second(), said["exp"].as_i64().unwrap());
}

#[test]
fn who_is_nobody_in_particular_is_an_operator() {
    let desk = Desk::new();
    let output = Output::of(desk.command(&[]).env_remove("LEASE_USER"));
    output.assert(0, "");
    assert_eq!(claims(output.stdout.trim_end(), "lease")["sub"], "operator");
}

#[test]
fn what_no_brain_would_take_is_refused_in_one_line() {
    let desk = Desk::new();
    fs::write(desk.file("short"), format!("  {}  ", &SECRET[1..])).unwrap();
    let short = desk.file("short");
    let short = short.to_str().unwrap();
    let refused = [
        (64, vec!["--ttl=25h"], "--ttl: such a token is valid for 1 second to 24 hours".to_owned()),
        (64, vec!["--ttl=0s"], "--ttl: such a token is valid for 1 second to 24 hours".to_owned()),
        (64, vec!["--subject="], "--subject: the subject must be 1 to 128 bytes without control characters".to_owned()),
        (64, vec!["--role="], "--role: a role must be 1 to 128 bytes without control characters, for example ADMIN".to_owned()),
        (64, vec!["--audience="], "--audience: the audience must be 1 to 128 bytes without control characters, and what the brain has as --jwt-audience".to_owned()),
        (78, vec!["--tenant=_vance"], "LEASE_INVALID: tenant \"_vance\" is reserved for configuration documents and holds no leases".to_owned()),
        (78, vec!["--tenant="], "LEASE_INVALID: tenant \"\" must be 1 to 128 bytes without control characters".to_owned()),
        (64, vec!["--secret-file", short], format!("--secret-file {short} has 31 bytes: it must have at least 32, as from `openssl rand -hex 32`")),
    ];
    for (code, args, line) in refused {
        assert_eq!(desk.token(&args).error(code), line, "{args:?}");
    }
    let absent = desk.token(&["--secret-file=/nonexistent"]);
    let line = absent.error(64);
    assert!(
        line.starts_with("--secret-file /nonexistent cannot be read (No such file"),
        "{line}"
    );
    let none = Output::of(desk.command(&[]).env_remove("LEASE_JWT_SECRET_FILE"));
    assert_eq!(
        none.error(64),
        "no secret to sign with: name the file that the brain has as --jwt-secret-file, with --secret-file or \
         LEASE_JWT_SECRET_FILE"
    );
}

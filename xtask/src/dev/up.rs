//! `cargo xtask up`.

use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use lease_brain::access::{ADMIN, DEFAULT_AUDIENCE, DevelopmentToken, Expected, SigningSecret};
use lease_brain::cluster::{PodLiveness, PodStatus};
use lease_shared::connect;
use test_mongo::{eventually, log_tail};
use uuid::Uuid;

use super::DevBrain;
use crate::demo::build_binaries;
use crate::mongo;

/// Tried first, so that the address stays true from one start to the next.
const PREFERRED_PORT: u16 = 7311;
const NODE_NAME: &str = "dev";
const DATABASE: &str = "lease";
const TENANT: &str = "acme";
const TOKEN_TTL: Duration = Duration::from_secs(8 * 60 * 60);

pub(crate) async fn run() -> Result<()> {
    let binaries = build_binaries()?;
    mongo::run(mongo::Command::Start).await?;
    let uri = mongo::uri().await?;
    let database = connect(&uri).await?.database(DATABASE);
    if let Err(error) = PodLiveness::read(&database, None).await {
        let hint =
            "where MONGODB_URI names a server, that one is used: unset it, and `up` starts one";
        return Err(anyhow::Error::from(error).context(hint));
    }
    let brain = DevBrain::new();
    fs::create_dir_all(&brain.directory).context("create target/dev")?;
    secret(&brain.token_file())?;
    secret(&brain.jwt_secret_file())?;
    if brain.is_outdated() {
        println!(
            "the brain that runs was started by an earlier `cargo xtask up`: it is started anew"
        );
        brain.end().await?;
    }
    if brain.running().is_none() {
        launch(&brain, &binaries, &uri)?;
    }
    let endpoint = match wait(&brain, &uri).await {
        Ok(endpoint) => endpoint,
        Err(error) => {
            brain.end().await?;
            return Err(error);
        }
    };
    let env = format!(
        "export MONGODB_URI='{uri}' LEASE_DATABASE={DATABASE}\n\
         export DEV_BRAIN_URL='{endpoint}'\n\
         export LEASE_INTERNAL_TOKEN_FILE='{}'\n\
         export LEASE_JWT_SECRET_FILE='{}'\n\
         export LEASE_TENANT={TENANT} LEASE_PROJECT=thesis LEASE_USER=ada\n\
         export PATH='{}':\"$PATH\"\n",
        brain.token_file().display(),
        brain.jwt_secret_file().display(),
        binaries.display()
    );
    fs::write(brain.env_file(), env).context("write target/dev/env")?;
    println!(
        "a brain serves at {endpoint}; its log is {}",
        brain.log().display()
    );
    println!("\nto try it:\n");
    println!(
        "  . target/dev/env                      # addresses, secrets and the commands, for this shell"
    );
    println!("  lease pods                            # who is there");
    println!("  lease run tex -- sleep 60 &           # a command under a lease");
    println!("  lease list                            # what is held");
    println!(
        "  lease revoke \"$(lease list --json | sed -n 's/.*\"token\": \"\\(.*\\)\",/\\1/p')\" --wait"
    );
    println!("  curl {endpoint}/metrics               # what is counted");
    println!(
        "\nwhat the administrators of tenant {TENANT} see is at {endpoint}/insights/{TENANT}; a token to sign in with, \
         good for {} hours (`lease token` makes others):\n",
        TOKEN_TTL.as_secs() / 3600
    );
    println!("  {}", admin_token(&brain)?);
    println!("\nto end it all: cargo xtask down");
    Ok(())
}

/// A token for the page of the tenant that `target/dev/env` names.
fn admin_token(brain: &DevBrain) -> Result<String> {
    let secret = SigningSecret::from_file(&brain.jwt_secret_file())?;
    let token = DevelopmentToken {
        subject: "ada".to_owned(),
        tenant: TENANT.to_owned(),
        roles: vec![ADMIN.to_owned()],
        ttl: TOKEN_TTL,
    };
    let expected = Expected {
        audience: DEFAULT_AUDIENCE.to_owned(),
        issuer: None,
    };
    let (token, _) = token.sign(&secret, &expected)?;
    Ok(token)
}

/// Makes a secret, once.
fn secret(file: &Path) -> Result<()> {
    if file.exists() {
        return Ok(());
    }
    let fresh = file.with_extension("new");
    fs::write(&fresh, format!("{}\n", Uuid::new_v4().simple())).context("write a secret")?;
    fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
    fs::rename(&fresh, file).context("keep a secret")
}

/// Starts it in the background, in a group of its own, so that the terminal's end does not reach it.
fn launch(brain: &DevBrain, binaries: &Path, uri: &str) -> Result<()> {
    let port = match TcpListener::bind(("127.0.0.1", PREFERRED_PORT)) {
        Ok(_) => PREFERRED_PORT,
        Err(_) => 0,
    };
    let log = File::create(brain.log()).context("create the log")?;
    let child = Command::new(binaries.join("brain"))
        .args([
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--node-name",
            NODE_NAME,
        ])
        .args([
            "--heartbeat",
            "1s",
            "--stale",
            "5s",
            "--reap-interval",
            "5s",
        ])
        .arg("--internal-token-file")
        .arg(brain.token_file())
        .arg("--jwt-secret-file")
        .arg(brain.jwt_secret_file())
        // The token that `up` prints is for these, whatever this shell says.
        .args(["--jwt-audience", DEFAULT_AUDIENCE])
        .env_remove("LEASE_JWT_ISSUER")
        .env_remove("LEASE_JWT_JWKS")
        .env("MONGODB_URI", uri)
        .env("LEASE_DATABASE", DATABASE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("start the brain")?;
    fs::write(brain.pid_file(), format!("{}\n", child.id())).context("write its process id")
}

/// Waits until it is a pod, and says where.
async fn wait(brain: &DevBrain, uri: &str) -> Result<String> {
    let database = connect(uri).await?.database(DATABASE);
    let endpoint = async || -> Result<Option<String>> {
        let liveness = PodLiveness::read(&database, None).await?;
        let mut pods = liveness.pods().iter();
        let own = pods.find(|pod| {
            pod.alive && pod.status == PodStatus::Running && pod.node_name == NODE_NAME
        });
        Ok(own.and_then(|pod| pod.endpoint.clone()))
    };
    eventually("the brain is a pod", Duration::from_secs(30), async || {
        Ok(endpoint().await?.is_some())
    })
    .await
    .map_err(|error| error.context(log_tail(&brain.log())))?;
    endpoint().await?.context("the brain went")
}

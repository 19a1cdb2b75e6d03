//! An operator revokes a lease that no pod holds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mongodb::bson::doc;
use test_mongo::eventually;

use crate::fleet::{Answer, Fleet, Plug, SOON, token};

#[tokio::test(flavor = "multi_thread")]
async fn resource_is_switched_off_when_its_command_has_ended_and_not_before() {
    let fleet = Fleet::new().await;
    fleet
        .define("bench", "levels: { user: 1 }\nttlSeconds: 30")
        .await;
    let plug = Plug::new(Answer::Hang).await;
    let pod = fleet.pod("a").await;
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let mut wrapper = Command::new(env!("CARGO_BIN_EXE_lease"))
        .args([
            "run",
            "bench",
            "--tenant",
            "acme",
            "--project",
            "thesis",
            "--user",
            "ada",
        ])
        .args(["--on-revoke", &plug.url("/off"), "--", "sh", "-c"])
        .arg(format!(
            "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600",
            pid.display()
        ))
        .env("MONGODB_URI", fleet.mongo.uri())
        .env("LEASE_DATABASE", fleet.mongo.name())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the command runs", SOON, async || Ok(pid.exists()))
        .await
        .unwrap();
    let child = std::fs::read_to_string(&pid).unwrap();
    let runs = || Path::new("/proc").join(child.trim()).exists();
    let holder = fleet.holders().find_one(doc! {}).await.unwrap().unwrap();
    let lease = holder.get_str("_id").unwrap().parse().unwrap();
    pod.revoke(&lease).await;
    // The pod goes on with what others hold, and the command is let run.
    let other = token(
        fleet
            .lease("bob", Some(&pod), true, &plug.url("/other"))
            .await,
    );
    plug.answer_path("/other", Answer::Status(200));
    fleet.revoke(&other).await;
    fleet.gone_alone(&other).await;
    assert!(!fleet.leases.cleanups().retry(&lease).await.unwrap() || runs());
    plug.called("/off", 1).await;
    assert!(!runs(), "the command has ended before");
    plug.answer(Answer::Status(200));
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/off").begun, 1);
    assert_eq!(wrapper.wait().unwrap().code(), Some(76));
}

#[tokio::test(flavor = "multi_thread")]
async fn exclusive_lease_without_a_pod_waits_for_its_holder_or_its_time() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let pod = fleet.pod("a").await;
    let ended = token(fleet.lease("ada", None, false, &plug.url("/ended")).await);
    let silent = token(fleet.lease("bob", None, false, &plug.url("/silent")).await);
    for lease in [&ended, &silent] {
        pod.revoke(lease).await;
        // A try that has not been made cannot be made again.
        assert!(fleet.leases.cleanups().retry(lease).await.unwrap());
    }
    for user in ["x", "y"] {
        // Whose clean-ups show that the pod has looked for what is due.
        let other = token(
            fleet
                .lease(user, Some(&pod), true, &plug.url("/other"))
                .await,
        );
        fleet.revoke(&other).await;
        fleet.gone_alone(&other).await;
    }
    assert_eq!(plug.calls("/ended").begun + plug.calls("/silent").begun, 0);
    fleet.only_booked(2).await;
    fleet.leases.release_token(&ended).await.unwrap();
    fleet.gone_alone(&ended).await;
    assert_eq!(
        (plug.calls("/ended").begun, plug.calls("/silent").begun),
        (1, 0)
    );
    fleet.age_cleanups(Duration::from_secs(600)).await;
    fleet.gone(&silent).await;
    assert_eq!(plug.calls("/silent").begun, 1);
}

//! Both binaries can be the guardians of what they start.

use std::time::Duration;

use supervise::{Ended, Piped, PipedCommand};

async fn check(binary: &str) {
    let command = PipedCommand {
        program: "cat".into(),
        args: Vec::new(),
        envs: Vec::new(),
        cwd: None,
        grace: Duration::from_secs(10),
        lifetime: None,
        guardian: Some(binary.into()),
    };
    let mut cat = Piped::spawn(&command).await.unwrap();
    drop(cat.stdin.take());
    assert_eq!(cat.wait().await, Ended::Exited(0), "{binary}");
}

#[tokio::test]
async fn binaries_are_their_own_guardians() {
    check(env!("CARGO_BIN_EXE_brain")).await;
    check(env!("CARGO_BIN_EXE_lease")).await;
}

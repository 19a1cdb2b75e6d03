//! Helpers behind pipes, held by this process among its other children.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use supervise::{Confinement, Ended, Piped, PipedCommand, SpawnError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::run::{DESCENDANTS, FAR, LATE, MARK, Mark, PROBE, SOON, parent, signal, until};

const GRACE: Duration = Duration::from_millis(500);

fn command(mark: &Mark, program: &str, args: &[&str]) -> PipedCommand {
    PipedCommand {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        envs: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            (MARK.into(), mark.0.clone().into()),
        ],
        cwd: None,
        grace: GRACE,
        lifetime: None,
        guardian: Some(PROBE.into()),
    }
}

fn script(mark: &Mark, script: &str) -> PipedCommand {
    command(mark, "sh", &["-c", script])
}

async fn start(command: &PipedCommand) -> Piped {
    soon(Piped::spawn(command)).await.unwrap()
}

#[track_caller]
fn soon<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let done = timeout(SOON, future).await;
        done.unwrap_or_else(|_| panic!("not within {SOON:?}: {caller}"))
    }
}

/// What the helper says, until its stdout ends.
async fn said(piped: &mut Piped) -> String {
    let mut text = String::new();
    let mut stdout = piped.stdout.take().unwrap();
    soon(stdout.read_to_string(&mut text)).await.unwrap();
    text
}

fn number(piped: &Piped) -> i32 {
    piped.child().as_raw_nonzero().get()
}

/// Writes a line and reads it back from a `cat`.
async fn check_echo(cat: &mut Piped, line: &str) {
    let mut back = vec![0; line.len()];
    let stdin = cat.stdin.as_mut().unwrap();
    soon(stdin.write_all(line.as_bytes())).await.unwrap();
    let stdout = cat.stdout.as_mut().unwrap();
    soon(stdout.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, line.as_bytes());
}

#[tokio::test]
async fn helper_is_ended_when_its_lifetime_is_over() {
    let mark = Mark::new();
    let mut command = script(&mark, "trap '' TERM; while :; do sleep 1; done");
    command.lifetime = Some(Duration::from_millis(300));
    let mut piped = start(&command).await;
    assert_eq!(soon(piped.wait()).await, Ended::DeadlinePassed);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_go_both_ways_and_the_end_of_stdin_reaches_the_helper() {
    let mark = Mark::new();
    let mut cat = start(&command(&mark, "cat", &[])).await;
    check_echo(&mut cat, "hello\n").await;
    drop(cat.stdin.take());
    assert_eq!(said(&mut cat).await, "");
    assert_eq!(soon(cat.wait()).await, Ended::Exited(0));
    assert_eq!(
        soon(cat.end()).await,
        Ended::Exited(0),
        "it had ended before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_helper_closes_is_closed() {
    let mark = Mark::new();
    let closed = script(&mark, "exec <&- >&- 2>&-; exec sleep 300");
    let mut piped = start(&closed).await;
    assert_eq!(said(&mut piped).await, "");
    let mut rest = Vec::new();
    let mut stderr = piped.stderr.take().unwrap();
    soon(stderr.read_to_end(&mut rest)).await.unwrap();
    let stdin = piped.stdin.as_mut().unwrap();
    let refused = soon(stdin.write_all(b"hello\n")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    mark.await_sleepers(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_the_helper_is_told() {
    let mark = Mark::new();
    for (text, ended) in [
        ("echo bye; exit 3", Ended::Exited(3)),
        ("echo bye; kill -KILL $$", Ended::Signalled(9)),
        ("echo bye; kill -PIPE $$", Ended::Signalled(13)),
        (
            "echo bye; setsid sleep 300 >/dev/null & exit 4",
            Ended::Exited(4),
        ),
    ] {
        let mut piped = start(&script(&mark, text)).await;
        assert_eq!(said(&mut piped).await, "bye\n");
        assert_eq!(soon(piped.wait()).await, ended, "{text}");
        assert_eq!(mark.living(), [], "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helper_is_asked_to_end() {
    let mark = Mark::new();
    let mut bye = script(&mark, "trap 'echo bye; exit' TERM; sleep 300 & wait");
    bye.grace = Duration::from_millis(FAR);
    let mut piped = start(&bye).await;
    mark.await_sleepers(1);
    signal(number(&piped), Signal::STOP);
    assert_eq!(soon(piped.end()).await, Ended::OnRequest);
    assert_eq!(said(&mut piped).await, "bye\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_ignores_the_request_is_killed_after_the_grace() {
    let mark = Mark::new();
    let deaf = script(&mark, &format!("trap '' TERM; {DESCENDANTS}"));
    let mut piped = start(&deaf).await;
    mark.await_sleepers(4);
    let asked = Instant::now();
    // Going on to end does not depend on who waits for it.
    assert!(timeout(GRACE / 10, piped.end()).await.is_err());
    assert_eq!(soon(piped.end()).await, Ended::OnRequest);
    assert_eq!(mark.living(), []);
    assert!(asked.elapsed() >= GRACE);
    assert!(asked.elapsed() < GRACE + LATE, "{:?}", asked.elapsed());
    assert_eq!(soon(piped.end()).await, Ended::OnRequest);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_helper_ends() {
    let mark = Mark::new();
    let deaf = script(&mark, &format!("trap '' TERM; {DESCENDANTS}"));
    let piped = start(&deaf).await;
    mark.await_sleepers(4);
    drop(piped);
    mark.await_none(GRACE + LATE);
}

#[test]
fn helper_ends_with_the_runtime() {
    let mark = Mark::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let deaf = script(&mark, &format!("trap '' TERM; {DESCENDANTS}"));
    let piped = runtime.block_on(start(&deaf));
    mark.await_sleepers(4);
    drop(runtime);
    mark.await_none(GRACE + LATE);
    drop(piped);
}

#[tokio::test(flavor = "multi_thread")]
async fn start_that_is_given_up_leaves_nothing() {
    let mark = Mark::new();
    let sleep = command(&mark, "sleep", &["300"]);
    let mut started = 0;
    for limit in 0..20 {
        let limit = Duration::from_millis(limit);
        let piped = timeout(limit, Piped::spawn(&sleep)).await;
        started += u32::from(piped.is_ok());
    }
    assert!(started < 20);
    mark.await_none(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_guardian_does_not_save_the_helper() {
    let mark = Mark::new();
    let mut sleep = command(&mark, "sleep", &["300"]);
    sleep.grace = Duration::from_millis(FAR);
    let mut piped = start(&sleep).await;
    signal(parent(number(&piped)), Signal::STOP);
    assert_eq!(soon(piped.end()).await, Ended::OnRequest);
    assert_eq!(mark.living(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn helper_that_keeps_its_guardian_stopped_is_killed() {
    let mark = Mark::new();
    let holds = "trap '' TERM; read line; while kill -STOP $PPID; do :; done";
    let mut piped = start(&script(&mark, holds)).await;
    drop(piped.stdin.take());
    let guardian = parent(number(&piped));
    let is_stopped = || {
        let status = fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
        status.contains("State:\tT").then_some(())
    };
    until(SOON, || "the guardian stopped".into(), is_stopped);
    soon(piped.end()).await;
    assert_eq!(mark.living(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn helper_does_not_outlive_its_guardian() {
    let mark = Mark::new();
    let mut other = Command::new("true").spawn().unwrap();
    let deaf = script(&mark, "trap '' TERM; sleep 300 & sleep 301 & wait");
    let mut piped = start(&deaf).await;
    mark.await_sleepers(2);
    signal(parent(number(&piped)), Signal::KILL);
    // Nobody waits for it.
    mark.await_none(LATE);
    assert_eq!(said(&mut piped).await, "");
    assert_eq!(soon(piped.wait()).await, Ended::GuardianDied);
    assert_eq!(soon(piped.end()).await, Ended::GuardianDied);
    assert!(
        other.wait().unwrap().success(),
        "another's child was collected"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_are_independent() {
    let marks = [Mark::new(), Mark::new(), Mark::new()];
    let mut ended = start(&command(&marks[0], "cat", &[])).await;
    let mut left = start(&command(&marks[1], "cat", &[])).await;
    let mut killed = start(&command(&marks[2], "cat", &[])).await;
    // A helper that held the end of another's pipe would keep it open.
    drop(ended.stdin.take());
    assert_eq!(soon(ended.wait()).await, Ended::Exited(0));
    check_echo(&mut left, "first\n").await;
    signal(parent(number(&killed)), Signal::KILL);
    assert_eq!(soon(killed.wait()).await, Ended::GuardianDied);
    check_echo(&mut left, "second\n").await;
    assert_eq!(soon(left.end()).await, Ended::OnRequest);
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_of_a_helper_are_collected() {
    let mark = Mark::new();
    let piped = start(&script(&mark, "(sleep 300 &); sleep 301; exit")).await;
    mark.await_sleepers(2);
    let (child, guardian) = (number(&piped), parent(number(&piped)));
    let mut living = mark.living().into_iter();
    let orphan = living.find(|it| it.1 != child && parent(it.1) == guardian);
    let (_, orphan) = orphan.unwrap();
    signal(orphan, Signal::KILL);
    let is_collected = || (!fs::exists(format!("/proc/{orphan}")).unwrap()).then_some(());
    until(SOON, || "the orphan collected".into(), is_collected);
}

#[tokio::test(flavor = "multi_thread")]
async fn environment_is_what_was_given() {
    let mark = Mark::new();
    let mut env = command(&mark, "env", &[]);
    env.envs.push(("ONE".into(), "1".into()));
    let mut piped = start(&env).await;
    let text = said(&mut piped).await;
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let marked = format!("{MARK}={}", mark.0);
    assert_eq!(lines, ["ONE=1", "PATH=/usr/bin:/bin", &marked]);
    assert!(!format!("{env:?}").contains("/usr/bin"), "may be secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn program_is_found_on_the_given_path_or_from_the_directory() {
    let mark = Mark::new();
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("supervise-test-tool");
    fs::write(&tool, "#!/bin/sh\n/bin/pwd\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let place = folder.path().canonicalize().unwrap();
    let there = format!("{}\n", place.display());

    let mut named = command(&mark, "supervise-test-tool", &[]);
    named.cwd = Some(folder.path().into());
    let error = soon(Piped::spawn(&named)).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotFound(_)), "{error}");
    named.envs[0].1 = folder.path().into();
    assert_eq!(said(&mut start(&named).await).await, there);

    let mut relative = command(&mark, "./supervise-test-tool", &[]);
    relative.cwd = Some(folder.path().into());
    assert_eq!(said(&mut start(&relative).await).await, there);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_is_told_apart() {
    let mark = Mark::new();
    let nothing = command(&mark, "no-such-command", &[]);
    let error = soon(Piped::spawn(&nothing)).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotFound(_)), "{error}");

    let text = command(&mark, "/etc/passwd", &[]);
    let error = soon(Piped::spawn(&text)).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotExecutable(_)), "{error}");

    let mut nowhere = command(&mark, "true", &[]);
    nowhere.cwd = Some("/no/such/folder".into());
    let error = soon(Piped::spawn(&nowhere)).await.unwrap_err();
    assert!(matches!(error, SpawnError::Directory(_)), "{error}");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");

    let mut unguarded = command(&mark, "true", &[]);
    unguarded.guardian = Some("/no/such/guardian".into());
    let error = soon(Piped::spawn(&unguarded)).await.unwrap_err();
    assert!(matches!(error, SpawnError::Guardian(_)), "{error}");
    mark.await_none(SOON);
}

#[tokio::test(flavor = "multi_thread")]
async fn confined_helper_touches_only_what_is_listed() {
    let mark = Mark::new();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("mine")).unwrap();
    fs::create_dir(at("given")).unwrap();
    for place in ["mine/file", "given/file", "secret"] {
        fs::write(at(place), format!("{place}\n")).unwrap();
    }
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"];
    let mut confinement = Confinement {
        readable: system.map(Into::into).into(),
        writable: vec![at("mine"), "/dev/null".into(), "/no/such/place".into()],
    };
    confinement.readable.push(at("given"));
    // What it starts is confined as well, and no signal leaves.
    let me = std::process::id();
    let text = format!(
        "cat mine/file given/file secret /proc/{me}/environ; echo x >mine/new && cat mine/new; \
         echo x >given/new; sh -c 'cat secret'; kill -CONT {me}; exit 3"
    );
    let mut command = script(&mark, &format!("{{ {text}; }} 2>/dev/null"));
    command.cwd = Some(folder.path().into());
    let mut piped = soon(Piped::spawn_confined(&command, &confinement))
        .await
        .unwrap();
    assert_eq!(said(&mut piped).await, "mine/file\ngiven/file\nx\n");
    assert_eq!(soon(piped.wait()).await, Ended::Exited(3));
    assert!(!at("given/new").exists());

    // The next one is not.
    let mut free = start(&script(&mark, &format!("cat {}", at("secret").display()))).await;
    assert_eq!(said(&mut free).await, "secret\n");
    assert_eq!(soon(free.wait()).await, Ended::Exited(0));

    let mut nothing = command;
    nothing.program = "no-such-command".into();
    let error = soon(Piped::spawn_confined(&nothing, &confinement)).await;
    assert!(matches!(error, Err(SpawnError::NotFound(_))), "{error:?}");
}

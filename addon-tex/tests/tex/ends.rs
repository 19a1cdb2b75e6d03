//! Compilations that are cut short leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::bench::{Local, PROBE, document, has_tex, job, left_in, line, processes_in, until};
use crate::guard::{Answer, Guard};

const ENDLESS: &[u8] = br"\newcount\n \loop\typeout{line \number\n}\advance\n by 1 \iftrue\repeat";

#[tokio::test]
async fn endless_document_is_ended_with_the_end_of_its_log() {
    if !has_tex() {
        return;
    }
    let mut local = Local::new();
    local.executor.time_limit = Duration::from_secs(2);
    let guard = Guard::yes();
    let result = local.compile(job(&[("a.tex", ENDLESS)]), &guard).await;
    let expected = "TEX_TIMED_OUT TIMEOUT: no PDF within 2s: simplify the document, or split it";
    assert_eq!(line(&result), expected);
    assert!(
        result.log.lines().count() <= 50 && result.log.contains("line "),
        "{}",
        result.log
    );
    assert_eq!(guard.events.all().last().unwrap(), "closed Gone");
    assert!(guard.events.all().iter().filter(|it| *it == "used").count() > 5);
}

#[tokio::test]
async fn document_that_writes_for_ever_is_ended() {
    if !has_tex() {
        return;
    }
    let mut local = Local::new();
    local.executor.scratch_limit = 4 << 20;
    let text = r"\newwrite\w \immediate\openout\w=big.txt \def\x{xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}
        \loop\immediate\write\w{\x\x\x\x\x\x\x\x\x\x\x\x}\iftrue\repeat";
    let expected = "TEX_TOO_LARGE the compilation wrote more than 4194304 bytes and was ended: make the document smaller";
    let result = local.compile(document(text), &Guard::yes()).await;
    assert_eq!(line(&result), expected);
    // Between two looks the kernel stops it.
    local.executor.poll_interval = Duration::from_secs(60);
    let result = local.compile(document(text), &Guard::yes()).await;
    assert_eq!(line(&result), expected);
    assert!(result.elapsed < Duration::from_secs(50));
}

#[tokio::test]
async fn document_that_makes_files_for_ever_is_ended() {
    if !has_tex() {
        return;
    }
    let mut local = Local::new();
    local.executor.scratch_limit = 4 << 20;
    local.executor.time_limit = Duration::from_secs(60);
    let text = r"\newcount\n \newwrite\w
        \loop\immediate\openout\w=f\number\n.txt \immediate\closeout\w\advance\n by 1 \iftrue\repeat";
    let result = local.compile(document(text), &Guard::yes()).await;
    assert_eq!(result.error.unwrap().code(), "TEX_TOO_LARGE");
}

#[tokio::test]
async fn revocation_ends_latexmk_at_once() {
    if !has_tex() {
        return;
    }
    let mut local = Local::new();
    // Nobody looks before that.
    local.executor.poll_interval = Duration::from_secs(600);
    let guard = Guard::yes();
    let revoke = async {
        guard.events.wait("opened").await;
        until(|| processes_in(local.place.path()) > 1);
        let folder = left_in(local.place.path()).remove(0);
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        guard.revoke.send_replace(true);
    };
    let (result, ()) = tokio::join!(local.compile(job(&[("a.tex", ENDLESS)]), &guard), revoke);
    assert_eq!(
        line(&result),
        "TEX_REVOKED session revoked: by an operator: the compilation was ended"
    );
    assert_eq!(guard.events.all().last().unwrap(), "closed Gone");
}

#[tokio::test]
async fn store_that_fails_mid_way_ends_the_compilation() {
    if !has_tex() {
        return;
    }
    let local = Local::new();
    let guard = Guard::with_uses(&[Answer::Yes, Answer::Yes, Answer::Unavailable]);
    let result = local.compile(job(&[("a.tex", ENDLESS)]), &guard).await;
    assert_eq!(
        line(&result),
        "TEX_UNAVAILABLE no session can be used now: the store is away"
    );
    assert_eq!(guard.events.all().last().unwrap(), "closed Gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_compilation_is_cleaned_up_before_the_guard_is_told() {
    if !has_tex() {
        return;
    }
    let local = Local::new();
    let compiler = local.compiler();
    for moment in ["opening", "opened", "used"] {
        let guard = Guard::yes();
        {
            let compile = compiler.compile(job(&[("a.tex", ENDLESS)]), guard.clone(), |_| {});
            tokio::select! {
                result = compile => panic!("{result:?}"),
                () = guard.events.wait(moment) => {}
            }
        }
        guard.events.wait("closed Gone").await;
        local.assert_nothing_left();
        let closed = guard
            .events
            .all()
            .iter()
            .filter(|it| it.starts_with("closed"))
            .count();
        assert_eq!(closed, 1);
    }
    compiler.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_leaves_no_latexmk_and_its_folder_to_the_next() {
    if !has_tex() {
        return;
    }
    let local = Local::new();
    let place = local.place.path();
    let mut probe = Command::new(PROBE)
        .arg(place)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(probe.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "started");
    until(|| processes_in(place) > 1);

    // One that is alive keeps its folder.
    let guard = Guard::yes();
    let compiler = local.compiler();
    assert!(
        compiler
            .compile(document("x"), guard.clone(), |_| {})
            .await
            .is_success()
    );
    assert_eq!(left_in(place).len(), 1);
    assert!(processes_in(place) > 1);

    probe.kill().unwrap();
    probe.wait().unwrap();
    until(|| processes_in(place) == 0);
    assert_eq!(left_in(place).len(), 1);
    assert!(local.compile(document("x"), &guard).await.is_success());
}

/// Programs instead of those of TeX, and a latexmk that does this.
fn programs(latexmk: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("latexmk", latexmk), ("pdflatex", "")] {
        let place = folder.path().join(name);
        fs::write(&place, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[tokio::test]
async fn guardian_that_says_nothing_is_given_up() {
    let folder = programs("");
    let mut local = Local::new();
    local.executor.path = Some(folder.path().into());
    local.executor.time_limit = Duration::from_millis(300);
    let silent = folder.path().join("silent");
    symlink(PROBE, &silent).unwrap();
    local.executor.guardian = Some(silent.clone());
    let guard = Guard::yes();
    let compile = local.compile(document("x"), &guard);
    let result = timeout(Duration::from_secs(30), compile).await.unwrap();
    let expected = "TEX_TIMED_OUT TIMEOUT: no PDF within 300ms: simplify the document, or split it";
    assert_eq!(line(&result), expected);
    let expected = r#"closed Unknown("latexmk did not start in time, and may still do so")"#;
    assert_eq!(guard.events.all(), ["opening", expected]);
    until(|| processes_named(&silent).is_empty());
}

#[tokio::test]
async fn output_that_is_held_without_the_guardian_holds_nothing_up() {
    // It leaves the group, so that nobody but the guardian would find it.
    let folder = programs("setsid sleep 60 & wait");
    let mut local = Local::new();
    local.executor.path = Some(format!("{}:/usr/bin:/bin", folder.path().display()).into());
    let guard = Guard::yes();
    let compiler = local.compiler();
    let kill = async {
        guard.events.wait("opened").await;
        let sleeping = || processes_with(local.place.path(), "sleep");
        until(|| !sleeping().is_empty());
        for guardian in processes_with(local.place.path(), "__guardian") {
            kill_process(guardian, Signal::KILL).unwrap();
        }
        sleeping()
    };
    let compile = compiler.compile(document("x"), guard.clone(), |_| {});
    let both = async { tokio::join!(compile, kill) };
    let (result, sleeping) = timeout(Duration::from_secs(40), both).await.unwrap();
    let expected = "TEX_LOCAL this machine could not run the compilation (it was ended from outside): tell its operator: \
                    its guardian was killed";
    assert_eq!(line(&result), expected);
    let expected = r#"closed Unknown("the guardian of latexmk was killed, and what left its group may run on")"#;
    assert_eq!(guard.events.all().last().unwrap(), expected);
    for it in sleeping {
        kill_process(it, Signal::KILL).unwrap();
    }
    assert_eq!(left_in(local.place.path()), Vec::<PathBuf>::new());
}

/// The processes that were started with that name or argument and work there.
fn processes_with(place: &Path, argument: &str) -> Vec<Pid> {
    let place = place.canonicalize().unwrap();
    processes(|it| {
        let arguments = fs::read(it.join("cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|it| *it == 0);
        arguments.any(|it| it == argument.as_bytes())
            && fs::read_link(it.join("cwd")).is_ok_and(|it| it.starts_with(&place))
    })
}

fn processes_named(program: &Path) -> Vec<Pid> {
    let program = program.as_os_str().as_encoded_bytes();
    processes(|it| fs::read(it.join("cmdline")).is_ok_and(|it| it.starts_with(program)))
}

fn processes(is_one: impl Fn(&Path) -> bool) -> Vec<Pid> {
    let all = fs::read_dir("/proc").unwrap().map(|it| it.unwrap().path());
    let number = |it: &Path| Pid::from_raw(it.file_name()?.to_str()?.parse().ok()?);
    all.filter(|it| is_one(it))
        .filter_map(|it| number(&it))
        .collect()
}

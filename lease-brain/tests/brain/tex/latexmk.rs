//! The latexmk of this machine. Where it is missing a line says so, and CI requires it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lease_brain::api::TexState;
use mongodb::bson::doc;
use rustix::process::Signal;
use test_mongo::eventually;

use super::{ADA, Whose, compile, document, request, zip};
use crate::fleet::{Fleet, PodOptions, SOON};

fn has_tex() -> bool {
    let there = |program| {
        let run = Command::new(program).arg("--version").output();
        run.is_ok_and(|output| output.status.success())
    };
    let found = there("latexmk") && there("pdflatex");
    let required = std::env::var_os("TEX_E2E").is_some_and(|value| value == "1");
    assert!(
        found || !required,
        "TEX_E2E=1, and there is no latexmk with pdflatex"
    );
    if !found {
        eprintln!(
            "skipped: latexmk is missing (Debian: apt-get install latexmk texlive-latex-base)"
        );
    }
    found
}

const PAPER: &str = r"\pdfcompresslevel=0 \pdfobjcompresslevel=0
\documentclass{article}
\usepackage{amsmath,graphicx}
\begin{document}
\tableofcontents
\section{Beginning}\label{one}
\begin{align} a &= b \label{eq} \end{align}
See section~\ref{two} and~\eqref{eq}.
\newpage
\section{Ending}\label{two}
\input{parts/rest}
\end{document}
";

/// Never ends by itself.
const ENDLESS: &str = r"\def\again{\again}\again";

fn scratch(folder: &Path) -> PodOptions {
    PodOptions::with(&[&format!("--tex-scratch-dir={}", folder.display())])
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// Whether a process works in this folder or is named after it.
fn works_in(folder: &Path) -> bool {
    let name = folder.to_str().unwrap().as_bytes();
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries.map(|entry| entry.path()).any(|process| {
        let cwd = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let named = command.windows(name.len()).any(|window| window == name);
        // The brain itself has it as an option.
        cwd.starts_with(folder)
            || (named && !command.starts_with(env!("CARGO_BIN_EXE_brain").as_bytes()))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn paper_compiles_through_brain_and_lease() {
    if !has_tex() {
        return;
    }
    let fleet = Fleet::new().await;
    let folder = tempfile::tempdir().unwrap();
    let pod = fleet.pod_with("a", scratch(folder.path())).await;
    let files = [
        ("paper.tex", PAPER),
        ("parts/rest.tex", "That is all, from section~\\ref{one}."),
    ];
    let compiled = compile(&pod, ADA, "paper.tex", zip(&files)).await;
    assert!(compiled.outcome.success, "{:?}", compiled.outcome);
    let pdf = String::from_utf8_lossy(&compiled.pdf);
    assert!(
        pdf.starts_with("%PDF-") && pdf.contains("/Count 2"),
        "it has two pages"
    );
    let last_pass = compiled.outcome.log.rsplit("entering extended mode").next();
    assert!(
        !last_pass.unwrap().contains("undefined"),
        "{:?}",
        compiled.outcome
    );
    let states: Vec<TexState> = compiled.told.iter().map(|it| it.state).collect();
    assert!(
        states.contains(&TexState::Waiting) && states.contains(&TexState::Started),
        "{states:?}"
    );
    fleet.nothing_compiles().await;
    assert!(is_empty(folder.path()));

    let broken = document("fine\n\n\\nosuchmacro");
    let compiled = compile(&pod, ADA, "main.tex", zip(&[("main.tex", &broken)])).await;
    compiled.failed("TEX_FAILED", "Undefined control sequence");
    assert!(
        compiled.outcome.log.contains("\\nosuchmacro"),
        "{:?}",
        compiled.outcome
    );
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn source_reads_nothing_of_this_machine() {
    if !has_tex() {
        return;
    }
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    let steals = r"\pdfcompresslevel=0 \documentclass{article}\usepackage{verbatim}\begin{document}x\verbatiminput{/etc/passwd}\end{document}";
    let outside = tempfile::tempdir().unwrap();
    let was_here = outside.path().join("was-here");
    let runs = format!(
        "$pdflatex = 'touch {}; pdflatex %O %S';",
        was_here.display()
    );
    let files = [
        ("main.tex", steals),
        (".latexmkrc", &*runs),
        ("latexmkrc", &*runs),
    ];
    let compiled = compile(&pod, ADA, "main.tex", zip(&files)).await;
    let all = String::from_utf8_lossy(&compiled.pdf).into_owned() + &compiled.outcome.log;
    assert!(!all.contains("root:"), "{all}");
    assert!(!was_here.exists());
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_compilation_leaves_no_process_and_no_folder() {
    if !has_tex() {
        return;
    }
    let fleet = Fleet::new().await;
    let folder = tempfile::tempdir().unwrap();
    let pod = fleet.pod_with("a", scratch(folder.path())).await;
    let endless = document(ENDLESS);
    let compiling = compile(&pod, ADA, "main.tex", zip(&[("main.tex", &endless)]));
    let revoking = async {
        eventually("it runs", SOON, async || Ok(works_in(folder.path())))
            .await
            .unwrap();
        let holder = fleet
            .holders()
            .find_one(doc! { "type": "tex" })
            .await
            .unwrap()
            .unwrap();
        let token = lease_shared::LeaseToken::new(holder.get_str("_id").unwrap()).unwrap();
        pod.revoke(&token).await;
        fleet.gone(&token).await;
    };
    let (compiled, ()) = tokio::join!(compiling, revoking);
    compiled.failed("LEASE_LOST", "an operator revoked it");
    assert!(!works_in(folder.path()));
    assert!(is_empty(folder.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_that_goes_leaves_no_process_and_no_folder() {
    if !has_tex() {
        return;
    }
    let fleet = Fleet::new().await;
    let folder = tempfile::tempdir().unwrap();
    let pod = fleet.pod_with("a", scratch(folder.path())).await;
    let endless = document(ENDLESS);
    let caller =
        tokio::spawn(request(&pod, ADA, "main.tex", zip(&[("main.tex", &endless)])).send());
    eventually("it runs", SOON, async || Ok(works_in(folder.path())))
        .await
        .unwrap();
    caller.abort();
    drop(caller.await);
    fleet.nothing_compiles().await;
    assert!(!works_in(folder.path()));
    assert!(is_empty(folder.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_pod_leaves_no_process_and_another_gives_its_slot_back() {
    if !has_tex() {
        return;
    }
    let fleet = Fleet::new().await;
    let folder = tempfile::tempdir().unwrap();
    let (mut pod, other) =
        tokio::join!(fleet.pod_with("a", scratch(folder.path())), fleet.pod("b"));
    crate::sweep::in_touch(&fleet, &other).await;
    let endless = document(ENDLESS);
    let caller =
        tokio::spawn(request(&pod, ADA, "main.tex", zip(&[("main.tex", &endless)])).send());
    eventually("it runs", SOON, async || Ok(works_in(folder.path())))
        .await
        .unwrap();
    pod.kill();
    drop(caller.await);
    eventually("nothing works there", SOON, async || {
        Ok(!works_in(folder.path()))
    })
    .await
    .unwrap();
    fleet.nothing_compiles().await;
}

/// The main files in a folder with all below: one for each compilation that has its folder now.
fn mains(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    // What vanishes while it is looked at is not there any more.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(mains(&entry.path())),
            Ok(_) if name.ends_with(".tex") => found.push(name),
            _ => {}
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn twelve_real_documents_at_once_keep_the_bundled_caps() {
    if !has_tex() {
        return;
    }
    let fleet = Fleet::new().await;
    // As bundled, but for the wait: all get their turn.
    fleet.define("tex", "waitMs: 120000").await;
    let folder = tempfile::tempdir().unwrap();
    let pod = Arc::new(fleet.pod_with("a", scratch(folder.path())).await);
    // Busy for a second or two.
    let busy = document(r"\newcount\i \loop\ifnum\i<2000000 \advance\i by 1 \repeat done");
    let mut compiling = tokio::task::JoinSet::new();
    for tenant in ["t1", "t2", "t3", "t4"] {
        for project in ["p1", "p2", "p3"] {
            let (pod, busy) = (Arc::clone(&pod), busy.clone());
            compiling.spawn(async move {
                let whose = Whose {
                    tenant,
                    project,
                    user: "ada",
                };
                let main = format!("{tenant}-{project}.tex");
                compile(&pod, whose, &main, zip(&[(&main, &busy)])).await
            });
        }
    }
    let (mut most, mut left) = (0, 12);
    while left > 0 {
        let running = mains(folder.path());
        most = most.max(running.len());
        assert!(running.len() <= 6, "{running:?}");
        let of = |prefix: &str| {
            running
                .iter()
                .filter(|main| main.starts_with(prefix))
                .count()
        };
        assert!(
            ["t1", "t2", "t3", "t4"]
                .iter()
                .all(|tenant| of(tenant) <= 3),
            "{running:?}"
        );
        assert!(running.iter().all(|main| of(main) == 1), "{running:?}");
        let next = tokio::time::timeout(Duration::from_millis(20), compiling.join_next()).await;
        if let Ok(Some(compiled)) = next {
            let compiled = compiled.unwrap();
            assert!(compiled.outcome.success, "{:?}", compiled.outcome);
            left -= 1;
        }
    }
    assert_eq!(most, 6, "the ceiling is reached");
    fleet.nothing_compiles().await;
    assert!(is_empty(folder.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_what_takes_too_long_with_or_without_a_lease() {
    if !has_tex() {
        return;
    }
    let fleet = Fleet::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut options = scratch(folder.path());
    options.args.push("--drain=4s".to_owned());
    fleet.settings("acme", "paper", "tex.lease: none").await;
    let mut pod = fleet.pod_with("a", options).await;
    let endless = document(ENDLESS);
    let free = Whose {
        project: "paper",
        ..ADA
    };
    let mut callers = tokio::task::JoinSet::new();
    for whose in [ADA, free] {
        callers.spawn(request(&pod, whose, "main.tex", zip(&[("main.tex", &endless)])).send());
    }
    eventually("both run", SOON, async || {
        Ok(mains(folder.path()).len() == 2)
    })
    .await
    .unwrap();
    pod.signal(Signal::TERM);
    assert!(pod.ended(SOON).await.success());
    assert!(!works_in(folder.path()));
    assert!(is_empty(folder.path()));
    fleet.nothing_compiles().await;
}

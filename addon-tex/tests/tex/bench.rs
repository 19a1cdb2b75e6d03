//! Documents, and where they are compiled.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use addon_tex::{
    Engine, Executor, Limits, LocalExecutor, MainFile, RemoteExecutor, Sources, TexCompiler,
    TexJob, TexResult,
};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::guard::Guard;

pub(crate) const PROBE: &str = env!("CARGO_BIN_EXE_tex-probe");

/// Whether there is a TeX to test with. CI demands one.
pub(crate) fn has_tex() -> bool {
    has_engine(Engine::Pdflatex)
}

pub(crate) fn has_engine(engine: Engine) -> bool {
    let is_there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap();
        std::env::split_paths(&path).any(|it| it.join(program).exists())
    };
    if is_there("latexmk") && is_there(engine.as_str()) {
        return true;
    }
    assert!(
        std::env::var_os("TEX_E2E").is_none_or(|value| value != "1"),
        "TEX_E2E is set, and there is no latexmk with {engine}"
    );
    eprintln!("SKIPPED, for want of latexmk and {engine}: see CONTRIBUTING.md");
    false
}

/// A zip file of these files, whatever their names.
pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (index, (path, content)) in files.iter().enumerate() {
        writer
            .start_file(stand_in(index, path), SimpleFileOptions::default())
            .unwrap();
        writer.write_all(content).unwrap();
    }
    let mut bytes = writer.finish().unwrap().into_inner();
    for (index, (path, _)) in files.iter().enumerate() {
        replace(
            &mut bytes,
            stand_in(index, path).as_bytes(),
            path.as_bytes(),
        );
    }
    bytes
}

/// A name that the writer takes, as long as `path`.
fn stand_in(index: usize, path: &str) -> String {
    let letter = char::from(b'A' + u8::try_from(index).unwrap());
    letter.to_string().repeat(path.len())
}

pub(crate) fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let places: Vec<_> = (0..bytes.len())
        .filter(|it| bytes[*it..].starts_with(old))
        .collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place..place + old.len()].copy_from_slice(new);
    }
}

pub(crate) fn sources(files: &[(&str, &[u8])]) -> Sources {
    Sources::from_zip(&zip(files), Limits::default()).unwrap()
}

pub(crate) fn job(files: &[(&str, &[u8])]) -> TexJob {
    TexJob {
        sources: sources(files),
        main: MainFile::new(files[0].0).unwrap(),
        engine: Engine::Pdflatex,
    }
}

pub(crate) fn document(body: &str) -> TexJob {
    let text = format!(
        "\\pdfcompresslevel=0\n\\documentclass{{article}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"
    );
    job(&[("main.tex", text.as_bytes())])
}

/// A latexmk of this machine, with a place that is looked at afterwards.
pub(crate) struct Local {
    pub(crate) place: TempDir,
    pub(crate) executor: LocalExecutor,
}

impl Local {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let executor = LocalExecutor {
            scratch: Some(place.path().into()),
            poll_interval: Duration::from_millis(50),
            guardian: Some(PROBE.into()),
            ..LocalExecutor::default()
        };
        Self { place, executor }
    }

    pub(crate) fn compiler(&self) -> TexCompiler {
        TexCompiler::new(Executor::Local(self.executor.clone()))
    }

    /// Compiles, and sees that nothing is left.
    pub(crate) async fn compile(&self, job: TexJob, guard: &Arc<Guard>) -> TexResult {
        let result = self.compiler().compile(job, guard.clone(), |_| {}).await;
        assert_eq!(result.pdf.is_some(), result.error.is_none());
        self.assert_nothing_left();
        result
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(processes_in(self.place.path()), 0);
        assert_eq!(left_in(self.place.path()), Vec::<PathBuf>::new());
    }
}

pub(crate) fn left_in(place: &Path) -> Vec<PathBuf> {
    fs::read_dir(place)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect()
}

/// How many processes have their working directory there.
pub(crate) fn processes_in(place: &Path) -> usize {
    let place = place.canonicalize().unwrap();
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|it| fs::read_link(it.ok()?.path().join("cwd")).ok());
    // Another's guardian may have been started with it.
    processes
        .filter(|it| it.starts_with(&place) && *it != place)
        .count()
}

/// A service that is asked again and again at once.
pub(crate) fn remote(url: &str) -> RemoteExecutor {
    let mut executor = RemoteExecutor::new(url.parse().unwrap());
    executor.poll_interval = Duration::from_millis(5);
    executor
}

pub(crate) async fn compile_at(
    executor: RemoteExecutor,
    job: TexJob,
    guard: &Arc<Guard>,
) -> TexResult {
    let compiler = TexCompiler::new(Executor::Remote(executor));
    let result = compiler.compile(job, guard.clone(), |_| {}).await;
    assert_eq!(result.pdf.is_some(), result.error.is_none());
    result
}

/// The one line that a user sees, with the code before it.
#[track_caller]
pub(crate) fn line(result: &TexResult) -> String {
    let error = result.error.as_ref().expect("a failure");
    let line = error.line();
    assert!(
        !line.contains('\n') && !line.chars().any(char::is_control),
        "{line:?}"
    );
    format!("{} {line}", error.code())
}

#[track_caller]
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "it does not become so");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|it| it == text.as_bytes())
}

//! The guardian of the tests' compilations, one that says nothing if it is called `silent`; and `tex-probe SCRATCH`, which compiles an endless document there until it is
//! killed.

use std::process::ExitCode;
use std::sync::Arc;

use addon_tex::{
    Engine, Executor, Limits, LocalExecutor, MainFile, Progress, Sources, TexCompiler, TexJob,
};
use lease_toolpack::Unguarded;

fn main() -> ExitCode {
    if supervise::is_guardian() {
        if std::env::args_os()
            .next()
            .is_some_and(|it| it.as_encoded_bytes().ends_with(b"silent"))
        {
            return silent_guardian();
        }
        return supervise::guardian_main();
    }
    let scratch = std::env::args_os().nth(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.tex"), "\\loop\\iftrue\\repeat").unwrap();
    let executor = LocalExecutor {
        scratch: Some(scratch.into()),
        ..LocalExecutor::default()
    };
    let job = TexJob {
        sources: Sources::from_directory(folder.path(), Limits::default()).unwrap(),
        main: MainFile::new("main.tex").unwrap(),
        engine: Engine::Pdflatex,
    };
    let compiler = TexCompiler::new(Executor::Local(executor));
    let tell = |progress| {
        if let Progress::Started { .. } = progress {
            eprintln!("started");
        }
    };
    let compile = compiler.compile(job, Arc::new(Unguarded), tell);
    tokio::runtime::Runtime::new().unwrap().block_on(compile);
    ExitCode::SUCCESS
}

/// Starts nothing and tells nobody, until it is left alone.
fn silent_guardian() -> ExitCode {
    let socket = std::env::args_os().nth(2).unwrap();
    let mut wrapper = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let _ = std::io::copy(&mut wrapper, &mut std::io::sink());
    ExitCode::SUCCESS
}

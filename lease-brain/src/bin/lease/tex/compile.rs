//! `lease tex compile DIR`.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use addon_tex::{Limits, MainFile, Sources};
use anyhow::Context;
use clap::Args;
use lease_brain::api::{Problem, TexOutcome, TexQuery};
use lease_shared::in_full;

use crate::brain::{Asked, BrainAt};
use crate::connection::{Connection, Holder};
use crate::exit::{BUSY, INVALID, LOST, UNAVAILABLE, USAGE, coded};
use crate::output;
use crate::ticker::{Ticker, ticking};

/// Send a folder to a brain, and get the PDF back.
///
/// How far it is goes to standard error, the end of the log too if there is no PDF. Exit codes: 0 there is a PDF, 1 the
/// document does not compile, or took too long, 64 usage, 69 nothing can be compiled now, 75 busy, 76 revoked, 78 the
/// settings or the lease are not valid.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease tex compile thesis --main paper.tex --tenant acme --project thesis --user ada -o paper.pdf")]
pub(crate) struct Opts {
    /// The folder with the document and all that it needs; hidden files stay here.
    directory: PathBuf,
    /// The document's main file, within the folder.
    #[arg(long, value_name = "FILE", default_value = "main.tex")]
    main: String,
    /// Where the PDF goes, `-` for standard output [default: the main file's name with .pdf].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// `pdflatex`, `xelatex` or `lualatex`.
    #[arg(long, value_name = "ENGINE", default_value = "pdflatex")]
    engine: String,
    /// How long to wait for the PDF at most.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = lease_brain::args::duration)]
    timeout: Duration,
    #[command(flatten)]
    holder: Holder,
    #[command(flatten)]
    brain: BrainAt,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let tenancy = opts.holder.tenancy()?;
    let unusable = |error: addon_tex::SourcesError| coded(USAGE, in_full(&error));
    let main = MainFile::new(&opts.main).map_err(unusable)?;
    let sources = Sources::from_directory(&opts.directory, Limits::default()).map_err(unusable)?;
    if sources.files().all(|(path, _)| path != main.as_str()) {
        let problem = format!(
            "{} has no {}: name the main file with --main",
            opts.directory.display(),
            main.as_str()
        );
        return Err(coded(USAGE, problem));
    }
    let zip = sources.to_zip().map_err(unusable)?;
    let to_stdout = opts.output.as_deref() == Some(Path::new("-"));
    if to_stdout && json {
        let problem = "--json and the PDF cannot both go to standard output: name a file with -o";
        return Err(coded(USAGE, problem));
    }
    if to_stdout && output::is_closed() {
        return Err(coded(
            USAGE,
            "there is no standard output for the PDF: name a file with -o",
        ));
    }
    let to = opts.output.unwrap_or_else(|| {
        let name = Path::new(main.as_str()).with_extension("pdf");
        PathBuf::from(name.file_name().unwrap_or_default())
    });
    let brains = opts.brain.find(&connection.database().await?).await?;
    let query = TexQuery {
        tenant: tenancy.tenant().to_owned(),
        project: tenancy.project().to_owned(),
        user: tenancy.user().to_owned(),
        main: main.as_str().to_owned(),
        engine: Some(opts.engine),
    };
    let ticker = Ticker::new(Some(opts.timeout));
    let what = Asked {
        unknown: "to repeat it is safe",
    };
    let (query, zip, timeout) = (&query, &zip, opts.timeout);
    let compiling = brains.ask(what, |brain| {
        let ticker = &ticker;
        async move {
            let tell = |progress: &lease_brain::api::TexProgress| {
                let more = progress
                    .detail
                    .as_deref()
                    .map(|detail| format!(": {detail}"));
                let more = more.unwrap_or_default();
                ticker
                    .borrow_mut()
                    .tell(progress.state.as_str(), &output::printable(&more));
            };
            brain.tex_compile(query, zip.clone(), timeout, tell).await
        }
    });
    let (_, (outcome, pdf)) = ticking(&ticker, compiling).await?;
    if outcome.success {
        write(&to, &pdf).with_context(|| format!("could not write {}", to.display()))?;
    } else if !json {
        for line in outcome.log.lines() {
            eprintln!("{}", output::printable(line));
        }
    }
    if json {
        output::json(&outcome)?;
    }
    match &outcome.problem {
        None => Ok(ExitCode::SUCCESS),
        Some(problem) => Err(failed(problem, &outcome)),
    }
}

fn failed(problem: &Problem, outcome: &TexOutcome) -> anyhow::Error {
    let code = match problem.code.as_str() {
        Problem::BUSY => BUSY,
        Problem::LOST => LOST,
        Problem::UNAVAILABLE | "TEX_NOT_INSTALLED" | "TEX_LOCAL" | "TEX_REMOTE" => UNAVAILABLE,
        Problem::UNDEFINED | Problem::INVALID | "TEX_ENGINE_REFUSED" => INVALID,
        "TEX_SOURCES_INVALID" => USAGE,
        _ => 1,
    };
    let seconds = Duration::from_secs(outcome.elapsed_ms / 1000);
    let after = match seconds.is_zero() {
        true => String::new(),
        false => format!(" (after {})", humantime::format_duration(seconds)),
    };
    coded(
        code,
        format!("{}: {}{after}", problem.code, problem.message),
    )
}

/// Whole, or not at all: a PDF that stood there before stays until the new one is there. What is no file (a pipe, the null
/// device) is written to and not replaced, and so is what a link leads to.
fn write(to: &Path, pdf: &[u8]) -> std::io::Result<()> {
    if to == Path::new("-") {
        let mut out = std::io::stdout().lock();
        out.write_all(pdf)?;
        return out.flush();
    }
    let found = std::fs::metadata(to).ok();
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return std::fs::OpenOptions::new()
            .write(true)
            .open(to)?
            .write_all(pdf);
    }
    let real = match &found {
        Some(_) => std::fs::canonicalize(to)?,
        None => to.to_owned(),
    };
    let to = real.as_path();
    let folder = match to.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        // As any new file: the umask takes from it.
        .permissions(found.map_or(Permissions::from_mode(0o666), |found| found.permissions()))
        .tempfile_in(folder)?;
    file.write_all(pdf)?;
    file.persist(to)?;
    Ok(())
}

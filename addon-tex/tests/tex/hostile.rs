//! Documents that want more than a PDF. Each is refused or harmless.

use std::fs;
use std::path::Path;

use addon_tex::{TexJob, TexResult};
use tempfile::TempDir;

use crate::bench::{Local, document, has, has_tex, job, line};
use crate::guard::Guard;

const SECRET: &str = "SWORDFISHx9";

/// A file that is none of a document's business.
fn secret(name: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, format!("{SECRET} root:x:0:0\n")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[track_caller]
fn assert_kept(result: &TexResult, what: &str) {
    for secret in [SECRET, "root:x:"] {
        assert!(!result.log.contains(secret), "{what}: {}", result.log);
        assert!(
            !result.pdf.as_deref().is_some_and(|it| has(it, secret)),
            "{what}: it is in the PDF"
        );
        assert!(
            !format!("{:?}", result.error).contains(secret),
            "{what}: {:?}",
            result.error
        );
    }
}

/// Many ways to read a file, as TeX text.
fn readings(path: &str) -> Vec<String> {
    vec![
        format!("\\input{{{path}}}"),
        format!("\\input {path} "),
        format!("\\makeatletter\\@@input {path} "),
        format!("{{\\catcode`\\^=12 \\ttfamily\\input{{{path}}}}}"),
        format!(
            "\\newread\\r\\openin\\r={path} \\ifeof\\r\\else\\read\\r to\\x\\texttt{{\\x}}\\typeout{{\\meaning\\x}}\\fi"
        ),
        format!("\\texttt{{\\pdffiledump length 40 {{{path}}}}}"),
        format!("\\immediate\\pdfobj stream file {{{path}}}\\pdfrefobj\\pdflastobj"),
        format!("\\immediate\\pdfobj file {{{path}}}\\pdfrefobj\\pdflastobj"),
        format!("\\pdfximage{{{path}}}\\pdfrefximage\\pdflastximage"),
        format!("\\pdfmapfile{{{path}}}"),
        format!("\\nocite{{*}}\\bibliographystyle{{plain}}\\bibliography{{{path}}}"),
        format!("\\makeatletter\\immediate\\write\\@auxout{{\\string\\@input{{{path}}}}}"),
    ]
}

async fn compile(job: TexJob) -> TexResult {
    Local::new().compile(job, &Guard::yes()).await
}

fn verbatim(path: &str) -> TexJob {
    let text = format!(
        "\\pdfcompresslevel=0\\documentclass{{article}}\\usepackage{{verbatim}}\\begin{{document}}x\\verbatiminput{{{path}}}\
         \\end{{document}}"
    );
    job(&[("main.tex", text.as_bytes())])
}

#[tokio::test]
async fn files_of_others_are_not_read() {
    if !has_tex() {
        return;
    }
    let (_folder, path) = secret("secret.tex");
    // One run for all that do not end it.
    for reading in readings(&path) {
        assert_kept(&compile(document(&format!("x {reading}"))).await, &reading);
    }
    for path in ["/etc/passwd", &path] {
        let climbing = format!("../../../../../../..{path}");
        let home = format!("~root/../{path}");
        for path in [path, &climbing, &home] {
            assert_kept(&compile(verbatim(path)).await, path);
        }
    }
    for path in ["/etc/passwd", "/proc/1/cmdline"] {
        let stream = format!("x\\immediate\\pdfobj stream file {{{path}}}\\pdfrefobj\\pdflastobj");
        let result = compile(document(&stream)).await;
        assert!(!result.is_success(), "{path}");
        assert_kept(&result, path);
    }
}

#[tokio::test]
async fn what_lies_above_the_sources_is_not_read() {
    if !has_tex() {
        return;
    }
    // latexmk's settings are there, and the kernel does not mind.
    let result = compile(verbatim("../latexmkrc")).await;
    assert!(
        !result.log.contains("plainly_run")
            && !result.pdf.is_some_and(|it| has(&it, "plainly_run"))
    );
}

#[tokio::test]
async fn document_cannot_read_in_an_unconfined_executor_either_by_usual_means() {
    if !has_tex() {
        return;
    }
    let (_folder, path) = secret("secret.tex");
    let mut local = Local::new();
    local.executor.allow_unconfined = true;
    for job in [
        verbatim(&path),
        document(&format!("x\\input{{{path}}}")),
        document(&readings(&path)[4]),
    ] {
        assert_kept(&local.compile(job, &Guard::yes()).await, &path);
    }
}

#[tokio::test]
async fn nothing_is_written_outside() {
    if !has_tex() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("out");
    let outside = place.to_str().unwrap();
    for path in [
        outside,
        "../out",
        "../../out",
        "/tmp/lease-tex-out",
        ".hidden",
    ] {
        let text = format!(
            "x\\newwrite\\w\\immediate\\openout\\w={path} \\immediate\\write\\w{{x}}\\immediate\\closeout\\w"
        );
        let result = compile(document(&text)).await;
        assert!(
            line(&result).contains("I can't write on file"),
            "{path}: {:?}\n{}",
            result.error,
            result.log
        );
    }
    assert!(!place.exists() && !Path::new("/tmp/lease-tex-out").exists());
}

#[tokio::test]
async fn commands_are_not_run() {
    if !has_tex() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    // Where it runs, it is seen in the log, in a folder of its own too: 40001 + 1 stands nowhere.
    let run = format!("touch {}; echo $((40001+1)) >&2", mark.to_str().unwrap());
    let rows = [
        format!("x\\immediate\\write18{{{run}}}"),
        format!("x\\catcode`\\$=12 \\input{{|\"{run}\"}}"),
        format!(
            "x\\catcode`\\$=12 \\newread\\r\\openin\\r=|\"{run}\" \\ifeof\\r\\else\\read\\r to\\x\\typeout{{\\x}}\\fi"
        ),
    ];
    for text in rows {
        let result = compile(document(&text)).await;
        assert!(
            !mark.exists() && !result.log.contains("40002"),
            "{text}: {}",
            result.log
        );
    }
}

/// latexmk opens what an auxiliary file names in a way in which that can be a command.
#[tokio::test]
async fn auxiliary_files_are_no_commands() {
    if !has_tex() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let script = format!("touch {}", mark.to_str().unwrap());
    let text = "\\documentclass{article}\\begin{document}x\\makeatletter\
        \\immediate\\write\\@auxout{\\string\\bibdata{a}}\
        \\immediate\\write\\@auxout{\\string\\@input{x; sh run.sh |}}\
        \\typeout{No file main.bbl.}\\end{document}";
    let mut local = Local::new();
    // Where nothing else would hold it.
    local.executor.allow_unconfined = true;
    let files = [("main.tex", text.as_bytes()), ("run.sh", script.as_bytes())];
    let result = local.compile(job(&files), &Guard::yes()).await;
    assert!(!mark.exists(), "{}", result.log);
}

#[tokio::test]
async fn uploaded_settings_are_ignored() {
    if !has_tex() {
        return;
    }
    let rc: &[u8] = b"print 40001+1, qq(\\n); $pdflatex = 'false';";
    let main: &[u8] =
        br"\documentclass{article}\begin{document}x\input{|echo $((40001+1))}\end{document}";
    let result = compile(job(&[
        ("main.tex", main),
        (".latexmkrc", rc),
        ("latexmkrc", rc),
        ("LatexMk", rc),
        (
            "texmf.cnf",
            b"shell_escape = t\nopenin_any = a\nopenout_any = a\n",
        ),
    ]))
    .await;
    assert!(!result.log.contains("40002"), "{}", result.log);

    let (_folder, path) = secret("secret.tex");
    let text = format!(
        "\\documentclass{{article}}\\usepackage{{verbatim}}\\begin{{document}}x\\verbatiminput{{../latexmkrc}}\\verbatiminput{{{path}}}\\end{{document}}"
    );
    let result = compile(job(&[
        ("main.tex", text.as_bytes()),
        ("texmf.cnf", b"openin_any = a\n"),
        ("web2c/texmf.cnf", b"openin_any = a\n"),
    ]))
    .await;
    assert_kept(&result, "texmf.cnf");
    assert!(
        result.log.contains("No file ../latexmkrc"),
        "{}",
        result.log
    );
}

#[tokio::test]
async fn uploaded_format_is_not_loaded() {
    if !has_tex() {
        return;
    }
    let main: &[u8] = b"%&other\n\\documentclass{article}\\begin{document}x\\end{document}";
    let result = compile(job(&[
        ("main.tex", main),
        ("pdflatex.fmt", b"no format"),
        ("other.fmt", b"no format"),
    ]))
    .await;
    assert!(result.is_success(), "{:?}\n{}", result.error, result.log);
}

/// latexmk hands the names of files on to a shell, and these come from the log and the auxiliary file.
#[tokio::test]
async fn names_of_files_are_no_commands() {
    if !has_tex() {
        return;
    }
    let name = "$(uname>&2)";
    let write = |file: &str, lines: &[&str]| {
        let lines = lines
            .iter()
            .map(|it| format!("\\immediate\\write\\w{{{it}}}"));
        let lines: String = lines.collect();
        format!("\\immediate\\openout\\w={file} {lines}\\immediate\\closeout\\w")
    };
    let aux = [
        "\\string\\bibdata{a}",
        "\\string\\bibstyle{plain}",
        "\\string\\citation{a}",
    ];
    let rows = [
        (
            format!("\\typeout{{Writing index file {name}.idx}}"),
            "makeindex is not run: a file's name is not plain",
        ),
        (
            write(&format!("{name}.aux"), &aux)
                + &write("a.bib", &["x"])
                + &format!("\\typeout{{No file {name}.bbl.}}"),
            "bibtex is not run: a file's name is not plain",
        ),
        (
            format!(
                "\\makeatletter\\immediate\\write\\@auxout{{\\string\\bibdata{{{name}}}}}\\typeout{{No file main.bbl.}}"
            ),
            "$(uname>&2).bib",
        ),
        (
            write("main.bcf", &["x"])
                + "\\typeout{Package biblatex Info: ... file 'main.bbl' not found.}\\typeout{No file main.bbl.}",
            "biber is not run here, for it reads any file",
        ),
    ];
    for (text, said) in rows {
        let text = format!("x\\newwrite\\w\\catcode`\\$=12 \\catcode`\\&=12 {text}");
        let result = compile(document(&text)).await;
        assert!(
            !result.log.lines().any(|it| it.trim() == "Linux"),
            "{text}: {}",
            result.log
        );
        assert!(result.log.contains(said), "{text}: {}", result.log);
    }
}

#[tokio::test]
async fn environment_and_network_of_this_process_are_not_there() {
    if !has_tex() {
        return;
    }
    // Lua may do all that a process may.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (_folder, path) = secret("secret.tex");
    let me = std::process::id();
    let text = format!(
        "\\documentclass{{minimal}}\\begin{{document}}\\directlua{{
        local function show(n, p) local f = io.open(p) texio.write_nl(n .. '=' .. (f and f:read(100) or 'denied')) end
        show('file', '{path}') show('environ', '/proc/{me}/environ') show('own', '/proc/self/environ') show('passwd', '/etc/passwd')
        local f = io.open('{path}.new', 'w') texio.write_nl('write=' .. (f and 'done' or 'denied'))
        texio.write_nl('home=' .. tostring(os.getenv('CARGO_MANIFEST_DIR')))
        local ok, socket = pcall(require, 'socket')
        if ok then texio.write_nl('tcp=' .. tostring(socket.connect('127.0.0.1', {port})))
        end}}x\\end{{document}}",
        port = listener.local_addr().unwrap().port(),
    );
    let mut job = job(&[("main.tex", text.as_bytes())]);
    job.engine = addon_tex::Engine::Lualatex;
    let mut local = Local::new();
    local.executor.allow_lualatex = true;
    let result = local.compile(job, &Guard::yes()).await;
    assert_kept(&result, "lua");
    for line in [
        "file=denied",
        "environ=denied",
        "own=denied",
        "passwd=denied",
        "write=denied",
        "home=nil",
    ] {
        assert!(result.log.contains(line), "no {line}: {}", result.log);
    }
    assert!(!result.log.contains("tcp=tcp"), "{}", result.log);
}

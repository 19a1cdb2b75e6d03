//! What a document may want of xelatex and of xdvipdfmx, which writes its PDF. Each is refused or harmless.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use addon_tex::{Engine, TexJob, TexResult};

use crate::bench::{Local, has, has_engine, job};
use crate::guard::Guard;

const SECRET: &str = "SWORDFISHx9";

fn xelatex(body: &str) -> TexJob {
    // For all to be seen in the PDF.
    let plain = "\\special{dvipdfmx:config z 0}\\special{dvipdfmx:config C 0x40}";
    let text = format!(
        "\\documentclass{{article}}\\begin{{document}}{plain}x\n\n{body}\n\\end{{document}}"
    );
    let mut job = job(&[("main.tex", text.as_bytes())]);
    job.engine = Engine::Xelatex;
    job
}

/// A page on which that is written.
fn pdf(text: &str) -> Vec<u8> {
    let content = format!("% {text}\n0 0 9 9 re f");
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<<>>/Contents 4 0 R>>".to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut table = "xref\n0 5\n0000000000 65535 f \n".to_owned();
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", file.len());
        file += &format!("{} 0 obj{object}endobj\n", index + 1);
    }
    let start = file.len();
    file += &format!("{table}trailer<</Size 5/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n");
    file.into_bytes()
}

#[track_caller]
fn assert_kept(result: &TexResult, what: &str) {
    let pdf = result.pdf.as_deref().unwrap_or_default();
    for secret in [SECRET, "root:x:"] {
        assert!(!has(pdf, secret), "{what}: it is in the PDF");
        assert!(!result.log.contains(secret), "{what}: {}", result.log);
        let error = format!("{:?}", result.error);
        assert!(!error.contains(secret), "{what}: {error}");
    }
}

#[tokio::test]
async fn xelatex_reads_no_files_of_others() {
    if !has_engine(Engine::Xelatex) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("secret.pdf"), pdf(SECRET)).unwrap();
    fs::write(
        at("secret.eps"),
        format!("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n% {SECRET}\nshowpage\n"),
    )
    .unwrap();
    let (page, figure, text) = (at("secret.pdf"), at("secret.eps"), "/etc/passwd");
    let stream = |path: &str| {
        format!("\\special{{pdf:fstream @x ({path})}}\\special{{pdf:put @catalog <</X @x>>}}")
    };
    let rows = [
        format!("\\input{{{text}}}"),
        format!(
            "\\newread\\r\\openin\\r={text} \\ifeof\\r\\else\\read\\r to\\x\\typeout{{\\meaning\\x}}\\fi"
        ),
        format!("\\XeTeXpdffile \"{page}\" width 9pt"),
        format!(
            "\\special{{pdf:image width 9pt ({page})}}\\special{{pdf:epdf width 9pt ({page})}}"
        ),
        format!("\\special{{PSfile=\"{page}\" llx=0 lly=0 urx=9 ury=9}}"),
        format!("\\special{{PSfile=\"{figure}\" llx=0 lly=0 urx=9 ury=9}}"),
        stream(text),
        stream(&page),
        stream("/proc/self/environ"),
        format!("\\font\\x=\"[{text}]\" \\x x"),
        format!(
            "\\special{{pdf:mapfile {text}}}\\special{{x:mapfile {text}}}\\special{{ps:plotfile {text}}}"
        ),
        format!(
            "\\special{{dvipdfmx:config i \"{text}\"}}\\special{{dvipdfmx:config f \"{text}\"}}"
        ),
        format!("\\special{{pdf:code ({text}) run}}\\special{{pdf:content /F ({text}) Do}}"),
        format!(
            "\\special{{ps: ({text}) run}}\\special{{pst: ({text}) run}}\\special{{header={text}}}"
        ),
    ];
    for row in rows {
        assert_kept(
            &Local::new().compile(xelatex(&row), &Guard::yes()).await,
            &row,
        );
    }
}

/// A Ghostscript that only leaves a mark.
fn ghostscript(folder: &Path) -> std::path::PathBuf {
    let (gs, mark) = (folder.join("gs"), folder.join("ran"));
    fs::write(
        &gs,
        format!("#!/bin/sh\necho \"$@\" >>{}\n", mark.display()),
    )
    .unwrap();
    fs::set_permissions(&gs, fs::Permissions::from_mode(0o755)).unwrap();
    mark
}

#[tokio::test]
async fn xelatex_runs_no_commands_unconfined_either() {
    if !has_engine(Engine::Xelatex) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mark = ghostscript(folder.path());
    let mut local = Local::new();
    local.executor.allow_unconfined = true;
    let path = std::env::var("PATH").unwrap();
    local.executor.path = Some(format!("{}:{path}", folder.path().display()).into());

    // Where it runs, it is seen in the log: 40001 + 1 stands nowhere.
    let run = "expr 40001 + 1 >&2";
    // Sources may have no such name, but a document can write one.
    let name = "a';uname>&2;'.eps";
    let write = format!(
        "\\catcode`\\%=12 \\newwrite\\w \\immediate\\openout\\w=\"{name}\" \\immediate\\write\\w{{%!PS-Adobe-3.0 EPSF-3.0}}
        \\immediate\\write\\w{{%%BoundingBox: 0 0 9 9}}\\immediate\\closeout\\w "
    );
    let not_converted = Some("Filtering file via command -->false<-- failed");
    let psfile = format!("{write}\\special{{PSfile=\"{name}\" llx=0 lly=0 urx=9 ury=9}}");
    let config = |set: &str| format!("\\special{{dvipdfmx:config {set}}}{psfile}");
    let rows = [
        (psfile.clone(), not_converted),
        (
            format!("{write}\\special{{pdf:image width 9pt ({name})}}"),
            not_converted,
        ),
        (config(&format!("D \"{run}\"")), not_converted),
        (config("i \"dvipdfmx-unsafe.cfg\""), not_converted),
        (config("i \"dvipdfmx.cfg\""), not_converted),
        (
            "\\special{pst: tx@Dict begin currentpoint /N 10 {0 0} NewNode end}".to_owned(),
            not_converted,
        ),
        (
            format!("\\special{{PSfile=\"|{run}\" llx=0 lly=0 urx=9 ury=9}}"),
            None,
        ),
        (
            format!("\\special{{PSfile=\"`{run}\" llx=0 lly=0 urx=9 ury=9}}"),
            None,
        ),
        (
            format!("\\special{{pdf:fstream @x (|{run})}}\\special{{pdf:put @catalog <</X @x>>}}"),
            None,
        ),
        (
            format!("\\immediate\\write18{{{run}}}\\XeTeXpicfile \"|{run}\""),
            None,
        ),
        (format!("\\input{{|\"{run}\"}}"), None),
    ];
    for (row, said) in rows {
        let result = local
            .compile(xelatex(&format!("\\catcode`\\&=12 {row}")), &Guard::yes())
            .await;
        assert!(
            !mark.exists(),
            "{row}: {}\n{}",
            fs::read_to_string(&mark).unwrap(),
            result.log
        );
        let ran = |it: &str| ["Linux", "40002"].contains(&it.trim());
        assert!(!result.log.lines().any(ran), "{row}: {}", result.log);
        if let Some(said) = said {
            assert!(
                result.log.contains(said),
                "{row}: {:?}\n{}",
                result.error,
                result.log
            );
        }
    }
}

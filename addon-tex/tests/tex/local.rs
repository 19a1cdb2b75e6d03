//! Honest documents at the latexmk of this machine.

use std::fs;
use std::time::Duration;

use addon_tex::{Engine, Executor, TexCompiler};

use crate::bench::{Local, document, has, has_engine, has_tex, job, line};
use crate::guard::Guard;

/// One white pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 0x08, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, b'U', 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0xf8, 0x0f, 0, 1, 1, 1, 0, 0xb1, 0x38, 0xf6, 0x14, 0, 0, 0, 0, b'I', b'E',
    b'N', b'D', 0xae, b'B', 0x60, 0x82,
];

const PAPER: &str = r"\pdfcompresslevel=0 \pdfobjcompresslevel=0
\documentclass{article}
\usepackage{amsmath,graphicx,makeidx}
\makeindex
\begin{document}
\tableofcontents
\section{Beginning}\label{one}
\begin{align} a &= b \label{eq} \end{align}
See section~\ref{two} and~\eqref{eq}, \cite{knuth}.\index{Zebra}
\includegraphics[width=1cm]{fig/dot}
\newpage
\section{Ending}\label{two}
\input{parts/rest}
\bibliographystyle{plain}\bibliography{refs}
\printindex
\end{document}
";

#[tokio::test]
async fn paper_with_figure_contents_references_and_index_compiles() {
    if !has_tex() {
        return;
    }
    let files: [(&str, &[u8]); 5] = [
        ("my thesis/paper.tex", PAPER.as_bytes()),
        ("my thesis/fig/dot.png", PNG),
        ("my thesis/parts/rest.tex", b"That is all, from section~\\ref{one}."),
        ("my thesis/refs.bib", b"@book{knuth, author={Donald Knuth}, title={The {\\TeX}book}, year=1984, publisher={AW}}"),
        ("unused.tex", b"x"),
    ];
    let result = Local::new().compile(job(&files), &Guard::yes()).await;
    let pdf = result
        .pdf
        .unwrap_or_else(|| panic!("{:?}\n{}", result.error, result.log));
    eprintln!("a paper took {:?}", result.elapsed);
    assert!(pdf.starts_with(b"%PDF-"));
    // Kerning cuts some words in pieces.
    for text in ["Zebra", "Kn", "/Count 3", "/Subtype/Image"] {
        let text = if text.starts_with("/Subtype") && !has(&pdf, text) {
            "/Subtype /Image"
        } else {
            text
        };
        assert!(has(&pdf, text), "no {text}");
    }
    assert!(!result.log.contains("undefined"), "{}", result.log);
    assert!(result.log.lines().count() <= 50);
}

#[tokio::test]
async fn xelatex_compiles_with_a_font_of_the_system() {
    if !has_engine(Engine::Xelatex) {
        return;
    }
    // Its own font is one of those, too.
    let text = "\\documentclass{article}\\usepackage{graphicx}\\begin{document}\\special{dvipdfmx:config z 0}\\special{dvipdfmx:config C 0x40}
        \\section{Zażółć}\\label{one}\\includegraphics[width=1cm]{fig/dot}\\newpage See page~\\pageref{one}.\\end{document}";
    let mut job = job(&[("paper.tex", text.as_bytes()), ("fig/dot.png", PNG)]);
    job.engine = Engine::Xelatex;
    let result = Local::new().compile(job, &Guard::yes()).await;
    let pdf = result
        .pdf
        .unwrap_or_else(|| panic!("{:?}\n{}", result.error, result.log));
    for text in ["/Count 2", "/Subtype/Image", "LMRoman10-Regular"] {
        assert!(has(&pdf, text), "no {text}");
    }
    assert!(!result.log.contains("undefined"), "{}", result.log);
}

#[tokio::test]
async fn mistake_is_told_with_its_line() {
    if !has_tex() {
        return;
    }
    let result = Local::new()
        .compile(document("fine\n\n\\nosuchmacro"), &Guard::yes())
        .await;
    let expected =
        "TEX_FAILED the document does not compile: ./main.tex:6: Undefined control sequence.";
    assert_eq!(line(&result), expected);
    assert!(result.log.contains("l.6 \\nosuchmacro"), "{}", result.log);
    assert!(result.log.lines().count() <= 50);
}

#[tokio::test]
async fn document_without_pages_is_a_failure() {
    if !has_tex() {
        return;
    }
    let result = Local::new().compile(document(""), &Guard::yes()).await;
    assert_eq!(
        result.error.as_ref().unwrap().code(),
        "TEX_FAILED",
        "{result:?}"
    );
}

#[tokio::test]
async fn missing_programs_are_named_with_their_packages() {
    let mut local = Local::new();
    let programs = tempfile::tempdir().unwrap();
    local.executor.path = Some(programs.path().into());
    let guard = Guard::yes();
    let install = "is not installed: on Debian, apt-get install --no-install-recommends";
    let mut job = document("x");
    let result = local.compile(job.clone(), &guard).await;
    assert_eq!(
        line(&result),
        format!("TEX_NOT_INSTALLED latexmk {install} latexmk texlive-latex-base")
    );

    std::os::unix::fs::symlink("/bin/true", programs.path().join("latexmk")).unwrap();
    // No program.
    fs::write(programs.path().join("pdflatex"), "").unwrap();
    local.executor.allow_lualatex = true;
    for (engine, package) in [
        (Engine::Pdflatex, "texlive-latex-base"),
        (Engine::Xelatex, "texlive-xetex"),
        (Engine::Lualatex, "texlive-luatex"),
    ] {
        job.engine = engine;
        let result = local.compile(job.clone(), &guard).await;
        assert_eq!(
            line(&result),
            format!("TEX_NOT_INSTALLED {engine} {install} {package}")
        );
    }
    assert!(guard.events.all().is_empty());
}

#[tokio::test]
async fn lualatex_is_refused_unless_it_is_allowed() {
    let mut local = Local::new();
    let mut job = job(&[(
        "a.tex",
        br"\documentclass{minimal}\begin{document}\directlua{tex.print('x')}\end{document}",
    )]);
    job.engine = Engine::Lualatex;
    let guard = Guard::yes();
    let result = local.compile(job.clone(), &guard).await;
    let expected = "TEX_ENGINE_REFUSED lualatex is not allowed here: choose pdflatex or xelatex, or ask the operator to \
                    allow it";
    assert_eq!(line(&result), expected);
    assert!(guard.events.all().is_empty());
    if has_tex() {
        local.executor.allow_lualatex = true;
        let result = local.compile(job, &guard).await;
        assert!(
            result.is_success() || line(&result).contains("not found"),
            "{:?}\n{}",
            result.error,
            result.log
        );
    }
}

#[tokio::test]
async fn place_or_guardian_that_is_not_there_is_a_result() {
    if !has_tex() {
        return;
    }
    let mut local = Local::new();
    local.executor.guardian = Some("/no/such/guardian".into());
    let guard = Guard::yes();
    let result = local.compile(document("x"), &guard).await;
    let start = "TEX_LOCAL this machine could not run the compilation (start): tell its operator: ";
    assert!(line(&result).starts_with(start), "{}", line(&result));
    assert_eq!(guard.events.all(), ["opening", "closed Gone"]);

    local.executor.scratch = Some("/no/such/place".into());
    let compiler = TexCompiler::new(Executor::Local(local.executor.clone()));
    let result = compiler.compile(document("x"), guard, |_| {}).await;
    assert!(
        line(&result).starts_with("TEX_LOCAL this machine could not run the compilation (unpack)"),
        "{}",
        line(&result)
    );
}

#[tokio::test]
async fn compilations_do_not_meet() {
    if !has_tex() {
        return;
    }
    let local = Local::new();
    let compiler = local.compiler();
    let one = compiler.compile(document("one"), Guard::yes(), |_| {});
    let two = compiler.compile(document("two"), Guard::yes(), |_| {});
    let (one, two) = tokio::join!(one, two);
    assert!(has(&one.pdf.unwrap(), "one"));
    assert!(has(&two.pdf.unwrap(), "o)") || two.error.is_none());
    let _ = tokio::time::timeout(Duration::from_secs(5), compiler.idle()).await;
    local.assert_nothing_left();
}

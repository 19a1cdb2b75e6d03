//! What a helper may touch.

use std::{
    io,
    path::PathBuf,
    process::{Child, Command},
};

use serde::{Deserialize, Serialize};

/// All that a helper and its descendants may touch, for one that runs what strangers wrote: it can lift that by no means.
///
/// Files elsewhere can be neither read, written nor executed, though their names can be seen. From Linux 6.7 on there is no
/// TCP, from 6.12 on no signal to processes outside. Needs Landlock: Linux 5.13 with it enabled, no privilege.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Files, and folders with all below, to read and execute. What is not there is left out.
    pub readable: Vec<PathBuf>,
    /// Files, and folders with all below, to do anything with. What is not there is left out.
    pub writable: Vec<PathBuf>,
}

impl Confinement {
    /// Starts `command` confined, and this process not. The outer error says that the kernel cannot confine it.
    #[cfg(target_os = "linux")]
    pub(super) fn spawn(&self, mut command: Command) -> io::Result<io::Result<Child>> {
        // The kernel confines a thread, and what it starts.
        std::thread::scope(|scope| {
            let confined = scope.spawn(|| {
                self.apply()?;
                Ok(command.spawn())
            });
            confined
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it died")))
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn spawn(&self, _: Command) -> io::Result<io::Result<Child>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    #[cfg(target_os = "linux")]
    fn apply(&self) -> io::Result<()> {
        use landlock::{
            ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr,
            RulesetStatus, Scope, path_beneath_rules,
        };
        // Newer rights are asked for and, on an older kernel, left out.
        let abi = ABI::V6;
        let restrict = || {
            Ruleset::default()
                .handle_access(AccessFs::from_all(abi))?
                .handle_access(AccessNet::from_all(abi))?
                .scope(Scope::from_all(abi))?
                .create()?
                .add_rules(path_beneath_rules(&self.readable, AccessFs::from_read(abi)))?
                .add_rules(path_beneath_rules(&self.writable, AccessFs::from_all(abi)))?
                .restrict_self()
        };
        let status = restrict().map_err(|error: landlock::RulesetError| io::Error::other(error))?;
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err(io::Error::other("this kernel has no Landlock enabled"));
        }
        Ok(())
    }
}

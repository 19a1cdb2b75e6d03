//! Run a command that outlives neither its deadline nor the process that runs it, whatever happens to that.
//!
//! [`Supervised`] is one command with a deadline, run in the foreground: [`Supervised::spawn`] starts a
//! *guardian*, this same binary again, and the guardian starts the child. At no time is there a child
//! that nobody guards. The wrapper (the process with the [`Supervised`]) moves the deadline for as long
//! as it is entitled to. Neither knows why.
//!
//! [`Piped`] is a helper of a server process, one of many: in the same way guarded, without deadline
//! and terminal, behind three pipes. [`Piped::spawn_confined`] starts one that is not trusted.
//!
//! The `main` of a binary that uses either begins with
//!
//! ```
//! # fn main() -> std::process::ExitCode {
//! if supervise::is_guardian() {
//!     return supervise::guardian_main();
//! }
//! # std::process::ExitCode::SUCCESS
//! # }
//! ```
//!
//! # What counts as the child
//!
//! Its process group and every descendant, also those that moved to another session and lost their
//! parent: the guardian is their subreaper. Out of reach are what another program starts on request
//! (`docker run`, `systemd-run`, `at`), and processes of another user (`sudo`): these are asked and
//! killed in vain, and the run goes on until they end. On systems other than Linux only the group is
//! known.
//!
//! # What ends it
//!
//! | | then |
//! |---|---|
//! | the child ends by itself | what it left running gets TERM, KILL after two seconds at most |
//! | no extension until `term_at` (the wrapper is stopped, the store is away) | TERM; KILL at `kill_at` |
//! | the wrapper is gone, calls `end`, drops the [`Piped`], or the guardian gets HUP, INT or TERM | TERM at once, KILL after the grace, at `kill_at` at the latest |
//! | the guardian is gone | the wrapper kills all at once; with a [`Piped`], which must leave the other children of its process alone, only the group |
//! | the guardian is stopped | the wrapper wakes it, and kills the group at `kill_at` should that be of no use |
//!
//! Every TERM comes with a CONT, so that a stopped child can obey. Killing wrapper and guardian in the
//! same instant leaves the child alone; nothing short of a cgroup helps there. So it is with a [`Piped`]
//! whose guardian is stopped when its process dies, until somebody lets the guardian go on: in its own
//! session the kernel does not.
//!
//! # The terminal
//!
//! A [`Piped`] has none, not even as `/dev/tty`.
//!
//! The group of a [`Supervised`] gets the terminal, so that Ctrl-C reaches the child alone; in a pipeline
//! (`lease run … | less`) only once it asks for it. When Ctrl-Z stops the child, the terminal goes back
//! and the wrapper stops as well; `fg` hands it over again and lets the child go on. The deadline does
//! not wait for that: a run left stopped ends. A child in a pipeline that never asked for the terminal
//! is not stopped by Ctrl-Z, only the wrapper is.

mod clock;
mod confinement;
mod ended;
mod family;
mod guardian;
mod link;
mod piped;
mod processes;
mod protocol;
mod signals;
mod supervised;
mod terminal;

pub use clock::{BootInstant, Deadlines};
pub use confinement::Confinement;
pub use ended::{Ended, SpawnError};
pub use guardian::{guardian_main, is_guardian};
pub use piped::{Piped, PipedCommand};
pub use signals::is_ignored;
pub use supervised::{ChildCommand, Supervised};

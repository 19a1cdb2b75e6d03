//! Run a command that never outlives its deadline, whatever happens to the process that runs it.
//!
//! [`Supervised::spawn`] starts a *guardian*, this same binary again, and the guardian starts the
//! child: at no time is there a child that nobody guards. The wrapper (the process with the
//! [`Supervised`]) moves the deadline for as long as it is entitled to. Neither knows why.
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
//! | the wrapper is gone, calls [`Supervised::end`], or the guardian gets HUP, INT or TERM | TERM at once, KILL after the grace, at `kill_at` at the latest |
//! | the guardian is gone | the wrapper kills all at once |
//! | the guardian is stopped | the wrapper wakes it, and kills the group at `kill_at` should that be of no use |
//!
//! Every TERM comes with a CONT, so that a stopped child can obey. Killing wrapper and guardian in the
//! same instant leaves the child alone; nothing short of a cgroup helps there.
//!
//! # The terminal
//!
//! The child's group gets the terminal, so that Ctrl-C reaches the child alone; in a pipeline
//! (`lease run … | less`) only once it asks for it. When Ctrl-Z stops the child, the terminal goes back
//! and the wrapper stops as well; `fg` hands it over again and lets the child go on. The deadline does
//! not wait for that: a run left stopped ends. A child in a pipeline that never asked for the terminal
//! is not stopped by Ctrl-Z, only the wrapper is.

mod clock;
mod ended;
mod family;
mod guardian;
mod processes;
mod protocol;
mod signals;
mod supervised;
mod terminal;

pub use clock::{BootInstant, Deadlines};
pub use ended::{Ended, SpawnError};
pub use guardian::{guardian_main, is_guardian};
pub use signals::is_ignored;
pub use supervised::{ChildCommand, Supervised};

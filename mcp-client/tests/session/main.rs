//! The life of a session, told to a guard that takes notes, at a server that counts.

mod calling;
mod closing;
mod delete;
mod ending;
mod guard;
mod headers;
mod opening;
mod rig;
mod stdio;

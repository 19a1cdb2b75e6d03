//! `lease`: put a command under a lease, look at leases, and mend what drifted.

use std::process::ExitCode;

use lease_brain::supervise;

fn main() -> ExitCode {
    if supervise::is_guardian() {
        return supervise::guardian_main();
    }
    ExitCode::SUCCESS
}

//! One command of a victim fails in one of the ways in which commands fail.

use std::time::{Duration, Instant};

use lease_shared::{LeaseService, Phase};
use mongodb::bson::doc;
use test_mongo::FailCommand;

use crate::stage::Stage;
use crate::support::reached;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The connection is closed instead of an answer, and the command is not carried out.
    Closed,
    /// The command is carried out, and the server cannot say whether it will last.
    WriteConcern(i32),
    /// The command is refused with this code.
    Refused(i32),
}

pub(crate) const FAULTS: [Fault; 6] = [
    Fault::Closed,
    Fault::WriteConcern(64),
    Fault::WriteConcern(91),
    Fault::Refused(10107), // not primary
    Fault::Refused(11602), // interrupted by a change of roles
    Fault::Refused(91),    // shutting down
];

impl Fault {
    fn command(self) -> FailCommand {
        let fault = FailCommand::on(&["update", "findAndModify"]);
        match self {
            Self::Closed => fault.close_connection(),
            Self::WriteConcern(code) => {
                fault.write_concern_error(doc! { "code": code, "errmsg": "made up" })
            }
            Self::Refused(code) => fault.error_code(code),
        }
    }
}

/// Stops `work` before `step`, switches the fault on for that one command, and lets it go on.
pub(crate) async fn hit_once<T: Send + 'static>(
    stage: &Stage,
    victim: &LeaseService,
    step: &'static str,
    fault: Fault,
    work: impl Future<Output = T> + Send + 'static,
) -> (T, Duration) {
    let gate = victim.failpoints().pause(step, Phase::Before);
    let work = tokio::spawn(work);
    reached(&gate, step).await;
    let before = stage.heal().await;
    let _guard = stage.fail(fault.command().times(1)).await;
    let started = Instant::now();
    gate.open();
    let result = work.await.unwrap();
    let took = started.elapsed();
    let hits = stage.heal().await - before;
    assert_eq!(hits, 1, "{fault:?} at {step}");
    (result, took)
}

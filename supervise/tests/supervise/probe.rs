//! The smallest wrapper: `supervise-probe TERM_MS KILL_MS keep|let COMMAND…` runs the command with
//! deadlines that far away. With `keep` it moves them every 50 ms; SIGUSR1 loses the lease.
//!
//! `supervise-probe pipe GRACE_MS COMMAND…` holds the command behind pipes, until one of them is killed. With
//! `PROBE_UNLINKED` in its environment it is a program whose file is gone, with `PROBE_ADOPTS` it is given orphans as is
//! the first process of a container.
//!
//! Tells on stderr which process the child is and how it ended.

use std::{env, fs, process::ExitCode, time::Duration};

use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper, waitpgid};
use supervise::{
    BootInstant, ChildCommand, Deadlines, Ended, Piped, PipedCommand, Supervised, guardian_main,
    is_guardian,
};
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    time::interval,
};

fn main() -> ExitCode {
    if is_guardian() {
        return guardian_main();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if env::args_os().nth(1).is_some_and(|it| it == "pipe") {
        return runtime.block_on(hold());
    }
    runtime.block_on(run())
}

async fn hold() -> ExitCode {
    let mut arguments = env::args_os().skip(2);
    let mut next = || arguments.next().unwrap();
    let grace = next().to_str().unwrap().parse().unwrap();
    let command = PipedCommand {
        program: next(),
        args: arguments.collect(),
        envs: env::vars_os().collect(),
        cwd: None,
        grace: Duration::from_millis(grace),
        lifetime: None,
        guardian: None,
    };
    if env::var_os("PROBE_UNLINKED").is_some() {
        fs::remove_file(env::current_exe().unwrap()).unwrap();
    }
    if env::var_os("PROBE_ADOPTS").is_some() {
        set_child_subreaper(Some(getpid())).unwrap();
    }
    let mut piped = Piped::spawn(&command).await.unwrap();
    eprintln!("probe: child {}", piped.child());
    eprintln!("probe: ended {:?}", piped.wait().await);
    let left = waitpgid(piped.child(), WaitOptions::NOHANG);
    eprintln!("probe: uncollected {}", left.is_ok());
    ExitCode::SUCCESS
}

async fn run() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let mut next = || arguments.next().unwrap();
    let mut millis = || Duration::from_millis(next().to_str().unwrap().parse().unwrap());
    let (term, kill) = (millis(), millis());
    let deadlines = || {
        let now = BootInstant::now();
        Deadlines {
            term_at: now + term,
            kill_at: now + kill,
        }
    };
    let keep = next() == "keep";
    let command = ChildCommand {
        program: next(),
        args: arguments.collect(),
        envs: vec![("PROBE_GAVE".into(), "this".into())],
        withheld: Vec::new(),
        scratch: None,
    };

    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let mut interrupt = signal(SignalKind::interrupt()).unwrap();
    let mut lost = signal(SignalKind::user_defined1()).unwrap();
    let mut supervised = match Supervised::spawn(&command, deadlines()).await {
        Ok(supervised) => supervised,
        Err(error) => {
            eprintln!("probe: {error}");
            return error.exit_code().map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    eprintln!("probe: child {}", supervised.child());
    let mut check = interval(Duration::from_millis(50));
    let ended = loop {
        select! {
            ended = supervised.wait() => break ended,
            _ = check.tick(), if keep => supervised.extend(deadlines()),
            _ = terminate.recv() => supervised.signal(Signal::TERM),
            _ = interrupt.recv() => supervised.signal(Signal::INT),
            _ = lost.recv() => supervised.end(),
        }
    };
    eprintln!("probe: ended {ended:?}");
    ExitCode::from(ended.exit_code().unwrap_or(match ended {
        Ended::GuardianDied => 70,
        _ => 76,
    }))
}

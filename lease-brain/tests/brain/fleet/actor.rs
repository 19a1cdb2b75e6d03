//! A brain that acquires as well, in its own name.

use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdin;

use lease_shared::LeaseToken;
use tokio::sync::mpsc;

use super::{Fleet, Pod, PodOptions, SOON};

/// Does what it is told, one thing after the other.
pub(crate) struct Actor {
    pub(crate) pod: Pod,
    orders: ChildStdin,
    answers: mpsc::UnboundedReceiver<String>,
}

impl Actor {
    pub(crate) async fn start(fleet: &Fleet, name: &str) -> Self {
        let options = PodOptions {
            actor: true,
            ..PodOptions::default()
        };
        let mut pod = fleet.pod_with(name, options).await;
        let (orders, said) = pod.pipes();
        let (answer, answers) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                // Nobody waits for what is said after the test.
                let _ = answer.send(line);
            }
        });
        Self {
            pod,
            orders,
            answers,
        }
    }

    /// Acquires a lease whose handler, in any pod that has it, calls this URL.
    pub(crate) async fn acquire(&mut self, user: &str, bound: bool, url: &str) -> LeaseToken {
        let bound = if bound { "bound" } else { "free" };
        let answer = self.ask(&format!("acquire {user} {bound} {url}")).await;
        answer.parse().expect("a token")
    }

    /// `held`, `lost`, or why it is not known.
    pub(crate) async fn check(&mut self, token: &LeaseToken) -> String {
        self.ask(&format!("check {token}")).await
    }

    pub(crate) async fn release(&mut self, token: &LeaseToken) -> String {
        self.ask(&format!("release {token}")).await
    }

    async fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        let answer = tokio::time::timeout(SOON, self.answers.recv()).await;
        answer.expect("an answer in time").expect("it lives")
    }
}

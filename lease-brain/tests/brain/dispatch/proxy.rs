//! What stands between two pods, and can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Passes connections on, of which a test can cut all that are open, once.
pub(super) struct Proxy {
    pub(super) endpoint: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// Where to, once it is known.
    target: watch::Sender<Option<String>>,
    cuts: watch::Sender<usize>,
    connections: watch::Sender<usize>,
    passed: watch::Sender<usize>,
    answers: watch::Sender<usize>,
    /// How many answers are still to be thrown away.
    to_lose: AtomicUsize,
}

impl Proxy {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            target: watch::Sender::new(None),
            cuts: watch::Sender::new(0),
            connections: watch::Sender::new(0),
            passed: watch::Sender::new(0),
            answers: watch::Sender::new(0),
            to_lose: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            endpoint,
            shared,
            task,
        }
    }

    /// Passes on to this address from now on, also what came before.
    pub(super) fn pass_to(&self, address: &str) {
        self.shared.target.send_replace(Some(address.to_owned()));
    }

    /// Cuts all callers off. What they have sent goes on its way.
    pub(super) fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Throws away so many answers from now on, and ends the connection instead.
    pub(super) fn lose_answers(&self, count: usize) {
        self.shared.to_lose.store(count, Ordering::SeqCst);
    }

    /// Waits until there have been that many connections.
    pub(super) async fn connected(&self, times: usize) {
        let mut connections = self.shared.connections.subscribe();
        connections
            .wait_for(|so_far| *so_far >= times)
            .await
            .unwrap();
    }

    /// Waits until something of that many connections has been passed on.
    pub(super) async fn passed(&self, times: usize) {
        let mut passed = self.shared.passed.subscribe();
        passed.wait_for(|so_far| *so_far >= times).await.unwrap();
    }

    /// Waits until something has been answered.
    pub(super) async fn answered(&self) {
        let mut answers = self.shared.answers.subscribe();
        answers.wait_for(|so_far| *so_far > 0).await.unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut passing = JoinSet::new();
    while let Ok((caller, _)) = listener.accept().await {
        shared
            .connections
            .send_modify(|connections| *connections += 1);
        passing.spawn(pass(caller, Arc::clone(&shared)));
    }
}

/// What the caller has sent goes on its way, and the connection onwards stays open, also when the caller is gone.
async fn pass(caller: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let mut target = shared.target.subscribe();
    let address = match target.wait_for(Option::is_some).await {
        Ok(address) => address.clone().unwrap(),
        Err(_) => return,
    };
    let (mut from, mut to) = caller.into_split();
    let (mut back, mut on) = TcpStream::connect(address).await.unwrap().into_split();
    let forth = async {
        let mut request = [0; 4096];
        let mut first = true;
        while let Ok(read @ 1..) = from.read(&mut request).await {
            on.write_all(&request[..read]).await.unwrap();
            if std::mem::take(&mut first) {
                shared.passed.send_modify(|passed| *passed += 1);
            }
        }
        std::future::pending::<()>().await
    };
    let answer = async {
        let mut answer = [0; 4096];
        while let Ok(read @ 1..) = back.read(&mut answer).await {
            shared.answers.send_modify(|answers| *answers += 1);
            let one_less = |left: usize| left.checked_sub(1);
            let order = Ordering::SeqCst;
            if shared.to_lose.fetch_update(order, order, one_less).is_ok() {
                return;
            }
            // A caller that is gone hears nothing.
            let _ = to.write_all(&answer[..read]).await;
        }
    };
    tokio::select! {
        () = forth => {}
        () = answer => {}
        _ = cuts.changed() => {}
    }
    drop((from, to));
    let mut rest = Vec::new();
    let _ = back.read_to_end(&mut rest).await;
}

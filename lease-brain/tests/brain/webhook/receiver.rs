//! Whom the handler calls.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header::LOCATION},
    response::IntoResponse,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
    time::timeout,
};

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// A server that gives the same answer to everything, and remembers what it was asked.
pub(crate) struct Receiver {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

type Shared = (StatusCode, Arc<Mutex<Vec<Seen>>>);

impl Receiver {
    pub(crate) async fn answering(status: u16) -> Self {
        let seen = Arc::default();
        let shared: Shared = (StatusCode::from_u16(status).unwrap(), Arc::clone(&seen));
        let router = Router::new().fallback(answer).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            seen,
            task,
        }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen().pop().expect("a request")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State((status, seen)): State<Shared>, request: Request) -> impl IntoResponse {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    seen.lock().unwrap().push(Seen {
        method: head.method,
        target: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    // Where a redirect would lead; of no meaning elsewhere.
    (status, [(LOCATION, "/elsewhere")])
}

/// A server that breaks the protocol.
pub(crate) struct Raw {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Ends, where it ends by itself, with the number of bytes that were taken from it.
    task: JoinHandle<usize>,
}

/// What a [`Raw`] does when it has said its text.
#[derive(Clone, Copy)]
enum Then {
    Close,
    Hang,
    /// Goes on with a body that does not end.
    Pour,
}

impl Raw {
    /// Says this, and closes the connection.
    pub(crate) async fn closing_after(text: &'static str) -> Self {
        Self::start(text, Then::Close).await
    }

    /// Says this, and keeps the connection open.
    pub(crate) async fn hanging_after(text: &'static str) -> Self {
        Self::start(text, Then::Hang).await
    }

    /// Answers 200 with a body that does not end.
    pub(crate) async fn endless() -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        Self::start(head, Then::Pour).await
    }

    async fn start(text: &'static str, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                // Closed with something unread, it would be reset, and what was said lost.
                let mut request = [0; 4096];
                let _ = connection.read(&mut request).await.unwrap();
                let _ = connection.write_all(text.as_bytes()).await;
                match then {
                    Then::Close => drop(connection),
                    Then::Hang => kept.push(connection),
                    Then::Pour => return pour(connection).await,
                }
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many bytes were taken until the caller went.
    pub(crate) async fn ended(mut self) -> usize {
        (&mut self.task).await.unwrap()
    }
}

async fn pour(mut connection: TcpStream) -> usize {
    let (chunk, mut poured) = ([b'x'; 4096], 0);
    while let Ok(bytes) = connection.write(&chunk).await {
        poured += bytes;
    }
    poured
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A server that has more connections waiting than it lets wait.
pub(crate) struct Full {
    address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Full {
    pub(crate) async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        let patience = Duration::from_millis(200);
        while let Ok(connected) = timeout(patience, TcpStream::connect(address)).await {
            waiting.push(connected.unwrap());
        }
        Self {
            address,
            _listener: listener,
            _waiting: waiting,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

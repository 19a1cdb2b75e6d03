//! Who holds connections and asks for nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::StatusCode;
use tokio::time::timeout;

use crate::asking::get;
use crate::fleet::Fleet;

/// More than a pod keeps, fewer than a process may have descriptors.
const SILENT: usize = 600;

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_ask_for_nothing_keep_nobody_from_an_answer() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    let address = pod.url("").replace("http://", "");
    let mut silent = Vec::new();
    for number in 0..SILENT {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_nonblocking(true).unwrap();
        if number % 2 == 0 {
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\nhost: ")
                .unwrap();
        }
        silent.push(stream);
    }
    // Long before a caller's time for its headers is over.
    let answer = timeout(Duration::from_secs(10), get(&pod, "/healthz")).await;
    assert_eq!(answer.expect("it is answered").status, StatusCode::OK);
    assert!(silent[..100].iter().all(is_ended), "the oldest are ended");
    let newest = &silent[SILENT - 50..];
    assert!(!newest.iter().any(is_ended), "the newest may still ask");
}

fn is_ended(stream: &TcpStream) -> bool {
    let mut stream = stream;
    match stream.read(&mut [0; 1]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

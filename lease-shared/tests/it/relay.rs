//! A relay between a service and its server that can keep one command back, cut the sender off, and deliver the command
//! whenever the test wants: a late copy.

use std::sync::{Arc, Mutex};

use mongodb::Database;
use mongodb::bson::doc;
use mongodb::options::{ClientOptions, ServerAddress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::{World, client};

/// Ends with the runtime of its test.
pub(crate) struct Relay {
    port: u16,
    wanted: Wanted,
}

type Wanted = Arc<Mutex<Option<oneshot::Sender<Late>>>>;

/// A command that its sender has given up, on the connection on which it was sent.
pub(crate) struct Late {
    command: Vec<u8>,
    server: TcpStream,
}

impl Relay {
    /// A relay to the primary behind `world`.
    pub(crate) async fn to(world: &World) -> Self {
        let admin = world.mongo.client().database("admin");
        let hello = admin.run_command(doc! { "hello": 1 }).await.unwrap();
        let primary = hello.get_str("primary").unwrap().to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let wanted = Wanted::default();
        let shared = Arc::clone(&wanted);
        tokio::spawn(async move {
            while let Ok((sender, _)) = listener.accept().await {
                let server = TcpStream::connect(&primary).await.unwrap();
                tokio::spawn(forward(sender, server, Arc::clone(&shared)));
            }
        });
        Self { port, wanted }
    }

    /// The world's database, through this relay.
    pub(crate) async fn database(&self, world: &World) -> Database {
        let through = |options: &mut ClientOptions| {
            let port = Some(self.port);
            let host = "127.0.0.1".to_owned();
            options.hosts = vec![ServerAddress::Tcp { host, port }];
            options.direct_connection = Some(true);
            options.repl_set_name = None;
        };
        let client = client(&world.mongo, through).await;
        client.database(world.mongo.name())
    }

    /// Keeps the next command to a lease collection back and cuts its sender off.
    pub(crate) fn hold(&self) -> oneshot::Receiver<Late> {
        let (sender, receiver) = oneshot::channel();
        *self.wanted.lock().unwrap() = Some(sender);
        receiver
    }
}

impl Late {
    /// Lets the server have it after all, and returns when it has been carried out.
    pub(crate) async fn deliver(mut self) {
        self.server.write_all(&self.command).await.unwrap();
        let mut answer = Vec::new();
        while message_end(&answer).is_none() {
            assert!(
                self.server.read_buf(&mut answer).await.unwrap() > 0,
                "the server hung up"
            );
        }
    }
}

async fn forward(
    mut sender: TcpStream,
    mut server: TcpStream,
    wanted: Wanted,
) -> std::io::Result<()> {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            read = sender.read_buf(&mut up) => if read? == 0 { return Ok(()) },
            read = server.read_buf(&mut down) => if read? == 0 { return Ok(()) },
        }
        sender.write_all(&down).await?;
        down.clear();
        while let Some(end) = message_end(&up) {
            let rest = up.split_off(end);
            let command = std::mem::replace(&mut up, rest);
            let name = b"resource_lease_";
            let ours = command.windows(name.len()).any(|part| part == name);
            let test = ours.then(|| wanted.lock().unwrap().take()).flatten();
            if let Some(test) = test {
                // The sender's side closes with this function.
                let _ = test.send(Late { command, server });
                return Ok(());
            }
            server.write_all(&command).await?;
        }
    }
}

/// Where the first message ends, once all of it is there. Every message begins with its length.
fn message_end(bytes: &[u8]) -> Option<usize> {
    let length = bytes
        .first_chunk()
        .map(|length| u32::from_le_bytes(*length) as usize)?;
    (bytes.len() >= length).then_some(length)
}

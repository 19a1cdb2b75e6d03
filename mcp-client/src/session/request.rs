//! One request of a session.

use std::time::Duration;

use rmcp::model::{ClientRequest, ServerResult};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient};
use tokio::runtime;

use crate::fault::Fault;
use crate::wire::Requests;

/// How long telling the server of a cancelled request may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Sends `request` and waits for its answer.
///
/// # Cancellation
/// The server is told that nobody waits for the answer any more; so it is after `limit`.
pub(super) async fn send(
    requests: &Requests,
    runtime: &runtime::Handle,
    request: ClientRequest,
    limit: Duration,
) -> Result<ServerResult, Fault> {
    let answered = async {
        let handle = requests
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await?;
        let mut sent = Sent {
            handle: Some(handle),
            runtime,
        };
        let answer = match &mut sent.handle {
            Some(handle) => (&mut handle.rx).await,
            None => return Err(ended()),
        };
        sent.handle = None;
        answer.map_err(|_| ended())?.map_err(Fault::from)
    };
    match tokio::time::timeout(limit, answered).await {
        Ok(answer) => answer,
        Err(_) => Err(Fault::Timeout(limit)),
    }
}

fn ended() -> Fault {
    Fault::Broken("it ended before the answer".into())
}

/// A request that is waited for.
struct Sent<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    runtime: &'a runtime::Handle,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            // Fails soon where the session has ended, and ends with it: no one has to wait for it.
            self.runtime
                .spawn(tokio::time::timeout(CANCEL_LIMIT, async {
                    let _ = handle
                        .cancel(Some("nobody waits for it any more".to_owned()))
                        .await;
                }));
        }
    }
}

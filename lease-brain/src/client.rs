//! Calls the operator's routes of one brain.

use std::fmt;
use std::time::Duration;

use lease_shared::in_full;
use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;

use crate::api::{
    INTERNAL_TOKEN, JobProgress, JobStarted, Problem, RevokeCall, RevokePodCall, RevokeReply,
    SessionClosed, ToolCall, ToolReply, ToolsCall, ToolsReply,
};

/// How long until there is a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a call may take. A brain gives up on its store after half of that, and says so.
const ANSWER: Duration = Duration::from_secs(10);
/// How much of an answer is read: the report of a job can name ten thousand leases.
const LENGTH: usize = 16 * 1024 * 1024;

/// One brain, and the secret to call it with.
#[derive(Clone)]
pub struct BrainClient {
    http: reqwest::Client,
    endpoint: String,
    secret: HeaderValue,
}

impl fmt::Debug for BrainClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BrainClient").field(&self.endpoint).finish()
    }
}

/// Why a call gave no answer that counts.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There was no connection, so nothing was done.
    #[error("no brain answers at {endpoint}: {problem}")]
    Unreachable {
        /// Where.
        endpoint: String,
        /// Why not.
        problem: String,
    },
    /// It was asked, and what it did is not known.
    #[error("what the brain at {endpoint} did is not known: {problem}")]
    Unknown {
        /// Where.
        endpoint: String,
        /// What came instead of an answer, or what the brain did not get to know itself.
        problem: String,
    },
    /// It refused.
    #[error("the brain at {endpoint} refused: {}", .problem.message)]
    Refused {
        /// Where.
        endpoint: String,
        /// Why.
        problem: Problem,
    },
    /// What answered does not speak like a brain.
    #[error("what answers at {endpoint} is no brain: {problem}")]
    NoBrain {
        /// Where.
        endpoint: String,
        /// What it said.
        problem: String,
    },
    /// No client can be made, or the secret cannot be sent.
    #[error("no brain can be called: {0}")]
    Setup(String),
}

impl BrainClient {
    /// A client of the brain at this URL.
    ///
    /// # Errors
    /// [`CallError::Setup`].
    pub fn new(endpoint: &str, secret: &SecretString) -> Result<Self, CallError> {
        crate::tls::install_provider();
        // No proxy is to see the secret, and no redirect to take it elsewhere.
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| CallError::Setup(in_full(&error)))?;
        let mut header = HeaderValue::from_str(secret.expose_secret()).map_err(|_| {
            CallError::Setup("the internal token has characters that no header can carry".into())
        })?;
        header.set_sensitive(true);
        Ok(Self {
            http,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            secret: header,
        })
    }

    /// Where it is.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Revokes one lease.
    ///
    /// # Errors
    /// Only [`CallError::Unknown`] leaves it open whether the lease was revoked. To ask again does no harm.
    pub async fn revoke(&self, call: &RevokeCall) -> Result<RevokeReply, CallError> {
        self.answer(self.post("revoke").json(call)).await
    }

    /// Begins to revoke everything that a pod holds.
    ///
    /// # Errors
    /// As [`BrainClient::revoke`].
    pub async fn revoke_pod(&self, call: &RevokePodCall) -> Result<JobStarted, CallError> {
        self.answer(self.post("revoke-pod").json(call)).await
    }

    /// Begins one round over everything.
    ///
    /// # Errors
    /// As [`BrainClient::revoke`].
    pub async fn sweep(&self) -> Result<JobStarted, CallError> {
        self.answer(self.post("sweep")).await
    }

    /// How far a job is.
    ///
    /// # Errors
    /// Any: how far it is is not known.
    pub async fn job(&self, job: &JobStarted) -> Result<JobProgress, CallError> {
        let job =
            percent_encoding::utf8_percent_encode(&job.job, percent_encoding::NON_ALPHANUMERIC);
        let url = format!("{}/internal/lease/admin/jobs/{job}", self.endpoint);
        self.answer(self.http.get(url)).await
    }

    /// What an MCP server offers to someone.
    ///
    /// # Errors
    /// As [`BrainClient::mcp_call`].
    pub async fn mcp_tools(
        &self,
        tool: &str,
        whose: &ToolsCall,
        limit: Duration,
    ) -> Result<ToolsReply, CallError> {
        self.said(self.mcp(tool, "tools", limit).json(whose)).await
    }

    /// Calls a tool at an MCP server in someone's session. `limit` is how long the answer may take.
    ///
    /// # Errors
    /// [`CallError::Refused`] tells by its code what the caller can do.
    pub async fn mcp_call(
        &self,
        tool: &str,
        call: &ToolCall,
        limit: Duration,
    ) -> Result<ToolReply, CallError> {
        self.said(self.mcp(tool, "call", limit).json(call)).await
    }

    /// Ends someone's session at an MCP server.
    ///
    /// # Errors
    /// As [`BrainClient::mcp_call`].
    pub async fn mcp_close(
        &self,
        tool: &str,
        whose: &ToolsCall,
        limit: Duration,
    ) -> Result<SessionClosed, CallError> {
        self.said(self.mcp(tool, "close", limit).json(whose)).await
    }

    fn mcp(&self, tool: &str, verb: &str, limit: Duration) -> RequestBuilder {
        let url = format!("{}/internal/mcp/{tool}/{verb}", self.endpoint);
        self.http.post(url).timeout(limit)
    }

    fn post(&self, verb: &str) -> RequestBuilder {
        let url = format!("{}/internal/lease/admin/{verb}", self.endpoint);
        self.http.post(url)
    }

    /// The answer to a question about leases: what a brain could not ask its store is not known.
    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        match self.said(request).await {
            Err(CallError::Refused { endpoint, problem })
                if problem.code == Problem::UNAVAILABLE =>
            {
                let problem = problem.message;
                Err(CallError::Unknown { endpoint, problem })
            }
            answered => answered,
        }
    }

    async fn said<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        let endpoint = || self.endpoint.clone();
        let unknown = |problem| CallError::Unknown {
            endpoint: endpoint(),
            problem,
        };
        let request = request.header(INTERNAL_TOKEN, self.secret.clone());
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() || error.is_builder() => {
                return Err(CallError::Unreachable {
                    endpoint: endpoint(),
                    problem: in_full(&error.without_url()),
                });
            }
            Err(error) => return Err(unknown(in_full(&error.without_url()))),
        };
        let status = answer.status();
        let mut body = Vec::new();
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > LENGTH => {
                    return Err(unknown("its answer is too long".to_owned()));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return Err(unknown(in_full(&error.without_url()))),
            }
        }
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| self.no_brain(status));
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(CallError::Refused {
                endpoint: endpoint(),
                problem,
            }),
            Err(_) => Err(self.no_brain(status)),
        }
    }

    fn no_brain(&self, status: StatusCode) -> CallError {
        CallError::NoBrain {
            endpoint: self.endpoint.clone(),
            problem: format!("its answer with status {status} is not one of a brain"),
        }
    }
}

//! Calls the operator's routes of one brain.

use std::fmt;
use std::time::Duration;

use lease_shared::in_full;
use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;

use crate::api::{
    INTERNAL_TOKEN, JobProgress, JobStarted, Problem, RevokeCall, RevokePodCall, RevokeReply,
    SessionClosed, TexLine, TexOutcome, TexProgress, TexQuery, ToolCall, ToolReply, ToolsCall,
    ToolsReply,
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

    /// Compiles a document: sends a zip file of it, hears how far it is, and gives what came of it with the PDF, which is empty
    /// if there is none. `limit` is how long all of it may take.
    ///
    /// # Errors
    /// As [`BrainClient::mcp_call`]. What is wrong with the document is no error.
    pub async fn tex_compile(
        &self,
        query: &TexQuery,
        zip: Vec<u8>,
        limit: Duration,
        tell: impl Fn(&TexProgress),
    ) -> Result<(TexOutcome, Vec<u8>), CallError> {
        let url = format!("{}/internal/tex/compile", self.endpoint);
        let whose = [
            ("tenant", query.tenant.as_str()),
            ("project", &query.project),
            ("user", &query.user),
            ("main", &query.main),
        ];
        let engine = query.engine.as_deref().map(|engine| ("engine", engine));
        let url = Url::parse_with_params(&url, whose.into_iter().chain(engine))
            .map_err(|error| CallError::Setup(error.to_string()))?;
        let request = self.http.post(url).timeout(limit).body(zip);
        let mut answer = self.send(request).await?;
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        let (mut read, mut outcome) = (Vec::new(), None);
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) => read.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return Err(self.unknown(in_full(&error.without_url()))),
            }
            while outcome.is_none()
                && let Some(end) = read.iter().position(|byte| *byte == b'\n')
            {
                let line: Vec<u8> = read.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(TexLine::Progress(progress)) => tell(&progress),
                    Ok(TexLine::Result(result)) => outcome = Some(result),
                    Err(_) => return Err(self.no_brain(answer.status())),
                }
            }
            let most = outcome
                .as_ref()
                .map_or(LENGTH as u64, |outcome| outcome.pdf_bytes);
            if read.len() as u64 > most {
                return Err(self.unknown("its answer is too long".to_owned()));
            }
        }
        match outcome {
            Some(outcome) if outcome.pdf_bytes == read.len() as u64 => Ok((outcome, read)),
            _ => Err(self.unknown("its answer ended before its end".to_owned())),
        }
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
        let answer = self.send(request).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(self.refusal(answer).await);
        }
        let body = self.body(answer).await?;
        serde_json::from_slice(&body).map_err(|_| self.no_brain(status))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, CallError> {
        let request = request.header(INTERNAL_TOKEN, self.secret.clone());
        match request.send().await {
            Ok(answer) => Ok(answer),
            Err(error) if error.is_connect() || error.is_builder() => Err(CallError::Unreachable {
                endpoint: self.endpoint.clone(),
                problem: in_full(&error.without_url()),
            }),
            Err(error) => Err(self.unknown(in_full(&error.without_url()))),
        }
    }

    async fn body(&self, mut answer: Response) -> Result<Vec<u8>, CallError> {
        let mut body = Vec::new();
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > LENGTH => {
                    return Err(self.unknown("its answer is too long".to_owned()));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Ok(body),
                Err(error) => return Err(self.unknown(in_full(&error.without_url()))),
            }
        }
    }

    /// Why it was not done.
    async fn refusal(&self, answer: Response) -> CallError {
        let status = answer.status();
        let body = match self.body(answer).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => CallError::Refused {
                endpoint: self.endpoint.clone(),
                problem,
            },
            Err(_) => self.no_brain(status),
        }
    }

    fn unknown(&self, problem: String) -> CallError {
        CallError::Unknown {
            endpoint: self.endpoint.clone(),
            problem,
        }
    }

    fn no_brain(&self, status: StatusCode) -> CallError {
        CallError::NoBrain {
            endpoint: self.endpoint.clone(),
            problem: format!("its answer with status {status} is not one of a brain"),
        }
    }
}

//! What the internal routes and the command line say to each other.

use lease_shared::{LeaseToken, PodId, Revoked};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The header that carries the secret of internal calls.
pub const INTERNAL_TOKEN: &str = "x-vance-internal-token";

/// What a reason that an operator gives must be, if it is not that.
pub fn check_reason(reason: &str) -> Result<(), &'static str> {
    if reason.chars().count() > 500 || reason.chars().any(char::is_control) {
        return Err("must be at most 500 characters without control characters");
    }
    Ok(())
}

/// The header in which a pod that has done what it was asked names itself: another process may have its address by now, and
/// answer anything.
pub const POD: &str = "x-vance-pod";

/// Why a call was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// A stable word.
    pub code: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    /// The handler ran and did not succeed.
    pub const HANDLER_FAILED: &str = "HANDLER_FAILED";
    /// The body is not what the route takes.
    pub const BAD_REQUEST: &str = "BAD_REQUEST";
    /// The secret is missing or wrong, or none is configured; or the token is good, and not for this.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// No such lease is being revoked under that claim.
    pub const UNKNOWN_TOKEN: &str = "UNKNOWN_TOKEN";
    /// This is another pod than the one that was meant, or there is none of that id.
    pub const UNKNOWN_POD: &str = "UNKNOWN_POD";
    /// The lease is not what was seen of it any more, so nothing was done.
    pub const HOLDER_CHANGED: &str = "HOLDER_CHANGED";
    /// The clean-up was not tried again: it runs just now, or there is none.
    pub const NOT_RETRIED: &str = "NOT_RETRIED";
    /// The lease is another user's, and no reason was given.
    pub const REASON_NEEDED: &str = "REASON_NEEDED";
    /// No such job, or one that ended long ago.
    pub const UNKNOWN_JOB: &str = "UNKNOWN_JOB";
    /// The store did not answer: whether it was done is unknown.
    pub const UNAVAILABLE: &str = "LEASE_UNAVAILABLE";
    /// The pod has not read the store yet.
    pub const UNKNOWN: &str = "UNKNOWN";
    /// No slot was free for as long as the lease's definition lets one wait.
    pub const BUSY: &str = "LEASE_BUSY";
    /// The lease of the session is gone: it was revoked, and has been closed.
    pub const LOST: &str = "LEASE_LOST";
    /// No document defines the lease, or the tool.
    pub const UNDEFINED: &str = "LEASE_UNDEFINED";
    /// A document breaks a rule, or the request can never succeed.
    pub const INVALID: &str = "LEASE_INVALID";
    /// The MCP server could not be reached, or opened no session. Nothing was called.
    pub const SERVER_UNAVAILABLE: &str = "MCP_UNAVAILABLE";
    /// The MCP server has ended the session. Nothing was called: the next call opens anew.
    pub const SESSION_ENDED: &str = "MCP_SESSION_ENDED";
    /// The MCP server was called, and what it did is not known.
    pub const CALL_UNKNOWN: &str = "MCP_UNKNOWN";
    /// The MCP server refused the call.
    pub const CALL_REFUSED: &str = "MCP_REFUSED";
    /// This brain has as much in work as it takes.
    pub const TOO_MANY: &str = "TOO_MANY";
    /// This brain compiles no documents.
    pub const NO_TEX: &str = "NO_TEX";
    /// This brain offers no tools.
    pub const NO_TOOLS: &str = "NO_TOOLS";
    /// This brain verifies no tokens, so it shows no tenant's leases.
    pub const NO_INSIGHTS: &str = "NO_INSIGHTS";
    /// No token has come.
    pub const NOT_SIGNED_IN: &str = "NOT_SIGNED_IN";
    /// The token was good once.
    pub const TOKEN_EXPIRED: &str = "TOKEN_EXPIRED";
    /// The token is no good.
    pub const TOKEN_INVALID: &str = "TOKEN_INVALID";
    /// A page of another site may have sent the request.
    pub const CROSS_SITE: &str = "CROSS_SITE";
    /// The keys that verify tokens cannot be had.
    pub const KEYS_UNAVAILABLE: &str = "KEYS_UNAVAILABLE";
    /// The pod is shutting down.
    pub const DRAINING: &str = "DRAINING";
}

/// `POST /internal/lease/revoked`: run your handler for this lease, under this claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokedCall {
    /// The pod that is meant; another may have its address by now.
    pub pod: PodId,
    /// The lease.
    pub token: LeaseToken,
    /// The caller's right to have it cleaned up.
    pub claim: String,
}

/// `POST /internal/lease/admin/revoke`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeCall {
    /// The lease.
    pub token: LeaseToken,
    /// Why, for others to read.
    pub reason: Option<String>,
    /// Only if this pod holds it.
    pub if_pod: Option<PodId>,
}

/// The answer to [`RevokeCall`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevokeReply {
    /// What it did.
    pub outcome: Revoked,
}

/// `POST /internal/lease/admin/revoke-pod`: revoke everything that a pod holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokePodCall {
    /// The pod, alive or dead.
    pub pod: PodId,
    /// Why, for others to read.
    pub reason: Option<String>,
}

/// A job that was begun; `GET /internal/lease/admin/jobs/{id}` says how far it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStarted {
    /// Its id, in the pod that runs it.
    pub job: String,
}

/// How far a job is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobProgress {
    /// Has it ended?
    pub done: bool,
    /// How many leases it is about, as far as it is known.
    pub total: usize,
    /// Revoked by it.
    pub revoked: usize,
    /// Those of them whose slots come back only after their clean-ups.
    pub cleanup_pending: usize,
    /// Not held any more when their turn came.
    pub gone: usize,
    /// Not tried, for the job ended before their turn: because of what failed.
    #[serde(default)]
    pub left: usize,
    /// What could not be done, one line each.
    pub failed: Vec<String>,
    /// What a sweep did.
    pub sweep: Option<SweepReply>,
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReply {
    /// Leases revoked because they were idle.
    pub idle: usize,
    /// Leases revoked because their pods were dead.
    pub pod: usize,
    /// Acquires that never finished, removed.
    pub stale: usize,
    /// Revoked commands whose time had run out, finished.
    pub finished: usize,
    /// Slots freed that nobody held.
    pub corrected: usize,
    /// Counters that differ from their holders otherwise, one line each.
    pub drift: Vec<String>,
    /// Why leases of dead pods were left for now.
    pub waiting: Option<String>,
    /// Could the store be asked for everything? Otherwise much may be left.
    #[serde(default)]
    pub complete: bool,
    /// What could not be done, one line each.
    pub failed: Vec<String>,
}

/// `POST /internal/mcp/{tool}/tools` and `/close`: for whom.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsCall {
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The user, whose session it is.
    pub user: String,
}

/// What a server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsReply {
    /// Its tools.
    pub tools: Vec<OfferedTool>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What it does, in the server's words.
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
}

/// `POST /internal/mcp/{tool}/call`: call a tool in someone's session, which is opened if there is none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCall {
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The user, whose session it is.
    pub user: String,
    /// Which of the server's tools.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// What the server's tool gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReply {
    /// The result of `tools/call` as the server gave it: `content`, `isError` and so on.
    pub result: Value,
}

/// The answer to `POST /internal/mcp/{tool}/close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionClosed {
    /// There was a session in this pod, and it has ended.
    pub closed: bool,
}

/// The query of `POST /internal/tex/compile`, whose body is a zip file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TexQuery {
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The user.
    pub user: String,
    /// The document's main file, within the zip file.
    pub main: String,
    /// `pdflatex` unless said otherwise, `xelatex` or `lualatex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// One line of the answer to a compilation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TexLine {
    /// How far it is; at least every five seconds.
    Progress(TexProgress),
    /// What came of it: the last line. The PDF's bytes follow.
    Result(TexOutcome),
}

/// How far a compilation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TexProgress {
    /// What it does.
    pub state: TexState,
    /// Who is waited for; what the compiler said last.
    pub detail: Option<String>,
    /// Since it was asked for.
    pub elapsed_ms: u64,
}

/// What a compilation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TexState {
    /// Asks for its lease.
    Waiting,
    /// Waits for its lease, which others have.
    Busy,
    /// Has been handed to latexmk, or to the service.
    Started,
    /// Runs.
    Running,
    /// Its PDF is fetched from the service.
    Downloading,
}

impl TexState {
    /// The state in a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Busy => "busy",
            Self::Started => "started",
            Self::Running => "running",
            Self::Downloading => "downloading",
        }
    }
}

/// What came of a compilation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TexOutcome {
    /// There is a PDF.
    pub success: bool,
    /// Why there is none.
    pub problem: Option<Problem>,
    /// The last lines of what the compiler said.
    pub log: String,
    /// How long it took, with the wait for its lease.
    pub elapsed_ms: u64,
    /// How many bytes of PDF follow.
    pub pdf_bytes: u64,
}

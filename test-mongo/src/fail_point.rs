//! The server's own fail points, each switched off by its guard.
//!
//! A server has one setting per fail point, so `failCommand` can be in use once per server: tests that
//! use it start a [`Mongod`](crate::Mongod) of their own, or take turns.

use std::time::Duration;

use anyhow::{Context as _, Result};
use mongodb::bson::{Bson, Document, doc};
use tokio::time::timeout;

use crate::command::admin_command;
use crate::wait::finish;

/// How long switching off waits for its answer; longer than the clients' own time limits.
const ANSWER: Duration = Duration::from_secs(4);

/// A fail point that is on; it goes off with this value.
///
/// `Drop` blocks for a moment, also when the server is away; it then says so on stderr.
#[must_use = "the fail point goes off with its guard"]
pub struct FailPoint {
    uri: String,
    name: String,
    on: bool,
}

impl FailPoint {
    /// Switches on a fail point of the server at `uri`. `mode` is `"alwaysOn"`, `{times: n}` or `{skip: n}`.
    ///
    /// The server must have been started with `enableTestCommands=1`, as ours are.
    pub async fn set(uri: &str, name: &str, mode: impl Into<Bson>, data: Document) -> Result<Self> {
        let guard = Self {
            uri: uri.to_owned(),
            name: name.to_owned(),
            on: true,
        };
        let command = doc! { "configureFailPoint": name, "mode": mode.into(), "data": data };
        admin_command(uri, command)
            .await
            .with_context(|| format!("switch on {name} (needs enableTestCommands=1)"))?;
        Ok(guard)
    }

    /// Every write is applied and then hangs before its write concern is looked at, until the guard goes:
    /// applied, but unanswered. It concerns every client of the server.
    pub async fn hang_before_write_concern(uri: &str) -> Result<Self> {
        Self::set(uri, "hangBeforeWaitingForWriteConcern", "alwaysOn", doc! {}).await
    }

    /// Switches it off and reports what `Drop` could only print.
    pub async fn off(mut self) -> Result<()> {
        self.on = false;
        switch_off(self.uri.clone(), self.name.clone()).await
    }
}

impl Drop for FailPoint {
    fn drop(&mut self) {
        if self.on {
            let work = switch_off(self.uri.clone(), self.name.clone());
            finish(&format!("switch off {}", self.name), work);
        }
    }
}

/// The server lets nobody enter the fail point at once, but answers only when those inside have left,
/// which a blocked command does after its time. So a late answer is none to wait for, if the server lives.
async fn switch_off(uri: String, name: String) -> Result<()> {
    let command = doc! { "configureFailPoint": &name, "mode": "off" };
    match timeout(ANSWER, admin_command(&uri, command)).await {
        Ok(answer) => answer.map(|_| ()),
        Err(_) => timeout(ANSWER, admin_command(&uri, doc! { "ping": 1 }))
            .await
            .with_context(|| format!("no answer to switching off {name}, nor to a ping"))?
            .map(|_| ()),
    }
}

/// The `failCommand` fail point: what the named commands do instead of, or after, their work.
///
/// ```no_run
/// # async fn example(server: &test_mongo::Mongod) -> anyhow::Result<()> {
/// use test_mongo::FailCommand;
///
/// let outage = FailCommand::on(&["update"]).close_connection().times(2).set(&server.uri()).await?;
/// // the next two updates are cut off
/// outage.off().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is switched on before `set`"]
pub struct FailCommand {
    mode: Bson,
    data: Document,
}

impl FailCommand {
    /// Concerns these commands, for example `update`, `findAndModify`.
    pub fn on(commands: &[&str]) -> Self {
        Self {
            mode: "alwaysOn".into(),
            data: doc! { "failCommands": commands },
        }
    }

    /// Only the next `count` of them.
    pub fn times(mut self, count: i32) -> Self {
        self.mode = doc! { "times": count }.into();
        self
    }

    /// All but the first `count` of them.
    pub fn skip(mut self, count: i32) -> Self {
        self.mode = doc! { "skip": count }.into();
        self
    }

    /// Only those of clients with this `appName`; [`TestMongo`](crate::TestMongo)'s is its database's name.
    pub fn app_name(self, name: &str) -> Self {
        self.with("appName", name)
    }

    /// They fail with this code, undone.
    pub fn error_code(self, code: i32) -> Self {
        self.with("errorCode", code)
    }

    /// Their errors carry these labels and no others.
    pub fn error_labels(self, labels: &[&str]) -> Self {
        self.with("errorLabels", labels.to_vec())
    }

    /// The connection is closed instead of an answer, the command undone.
    pub fn close_connection(self) -> Self {
        self.with("closeConnection", true)
    }

    /// They wait this long before they are carried out (or fail). Those that wait already are not woken
    /// when it goes off, and until they are done no other setting can be made.
    pub fn block(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.with("blockConnection", true)
            .with("blockTimeMS", millis)
    }

    /// They are carried out and answered with this write-concern error, `{code, errmsg}`.
    pub fn write_concern_error(self, error: Document) -> Self {
        self.with("writeConcernError", error)
    }

    /// Any other field of `failCommand`'s data.
    pub fn with(mut self, field: &str, value: impl Into<Bson>) -> Self {
        self.data.insert(field, value);
        self
    }

    /// Switches it on at the server at `uri`.
    pub async fn set(self, uri: &str) -> Result<FailPoint> {
        FailPoint::set(uri, "failCommand", self.mode, self.data).await
    }
}

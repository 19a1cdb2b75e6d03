//! `@modelcontextprotocol/server-everything`.

use std::path::Path;

use anyhow::Result;

use super::server::Server;
use super::tools::Tools;

const PROGRAM: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// MCP's own server for testing, over streamable HTTP on loopback; it ends with this value.
///
/// It also ends when this process is killed. `Drop` blocks until it is gone.
pub struct Everything(Server);

impl Everything {
    /// Starts it and waits until it listens.
    pub async fn http(tools: &Tools) -> Result<Self> {
        let directory = Server::directory_for("everything")?;
        let program = tools.servers.join(PROGRAM);
        // 0 leaves the choice of a free port to the system.
        let server = Server::start(
            tools,
            program,
            ["streamableHttp"],
            &[("PORT", "0")],
            directory,
        );
        Ok(Self(server.await?))
    }

    /// Its endpoint.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.0.port())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// The folder of its log and of all that it writes.
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        self.0.log_tail()
    }
}

impl Tools {
    /// The command line of the server that speaks over its standard input and output.
    pub fn everything_stdio(&self) -> Vec<String> {
        let program = self.servers.join(PROGRAM);
        vec![text(&self.node), text(&program), "stdio".to_owned()]
    }
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! What a server is told about this client, and what it may tell it.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{NotificationContext, RoleClient};

use super::OFFERED;
use crate::tools::ToolCache;

/// Offers no capabilities, and hears when the list of tools has changed.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) tools: Arc<ToolCache>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), client).with_protocol_version(OFFERED)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools.changed();
    }
}

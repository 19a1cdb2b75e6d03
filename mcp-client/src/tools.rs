//! The tools of one session, as long as the server does not say that they have changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model;
use serde_json::Value;

use crate::server::Tool;

/// More tools than this are not asked for.
pub(crate) const MAX_TOOLS: usize = 1000;

/// More pages of them than this neither.
pub(crate) const MAX_PAGES: usize = 100;

/// What a server listed, until it says that the list has changed.
#[derive(Debug, Default)]
pub(crate) struct ToolCache(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    tools: Option<Arc<[Tool]>>,
    /// How often the list has changed.
    changes: u64,
}

impl ToolCache {
    pub(crate) fn get(&self) -> Option<Arc<[Tool]>> {
        self.listed().tools.clone()
    }

    /// The moment to name when what is listed from now on is put in.
    pub(crate) fn changes(&self) -> u64 {
        self.listed().changes
    }

    /// Keeps `tools`, unless the list has changed since `changes`.
    pub(crate) fn put(&self, tools: Arc<[Tool]>, changes: u64) {
        let mut listed = self.listed();
        if listed.changes == changes {
            listed.tools = Some(tools);
        }
    }

    pub(crate) fn changed(&self) {
        let mut listed = self.listed();
        listed.changes += 1;
        listed.tools = None;
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<model::Tool> for Tool {
    fn from(tool: model::Tool) -> Self {
        Self {
            name: tool.name.into_owned(),
            description: tool.description.map(Into::into),
            input_schema: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ToolCache;

    #[test]
    fn a_list_that_was_asked_for_before_a_change_is_not_kept() {
        let cache = ToolCache::default();
        let asked = cache.changes();
        cache.changed();
        cache.put([].into(), asked);
        assert!(cache.get().is_none());
        cache.put([].into(), cache.changes());
        assert!(cache.get().is_some());
    }
}

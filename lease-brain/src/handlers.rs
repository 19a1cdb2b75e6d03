//! Which handler cleans up behind which lease type.

pub mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use lease_shared::{InvalidName, LeaseHandler, LeaseType};

/// The handlers of a process, by lease type.
#[derive(Debug, Clone, Default)]
pub struct HandlerRegistry(BTreeMap<LeaseType, Arc<dyn LeaseHandler>>);

/// A handler that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHandler {
    /// Two handlers for one type: one of them would never run.
    #[error("lease type `{0}` has a handler already: register it once")]
    Twice(LeaseType),
    /// It is no lease type.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The command's own wrapper ends it.
    #[error("lease type `command` takes no handler: choose a type of your own")]
    Command,
}

impl HandlerRegistry {
    /// Adds the handler of one more type.
    ///
    /// # Errors
    /// The type has one, or takes none.
    pub fn register(
        &mut self,
        lease_type: LeaseType,
        handler: Arc<dyn LeaseHandler>,
    ) -> Result<(), InvalidHandler> {
        if lease_type == LeaseType::command() {
            return Err(InvalidHandler::Command);
        }
        if self.0.contains_key(&lease_type) {
            return Err(InvalidHandler::Twice(lease_type));
        }
        self.0.insert(lease_type, handler);
        Ok(())
    }

    /// The handler of a type.
    pub fn get(&self, lease_type: &LeaseType) -> Option<&Arc<dyn LeaseHandler>> {
        self.0.get(lease_type)
    }

    /// The types that have one.
    pub fn types(&self) -> Vec<LeaseType> {
        self.0.keys().cloned().collect()
    }
}

//! From a name and a tenancy to a definition, through a cache that no change survives for long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

use super::documents::{ConfigDocuments, DocumentAddress, DocumentStoreError};
use super::layer::{Layer, LayerDocument};
use super::merge::{MergedDefinition, merge};
use super::{DefinitionWatch, DocumentError, LeaseDefinition, watch};
use crate::name::{InvalidName, LeaseName};
use crate::scope::{SYSTEM_TENANT, TENANT_PROJECT, Tenancy};

/// How old a definition may be, counted from the moment its documents began to be read. It bounds how long a lost
/// change event is felt.
const MAX_AGE: Duration = Duration::from_secs(60);
/// How long the documents of one definition may take to be read.
const DEADLINE: Duration = Duration::from_millis(4500);
/// How many definitions are kept, one for each tenant, project and name.
const MAX_CACHED: u64 = 10_000;
/// How many changes a receiver may be behind.
const CHANGES: usize = 256;

/// Why a name has no definition now.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No layer defines it. A typo must not lift a limit, so this fails rather than meaning no caps.
    #[error(
        "no document defines the lease `{name}` for {tenant}/{project}: write _vance/config/lease/{name}.yaml in the system, tenant or project layer"
    )]
    Undefined {
        /// The name that was asked for.
        name: LeaseName,
        /// The tenant it was asked for.
        tenant: String,
        /// The project it was asked for.
        project: String,
    },
    /// A layer's document breaks a rule. It might hold the very cap that protects the resource, so it is not skipped.
    #[error(transparent)]
    Broken(DocumentError),
    /// A layer could not be read.
    #[error(transparent)]
    Unavailable(DocumentStoreError),
}

/// Finds the definition that holds for a tenancy. A clone shares the cache.
///
/// Nothing is cached but a definition whose layers were all read and valid, and that for at most 60 s. A write through
/// [`put`](Self::put) or [`remove`](Self::remove) is felt at once in this process; writes of other processes are as
/// soon as [`watch`](Self::watch) hears of them.
#[derive(Debug, Clone)]
pub struct DefinitionResolver {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    documents: ConfigDocuments,
    bundled: fn(&str) -> Option<&'static str>,
    cache: moka::sync::Cache<Key, Cached>,
    /// How many invalidations there were. Held only to compare or to add one.
    invalidations: Mutex<u64>,
    changes: broadcast::Sender<DocumentChange>,
}

/// What has changed among the documents, for those who keep more than definitions of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// The document here was written or removed.
    At(DocumentAddress),
    /// Any may have been.
    Any,
}

type Key = (String, String, LeaseName);

#[derive(Debug, Clone)]
struct Cached {
    merged: Arc<MergedDefinition>,
    definition: Arc<LeaseDefinition>,
    began: Instant,
}

/// A load under way: what it needs to know, at its end, about its beginning.
#[derive(Debug)]
struct Load {
    began: Instant,
    invalidations: u64,
}

impl DefinitionResolver {
    /// A resolver over `documents`, above the definitions bundled with this binary.
    pub fn new(documents: ConfigDocuments) -> Self {
        Self::with_bundled(documents, defaults::bundled)
    }

    /// The same, above other bundled documents: `bundled` gives the text at a path.
    pub fn with_bundled(
        documents: ConfigDocuments,
        bundled: fn(&str) -> Option<&'static str>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                documents,
                bundled,
                cache: moka::sync::Cache::builder()
                    .max_capacity(MAX_CACHED)
                    .time_to_live(MAX_AGE)
                    .build(),
                invalidations: Mutex::new(0),
                changes: broadcast::Sender::new(CHANGES),
            }),
        }
    }

    /// The documents that are resolved from.
    pub fn documents(&self) -> &ConfigDocuments {
        &self.inner.documents
    }

    /// The definition of `name` for a holder of `tenancy`, from the cache or within 4.5 s.
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn resolve(
        &self,
        tenancy: &Tenancy,
        name: &LeaseName,
    ) -> Result<Arc<LeaseDefinition>, ResolveError> {
        Ok(self.find(tenancy, name).await?.definition)
    }

    /// The same with the layer of each field, and with what was ignored.
    pub async fn explain(
        &self,
        tenancy: &Tenancy,
        name: &LeaseName,
    ) -> Result<Arc<MergedDefinition>, ResolveError> {
        Ok(self.find(tenancy, name).await?.merged)
    }

    /// Writes a document, as [`ConfigDocuments::put`] does, and drops the definitions that it bears on, whatever came
    /// of the write and also when the future is dropped.
    pub async fn put(
        &self,
        address: &DocumentAddress,
        text: &str,
    ) -> Result<(), DocumentStoreError> {
        let _invalidate = InvalidateAtEnd(self, address);
        self.inner.documents.put(address, text).await
    }

    /// Removes a document, as [`ConfigDocuments::remove`] does, and drops the definitions that it bore on.
    pub async fn remove(&self, address: &DocumentAddress) -> Result<bool, DocumentStoreError> {
        let _invalidate = InvalidateAtEnd(self, address);
        self.inner.documents.remove(address).await
    }

    /// Drops what the document at `address` bears on: in the system layer the name for everybody, in a tenant's layer
    /// for that tenant, in a project's for that project. A document that defines no lease bears on nothing here.
    pub fn invalidate(&self, address: &DocumentAddress) {
        self.tell(DocumentChange::At(address.clone()));
        let (Some(Ok(name)), Some(layer)) = (address.lease_name(), Layer::of(address)) else {
            return;
        };
        self.overtake_loads();
        let cache = &self.inner.cache;
        if layer == Layer::Project {
            let (tenant, project) = (address.tenant(), address.project());
            cache.invalidate(&(tenant.to_owned(), project.to_owned(), name));
            return;
        }
        for (key, _) in cache {
            let (tenant, _, cached) = &*key;
            if *cached == name && (layer == Layer::System || tenant == address.tenant()) {
                cache.invalidate(&*key);
            }
        }
    }

    /// Drops everything.
    pub fn invalidate_all(&self) {
        self.tell(DocumentChange::Any);
        self.overtake_loads();
        self.inner.cache.invalidate_all();
    }

    /// Follows the changes that other processes write, until the returned guard is dropped. Panics outside a tokio
    /// runtime.
    pub fn watch(&self) -> DefinitionWatch {
        watch::start(self.clone())
    }

    /// Hears of every change of a document, of whatever kind, that this process makes or [`watch`](Self::watch) hears of.
    /// A receiver that lags has missed some, and must take it for [`DocumentChange::Any`].
    pub fn changes(&self) -> broadcast::Receiver<DocumentChange> {
        self.inner.changes.subscribe()
    }

    fn tell(&self, change: DocumentChange) {
        // Without a receiver there is nobody to tell.
        let _ = self.inner.changes.send(change);
    }

    async fn find(&self, tenancy: &Tenancy, name: &LeaseName) -> Result<Cached, ResolveError> {
        let key = (
            tenancy.tenant().to_owned(),
            tenancy.project().to_owned(),
            name.clone(),
        );
        if let Some(cached) = self.inner.cache.get(&key)
            && cached.began.elapsed() < MAX_AGE
        {
            return Ok(cached);
        }
        let load = self.begin_load();
        let merged = self.load(tenancy, name).await?;
        Ok(self.end_load(load, key, merged))
    }

    fn begin_load(&self) -> Load {
        Load {
            began: Instant::now(),
            invalidations: *self.invalidations(),
        }
    }

    /// Caches what was loaded, unless an invalidation overtook the load: what it read may be what was invalidated.
    fn end_load(&self, load: Load, key: Key, merged: MergedDefinition) -> Cached {
        let cached = Cached {
            definition: Arc::new(merged.definition()),
            merged: Arc::new(merged),
            began: load.began,
        };
        let invalidations = self.invalidations();
        if *invalidations == load.invalidations {
            // Under the lock, so that no invalidation comes between the look and the insertion.
            self.inner.cache.insert(key, cached.clone());
        }
        cached
    }

    /// From here on no load that is under way fills the cache. Comes before the removal from the cache, which then
    /// meets everything that was ever to be removed.
    fn overtake_loads(&self) {
        *self.invalidations() += 1;
    }

    fn invalidations(&self) -> std::sync::MutexGuard<'_, u64> {
        self.inner
            .invalidations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn load(
        &self,
        tenancy: &Tenancy,
        name: &LeaseName,
    ) -> Result<MergedDefinition, ResolveError> {
        let (tenant, project) = (tenancy.tenant(), tenancy.project());
        let undefined = |_: InvalidName| ResolveError::Undefined {
            name: name.clone(),
            tenant: tenant.to_owned(),
            project: project.to_owned(),
        };
        let address = |tenant, project| DocumentAddress::lease(tenant, project, name);
        let system = address(SYSTEM_TENANT, TENANT_PROJECT).map_err(undefined)?;
        let stored = [
            system.clone(),
            address(tenant, TENANT_PROJECT).map_err(undefined)?,
            address(tenant, project).map_err(undefined)?,
        ];
        let texts = timeout(DEADLINE, self.inner.documents.get_all(&stored))
            .await
            .unwrap_or(Err(DocumentStoreError::Timeout(DEADLINE)))
            .map_err(ResolveError::Unavailable)?;

        let mut documents = Vec::with_capacity(Layer::ALL.len());
        let mut read = |text: &str, layer, address| {
            let document = LayerDocument::parse(text, layer, address, name);
            documents.push((layer, document.map_err(ResolveError::Broken)?));
            Ok(())
        };
        if let Some(text) = (self.inner.bundled)(system.path()) {
            read(text, Layer::Bundled, &system)?;
        }
        let layers = [Layer::System, Layer::Tenant, Layer::Project];
        for ((layer, address), text) in layers.into_iter().zip(&stored).zip(texts) {
            if let Some(text) = text {
                read(&text, layer, address)?;
            }
        }
        merge(name, &documents).ok_or_else(|| ResolveError::Undefined {
            name: name.clone(),
            tenant: tenant.to_owned(),
            project: project.to_owned(),
        })
    }
}

struct InvalidateAtEnd<'a>(&'a DefinitionResolver, &'a DocumentAddress);

impl Drop for InvalidateAtEnd<'_> {
    fn drop(&mut self) {
        self.0.invalidate(self.1);
    }
}

#[cfg(test)]
mod tests;

//! How many pages one brain keeps up to date, in all and for one tenant: no tenant's pages take the places of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const IN_ALL: usize = 128;
const OF_A_TENANT: usize = 32;

/// The pages that are kept up to date, by tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<String, usize>>>);

/// The right of one page to be kept up to date, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    tenant: String,
}

impl Places {
    /// A place for a page of a tenant; nothing if there is none.
    pub(super) fn take(&self, tenant: &str) -> Option<Place> {
        let mut taken = self.taken();
        let (all, own) = (
            taken.values().sum::<usize>(),
            taken.get(tenant).copied().unwrap_or(0),
        );
        if all >= IN_ALL || own >= OF_A_TENANT {
            return None;
        }
        taken.insert(tenant.to_owned(), own + 1);
        Some(Place {
            places: self.clone(),
            tenant: tenant.to_owned(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match taken.get_mut(&self.tenant) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(&self.tenant)),
        }
    }
}

#[test]
fn no_tenant_takes_all_places_and_a_place_comes_back() {
    let places = Places::default();
    let mut own: Vec<_> = (0..OF_A_TENANT)
        .map(|_| places.take("acme").unwrap())
        .collect();
    assert!(places.take("acme").is_none());
    let others: Vec<_> = (0..IN_ALL - OF_A_TENANT)
        .map(|n| places.take(&format!("tenant-{n}")).unwrap())
        .collect();
    assert!(places.take("one more").is_none());
    own.pop();
    assert!(places.take("acme").is_some());
    drop((own, others));
    assert!(places.taken().is_empty());
}

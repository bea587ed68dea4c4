//! The ciphers of one tenant's entries in one namespace, one for each master key, and the bounded set of those in use.

use crate::derive::{KeyId, Prk};
use crate::time::Time;
use crate::xaes::Xaes;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, UnitWeighter};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The most keys that a ring has.
const SLOTS: usize = 4;

/// The cipher of one key.
pub(crate) struct Slot {
    pub(crate) id: KeyId,
    pub(crate) cipher: Xaes,
}

/// The slots of a ring's keys, the primary first. Boxed, so that no cipher is ever moved on the heap and left behind.
pub(crate) struct Ciphers {
    slots: Box<[Box<Slot>]>,
    uses: Arc<Uses>,
}

/// What the keys of a ring have opened, of all tenants and namespaces.
#[derive(Default)]
pub(crate) struct Uses {
    /// How often each slot opened an entry.
    pub(crate) opened: [AtomicU64; SLOTS],
    /// When a previous key last did, in milliseconds since the Unix epoch; 0: never.
    pub(crate) previous_opened_at: AtomicU64,
}

impl Ciphers {
    /// `None` when a name is too long to express.
    fn derive(prks: &[Prk], uses: &Arc<Uses>, tenant: &str, namespace: &str) -> Option<Self> {
        let slot = |prk: &Prk| {
            let (key, id) = prk.entry_key(tenant, namespace)?;
            Some(Box::new(Slot { id, cipher: Xaes::new(&key) }))
        };
        Some(Self { slots: prks.iter().map(slot).collect::<Option<_>>()?, uses: Arc::clone(uses) })
    }

    pub(crate) fn primary(&self) -> Option<&Slot> {
        self.slots.first().map(|slot| &**slot)
    }

    /// The slot of a key id, and its number. The id is no secret.
    pub(crate) fn find(&self, id: &[u8]) -> Option<(usize, &Slot)> {
        self.slots.iter().enumerate().find(|(_, slot)| slot.id == id).map(|(number, slot)| (number, &**slot))
    }

    /// A slot opened an entry.
    pub(crate) fn opened(&self, slot: usize, time: &Time) {
        if let Some(count) = self.uses.opened.get(slot) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if slot > 0 {
            self.uses.previous_opened_at.fetch_max(time.now(), Ordering::Relaxed);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &KeyId> {
        self.slots.iter().map(|slot| &slot.id)
    }
}

/// Ciphers by tenant and namespace; those that were not used for long go when there are too many.
pub(crate) struct CipherCache {
    cache: Cache<Owner, Arc<Ciphers>, UnitWeighter, Seed>,
    uses: Arc<Uses>,
}

impl CipherCache {
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let seed = Seed(RandomState::new().hash_one(0));
        let cache = Cache::with(capacity, capacity as u64, UnitWeighter, seed, Default::default());
        Self { cache, uses: Arc::default() }
    }

    pub(crate) fn of(&self, prks: &[Prk], tenant: &str, namespace: &str) -> Option<Arc<Ciphers>> {
        let lookup = Lookup { tenant, namespace };
        if let Some(ciphers) = self.cache.get(&lookup) {
            return Some(ciphers);
        }
        // Two threads may both derive: that costs less than making one wait.
        let ciphers = Arc::new(Ciphers::derive(prks, &self.uses, tenant, namespace)?);
        let owner = Owner { tenant: tenant.into(), namespace: namespace.into() };
        self.cache.insert(owner, Arc::clone(&ciphers));
        Some(ciphers)
    }

    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.cache.set_capacity(capacity.max(1) as u64);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }
}

#[derive(PartialEq, Eq)]
struct Owner {
    tenant: Box<str>,
    namespace: Box<str>,
}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Lookup { tenant: &self.tenant, namespace: &self.namespace }.hash(state);
    }
}

#[derive(Hash)]
struct Lookup<'a> {
    tenant: &'a str,
    namespace: &'a str,
}

impl Equivalent<Owner> for Lookup<'_> {
    fn equivalent(&self, owner: &Owner) -> bool {
        *self.tenant == *owner.tenant && *self.namespace == *owner.namespace
    }
}

/// The hash of names, at the cost of a few nanoseconds; seeded, since a tenant may come from outside.
#[derive(Clone)]
struct Seed(u64);

impl BuildHasher for Seed {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// What ends a text. Two pairs of names that only differ in where one ends are told apart when they are compared.
    fn write_u8(&mut self, byte: u8) {
        self.0 = self.0.rotate_left(8) ^ u64::from(byte);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

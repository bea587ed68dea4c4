//! The ring in use: swapped as a whole, forward only, with what is needed to say when an old key may go.

use crate::ciphers::{CipherCache, Ciphers};
use crate::derive::{Fingerprint, Prk};
use crate::keyring::{Keyring, KeyringError};
use crate::time::Time;
use cachekit_core::entry::Header;
use cachekit_core::{KeySlot, SealerHealth};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A day: a process that has just started knows nothing of what was written before.
const DEFAULT_LONGEST_LIFE_MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// What a ring is made of, as long as it is not replaced.
struct Installed {
    prks: Box<[Prk]>,
    ciphers: CipherCache,
    since: AtomicU64,
}

/// The ring of all caches that share a `Secure`.
pub(crate) struct Ring {
    installed: RwLock<Arc<Installed>>,
    history: Mutex<History>,
    cipher_capacity: AtomicUsize,
    /// The longest life of an entry, in milliseconds: as the user says, or longer if one was seen.
    longest_life: AtomicU64,
}

struct History {
    current: Vec<Fingerprint>,
    /// Keys that may not seal any more.
    retired: HashSet<Fingerprint>,
}

impl Ring {
    pub(crate) fn new(keyring: Keyring, cipher_capacity: usize, time: &Time) -> Result<Self, KeyringError> {
        let current = keyring.check()?;
        let retired = current[1..].iter().copied().collect();
        Ok(Self {
            installed: RwLock::new(Arc::new(Installed::new(keyring, cipher_capacity, time.now()))),
            history: Mutex::new(History { current, retired }),
            cipher_capacity: AtomicUsize::new(cipher_capacity),
            longest_life: AtomicU64::new(DEFAULT_LONGEST_LIFE_MILLIS),
        })
    }

    /// Swaps the whole ring. Entries that are being sealed or opened meanwhile end under the older one.
    pub(crate) fn replace(&self, keyring: Keyring, time: &Time) -> Result<(), KeyringError> {
        let fingerprints = keyring.check()?;
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let (primary, previous) = (fingerprints[0], &fingerprints[1..]);
        if history.retired.contains(&primary) {
            return Err(KeyringError::NotForward);
        }
        let left: Vec<_> = history.current.iter().chain(previous).copied().filter(|key| *key != primary).collect();
        history.retired.extend(left);
        history.current = fingerprints;
        let installed = Arc::new(Installed::new(keyring, self.cipher_capacity.load(Ordering::Relaxed), time.now()));
        *self.installed.write().unwrap_or_else(PoisonError::into_inner) = installed;
        Ok(())
    }

    fn installed(&self) -> Arc<Installed> {
        Arc::clone(&self.installed.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The ciphers of a tenant in a namespace, of the ring that is installed now; `None` when a name is too long to
    /// express.
    pub(crate) fn ciphers(&self, tenant: &str, namespace: &str) -> Option<Arc<Ciphers>> {
        self.installed.read().unwrap_or_else(PoisonError::into_inner).ciphers(tenant, namespace)
    }

    pub(crate) fn set_cipher_capacity(&self, capacity: usize) {
        self.cipher_capacity.store(capacity, Ordering::Relaxed);
        self.installed().ciphers.set_capacity(capacity);
    }

    pub(crate) fn set_longest_life(&self, millis: u64) {
        self.longest_life.store(millis, Ordering::Relaxed);
    }

    /// Counts the time of the ring that is installed from now on.
    pub(crate) fn restart(&self, now: u64) {
        self.installed().since.store(now, Ordering::Relaxed);
    }

    /// An entry with this header was written or read.
    pub(crate) fn saw(&self, header: &Header) {
        let life = header.expires_at.saturating_sub(header.written_at).max(1);
        // Nearly always it is no news, and then no cache line is taken from another core.
        if life > self.longest_life.load(Ordering::Relaxed) {
            let life = if header.expires_at == u64::MAX { u64::MAX } else { life };
            self.longest_life.fetch_max(life, Ordering::Relaxed);
        }
    }

    pub(crate) fn health(&self, namespace: &str, fails_closed: bool, now: u64) -> SealerHealth {
        let installed = self.installed();
        let slots = installed.ciphers("", namespace).map(|ciphers| installed.slots(&ciphers)).unwrap_or_default();
        let quiet_since = installed
            .since
            .load(Ordering::Relaxed)
            .max(installed.ciphers.uses().previous_opened_at.load(Ordering::Relaxed));
        let longest = self.longest_life.load(Ordering::Relaxed);
        // An entry without an end can turn up at any time.
        let ends = longest != u64::MAX;
        let droppable = installed.prks.len() > 1 && ends && now.saturating_sub(quiet_since) > longest;
        SealerHealth::new(fails_closed, droppable, slots)
    }
}

impl Installed {
    fn new(keyring: Keyring, cipher_capacity: usize, since: u64) -> Self {
        Self {
            prks: keyring.keys.into_iter().map(crate::MasterKey::into_prk).collect(),
            ciphers: CipherCache::new(cipher_capacity),
            since: AtomicU64::new(since),
        }
    }

    fn ciphers(&self, tenant: &str, namespace: &str) -> Option<Arc<Ciphers>> {
        self.ciphers.of(&self.prks, tenant, namespace)
    }

    fn slots(&self, ciphers: &Ciphers) -> Vec<KeySlot> {
        let short = |id: &[u8]| id[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let counts = self.ciphers.uses().opened.iter().map(|count| count.load(Ordering::Relaxed));
        ciphers.ids().zip(counts).map(|(id, opened)| KeySlot::new(short(id), opened)).collect()
    }
}

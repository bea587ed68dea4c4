//! How encryption is configured.

use crate::names::Names;
use crate::random::SystemRandom;
use crate::refusal::Refusal;
use crate::ring::Ring;
use crate::sealer::EntrySealer;
use crate::settings::{FailMode, Settings};
use crate::time::Time;
use crate::{Compression, Keyring, KeyringError, MasterKey, Padding};
use cachekit_core::{Clock, Sealer, SealerHealth};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const DEFAULT_CIPHERS: usize = 1_024;

/// Encryption of a cache: the keys, and what happens to entries.
///
/// Clones share the ring, so keep one to [`reload`](Self::reload) the keys of every cache that was built with another.
///
/// ```
/// use cachekit_secure::{Keyring, MasterKey, Secure};
///
/// // In an application: `Secure::new(Keyring::from_env()?)`.
/// let secure = Secure::new(Keyring::new(MasterKey::from_bytes([7; 32]))).fail_closed();
/// secure.check()?;
/// # Ok::<(), cachekit_secure::KeyringError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Secure {
    /// A bad ring is reported when the cache is built.
    ring: Result<Arc<Ring>, KeyringError>,
    settings: Settings,
}

impl Secure {
    /// Encryption with these keys; everything else has a default: fail-open, one tenant, no compression, no padding,
    /// readable key names.
    pub fn new(keyring: Keyring) -> Self {
        let settings = Settings::default();
        let ring = Ring::new(keyring, DEFAULT_CIPHERS, &settings.time).map(Arc::new);
        Self { ring, settings }
    }

    /// One of the two below, where a configuration says which.
    pub fn fail_mode(mut self, mode: FailMode) -> Self {
        self.settings.fail_mode = mode;
        self
    }

    /// An entry that is not authentic is an error: see [`FailMode::Closed`].
    pub fn fail_closed(self) -> Self {
        self.fail_mode(FailMode::Closed)
    }

    /// An entry that is not authentic is a miss: see [`FailMode::Open`]. The default.
    pub fn fail_open(self) -> Self {
        self.fail_mode(FailMode::Open)
    }

    /// Finds the tenant that a key belongs to. Each tenant's entries have a key of their own, and one's entry never
    /// opens for another; stored keys stay as they are. Default: one tenant, the empty one.
    ///
    /// ```
    /// # use cachekit_secure::{Keyring, MasterKey, Secure};
    /// # let keyring = Keyring::new(MasterKey::from_bytes([7; 32]));
    /// let secure = Secure::new(keyring).tenant(|key| key.split('/').next().unwrap_or_default().into());
    /// ```
    pub fn tenant(mut self, tenant_of: impl for<'a> Fn(&'a str) -> Cow<'a, str> + Send + Sync + 'static) -> Self {
        self.settings.tenant = Some(Arc::new(tenant_of));
        self
    }

    /// Compresses payloads before they are sealed. Default: off, since lengths then tell of contents; see
    /// [`Compression`].
    pub fn compression(mut self, compression: Compression) -> Self {
        self.settings.compression = Some(compression);
        self
    }

    /// The most that a compressed payload may inflate to, in bytes; a longer one is not compressed. Default: 64 MiB.
    pub fn max_inflated_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_inflated_bytes = bytes;
        self
    }

    /// Pads payloads before they are sealed. Default: off; the store shows exact lengths.
    pub fn padding(mut self, padding: Padding) -> Self {
        self.settings.padding = Some(padding);
        self
    }

    /// Stores entries under an HMAC of their key instead of the key. The namespace stays readable, and so does a tenant
    /// that is a part of the stored key, since a clear needs them. Whoever reads the store still sees how many keys there
    /// are, and which are written again.
    ///
    /// `key` is not rotated with the ring: with another one every name is another, and the cache starts empty. Default:
    /// key names are readable.
    pub fn hide_key_names(mut self, key: MasterKey) -> Self {
        self.settings.names = Some(Arc::new(Names::new(key.prk())));
        self
    }

    /// For how many pairs of tenant and namespace the derived keys are kept, by all clones together. Deriving them again
    /// costs a few microseconds. Default: 1,024.
    pub fn max_ciphers(self, count: usize) -> Self {
        if let Ok(ring) = &self.ring {
            ring.set_cipher_capacity(count);
        }
        self
    }

    /// The longest time to live that any process gives to an entry: an old key can be dropped when nothing has needed it
    /// for so long. Longer ones that this process meets count by themselves; those it has not met it cannot know, so name
    /// yours if it is longer. Default: 24 hours.
    pub fn longest_ttl(self, ttl: Duration) -> Self {
        if let Ok(ring) = &self.ring {
            ring.set_longest_life(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        }
        self
    }

    /// Where the time is read; tests move it. Default: the operating system.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.time = Time::of(clock);
        if let Ok(ring) = &self.ring {
            ring.restart(self.settings.time.now());
        }
        self
    }

    /// Whether the ring is usable. Building a cache asks this too.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), KeyringError> {
        self.ring.as_ref().map(|_| ()).map_err(|error| *error)
    }

    /// Replaces the whole ring, in this and all its clones, while caches go on working: the way to rotate without a
    /// restart. It goes forward only: a key that was in this ring before without sealing, or was removed from it, never
    /// seals again.
    ///
    /// # Errors
    ///
    /// What is wrong with the new ring; the old one then stays.
    pub fn reload(&self, keyring: Keyring) -> Result<(), KeyringError> {
        match &self.ring {
            Ok(ring) => ring.replace(keyring, &self.settings.time),
            Err(error) => Err(*error),
        }
    }

    /// The keys in use for a namespace: their ids, shortened, what they opened, and whether the previous ones can go.
    ///
    /// It knows of this process only: remove a key when all of them say so.
    #[must_use]
    pub fn health(&self, namespace: &str) -> SealerHealth {
        self.sealer().health(namespace)
    }

    /// What a cache seals and opens its entries with. With a bad ring, it refuses to do anything.
    #[must_use]
    pub fn sealer(&self) -> Arc<dyn Sealer> {
        match self.entry_sealer() {
            Ok(sealer) => Arc::new(sealer),
            Err(error) => Arc::new(Refusal(error)),
        }
    }

    pub(crate) fn entry_sealer(&self) -> Result<EntrySealer, KeyringError> {
        let ring = self.ring.clone()?;
        Ok(EntrySealer { ring, settings: self.settings.clone(), random: Arc::new(SystemRandom) })
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure")
            .field("ring", &self.ring.as_ref().map(|_| "usable"))
            .field("settings", &self.settings)
            .finish()
    }
}

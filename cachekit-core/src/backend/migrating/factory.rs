//! From two factories to one.

use super::backend::MigratingBackend;
use super::copies::Copies;
use super::old::Old;
use crate::{Backend, BackendError, BackendFactory, async_trait};
use std::sync::Arc;
use std::time::Duration;

/// Moves a cache from one store to another while it is in use: what the new one does not have yet is found in the old one
/// and taken over.
///
/// Entries are the same bytes in every store, sealed ones too, so none is encoded again.
///
/// | operation | the new store | the old store |
/// |---|---|---|
/// | `get`, `exists`, `ttl` | is asked first | is asked after a miss; a value it gives to `get` is written to the new one |
/// | `set` | is written | then loses its copy |
/// | `touch` | gets the new time, with the old one's value if need be | then loses its copy |
/// | `delete`, `clear` | has to acknowledge | has to acknowledge |
/// | locks, channels, health | does it | does not take part |
/// | `track` | is not asked: `Unsupported` | is not asked |
///
/// A value is taken over for the rest of its time to live. From an old store that cannot tell it
/// ([`Capabilities::ttl`](crate::Capabilities::ttl)) nothing is taken over: its entries are served from there until they
/// end.
///
/// Trouble with the old store fails no call that the new one answered, except `delete` and `clear`, after which the entry
/// could come back. It gets [`patience`](Self::with_patience) (200 ms) to answer a read, and after a failure it is left
/// alone for a second. What is left of this time is what the read, or a write of the same key meanwhile, waits for the
/// take-over, which goes on in a task of its own. A copy that it could not be made to forget is not read again: 10,000
/// such keys are remembered, by everyone who uses this factory or a clone of it, and then the old store is read no more.
/// The first build needs both stores, since what the two can do together depends on both; later ones need the new one
/// only.
///
/// # What it cannot do
///
/// There is no "write if absent" in the contract. Within a process (one factory and its clones) a value that is taken
/// over never replaces a newer one that was acknowledged. Where the new store takes too long over it, the write goes on;
/// the older value is then removed when it lands, and in between it is a miss for this process, while another may read
/// it. Where nobody knows whether it will land (the new store gave an error that [may be
/// applied](crate::BackendError::may_be_applied), or the runtime ended), it is removed when this process reads it next,
/// until this process ends. A removal may take along a value that is written in the same moment: a miss, nothing older.
/// Such keys are not taken over again until that is settled, and with 10,000 of them none is.
///
/// Of two processes, one may take over a value in the moment in which the other sets or deletes that key, and so put the
/// older value back, for at most the rest of its time to live.
///
/// Which copies in the old store are outdated is remembered in memory. When the old store could not remove one after a
/// `set` or `touch`, then another process, or this one after a restart, does not know: once the newer entry has ended or
/// was evicted, it finds the older value in the old store and takes it over. A `delete` or `clear` reports that as an
/// error.
///
/// Changes are not reported, since a delete of what only the old store has changes nothing in the new one: a cache with
/// [`track_changes`](crate::CacheBuilder::track_changes) cannot use this, and bounds its L1 with
/// [`l1_max_ttl`](crate::CacheBuilder::l1_max_ttl) instead while it migrates.
///
/// A process that still writes to the old store alone is not heard by those that migrate: switch all of them to this
/// first, in any order, and remove it once [`old_hits`](Self::old_hits) has stood still for the longest time to live.
///
/// ```
/// # #[cfg(feature = "testing")]
/// # mod example {
/// use cachekit_core::testing::{MemoryBackend, MemoryFactory};
/// use cachekit_core::{Backend, BackendFactory, Bytes, MigratingFactory, SetOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # pub async fn main() -> Result<(), cachekit_core::BackendError> {
/// let (new, old) = (MemoryBackend::new(), MemoryBackend::new());
/// old.set("k", Bytes::from_static(b"value"), SetOptions::default()).await?;
///
/// let factory = MigratingFactory::new(MemoryFactory::new(&new), MemoryFactory::new(&old));
/// let backend = factory.build().await?;
/// assert_eq!(backend.get("k").await?, Some(Bytes::from_static(b"value")));
/// assert_eq!(new.keys(), ["k"]);
/// assert_eq!(factory.old_hits(), 1);
///
/// backend.delete("k").await?;
/// assert!(new.is_empty() && old.is_empty());
/// # Ok(())
/// # }
/// # }
/// # #[cfg(feature = "testing")]
/// # example::main().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MigratingFactory {
    new: Arc<dyn BackendFactory>,
    old: Arc<Old>,
    copies: Arc<Copies>,
    patience: Duration,
}

impl MigratingFactory {
    /// Builds backends that fill `new` with what is in `old`. Nothing is contacted.
    pub fn new(new: impl BackendFactory, old: impl BackendFactory) -> Self {
        let old = Arc::new(Old::new(Arc::new(old)));
        Self { new: Arc::new(new), old, copies: Arc::default(), patience: Duration::from_millis(200) }
    }

    /// How long a read waits for the old store and for the take-over together, and a write for a take-over of its key that is
    /// under way (default 200 ms). It comes out of the cache's operation timeout (500 ms by
    /// default), so it should be well below that.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How many reads the old store has answered with a value, in this process. While it grows the old store is needed.
    #[must_use]
    pub fn old_hits(&self) -> u64 {
        self.old.hits()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BackendFactory for MigratingFactory {
    fn name(&self) -> &'static str {
        super::backend::NAME
    }

    /// # Errors
    ///
    /// What kept the new backend from being built, or the first time the old one.
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        let new = self.new.build().await?;
        let of_old = self.old.capabilities().await?;
        let (old, copies) = (Arc::clone(&self.old), Arc::clone(&self.copies));
        Ok(Arc::new(MigratingBackend::new(new, old, copies, of_old, self.patience)))
    }
}

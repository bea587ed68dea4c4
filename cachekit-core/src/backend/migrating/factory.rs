//! From two factories to one.

use super::backend::MigratingBackend;
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
/// | locks, channels, tracking, health | does it | does not take part |
///
/// A value is taken over for the rest of its time to live. From an old store that cannot tell it
/// ([`Capabilities::ttl`](crate::Capabilities::ttl)) nothing is taken over: its entries are served from there until they
/// end.
///
/// Trouble with the old store fails no call that the new one answered, except `delete` and `clear`, after which the entry
/// could come back. It gets [`patience`](Self::with_patience) (200 ms) to answer a read, and after a failure it is left alone
/// for a second. A copy that it could not be made to forget is not read again: 10,000 such keys are remembered, by everyone
/// who uses this factory or a clone of it, and then the old store is read no more. The first build needs both stores, since
/// what the two can do together depends on both; later ones need the new one only.
///
/// # What it cannot do
///
/// There is no "write if absent" in the contract. Within a process (one factory and its clones) a value that is taken over
/// never replaces a newer one. Of two processes, one may take over a value in the moment in which the other sets or deletes
/// that key, and so put the older value back, for at most the rest of its time to live. A process that still writes to the
/// old store alone is not heard by those that migrate: switch all of them to this first, in any order, and remove it once
/// [`old_hits`](Self::old_hits) has stood still for the longest time to live.
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
    patience: Duration,
}

impl MigratingFactory {
    /// Builds backends that fill `new` with what is in `old`. Nothing is contacted.
    pub fn new(new: impl BackendFactory, old: impl BackendFactory) -> Self {
        let old = Arc::new(Old::new(Arc::new(old)));
        Self { new: Arc::new(new), old, patience: Duration::from_millis(200) }
    }

    /// How long a read waits for the old store (default 200 ms). It comes out of the cache's operation timeout (500 ms by
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
        Ok(Arc::new(MigratingBackend::new(new, Arc::clone(&self.old), of_old, self.patience)))
    }
}

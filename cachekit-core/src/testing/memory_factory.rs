//! Builds connections to one in-memory store.

use super::MemoryBackend;
use crate::{Backend, BackendError, BackendFactory, async_trait};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A [`BackendFactory`] whose every build is another connection to one [`MemoryBackend`]. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct MemoryFactory {
    backend: MemoryBackend,
    builds: Arc<AtomicU64>,
}

impl MemoryFactory {
    /// Builds connections to the store of `backend`.
    #[must_use]
    pub fn new(backend: &MemoryBackend) -> Self {
        Self { backend: backend.clone(), builds: Arc::default() }
    }

    /// How often it was asked to build.
    #[must_use]
    pub fn builds(&self) -> u64 {
        self.builds.load(Ordering::SeqCst)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BackendFactory for MemoryFactory {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        self.builds.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(self.backend.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SetOptions;
    use bytes::Bytes;

    #[tokio::test]
    async fn a_build_after_a_close_finds_the_same_entries() {
        let memory = MemoryBackend::new();
        let factory = MemoryFactory::new(&memory);
        let first = factory.build().await.unwrap();
        first.set("k", Bytes::from_static(b"v"), SetOptions::default()).await.unwrap();
        first.close().await.unwrap();
        let second = factory.build().await.unwrap();
        assert!(second.exists("k").await.unwrap());
        assert_eq!((factory.builds(), memory.len()), (2, 1));
    }
}

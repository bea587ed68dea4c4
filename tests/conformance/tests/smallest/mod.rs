//! A backend with the six required methods and no ability; exact, or as coarse as memcached.

use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, BackendHealth, Bytes, Capabilities, SetOptions, async_trait};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Smallest {
    coarse: bool,
    store: MemoryBackend,
}

impl Smallest {
    pub(crate) fn exact() -> Self {
        let store = MemoryBackend::new().with_max_value_bytes(Capabilities::new().max_value_bytes());
        Self { coarse: false, store }
    }

    /// Counts in seconds, and is up to two of them late.
    pub(crate) fn coarse() -> Self {
        Self { coarse: true, ..Self::exact() }
    }

    fn in_seconds(ttl: Duration) -> Duration {
        let part_of_a_second = ttl.subsec_nanos() > 0;
        let late = Duration::from_secs(1 + u64::from(part_of_a_second));
        if ttl.is_zero() { ttl } else { Duration::from_secs(ttl.as_secs()).saturating_add(late) }
    }
}

#[async_trait]
impl Backend for Smallest {
    fn name(&self) -> &'static str {
        "smallest"
    }
    fn capabilities(&self) -> Capabilities {
        let slack = if self.coarse { Duration::from_secs(2) } else { Duration::ZERO };
        Capabilities::new().with_ttl_slack(slack)
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.store.get(key).await
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        let ttl = if self.coarse { options.ttl.map(Self::in_seconds) } else { options.ttl };
        self.store.set(key, value, options.with_ttl(ttl)).await
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.store.delete(key).await
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.store.health().await
    }
}

//! Wrong with the reports of changes.

use crate::twist::{LIMIT, Twist};
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, Change, ChangeReporter, Changes, SetOptions, async_trait};
use std::sync::{LazyLock, Mutex};

/// Backends on one store have others to be told of.
pub(crate) static SHARED: LazyLock<MemoryBackend> = LazyLock::new(|| MemoryBackend::new().with_max_value_bytes(LIMIT));

/// Reports the sets, and nothing that removes.
#[derive(Debug, Default)]
pub(crate) struct ReportsSetsOnly(Mutex<Vec<ChangeReporter>>);

#[async_trait]
impl Twist for ReportsSetsOnly {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key, value, o).await
    }
    async fn track(&self, inner: &MemoryBackend, prefixes: &[&str]) -> Result<Changes, BackendError> {
        let (mut all, (reporter, changes), inner) = (inner.track(prefixes).await?, Changes::new(), inner.clone());
        self.0.lock().unwrap().push(reporter.clone());
        tokio::spawn(async move {
            while let Ok(change) = all.next().await {
                if let Change::Key(key) = change
                    && inner.raw(&key).is_some()
                {
                    reporter.changed(&key);
                }
            }
        });
        Ok(changes)
    }
}

/// Never says a word.
#[derive(Debug, Default)]
pub(crate) struct Mute(Mutex<Vec<ChangeReporter>>);

#[async_trait]
impl Twist for Mute {
    async fn track(&self, _: &MemoryBackend, _: &[&str]) -> Result<Changes, BackendError> {
        let (reporter, changes) = Changes::new();
        self.0.lock().unwrap().push(reporter);
        Ok(changes)
    }
}

/// Takes prefixes for something else than what they are.
#[derive(Debug)]
pub(crate) struct Tracks(pub(crate) fn(&str) -> String);

#[async_trait]
impl Twist for Tracks {
    async fn track(&self, inner: &MemoryBackend, prefixes: &[&str]) -> Result<Changes, BackendError> {
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| (self.0)(prefix)).collect();
        inner.track(&prefixes.iter().map(String::as_str).collect::<Vec<_>>()).await
    }
}

pub(crate) fn everything(_: &str) -> String {
    String::new()
}

pub(crate) fn up_to_the_colon(prefix: &str) -> String {
    prefix.trim_end_matches(':').to_owned()
}

/// Tracks the first prefix, and forgets the others.
#[derive(Debug)]
pub(crate) struct TracksTheFirst;

#[async_trait]
impl Twist for TracksTheFirst {
    async fn track(&self, inner: &MemoryBackend, prefixes: &[&str]) -> Result<Changes, BackendError> {
        inner.track(&prefixes[..1]).await
    }
}

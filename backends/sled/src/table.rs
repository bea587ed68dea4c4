//! One sled database: the rows of the entries and of the index of their ends.

use crate::SledConfig;
use crate::error::{Doing, from_panic, from_sled};
use crate::lifetime::Lifetime;
use crate::record::Record;
use crate::rows;
use cachekit_core::BackendError;
use sled::IVec;
use std::fs;
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Sled's unit of allocation. Of a page over a quarter of it sled makes a file of its own below `blobs`, and a killed
/// process leaves those for ever, so there must be no such page. More is slower to open and leaves more space unused.
const SEGMENT_BYTES: usize = 2 << 20;
/// The largest row, so that a page of 63 stays under a quarter of a segment. A page splits at its 17th row, and may by
/// then have been given three of a neighbour; the rest is for threads that do this at the same moment.
pub(crate) const ROW_BYTES: usize = 8 * 1024;
/// The one tree of ours. Another layout of the rows gets another name.
const TREE: &str = "cachekit-2";

pub(crate) struct Table {
    directory: PathBuf,
    tree: sled::Tree,
    db: sled::Db,
}

impl Table {
    /// Opens the database in this directory, or makes one. On damaged files it may panic inside, which is an error, and
    /// it may take for ever.
    pub(crate) fn open(directory: &Path, config: &SledConfig) -> Result<Self, BackendError> {
        let flush_every_ms = u64::try_from(config.flush_every().as_millis()).unwrap_or(u64::MAX).max(1);
        let sled = sled::Config::new()
            .path(directory)
            .cache_capacity(config.cache_capacity())
            .flush_every_ms(Some(flush_every_ms))
            .segment_size(SEGMENT_BYTES)
            .mode(sled::Mode::LowSpace);
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let db = sled.open()?;
            let tree = db.open_tree(TREE)?;
            // A page of it, since damage may not show before.
            tree.first()?;
            Ok((db, tree))
        }));
        match opened {
            Ok(Ok((db, tree))) => Ok(Self { directory: directory.to_owned(), tree, db }),
            Ok(Err(error)) => Err(from_sled(error, directory, Doing::Open)),
            Err(panic) => Err(from_panic(&*panic, directory, Doing::Open)),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The row of an entry.
    pub(crate) fn entry(&self, key: &str) -> sled::Result<Option<IVec>> {
        self.tree.get(rows::entry(key))
    }

    /// Puts a record, or nothing, in the place of an entry's row, and does the same in the index. The caller holds the
    /// stripe.
    ///
    /// The rows change one after the other, in an order in which a kill at any point leaves the older entry or the
    /// newer one. What it can leave besides is a row of the index with no entry, which the sweep removes.
    ///
    /// Not one sled batch: that takes a lock of the whole process, and an operation that hangs on a damaged page of any
    /// database would hold all others up for ever.
    pub(crate) fn exchange(&self, key: &str, old: Option<Lifetime>, new: Option<&Record<'_>>) -> sled::Result<usize> {
        let due = |lifetime: Option<Lifetime>| lifetime.and_then(|lifetime| lifetime.deadline_ms());
        let (before, after) = (due(old), due(new.map(|new| new.lifetime)));
        let mut bytes = 0;
        if let Some(deadline) = after {
            self.tree.insert(rows::due(deadline, key), &[])?;
        }
        if let Some(new) = new {
            let row = new.encode(key);
            bytes = row.len();
            self.tree.insert(rows::entry(key), row)?;
        } else {
            self.tree.remove(rows::entry(key))?;
        }
        if let Some(deadline) = before.filter(|deadline| after != Some(*deadline)) {
            self.tree.remove(rows::due(deadline, key))?;
        }
        Ok(bytes)
    }

    /// The names of the rows in a range, at most `limit`. Sled's iterator can end early while pages merge.
    pub(crate) fn names(&self, range: impl RangeBounds<Vec<u8>>, limit: usize) -> sled::Result<Vec<IVec>> {
        self.tree.range(range).keys().take(limit).collect()
    }

    pub(crate) fn get(&self, row: &[u8]) -> sled::Result<Option<IVec>> {
        self.tree.get(row)
    }

    pub(crate) fn remove(&self, row: &[u8]) -> sled::Result<()> {
        self.tree.remove(row).map(drop)
    }

    /// Waits until all that was written has reached the disk.
    pub(crate) fn flush(&self) -> sled::Result<()> {
        self.tree.flush().map(drop)
    }

    pub(crate) fn size_on_disk(&self) -> sled::Result<u64> {
        self.db.size_on_disk()
    }

    /// The size of its files, when it cannot be asked.
    pub(crate) fn size_of(directory: &Path) -> u64 {
        fs::metadata(directory.join("db")).map_or(0, |metadata| metadata.len())
    }

    #[cfg(test)]
    pub(crate) fn tree(&self) -> &sled::Tree {
        &self.tree
    }
}

impl std::fmt::Debug for Table {
    /// Sled's own prints every entry.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("directory", &self.directory).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SledFactory;
    use crate::record::HEADER_BYTES;
    use cachekit_core::{BackendFactory, Bytes, SetOptions};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    /// A killed process would leave such a file for ever. The largest pages there can be: rows as large as they get, keys as long as they get and alike up to their end, and
    /// removals, which make pages merge, in many threads at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_page_gets_so_large_that_sled_makes_a_file_of_it() {
        const TASKS: u64 = 16;
        const MOST: usize = 2 << 20;
        let directory = tempfile::tempdir().unwrap();
        let config = SledConfig::new(directory.path()).with_max_value_bytes(MOST).with_rebuild_floor(u64::MAX);
        let backend = SledFactory::new(config).build().await.unwrap();
        let before = blobs(directory.path());
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let backend = Arc::clone(&backend);
                tokio::spawn(async move {
                    // So many that an inner page of theirs is full.
                    for i in 0..250 {
                        let key = format!("{:0>1020}{:04}", "", i * TASKS + task);
                        backend.set(&key, Bytes::from_static(b"v"), SetOptions::default()).await.unwrap();
                    }
                    let mut random = task;
                    let mut below = |bound: u64| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        usize::try_from((random >> 33) % bound).unwrap()
                    };
                    for i in 0..300 {
                        let width = if below(4) == 0 { 1_024 } else { 4 };
                        let key = format!("{:0>width$}", below(200));
                        // A time in which most are written, and one in which most are removed.
                        if below(10) < if i / 60 % 2 == 0 { 1 } else { 8 } {
                            backend.delete(&key).await.unwrap();
                            continue;
                        }
                        let row = ROW_BYTES - HEADER_BYTES - key.len();
                        let bytes = [40, row - 1, row, row + 1, ROW_BYTES, MOST][below(6)];
                        let options = SetOptions::default().with_ttl(Some(Duration::from_secs(3_600)));
                        backend.set(&key, vec![1; bytes].into(), options).await.unwrap();
                    }
                    backend.set(&format!("largest {task}"), vec![2; MOST].into(), SetOptions::default()).await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        for prefix in ["0", "1", "largest"] {
            backend.clear(prefix).await.unwrap();
        }
        backend.close().await.unwrap();
        assert_eq!(blobs(directory.path()), before);
    }

    /// When a file below `blobs` was last made or removed. There is none.
    fn blobs(directory: &Path) -> SystemTime {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path().join("blobs"));
        let mut all = entries.filter(|blobs| blobs.is_dir());
        let blobs = all.next().unwrap();
        assert!(all.next().is_none() && fs::read_dir(&blobs).unwrap().next().is_none());
        // The next change gets another time.
        std::thread::sleep(Duration::from_millis(20));
        blobs.metadata().unwrap().modified().unwrap()
    }
}

//! An open sled database, and what the operations do to its rows. Every method blocks.

use crate::cancel::Cancel;
use crate::error::{Doing, closed, from_io, from_panic, from_sled};
use crate::journal::Journal;
use crate::lifetime::{Lifetime, Time};
use crate::record::{Body, Chunks, HEADER_BYTES, Manifest, Record, value_checksum};
use crate::rows::{self, WriteId};
use crate::unique::Unique;
use cachekit_core::{BackendError, Bytes, ErrorKind, TtlState};
use sled::IVec;
use std::fmt;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Sled's unit of allocation. Of a page over a quarter of it sled makes a file of its own below `blobs`, and a killed
/// process leaves those for ever, so there must be no such page. More is slower to open and leaves more space unused.
const SEGMENT_BYTES: usize = 2 << 20;
/// The largest row, so that a page of 31 stays under a quarter of a segment. A page splits at its 17th row, and may by
/// then have been given three of a neighbour; the rest is for threads that do this at the same moment.
const ROW_BYTES: usize = 16 * 1024;
/// What the contract asks for. An inner page splits at 257 keys, and 490 of this length have room.
const MAX_KEY_BYTES: usize = 1_024;
/// Sled takes writes faster than the disk, and grows in memory and in its file meanwhile. So they wait for it.
const BYTES_PER_FLUSH: usize = 1 << 20;
/// About what an entry costs besides its row.
const ENTRY_OVERHEAD: usize = 256;
/// How many rows a pass of [`Store::clear`] or [`Store::sweep`] collects before it removes them.
pub(crate) const ROWS_PER_PASS: usize = 1_000;
/// How often [`Store::clear`] looks for what is left at most.
const CLEAR_PASSES: usize = 4;
/// Writers of different keys wait for each other only when their keys fall on the same stripe.
const STRIPES: usize = 256;
/// The one tree of ours. Another layout of the rows gets another name.
const TREE: &str = "cachekit-1";

pub(crate) struct Store {
    path: PathBuf,
    tree: sled::Tree,
    db: sled::Db,
    stripes: Vec<Mutex<()>>,
    time: Arc<dyn Time>,
    write_ids: Unique,
    /// How much was written or removed since a writer last waited for the disk, about.
    unflushed: AtomicUsize,
    /// Why sled cannot be used any more: it panicked, or a write failed, after which it fails for ever.
    failed: OnceLock<BackendError>,
}

/// What a row of an entry turned out to be.
enum Found {
    Damaged,
    Live(Bytes),
    Missing,
}

impl Store {
    /// One attempt to open the database in an existing directory.
    pub(crate) fn open(
        path: &Path,
        cache_capacity: u64,
        flush_every: Duration,
        time: Arc<dyn Time>,
    ) -> Result<Self, BackendError> {
        let flush_every_ms = u64::try_from(flush_every.as_millis()).unwrap_or(u64::MAX).max(1);
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(cache_capacity)
            .flush_every_ms(Some(flush_every_ms))
            .segment_size(SEGMENT_BYTES)
            .mode(sled::Mode::LowSpace);
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let db = config.open()?;
            let tree = db.open_tree(TREE)?;
            recover(&tree)?;
            Ok((db, tree))
        }));
        let (db, tree) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return Err(from_sled(error, path, Doing::Open)),
            Err(panic) => return Err(from_panic(&*panic, path, Doing::Open)),
        };
        Ok(Self {
            path: path.to_owned(),
            tree,
            db,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            time,
            write_ids: Unique::new(),
            unflushed: AtomicUsize::new(0),
            failed: OnceLock::new(),
        })
    }

    /// Why it is of no use any more.
    pub(crate) fn failure(&self) -> Option<&BackendError> {
        self.failed.get()
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        check_key(key)?;
        self.attempt(Doing::Read, || match self.find(key)? {
            Found::Live(value) => Ok(Some(value)),
            Found::Missing => Ok(None),
            // Or overwritten between its row and its chunks; nobody writes the key while this holds its stripe.
            Found::Damaged => {
                let _stripe = self.lock_stripe(key);
                match self.find(key)? {
                    Found::Live(value) => Ok(Some(value)),
                    Found::Missing => Ok(None),
                    Found::Damaged => {
                        self.remove(key, self.tree.get(rows::entry(key))?.as_deref())?;
                        Ok(None)
                    }
                }
            }
        })
    }

    pub(crate) fn exists(&self, key: &str) -> Result<bool, BackendError> {
        Ok(self.ttl(key)? != TtlState::Missing)
    }

    pub(crate) fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        check_key(key)?;
        self.attempt(Doing::Read, || {
            let row = self.tree.get(rows::entry(key))?;
            let record = row.as_deref().and_then(|row| Record::decode(key, row));
            Ok(record.map_or(TtlState::Missing, |record| record.lifetime.left(self.time.wall())))
        })
    }

    pub(crate) fn set(
        &self,
        key: &str,
        value: &[u8],
        ttl: Option<Duration>,
        max_value_bytes: usize,
        cancel: &Cancel,
    ) -> Result<(), BackendError> {
        check_key(key)?;
        if value.len() > max_value_bytes {
            return Err(BackendError::new(
                ErrorKind::TooLarge,
                format!("the value has {} bytes, the limit is {max_value_bytes}", value.len()),
            ));
        }
        self.attempt(Doing::Write, || {
            let _stripe = self.lock_stripe(key);
            if cancel.is_cancelled() {
                return Ok(());
            }
            let lifetime = Lifetime::starting(self.time.wall(), ttl)?;
            let body = if HEADER_BYTES + key.len() + value.len() <= ROW_BYTES {
                Body::Whole(value)
            } else {
                Body::Chunked(self.manifest(value))
            };
            let old = self.tree.get(rows::entry(key))?;
            Ok(self.exchange(key, old.as_deref(), Some(Record { lifetime, body }), value)?)
        })
    }

    /// Gives a live entry a new lifetime; the chunks of a large value stay where they are.
    pub(crate) fn touch(&self, key: &str, ttl: Option<Duration>, cancel: &Cancel) -> Result<bool, BackendError> {
        check_key(key)?;
        self.attempt(Doing::Write, || {
            let _stripe = self.lock_stripe(key);
            let lifetime = Lifetime::starting(self.time.wall(), ttl)?;
            let row = self.tree.get(rows::entry(key))?;
            let Some(old) = row.as_deref().and_then(|row| Record::decode(key, row)) else { return Ok(false) };
            if cancel.is_cancelled() || old.lifetime.is_over(self.time.wall()) {
                return Ok(false);
            }
            self.exchange(key, row.as_deref(), Some(Record { lifetime, body: old.body }), &[])?;
            Ok(true)
        })
    }

    pub(crate) fn delete(&self, key: &str, cancel: &Cancel) -> Result<bool, BackendError> {
        check_key(key)?;
        self.attempt(Doing::Write, || {
            let _stripe = self.lock_stripe(key);
            let row = self.tree.get(rows::entry(key))?;
            if cancel.is_cancelled() {
                return Ok(false);
            }
            let now = self.time.wall();
            let live = row
                .as_deref()
                .and_then(|row| Record::decode(key, row))
                .is_some_and(|record| !record.lifetime.is_over(now));
            self.remove(key, row.as_deref())?;
            Ok(live)
        })
    }

    pub(crate) fn clear(&self, prefix: &str, cancel: &Cancel) -> Result<(), BackendError> {
        if prefix.is_empty() {
            return Err(BackendError::new(ErrorKind::KeyInvalid, "an empty prefix would clear the whole database"));
        }
        let prefix = rows::entry(prefix);
        // Sled's iterator can end early while pages merge: another pass looks for what it missed, and the number of
        // passes is bounded, since somebody may write as fast as this removes.
        for _ in 0..CLEAR_PASSES {
            let mut after = None;
            let mut removed = 0;
            while let Some(last) = self.attempt(Doing::Write, || self.clear_some(&prefix, after.as_ref(), cancel))? {
                after = Some(last);
                removed += 1;
            }
            if removed == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Removes a thousand entries behind `after` and returns the last of them; `None` when there are no more.
    fn clear_some(&self, prefix: &[u8], after: Option<&IVec>, cancel: &Cancel) -> Result<Option<IVec>, Failure> {
        let start = after.map_or(Bound::Included(prefix), |after| Bound::Excluded(&**after));
        let rows = self.tree.range::<&[u8], _>((start, Bound::Unbounded)).keys();
        let rows = rows.take_while(|row| row.as_ref().map_or(true, |row| row.starts_with(prefix)));
        let rows: Vec<_> = rows.take(ROWS_PER_PASS).collect::<Result<_, _>>()?;
        for row in &rows {
            let Some(key) = rows::key_of_entry(row) else {
                // No key of ours: damage.
                self.tree.remove(row)?;
                continue;
            };
            let _stripe = self.lock_stripe(key);
            if cancel.is_cancelled() {
                return Ok(None);
            }
            self.remove(key, self.tree.get(row)?.as_deref())?;
        }
        Ok(rows.into_iter().next_back())
    }

    /// Removes entries whose time has passed, at most `limit`, and says how many rows of the index it went through.
    pub(crate) fn sweep(&self, limit: usize) -> Result<usize, BackendError> {
        self.attempt(Doing::Write, || {
            let now = self.time.wall();
            let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            let due: Vec<_> = self.tree.range(rows::due_until(now_ms)).keys().take(limit).collect::<Result<_, _>>()?;
            for row in &due {
                let Some((deadline, key)) = rows::parse_due(row) else {
                    self.tree.remove(row)?;
                    continue;
                };
                let _stripe = self.lock_stripe(key);
                let entry = self.tree.get(rows::entry(key))?;
                let record = entry.as_deref().and_then(|entry| Record::decode(key, entry));
                // An index row that outlived its entry says nothing about the one that is there now.
                if record.is_some_and(|record| record.lifetime.deadline_ms() == Some(deadline)) {
                    self.remove(key, entry.as_deref())?;
                } else {
                    self.tree.remove(row)?;
                }
            }
            Ok(due.len())
        })
    }

    /// Something real and cheap: a page is read, and the size of the files.
    pub(crate) fn health(&self) -> Result<u64, BackendError> {
        self.attempt(Doing::Read, || {
            self.tree.first()?;
            Ok(self.db.size_on_disk()?)
        })
    }

    /// Hands everything that was written to the operating system.
    pub(crate) fn flush(&self) -> Result<(), BackendError> {
        self.attempt(Doing::Write, || self.tree.flush().map(drop).map_err(Failure::from))
    }

    /// What happens when sled panics.
    #[cfg(test)]
    pub(crate) fn panic_inside(&self) -> BackendError {
        self.attempt::<()>(Doing::Write, || panic!("a test made sled panic")).unwrap_err()
    }

    #[cfg(test)]
    pub(crate) fn count_all_rows(&self) -> usize {
        self.tree.iter().count()
    }

    fn find(&self, key: &str) -> Result<Found, Failure> {
        let Some(row) = self.tree.get(rows::entry(key))? else { return Ok(Found::Missing) };
        let Some(record) = Record::decode(key, &row) else { return Ok(Found::Damaged) };
        if record.lifetime.is_over(self.time.wall()) {
            return Ok(Found::Missing);
        }
        match record.body {
            Body::Whole(value) => Ok(Found::Live(Bytes::copy_from_slice(value))),
            Body::Chunked(manifest) => {
                let mut value = Vec::with_capacity(usize::try_from(manifest.length).unwrap_or_default());
                for index in 0..manifest.chunks.count {
                    match self.tree.get(rows::chunk(manifest.chunks.write, index))? {
                        Some(chunk) => value.extend_from_slice(&chunk),
                        None => return Ok(Found::Damaged),
                    }
                }
                Ok(if manifest.vouches_for(&value) { Found::Live(value.into()) } else { Found::Damaged })
            }
        }
    }

    /// Removes an entry with all its rows. The caller holds the stripe.
    fn remove(&self, key: &str, row: Option<&[u8]>) -> Result<(), sled::Error> {
        if row.is_none() { Ok(()) } else { self.exchange(key, row, None, &[]) }
    }

    /// Puts a record, or nothing, in the place of an entry's row. The caller holds the stripe.
    ///
    /// The rows change one after the other, in an order in which a kill at any point leaves the older entry whole or
    /// the newer one. What it can leave besides is a row of the index with no entry, which the sweep removes, and
    /// chunks, which the journal row names for the next opener.
    ///
    /// Not one sled batch: that takes a lock of the whole process, and an operation that hangs on a damaged page of any
    /// database would hold all others up for ever.
    fn exchange(
        &self,
        key: &str,
        row: Option<&[u8]>,
        new: Option<Record<'_>>,
        value: &[u8],
    ) -> Result<(), sled::Error> {
        // Nothing is known of a damaged row's chunks.
        let old = row.and_then(|row| Record::decode(key, row));
        let chunks = |record: Option<Record<'_>>| record.and_then(|record| record.chunks());
        let kept = chunks(old).is_some() && chunks(old) == chunks(new);
        let (added, gone) = if kept { (None, None) } else { (chunks(new), chunks(old)) };
        let journal = (added.is_some() || gone.is_some()).then(|| rows::journal(WriteId(self.write_ids.next())));
        if let Some(row) = &journal {
            self.tree.insert(row, Journal { added, gone, key }.encode())?;
        }
        if let Some(added) = added {
            for (index, chunk) in (0..added.count).zip(value.chunks(ROW_BYTES)) {
                self.tree.insert(rows::chunk(added.write, index), chunk)?;
                self.wait_for_the_disk(chunk.len())?;
            }
        }
        let due = |record: Option<Record<'_>>| record.and_then(|record| record.lifetime.deadline_ms());
        if let Some(deadline) = due(new) {
            self.tree.insert(rows::due(deadline, key), &[])?;
        }
        let mut bytes = ENTRY_OVERHEAD;
        if let Some(new) = new {
            let row = new.encode(key);
            bytes += row.len();
            self.tree.insert(rows::entry(key), row)?;
        } else {
            self.tree.remove(rows::entry(key))?;
        }
        if let Some(deadline) = due(old).filter(|deadline| due(new) != Some(*deadline)) {
            self.tree.remove(rows::due(deadline, key))?;
        }
        if let Some(gone) = gone {
            remove_chunks(&self.tree, gone)?;
            bytes = bytes.saturating_add(usize::try_from(gone.count).unwrap_or(usize::MAX).saturating_mul(ROW_BYTES));
        }
        if let Some(row) = &journal {
            self.tree.remove(row)?;
        }
        self.wait_for_the_disk(bytes)
    }

    /// Every [`BYTES_PER_FLUSH`], after this many more.
    fn wait_for_the_disk(&self, bytes: usize) -> Result<(), sled::Error> {
        let unflushed = self.unflushed.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if unflushed >= BYTES_PER_FLUSH {
            self.unflushed.store(0, Ordering::Relaxed);
            self.tree.flush()?;
        }
        Ok(())
    }

    fn manifest(&self, value: &[u8]) -> Manifest {
        let count = u32::try_from(value.len().div_ceil(ROW_BYTES)).unwrap_or(u32::MAX);
        let chunks = Chunks { write: WriteId(self.write_ids.next()), count };
        Manifest { chunks, length: value.len() as u64, checksum: value_checksum(value) }
    }

    fn lock_stripe(&self, key: &str) -> MutexGuard<'_, ()> {
        let stripe = xxh3_64(key.as_bytes()) % self.stripes.len() as u64;
        let stripe = usize::try_from(stripe).unwrap_or_default();
        // A panic in sled under the lock does not make the lock itself any worse.
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something that calls sled, which panics where others return an error.
    fn attempt<T>(&self, doing: Doing, run: impl FnOnce() -> Result<T, Failure>) -> Result<T, BackendError> {
        if let Some(failure) = self.failed.get() {
            return Err(closed(&format!("it failed before: {failure}")));
        }
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Failure::Refused(error))) => Err(error),
            Ok(Err(Failure::Sled(error))) => {
                let error = from_sled(error, &self.path, doing);
                // Sled keeps the first error of a write and answers every later one with it. Not so a damaged page: it
                // stays damaged however often the files are opened, and does not keep the others from being used.
                if doing == Doing::Write && error.kind() != ErrorKind::Decode {
                    let _ = self.failed.set(error.clone());
                }
                Err(error)
            }
            Err(panic) => {
                let error = from_panic(&*panic, &self.path, doing);
                let _ = self.failed.set(error.clone());
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Store {
    /// Sled's own prints every entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path).field("failed", &self.failed).finish_non_exhaustive()
    }
}

/// What ends an attempt: sled, or a rule of ours that has nothing to do with the state of the database.
enum Failure {
    Refused(BackendError),
    Sled(sled::Error),
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Refused(error)
    }
}

impl From<sled::Error> for Failure {
    fn from(error: sled::Error) -> Self {
        Self::Sled(error)
    }
}

/// Creates the directory and finds the one name of it that all ways to it share.
pub(crate) fn create_directory(path: &Path) -> Result<PathBuf, BackendError> {
    let created = std::fs::create_dir_all(path).and_then(|()| path.canonicalize());
    created.map_err(|error| from_io(error, path, Doing::Open))
}

fn check_key(key: &str) -> Result<(), BackendError> {
    match key.len() {
        0 => Err(BackendError::new(ErrorKind::KeyInvalid, "the key is empty")),
        length if length > MAX_KEY_BYTES => Err(BackendError::new(
            ErrorKind::KeyInvalid,
            format!("the key has {length} bytes, the limit is {MAX_KEY_BYTES}"),
        )),
        _ => Ok(()),
    }
}

/// Finishes what a killed process left: of each value that was being replaced, one set of chunks belongs to nobody.
fn recover(tree: &sled::Tree) -> Result<(), sled::Error> {
    for item in tree.scan_prefix(rows::JOURNAL) {
        let (row, bytes) = item?;
        if let Some(journal) = Journal::decode(&bytes) {
            let entry = tree.get(rows::entry(journal.key))?;
            let record = entry.as_deref().and_then(|entry| Record::decode(journal.key, entry));
            let in_use = record.and_then(|record| record.chunks());
            for chunks in [journal.added, journal.gone].into_iter().flatten() {
                if Some(chunks) != in_use {
                    remove_chunks(tree, chunks)?;
                }
            }
        }
        tree.remove(row)?;
    }
    Ok(())
}

fn remove_chunks(tree: &sled::Tree, chunks: Chunks) -> Result<(), sled::Error> {
    for index in 0..chunks.count {
        tree.remove(rows::chunk(chunks.write, index))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

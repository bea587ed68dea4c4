//! An open directory, and what the operations do to its rows and files. Every method blocks.

use crate::SledConfig;
use crate::cancel::Cancel;
use crate::directory::Directory;
use crate::error::{Doing, from_io};
use crate::evict::EVICTED_PER_WRITE;
use crate::failure::{Failed, Failure};
use crate::lifetime::{Lifetime, Time};
use crate::record::{Body, Filed, HEADER_BYTES, Record, value_checksum};
use crate::rows::{self, WriteId};
use crate::space::Space;
use crate::table::{ROW_BYTES, Table};
use crate::usage::{Cost, Usage};
use crate::values::Values;
use crate::watch::{Call, Calls};
use cachekit_core::{BackendError, Bytes, ErrorKind, TtlState};
use sled::IVec;
use std::collections::HashSet;
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

/// What the contract asks for. An inner page splits at 257 keys, and 490 of this length have room.
const MAX_KEY_BYTES: usize = 1_024;
/// Sled takes writes faster than the disk, and grows in memory and in its file meanwhile. So they wait for it. And the
/// files of replaced values are removed then.
const BYTES_PER_FLUSH: usize = 1 << 20;
/// About what an entry costs sled's log besides its row.
const ENTRY_OVERHEAD: usize = 256;
/// How many rows a pass over them collects before it goes through them.
pub(crate) const ROWS_PER_PASS: usize = 1_000;
/// How often a pass over all rows looks for what sled's iterator left out.
pub(crate) const PASSES: usize = 4;
/// Writers of different keys wait for each other only when their keys fall on the same stripe.
const STRIPES: usize = 256;

pub(crate) struct Store {
    pub(crate) directory: Directory,
    pub(crate) config: SledConfig,
    tables: RwLock<Arc<Tables>>,
    pub(crate) values: Values,
    stripes: Vec<Mutex<()>>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) usage: Usage,
    pub(crate) space: Space,
    pub(crate) calls: Calls,
    /// How much was written or removed since a writer last waited for the disk, about.
    unflushed: AtomicUsize,
    /// The keys of these writes. When sled fails and is opened anew, it may have the entries from before them, which this
    /// process was told are gone.
    unflushed_keys: Mutex<HashSet<String>>,
    /// Held by the one who makes room, with the last row removed of those that have no end.
    pub(crate) evicting: Mutex<Option<Vec<u8>>>,
    /// Why sled cannot be used any more.
    pub(crate) failed: OnceLock<Failed>,
    /// Whether a call will never return.
    pub(crate) given_up: watch::Sender<bool>,
}

/// Where the rows are.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) current: Arc<Table>,
    /// What is to take its place, and gets every change too meanwhile.
    pub(crate) next: Option<Next>,
}

#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) table: Arc<Table>,
    /// It missed a change, so it is of no use.
    pub(crate) failed: AtomicBool,
}

/// Keys that are being flushed. What is still in here at the end was not, also when sled panicked.
struct Flushing<'a> {
    store: &'a Store,
    keys: HashSet<String>,
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.store.lock_unflushed_keys().extend(self.keys.drain());
    }
}

/// What a row of an entry turned out to be.
enum Found {
    Live(Bytes),
    Missing,
    /// What sled returned is not what was written.
    RowDamaged,
    /// Its file is not there or not whole.
    FileDamaged,
}

impl Store {
    pub(crate) fn new(directory: Directory, table: Table, config: &SledConfig, time: Arc<dyn Time>) -> Self {
        Self {
            values: Values::new(directory.values()),
            space: Space::new(directory.path(), config.min_free_bytes()),
            config: config.clone(),
            directory,
            tables: RwLock::new(Arc::new(Tables { current: Arc::new(table), next: None })),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            time,
            usage: Usage::default(),
            calls: Calls::new(),
            unflushed: AtomicUsize::new(0),
            unflushed_keys: Mutex::default(),
            evicting: Mutex::default(),
            failed: OnceLock::new(),
            given_up: watch::Sender::new(false),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        check_key(key)?;
        self.attempt(Doing::Read, |call| match self.find(key)? {
            Found::Live(value) => Ok(Some(value)),
            Found::Missing => Ok(None),
            // Or overwritten between its row and its file; nobody writes the key while this holds its stripe.
            Found::RowDamaged | Found::FileDamaged => {
                let _stripe = self.lock_stripe(key);
                match self.find(key)? {
                    Found::Live(value) => Ok(Some(value)),
                    Found::Missing => Ok(None),
                    Found::FileDamaged => {
                        self.remove(call, key)?;
                        Ok(None)
                    }
                    Found::RowDamaged => {
                        self.damaged(format!("a row of the sled database `{}` is damaged", self.path().display()));
                        self.remove(call, key)?;
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
        self.attempt(Doing::Read, |_| {
            let row = self.tables().current.entry(key)?;
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
        self.attempt(Doing::Write, |call| {
            let _stripe = self.lock_stripe(key);
            if cancel.is_cancelled() {
                return Ok(());
            }
            let lifetime = Lifetime::starting(self.time.wall(), ttl)?;
            self.space.check(key.len() + value.len())?;
            if HEADER_BYTES + key.len() + value.len() <= ROW_BYTES {
                return self.exchange(call, key, Some(Record { lifetime, body: Body::Whole(value) }));
            }
            let write = self.values.write(key, value);
            let write = write.map_err(|error| from_io(error, self.path(), Doing::StoreValue))?;
            let filed = Filed { write, length: value.len() as u64, checksum: value_checksum(value) };
            let exchanged = self.exchange(call, key, Some(Record { lifetime, body: Body::Filed(filed) }));
            self.unflushed.fetch_add(value.len(), Ordering::Relaxed);
            exchanged
        })?;
        // It is stored, whatever becomes of the others.
        let _ = self.make_room(Some(key), EVICTED_PER_WRITE);
        Ok(())
    }

    /// Gives a live entry a new lifetime; the file of a large value stays where it is.
    pub(crate) fn touch(&self, key: &str, ttl: Option<Duration>, cancel: &Cancel) -> Result<bool, BackendError> {
        check_key(key)?;
        self.attempt(Doing::Write, |call| {
            let _stripe = self.lock_stripe(key);
            let lifetime = Lifetime::starting(self.time.wall(), ttl)?;
            let row = self.tables().current.entry(key)?;
            let Some(old) = row.as_deref().and_then(|row| Record::decode(key, row)) else { return Ok(false) };
            if cancel.is_cancelled() || old.lifetime.is_over(self.time.wall()) {
                return Ok(false);
            }
            self.exchange(call, key, Some(Record { lifetime, body: old.body }))?;
            Ok(true)
        })
    }

    pub(crate) fn delete(&self, key: &str, cancel: &Cancel) -> Result<bool, BackendError> {
        check_key(key)?;
        self.attempt(Doing::Write, |call| {
            let _stripe = self.lock_stripe(key);
            let row = self.tables().current.entry(key)?;
            if cancel.is_cancelled() {
                return Ok(false);
            }
            let now = self.time.wall();
            let live = row
                .as_deref()
                .and_then(|row| Record::decode(key, row))
                .is_some_and(|record| !record.lifetime.is_over(now));
            self.remove(call, key)?;
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
        for _ in 0..PASSES {
            let mut after = None;
            let mut removed = 0;
            while let Some(last) =
                self.attempt(Doing::Write, |call| self.clear_some(call, &prefix, after.as_ref(), cancel))?
            {
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
    fn clear_some(
        &self,
        call: &Call<'_>,
        prefix: &[u8],
        after: Option<&IVec>,
        cancel: &Cancel,
    ) -> Result<Option<IVec>, Failure> {
        let start = after.map_or(Bound::Included(prefix.to_vec()), |after| Bound::Excluded(after.to_vec()));
        let tables = self.tables();
        let mut names = tables.current.names((start, Bound::Unbounded), ROWS_PER_PASS)?;
        names.retain(|row| row.starts_with(prefix));
        for row in &names {
            let Some(key) = rows::key_of_entry(row) else {
                // No key of ours: damage.
                tables.current.remove(row)?;
                continue;
            };
            let _stripe = self.lock_stripe(key);
            if cancel.is_cancelled() {
                return Ok(None);
            }
            self.remove(call, key)?;
        }
        Ok(names.pop())
    }

    /// Something real and cheap: a page is read, and the size of the files.
    pub(crate) fn health(&self) -> Result<Vec<(&'static str, String)>, BackendError> {
        self.attempt(Doing::Read, |_| {
            let tables = self.tables();
            tables.current.names(rows::due_until(u64::MAX), 1)?;
            let mut details = vec![
                ("path", self.path().display().to_string()),
                ("size_on_disk", (tables.current.size_on_disk()? + self.usage.files()).to_string()),
                ("live_bytes", self.usage.total().to_string()),
            ];
            if let Some(free) = self.space.free() {
                details.push(("free_bytes", free.to_string()));
            }
            Ok(details)
        })
    }

    /// Hands everything that was written to the operating system.
    pub(crate) fn flush(&self) -> Result<(), BackendError> {
        self.attempt(Doing::Write, |call| self.flush_tables(call))
    }

    fn find(&self, key: &str) -> Result<Found, Failure> {
        let Some(row) = self.tables().current.entry(key)? else { return Ok(Found::Missing) };
        let Some(record) = Record::decode(key, &row) else { return Ok(Found::RowDamaged) };
        if record.lifetime.is_over(self.time.wall()) {
            return Ok(Found::Missing);
        }
        match record.body {
            Body::Whole(value) => Ok(Found::Live(Bytes::copy_from_slice(value))),
            Body::Filed(filed) => {
                let read = self.values.read(key, filed.write, filed.length);
                let value = read.map_err(|error| from_io(error, self.path(), Doing::Read))?;
                Ok(value.filter(|value| filed.vouches_for(value)).map_or(Found::FileDamaged, Found::Live))
            }
        }
    }

    /// Removes an entry and its file. The caller holds the stripe.
    pub(crate) fn remove(&self, call: &Call<'_>, key: &str) -> Result<(), Failure> {
        if self.tables().current.entry(key)?.is_none() { Ok(()) } else { self.exchange(call, key, None) }
    }

    /// Puts a record, or nothing, in the place of an entry's row. The caller holds the stripe.
    fn exchange(&self, call: &Call<'_>, key: &str, new: Option<Record<'_>>) -> Result<(), Failure> {
        let tables = self.tables();
        let row = tables.current.entry(key)?;
        // Nothing is known of a damaged row's file, which is an orphan then.
        let old = row.as_deref().and_then(|row| Record::decode(key, row));
        let bytes = tables.current.exchange(key, old.map(|old| old.lifetime), new.as_ref())?;
        if let Some(next) = &tables.next {
            next.exchange(key, new.as_ref());
        }
        // Behind it, so that no flush takes the key along that does not take the row.
        self.lock_unflushed_keys().insert(key.to_owned());
        let cost = |record: &Record<'_>| Cost::of(key, record);
        self.usage.replace(&rows::entry(key), old.as_ref().map(cost), new.as_ref().map(cost));
        let file = |record: Option<Record<'_>>| record.and_then(|record| record.filed());
        if let Some(gone) = file(old).filter(|gone| file(new) != Some(*gone)) {
            self.values.replaced(gone.write);
        }
        self.wait_for_the_disk(call, bytes + ENTRY_OVERHEAD)
    }

    /// Every [`BYTES_PER_FLUSH`], after this many more.
    fn wait_for_the_disk(&self, call: &Call<'_>, bytes: usize) -> Result<(), Failure> {
        let unflushed = self.unflushed.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if unflushed < BYTES_PER_FLUSH {
            return Ok(());
        }
        self.flush_tables(call)
    }

    fn flush_tables(&self, call: &Call<'_>) -> Result<(), Failure> {
        self.unflushed.store(0, Ordering::Relaxed);
        let mut flushing = Flushing { store: self, keys: std::mem::take(&mut *self.lock_unflushed_keys()) };
        // Who changes from one table to the next flushes that one, so whichever this finds will do.
        call.pause(|| self.values.remove_replaced(|| self.tables().current.flush()))?;
        flushing.keys.clear();
        Ok(())
    }

    /// Whether something was written since the last flush.
    pub(crate) fn is_unflushed(&self) -> bool {
        !self.lock_unflushed_keys().is_empty()
    }

    /// The keys of which it is not known what the disk has. Asked when nobody uses it any more.
    pub(crate) fn doubtful_keys(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock_unflushed_keys()).into_iter().collect()
    }

    fn lock_unflushed_keys(&self) -> MutexGuard<'_, HashSet<String>> {
        self.unflushed_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this file is the one that its entry's row refers to.
    pub(crate) fn refers_to(&self, key: &str, id: WriteId) -> Result<bool, Failure> {
        let _stripe = self.lock_stripe(key);
        let row = self.tables().current.entry(key)?;
        let record = row.as_deref().and_then(|row| Record::decode(key, row));
        Ok(record.and_then(|record| record.filed()).is_some_and(|filed| filed.write == id))
    }

    pub(crate) fn tables(&self) -> Arc<Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_tables(&self, tables: Tables) {
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
    }

    pub(crate) fn lock_stripe(&self, key: &str) -> MutexGuard<'_, ()> {
        let stripe = xxh3_64(key.as_bytes()) % self.stripes.len() as u64;
        let stripe = usize::try_from(stripe).unwrap_or_default();
        // A panic in sled under the lock does not make the lock itself any worse.
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stripes(&self) -> &[Mutex<()>] {
        &self.stripes
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).field("failed", &self.failed).finish_non_exhaustive()
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

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

//! Copying the rows that live into a new sled database, and going on with that: sled's file hardly ever shrinks.
//!
//! Meanwhile everybody reads from the older one and writes to both. Whenever the process is killed, the next opener finds
//! either the older one or a new one that has its mark, and removes the other.

use crate::directory::Directory;
use crate::error::{Doing, from_io};
use crate::failure::Failure;
use crate::record::Record;
use crate::rows;
use crate::store::{Next, PASSES, ROWS_PER_PASS, Store, Tables};
use crate::table::Table;
use cachekit_core::BackendError;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the change from one to the other may wait for writers that are under way; no writer waits longer for it.
const CHANGE_PATIENCE: Duration = Duration::from_millis(200);
/// How often it is tried.
const CHANGE_ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);
/// How long the older database is kept for readers that are slow.
const OLD_PATIENCE: Duration = Duration::from_secs(30);

/// How large the last copy was for its rows, so that nothing is copied only to be as large again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expansion {
    size: u64,
    rows: u64,
}

impl Expansion {
    /// How large a copy of so many rows may be. The size of a small one says nothing about larger ones.
    fn of(self, rows: u64) -> u64 {
        let size = u128::from(rows) * u128::from(self.size) / u128::from(self.rows.max(1 << 20));
        u64::try_from(size).unwrap_or(u64::MAX)
    }
}

impl Next {
    /// A change of an entry, which the other table has already. The caller holds the stripe.
    pub(crate) fn exchange(&self, key: &str, new: Option<&Record<'_>>) {
        let changed = catch_unwind(AssertUnwindSafe(|| {
            let row = self.table.entry(key)?;
            let old = row.as_deref().and_then(|row| Record::decode(key, row));
            self.table.exchange(key, old.map(|old| old.lifetime), new)
        }));
        if !matches!(changed, Ok(Ok(_))) {
            self.failed.store(true, Ordering::Release);
        }
    }
}

impl Store {
    /// Whether the file of the rows is more than twice as large as the rows, and as a copy of them would be.
    pub(crate) fn is_oversized(&self, expansion: Expansion) -> bool {
        let size = self.attempt(Doing::Read, |_| Ok(self.tables().current.size_on_disk()?)).unwrap_or(0);
        let rows = self.usage.rows();
        self.usage.is_complete()
            && size > self.config.rebuild_floor()
            && size > rows.max(expansion.of(rows)).saturating_mul(2)
    }

    /// Does it, and says how large the copy is, or `None` when it was given up for now: there is no room, the database is
    /// closing, or something failed, which is no reason not to go on with the older one.
    pub(crate) fn rebuild(&self, end: &Receiver<()>) -> Option<Expansion> {
        let room = usize::try_from(self.usage.rows()).unwrap_or(usize::MAX).saturating_mul(2);
        self.space.check(room).ok()?;
        let directory = self.directory.new_rows();
        let table = Arc::new(Table::open(&directory, &self.config).ok()?);
        let old = self.tables().current.clone();
        let next = Next { table: table.clone(), failed: AtomicBool::new(false) };
        self.set_tables(Tables { current: old.clone(), next: Some(next) });
        let changed = self.copy(&table, end).and_then(|whole| Ok(whole && self.change_to(&table)?));
        if changed.unwrap_or(false) {
            discard(old);
            return Some(Expansion { size: table.size_on_disk().ok()?, rows: self.usage.rows() });
        }
        self.set_tables(Tables { current: old, next: None });
        discard(table);
        None
    }

    /// Whether everything was copied.
    fn copy(&self, to: &Table, end: &Receiver<()>) -> Result<bool, BackendError> {
        // Who began before both got every change is done when its stripe is free.
        for stripe in self.stripes() {
            drop(stripe.lock().unwrap_or_else(PoisonError::into_inner));
        }
        for _ in 0..PASSES {
            let mut copied = 0;
            let mut last = None;
            loop {
                let failed = self.tables().next.as_ref().is_none_or(|next| next.failed.load(Ordering::Acquire));
                if failed || end.try_recv() != Err(TryRecvError::Empty) {
                    return Ok(false);
                }
                let (count, row) = self.attempt(Doing::Read, |_| self.copy_some(to, last.as_deref()))?;
                copied += count;
                if row.is_none() {
                    break;
                }
                last = row;
            }
            // Sled's iterator may leave some out, so the next pass looks for those.
            if copied == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn copy_some(&self, to: &Table, last: Option<&[u8]>) -> Result<(usize, Option<Vec<u8>>), Failure> {
        let from = self.tables().current.clone();
        let names = from.names(rows::entries_behind(last), ROWS_PER_PASS)?;
        let mut copied = 0;
        for name in &names {
            let Some(key) = rows::key_of_entry(name) else { continue };
            let _stripe = self.lock_stripe(key);
            let row = from.get(name)?;
            // A damaged row stays behind.
            let Some(record) = row.as_deref().and_then(|row| Record::decode(key, row)) else { continue };
            let there = to.get(name)?;
            if there != row {
                let there = there.as_deref().and_then(|row| Record::decode(key, row));
                to.exchange(key, there.map(|there| there.lifetime), Some(&record))?;
                copied += 1;
            }
        }
        // So that neither memory nor the last flush gets large.
        to.flush()?;
        Ok((copied, names.last().map(|name| name.to_vec())))
    }

    /// Waits for the writers, and makes it the one; `false` when they did not come to an end.
    fn change_to(&self, table: &Arc<Table>) -> Result<bool, BackendError> {
        let mut attempts = (0..CHANGE_ATTEMPTS).map(|attempt| {
            // The writers have their turn in between.
            thread::sleep(PAUSE * attempt);
            self.lock_all_stripes()
        });
        let Some(_nobody_writes) = attempts.find_map(|stripes| stripes) else { return Ok(false) };
        if self.tables().next.as_ref().is_none_or(|next| next.failed.load(Ordering::Acquire)) {
            return Ok(false);
        }
        self.attempt(Doing::Read, |call| Ok(call.pause(|| table.flush())?))?;
        Directory::complete(table.directory()).map_err(|error| from_io(error, self.path(), Doing::Open))?;
        self.set_tables(Tables { current: table.clone(), next: None });
        Ok(true)
    }

    fn lock_all_stripes(&self) -> Option<Vec<MutexGuard<'_, ()>>> {
        let deadline = Instant::now() + CHANGE_PATIENCE;
        let mut guards = Vec::with_capacity(self.stripes().len());
        for stripe in self.stripes() {
            guards.push(loop {
                match stripe.try_lock() {
                    Ok(guard) => break guard,
                    Err(TryLockError::Poisoned(guard)) => break guard.into_inner(),
                    Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
                    Err(TryLockError::WouldBlock) => return None,
                }
            });
        }
        Some(guards)
    }
}

/// Closes a table that nobody begins to use any more, and removes its files. Both may take long.
fn discard(table: Arc<Table>) {
    let _ = thread::Builder::new().name("cachekit-sled-close".to_owned()).spawn(move || {
        let directory: PathBuf = table.directory().to_owned();
        let deadline = Instant::now() + OLD_PATIENCE;
        while Arc::strong_count(&table) > 1 && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        // The names go first, so that nothing is left when the process ends meanwhile.
        let _ = fs::remove_dir_all(directory);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(table)));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SledConfig;
    use crate::cancel::Cancel;
    use crate::databases::Database;
    use crate::lifetime::manual::ManualTimes;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;

    const SECOND: Duration = Duration::from_secs(1);
    const KEYS: usize = 200;
    const LARGE: usize = 50_000;

    struct Opened {
        database: Arc<Database>,
        store: Arc<crate::databases::StoreInUse>,
        time: Arc<ManualTimes>,
        directory: tempfile::TempDir,
    }

    /// By itself it rebuilds nothing.
    fn config(directory: &tempfile::TempDir) -> SledConfig {
        SledConfig::new(directory.path()).with_rebuild_floor(u64::MAX)
    }

    fn opened() -> Opened {
        let (directory, time) = (tempfile::tempdir().unwrap(), Arc::new(ManualTimes::new()));
        let database = Database::open(&config(&directory), time.clone()).unwrap();
        let store = database.store().unwrap();
        Opened { database, store, time, directory }
    }

    fn set(store: &Store, key: usize, version: usize) {
        let bytes = [100, 3_000, LARGE][key % 3];
        let value = format!("<{key} {version}>").bytes().cycle().take(bytes).collect::<Vec<_>>();
        let ttl = key.is_multiple_of(2).then_some(60 * SECOND);
        store.set(&format!("k{key}"), &value, ttl, LARGE, &Cancel::default()).unwrap();
    }

    fn version(store: &Store, key: usize) -> Option<usize> {
        let value = store.get(&format!("k{key}")).unwrap()?;
        let text = std::str::from_utf8(&value).unwrap().strip_prefix(&format!("<{key} ")).unwrap();
        Some(text.split_once('>').unwrap().0.parse().unwrap())
    }

    fn databases(directory: &tempfile::TempDir) -> usize {
        let entries = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_str().unwrap().starts_with("rows-")).count()
    }

    fn eventually(holds: impl Fn() -> bool) {
        let deadline = Instant::now() + 60 * SECOND;
        while !holds() {
            assert!(Instant::now() < deadline, "it never came to be");
            thread::sleep(PAUSE);
        }
    }

    #[test]
    fn what_changes_while_rows_are_copied_is_in_the_new_database_too() {
        let o = opened();
        (0..KEYS).for_each(|key| set(&o.store, key, 0));
        let before = o.store.tables().current.directory().to_owned();
        let (_going, end) = channel();
        let writing = AtomicUsize::new(2);
        let rebuilt = thread::scope(|scope| {
            for writer in 0..2 {
                let (store, writing) = (&o.store, &writing);
                scope.spawn(move || {
                    for round in 1..=20 {
                        for key in (0..KEYS).filter(|key| key % 2 == writer) {
                            match (key + round) % 5 {
                                0 => drop(store.delete(&format!("k{key}"), &Cancel::default()).unwrap()),
                                1 => drop(store.touch(&format!("k{key}"), Some(90 * SECOND), &Cancel::default())),
                                _ => set(store, key, round),
                            }
                            if let Some(found) = version(store, key) {
                                assert!(found <= round, "key {key}");
                            }
                        }
                    }
                    writing.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let mut rebuilt = 0;
            while writing.load(Ordering::SeqCst) > 0 || rebuilt == 0 {
                rebuilt += usize::from(o.store.rebuild(&end).is_some());
            }
            rebuilt
        });
        assert_ne!(o.store.tables().current.directory(), before);
        let expected: Vec<_> = (0..KEYS).map(|key| version(&o.store, key)).collect();
        for (key, version) in expected.iter().enumerate() {
            let last = (1..=20).rev().find(|round| (key + round) % 5 != 1).unwrap();
            let deleted = (key + last) % 5 == 0;
            assert_eq!(*version, (!deleted).then_some(last), "key {key} after {rebuilt} copies");
        }
        eventually(|| databases(&o.directory) == 1);
        let Opened { database, store, time, directory } = o;
        drop((database, store));
        let again = Database::open(&config(&directory), time).unwrap();
        let again = again.store().unwrap();
        assert_eq!((0..KEYS).map(|key| version(&again, key)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_copy_that_is_given_up_leaves_the_older_database_in_use() {
        let o = opened();
        (0..KEYS).for_each(|key| set(&o.store, key, 0));
        let before = o.store.tables().current.directory().to_owned();
        let (going, end) = channel();
        drop(going);
        assert!(o.store.rebuild(&end).is_none(), "the database closes");

        let (_going, end) = channel();
        let failing = Table::open(&o.store.directory.new_rows(), &o.store.config).unwrap();
        let next = Next { table: Arc::new(failing), failed: AtomicBool::new(true) };
        o.store.set_tables(Tables { current: o.store.tables().current.clone(), next: Some(next) });
        let table = o.store.tables().next.as_ref().unwrap().table.clone();
        assert!(!o.store.copy(&table, &end).unwrap(), "it missed a change");
        assert!(!o.store.change_to(&table).unwrap());

        assert_eq!(o.store.tables().current.directory(), before);
        set(&o.store, 7, 1);
        assert_eq!((version(&o.store, 7), version(&o.store, 8)), (Some(1), Some(0)));
    }

    /// A database to copy to, which gets every change from now on.
    fn next_of(store: &Store) -> Arc<Table> {
        let table = Arc::new(Table::open(&store.directory.new_rows(), &store.config).unwrap());
        let next = Next { table: table.clone(), failed: AtomicBool::new(false) };
        store.set_tables(Tables { current: store.tables().current.clone(), next: Some(next) });
        table
    }

    #[test]
    fn the_copy_waits_for_writers_that_may_not_know_of_it() {
        let o = opened();
        let table = next_of(&o.store);
        let writer = o.store.lock_stripe("no row of this key is there to be copied");
        thread::scope(|scope| {
            let (_going, end) = channel();
            let copied = scope.spawn({
                let (store, table) = (&o.store, &table);
                move || store.copy(table, &end).unwrap()
            });
            thread::sleep(Duration::from_millis(100));
            assert!(!copied.is_finished());
            drop(writer);
            assert!(copied.join().unwrap());
        });
    }

    #[test]
    fn what_the_new_database_has_is_on_the_disk_before_it_counts() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(&directory).with_flush_every(3_600 * SECOND);
        let database = Database::open(&config, Arc::new(ManualTimes::new())).unwrap();
        let store = database.store().unwrap();
        let (_going, end) = channel();
        let table = next_of(&store);
        assert!(store.copy(&table, &end).unwrap());
        set(&store, 3, 7);
        assert!(store.change_to(&table).unwrap());
        // As a killed process would leave it.
        let killed = tempfile::tempdir().unwrap();
        for file in ["conf", "db"] {
            fs::copy(table.directory().join(file), killed.path().join(file)).unwrap();
        }
        assert!(Table::open(killed.path(), &config).unwrap().entry("k3").unwrap().is_some());
    }

    #[test]
    fn a_writer_that_does_not_come_to_an_end_puts_the_change_off() {
        let o = opened();
        set(&o.store, 1, 0);
        let (_going, end) = channel();
        let table = next_of(&o.store);
        assert!(o.store.copy(&table, &end).unwrap());
        let writer = o.store.lock_stripe("k1");
        assert!(!o.store.change_to(&table).unwrap());
        drop(writer);
        assert!(o.store.change_to(&table).unwrap());
        assert_eq!(version(&o.store, 1), Some(0));
    }

    #[test]
    fn a_file_that_grew_far_over_its_rows_is_rebuilt_by_itself_and_gets_small() {
        let directory = tempfile::tempdir().unwrap();
        let config = SledConfig::new(directory.path()).with_rebuild_floor(4 << 20);
        let database = Database::open(&config, Arc::new(ManualTimes::new())).unwrap();
        let store = database.store().unwrap();
        let key = |i: usize| format!("k{i}");
        for i in 0..1_500 {
            store.set(&key(i), &[7; 5_000], None, LARGE, &Cancel::default()).unwrap();
        }
        let before = store.tables().current.size_on_disk().unwrap();
        assert!(before > 8 << 20, "{before}");
        for i in 100..1_500 {
            store.delete(&key(i), &Cancel::default()).unwrap();
        }
        eventually(|| store.tables().current.size_on_disk().unwrap() <= 4 << 20);
        assert!((0..100).all(|i| store.get(&key(i)).unwrap().is_some()));
        assert!(store.get(&key(100)).unwrap().is_none());
        assert!(!store.is_oversized(Expansion::default()));
        eventually(|| databases(&directory) == 1);
    }
}

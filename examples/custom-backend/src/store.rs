//! A database that is open: shared by everyone in this process, swept, and given up once it failed.

use crate::error::{error, from_redb};
use crate::tables::{ENTRIES, MOST_SWEPT, Tables, find};
use cachekit_core::{BackendError, ErrorKind};
use redb::{Builder, Database, Durability, Error, ReadableDatabase};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// redb opens a file once, and a process may have several caches over it.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Store>>> = Mutex::new(BTreeMap::new());
/// How long to wait for whoever has the file open: it may be about to close it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often expired entries are removed and everything is written to the disk.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    /// `None` once it was given up.
    database: RwLock<Option<Database>>,
    /// Whether there is something that is not on the disk yet.
    dirty: AtomicBool,
}

impl Store {
    /// Opens the file, or joins whoever in this process has it open.
    pub(crate) fn open(path: &Path, cache_bytes: usize) -> Result<Arc<Self>, BackendError> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(path).and_then(Weak::upgrade).filter(|store| store.is_open()) {
            return Ok(store);
        }
        let database = RwLock::new(Some(open_file(path, cache_bytes)?));
        let store = Arc::new(Self { path: path.to_owned(), database, dirty: AtomicBool::new(true) });
        store.sweep()?;
        open.insert(path.to_owned(), Arc::downgrade(&store));
        let swept = Arc::downgrade(&store);
        thread::spawn(move || {
            while swept.upgrade().is_some_and(|store| store.sweep().is_ok()) {
                thread::sleep(SWEEP_EVERY);
            }
        });
        Ok(store)
    }

    /// What `pick` makes of the end and the value of a live entry.
    pub(crate) fn read<T>(&self, key: &[u8], pick: impl FnOnce(u64, &[u8]) -> T) -> Result<Option<T>, BackendError> {
        self.run(|database| find(&database.begin_read()?.open_table(ENTRIES)?, key, pick))
    }

    /// Changes the tables, all or nothing, unless the caller has gone away meanwhile.
    pub(crate) fn write<T>(
        &self,
        caller: &Weak<()>,
        job: impl FnOnce(&mut Tables) -> Result<T, Error>,
    ) -> Result<T, BackendError> {
        let done = self.run(|database| {
            let mut transaction = database.begin_write()?;
            // Asked only now that nobody else can write: whoever writes later then also comes later.
            if caller.strong_count() == 0 {
                return Ok(None);
            }
            transaction.set_durability(Durability::None)?;
            let done = job(&mut Tables::open(&transaction)?)?;
            transaction.commit()?;
            self.dirty.store(true, Ordering::Release);
            Ok(Some(done))
        });
        done.map_err(BackendError::maybe_applied)?.ok_or_else(|| error(ErrorKind::Unavailable, "nobody waits any more"))
    }

    /// Removes what has expired, and writes to the disk what is only in memory so far.
    pub(crate) fn sweep(&self) -> Result<(), BackendError> {
        loop {
            let swept = self.run(|database| {
                let mut transaction = database.begin_write()?;
                // Opening the file after a kill then takes no time, however large it is.
                transaction.set_quick_repair(true);
                let swept = Tables::open(&transaction)?.sweep()?;
                if self.dirty.swap(false, Ordering::Acquire) || swept > 0 {
                    transaction.commit()?;
                }
                Ok(swept)
            })?;
            if swept < MOST_SWEPT {
                return Ok(());
            }
        }
    }

    pub(crate) fn run<T>(&self, job: impl FnOnce(&Database) -> Result<T, Error>) -> Result<T, BackendError> {
        let outcome = match &*self.database.read().unwrap_or_else(PoisonError::into_inner) {
            Some(database) => caught(|| job(database)),
            None => return Err(error(ErrorKind::Closed, "the redb file failed and has to be opened anew")),
        };
        outcome.map_err(|error| {
            self.give_up(&error);
            from_redb(&self.path, error)
        })
    }

    /// After a failure redb refuses everything until the file is opened anew, also when there is room on the disk again.
    /// So it is closed, every operation is `Closed` from now on, and core builds another backend.
    fn give_up(&self, error: &Error) {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if database.is_some() && matches!(error, Error::Corrupted(_)) {
            // When it cannot be moved, whoever opens it next is told.
            let _ = set_aside(&self.path);
        }
        let _ = caught(|| {
            *database = None;
            Ok(())
        });
    }

    fn is_open(&self) -> bool {
        self.database.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

fn open_file(path: &Path, cache_bytes: usize) -> Result<Database, BackendError> {
    let started = Instant::now();
    let create = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        Ok(Builder::new().set_cache_size(cache_bytes).create(path)?)
    };
    loop {
        match caught(create) {
            Ok(database) => return Ok(database),
            Err(Error::DatabaseAlreadyOpen) if started.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
            Err(Error::Corrupted(_)) => set_aside(path).map_err(|error| from_redb(path, error.into()))?,
            Err(error) => return Err(from_redb(path, error)),
        }
    }
}

/// redb checks the pages of a file only when it is told to, and panics on some that are damaged.
fn caught<T>(job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(Error::Corrupted("redb panicked".to_owned())))
}

/// A cache may lose its entries at any time, so a damaged file makes room for a fresh one.
fn set_aside(path: &Path) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    fs::rename(path, aside)
}

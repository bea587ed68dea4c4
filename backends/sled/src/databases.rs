//! The databases this process has open, by path. Sled locks the directory against a second opener, in the same process
//! too, so everyone who asks for a path shares one, and who asks while it is being opened or closed waits.

use crate::SledConfig;
use crate::error::closed;
use crate::lifetime::Time;
use crate::lock::Locks;
use crate::store::{Store, create_directory};
use crate::sweep;
use cachekit_core::{BackendError, ErrorKind, Retry};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How many jobs of one database run at once; a runtime has 512 threads for all blocking jobs together.
const JOBS: usize = 32;
/// Another process that just closed the database, or was killed, lets go of its lock a little later.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// How long an opener waits for somebody in this process who opens or closes the same path.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);

static DATABASES: Mutex<Databases> = Mutex::new(Databases { open: BTreeMap::new(), locks: BTreeMap::new() });
/// Notified when an entry of `open` changes.
static CHANGED: Condvar = Condvar::new();

struct Databases {
    /// A path is in here as long as its files are in use: from before they are opened until after they are closed.
    open: BTreeMap<PathBuf, State>,
    /// A few bytes for each path the process ever opened.
    locks: BTreeMap<PathBuf, Arc<Locks>>,
}

enum State {
    Opening,
    /// Or closing, when nobody holds it any more.
    Open(Weak<Database>),
}

/// What the backends of one path share. The database closes when the last of them and the last running job let go.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    store: Mutex<Option<Arc<StoreInUse>>>,
    pub(crate) jobs: Arc<Semaphore>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) time: Arc<dyn Time>,
    /// Its end is the end of the sweeper.
    _sweeper: Sender<()>,
}

impl Database {
    /// The one database of the path: opened now, or shared. Blocks.
    pub(crate) fn open(config: &SledConfig, time: Arc<dyn Time>) -> Result<Arc<Self>, BackendError> {
        let path = create_directory(config.path())?;
        let reservation = match reserve(&path)? {
            Ok(database) => return Ok(database),
            Err(reservation) => reservation,
        };
        let store = open_store(&path, config, &time)?;
        let store = Arc::new(StoreInUse { store: Some(store), path: path.clone() });
        let locks = databases().locks.entry(path.clone()).or_insert_with(|| Arc::new(Locks::new())).clone();
        let database = Arc::new(Self {
            locks,
            path,
            jobs: Arc::new(Semaphore::new(JOBS)),
            time,
            _sweeper: sweep::start(&store, config.sweep_every()),
            store: Mutex::new(Some(store)),
        });
        reservation.fulfil(&database);
        Ok(database)
    }

    /// The open database, for one job.
    pub(crate) fn store(&self) -> Result<Arc<StoreInUse>, BackendError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(in_use) = store.as_ref() else { return Err(closed("sled failed before; open it anew")) };
        match in_use.failure().cloned() {
            None => Ok(in_use.clone()),
            Some(failure) => {
                // Let go, so that whoever builds next can open the files anew, even if other backends never notice.
                let released = store.take();
                drop(store);
                drop(released);
                Err(closed(&format!("sled failed before; open it anew ({failure})")))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A store whose files stay registered until they are closed.
#[derive(Debug)]
pub(crate) struct StoreInUse {
    /// `None` only while it is dropped.
    store: Option<Store>,
    path: PathBuf,
}

impl std::ops::Deref for StoreInUse {
    type Target = Store;

    #[allow(clippy::expect_used, reason = "only `drop` takes it")]
    fn deref(&self) -> &Store {
        self.store.as_ref().expect("a store in use")
    }
}

impl Drop for StoreInUse {
    /// Sled flushes, syncs and joins its threads here, which may take long, and for ever when a thread of its own
    /// panicked. So it has a thread of ours for it: not the runtime's workers, nor its blocking threads, for which the
    /// end of a runtime waits.
    fn drop(&mut self) {
        let closing = Closing { store: self.store.take(), path: std::mem::take(&mut self.path) };
        // Without a thread to be had, the closure is dropped here, and the store with it.
        let _ = thread::Builder::new().name("cachekit-sled-close".to_owned()).spawn(move || drop(closing));
    }
}

struct Closing {
    store: Option<Store>,
    path: PathBuf,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let store = self.store.take();
        // Sled panics when it cannot sync.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(store)));
        unregister(&self.path);
    }
}

/// The right to open a path, until it is dropped.
struct Reservation {
    path: PathBuf,
    fulfilled: bool,
}

impl Reservation {
    fn fulfil(mut self, database: &Arc<Database>) {
        self.fulfilled = true;
        databases().open.insert(self.path.clone(), State::Open(Arc::downgrade(database)));
        CHANGED.notify_all();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.fulfilled {
            unregister(&self.path);
        }
    }
}

/// The open database of a path, or the right to open it.
fn reserve(path: &Path) -> Result<Result<Arc<Database>, Reservation>, BackendError> {
    let deadline = Instant::now() + OPEN_PATIENCE;
    loop {
        let mut all = databases();
        let found = match all.open.get(path) {
            None => {
                all.open.insert(path.to_owned(), State::Opening);
                return Ok(Err(Reservation { path: path.to_owned(), fulfilled: false }));
            }
            Some(State::Opening) => None,
            Some(State::Open(database)) => database.upgrade(),
        };
        if let Some(database) = found {
            // Not under the mutex: a database that failed is let go of here, which needs it.
            drop(all);
            if database.store().is_ok() {
                return Ok(Ok(database));
            }
            drop(database);
            all = databases();
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(BackendError::new(
                ErrorKind::Locked,
                format!("this process is still closing the sled database `{}`", path.display()),
            )
            .with_retry(Retry::Temporary));
        }
        // A notification between the two locks above is not missed for long.
        drop(CHANGED.wait_timeout(all, left.min(LOCK_PAUSE)));
    }
}

fn open_store(path: &Path, config: &SledConfig, time: &Arc<dyn Time>) -> Result<Store, BackendError> {
    let mut attempt = 1;
    loop {
        match Store::open(path, config.cache_capacity(), config.flush_every(), time.clone()) {
            Err(error) if error.kind() == ErrorKind::Locked && attempt < LOCK_ATTEMPTS => attempt += 1,
            result => return result,
        }
        thread::sleep(LOCK_PAUSE);
    }
}

/// Waits until the files of a path that nobody holds any more are closed, or for `patience`.
pub(crate) fn wait_until_closed(path: &Path, patience: Duration) {
    let closing = |all: &mut Databases| match all.open.get(path) {
        Some(State::Open(database)) => database.strong_count() == 0,
        Some(State::Opening) | None => false,
    };
    drop(CHANGED.wait_timeout_while(databases(), patience, closing));
}

fn unregister(path: &Path) {
    databases().open.remove(path);
    CHANGED.notify_all();
}

fn databases() -> MutexGuard<'static, Databases> {
    DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SledFactory;
    use crate::lifetime::manual::ManualTimes;
    use cachekit_core::{Backend, BackendFactory, Bytes, SetOptions};

    const TTL: Option<Duration> = Some(Duration::from_secs(60));

    fn temporary() -> (tempfile::TempDir, SledConfig) {
        let directory = tempfile::tempdir().unwrap();
        let config = SledConfig::new(directory.path().join("db")).with_sweep_every(Duration::from_millis(10));
        (directory, config)
    }

    async fn built(config: &SledConfig, time: &Arc<ManualTimes>) -> Arc<dyn Backend> {
        SledFactory::new(config.clone()).with_time(time.clone()).build().await.unwrap()
    }

    /// Waits for a thread of ours; ten seconds are for a machine that is busy with something else.
    fn eventually(holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !holds() {
            assert!(Instant::now() < deadline, "it never came to be");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn the_sweeper_removes_what_is_over_until_it_has_caught_up() {
        let (_directory, config) = temporary();
        let time = Arc::new(ManualTimes::new());
        let database = Database::open(&config, time.clone()).unwrap();
        let store = database.store().unwrap();
        for i in 0..2_500 {
            store.set(&format!("k{i}"), b"v", TTL, 10, &Default::default()).unwrap();
        }
        store.set("stays", b"v", None, 10, &Default::default()).unwrap();
        thread::sleep(Duration::from_millis(50)); // Several ticks in which nothing is over.
        assert_eq!(store.count_all_rows(), 5_001);
        time.advance(Duration::from_secs(61));
        eventually(|| store.count_all_rows() == 1);
    }

    #[test]
    fn a_database_that_everyone_let_go_of_is_closed_and_forgotten() {
        let (_directory, config) = temporary();
        let database = Database::open(&config, Arc::new(ManualTimes::new())).unwrap();
        let path = database.path().to_owned();
        let running_job = database.store().unwrap();
        drop(database);
        assert!(databases().open.contains_key(&path), "a job still uses the files");
        drop(running_job);
        wait_until_closed(&path, Duration::from_secs(10));
        assert!(!databases().open.contains_key(&path));
    }

    #[test]
    fn who_opens_waits_for_who_closes() {
        let (_directory, config) = temporary();
        let first = Database::open(&config, Arc::new(ManualTimes::new())).unwrap();
        let running_job = first.store().unwrap();
        drop(first);
        let opener = thread::spawn(move || Database::open(&config, Arc::new(ManualTimes::new())));
        thread::sleep(Duration::from_millis(100)); // So that it waits, most likely.
        assert!(!opener.is_finished());
        drop(running_job);
        opener.join().unwrap().unwrap();
    }

    #[test]
    fn a_failed_attempt_leaves_the_path_free() {
        let (_directory, config) = temporary();
        std::fs::create_dir_all(config.path().join("db")).unwrap(); // Sled wants a file there.
        for _ in 0..2 {
            assert!(Database::open(&config, Arc::new(ManualTimes::new())).is_err());
        }
        std::fs::remove_dir(config.path().join("db")).unwrap();
        Database::open(&config, Arc::new(ManualTimes::new())).unwrap();
    }

    #[tokio::test]
    async fn after_sled_panicked_the_next_build_opens_anew_even_if_others_hold_on() {
        let (_directory, config) = temporary();
        let time = Arc::new(ManualTimes::new());
        let (one, two) = (built(&config, &time).await, built(&config, &time).await);
        one.set("k", Bytes::from_static(b"v"), SetOptions::default()).await.unwrap();
        let token = one.try_lock("k", Duration::from_secs(60)).await.unwrap().unwrap();
        let shared = Database::open(&config, time.clone()).unwrap();
        assert_eq!(shared.store().unwrap().panic_inside().kind(), ErrorKind::Internal);

        let three = built(&config, &time).await;
        assert!(three.get("k").await.unwrap().is_some());
        for old in [&one, &two] {
            assert_eq!(old.get("k").await.unwrap_err().kind(), ErrorKind::Closed);
            assert_eq!(old.get_many(&["a", "b"]).await.len(), 2);
        }
        assert!(three.try_lock("k", Duration::from_secs(60)).await.unwrap().is_none(), "the lock is still held");
        assert!(three.unlock(&token).await.unwrap());
        one.close().await.unwrap_err();
        three.close().await.unwrap();
    }
}

//! The databases this process has open, by path. Sled locks the directory against a second opener, in the same process
//! too, so everyone who asks for a path shares one, and who asks while it is being opened or closed waits.

use crate::SledConfig;
use crate::error::closed;
use crate::failure::Why;
use crate::lifetime::Time;
use crate::lock::Locks;
use crate::opening::Hung;
use crate::reopening::{Left, open_store};
use crate::store::{Store, create_directory};
use crate::upkeep;
use cachekit_core::{BackendError, ErrorKind, Retry};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How many jobs of one database run at once; a runtime has 512 threads for all blocking jobs together.
const JOBS: usize = 32;
/// How often an opener looks at least.
const LOOK: Duration = Duration::from_millis(50);
/// How long an opener waits for somebody in this process who opens or closes the same path.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);
/// How long a database may take to close. Sled waits for ever for a thread of its own that panicked.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

static DATABASES: Mutex<Databases> =
    Mutex::new(Databases { open: BTreeMap::new(), locks: BTreeMap::new(), set_aside: BTreeMap::new() });
/// What tells an opening from an earlier one of the same path.
static OPENINGS: AtomicU64 = AtomicU64::new(0);
/// Notified when an entry of `open` changes.
static CHANGED: Condvar = Condvar::new();

struct Databases {
    /// A path is in here as long as its files are in use: from before they are opened until after they are closed.
    open: BTreeMap<PathBuf, State>,
    /// A few bytes for each path the process ever opened.
    locks: BTreeMap<PathBuf, Arc<Locks>>,
    /// Where the last damaged directory of a path is now.
    set_aside: BTreeMap<PathBuf, PathBuf>,
}

enum State {
    /// Nobody holds it any more. When it takes too long, this is what it leaves.
    Closing {
        since: Instant,
        left: Left,
    },
    Left(Left),
    Opening,
    /// Nobody may hold it any more, and then it is about to close.
    Open {
        opening: u64,
        database: Weak<Database>,
    },
}

/// What the backends of one path share. The database closes when the last of them and the last running job let go.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    store: Mutex<Option<Arc<StoreInUse>>>,
    pub(crate) jobs: Arc<Semaphore>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) time: Arc<dyn Time>,
    /// Its end is the end of its threads.
    _upkeep: [Sender<()>; 2],
}

impl Database {
    /// The one database of the path: opened now, or shared. Blocks.
    pub(crate) fn open(config: &SledConfig, time: Arc<dyn Time>) -> Result<Arc<Self>, BackendError> {
        let path = create_directory(config.path())?;
        let mut reservation = match reserve(&path)? {
            Ok(database) => return Ok(database),
            Err(reservation) => reservation,
        };
        let store = open_store(&path, &mut reservation.left, config, &time)?;
        let opening = OPENINGS.fetch_add(1, Ordering::Relaxed);
        let store = Arc::new(StoreInUse { store: Some(store), path: path.clone(), opening, hung: Mutex::default() });
        let locks = databases().locks.entry(path.clone()).or_insert_with(|| Arc::new(Locks::new())).clone();
        let jobs = Arc::new(Semaphore::new(JOBS));
        let database = Arc::new(Self {
            locks,
            path,
            time,
            _upkeep: upkeep::start(&store, &jobs),
            jobs,
            store: Mutex::new(Some(store)),
        });
        reservation.fulfil(&database, opening);
        Ok(database)
    }

    /// The open database, for one job.
    pub(crate) fn store(&self) -> Result<Arc<StoreInUse>, BackendError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(in_use) = store.as_ref() else { return Err(closed("sled failed before; open it anew")) };
        match in_use.failure().map(|failed| failed.error.clone()) {
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

    /// Where the last damaged directory of this path is, if this process set one aside.
    pub(crate) fn set_aside(&self) -> Option<PathBuf> {
        databases().set_aside.get(&self.path).cloned()
    }
}

/// A store whose files stay registered until they are closed.
#[derive(Debug)]
pub(crate) struct StoreInUse {
    /// `None` only while it is dropped.
    store: Option<Store>,
    path: PathBuf,
    opening: u64,
    /// While a thread never comes back from it.
    hung: Mutex<Option<Hung>>,
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
        let Some(store) = self.store.take() else { return };
        let closing = Closing::of(store, std::mem::take(&mut self.path), self.opening);
        // Without a thread to be had, the closure is dropped here, and the store with it.
        let _ = thread::Builder::new().name("cachekit-sled-close".to_owned()).spawn(move || drop(closing));
    }
}

struct Closing {
    store: Option<Store>,
    path: PathBuf,
    opening: u64,
}

impl Closing {
    fn of(store: Store, path: PathBuf, opening: u64) -> Self {
        let mut all = databases();
        if all.is_open(&path, opening) {
            let damage = store.failed.get().filter(|failed| failed.why == Why::Damage);
            let damage = damage.map(|failed| failed.error.to_string());
            if damage.is_some() {
                // It may never close, and nothing of it is wanted any more.
                let left = Left::by(&store, opening, damage);
                all.leave(&path, Some(left));
            } else {
                let left = Left::by(&store, opening, Some("it does not close".to_owned()));
                all.open.insert(path.clone(), State::Closing { since: Instant::now(), left });
            }
        }
        Self { store: Some(store), path, opening }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let Some(store) = self.store.take() else { return };
        // Removes the files of replaced values too.
        let _ = store.flush();
        let mut left = Left::by(&store, self.opening, None);
        left.doubtful = store.doubtful_keys();
        left.directory = None;
        // Sled panics when it cannot sync.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(store)));
        let mut all = databases();
        match all.open.get_mut(&self.path) {
            Some(State::Closing { left: this, .. }) if this.opening == self.opening => {
                all.leave(&self.path, Some(left).filter(|left| !left.doubtful.is_empty()));
            }
            Some(State::Left(left)) if left.opening == self.opening => left.directory = None,
            _ => {}
        }
    }
}

/// Some call of this store never returns: whoever opens the path next does so beside it.
pub(crate) fn abandon(store: &StoreInUse) {
    *store.hung.lock().unwrap_or_else(PoisonError::into_inner) = Some(Hung::one_more());
    let mut all = databases();
    if all.is_open(&store.path, store.opening) {
        all.leave(&store.path, Some(Left::by(store, store.opening, Some("it does not answer".to_owned()))));
    }
}

impl Databases {
    fn is_open(&self, path: &Path, opening: u64) -> bool {
        matches!(self.open.get(path), Some(State::Open { opening: open, .. }) if *open == opening)
    }

    /// The path is free for the next opener.
    fn leave(&mut self, path: &Path, left: Option<Left>) {
        match left {
            None => drop(self.open.remove(path)),
            Some(left) => drop(self.open.insert(path.to_owned(), State::Left(left))),
        }
        CHANGED.notify_all();
    }
}

/// The right to open a path, until it is dropped.
struct Reservation {
    path: PathBuf,
    left: Option<Left>,
    fulfilled: bool,
}

impl Reservation {
    fn fulfil(mut self, database: &Arc<Database>, opening: u64) {
        self.fulfilled = true;
        let database = Arc::downgrade(database);
        databases().open.insert(self.path.clone(), State::Open { opening, database });
        CHANGED.notify_all();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.fulfilled {
            databases().leave(&self.path, self.left.take());
        }
    }
}

/// The open database of a path, or the right to open it.
fn reserve(path: &Path) -> Result<Result<Arc<Database>, Reservation>, BackendError> {
    let deadline = Instant::now() + OPEN_PATIENCE;
    loop {
        let mut all = databases();
        let found = match all.open.remove(path) {
            Some(State::Opening) => {
                all.open.insert(path.to_owned(), State::Opening);
                None
            }
            Some(State::Open { opening, database }) => {
                let found = database.upgrade();
                all.open.insert(path.to_owned(), State::Open { opening, database });
                found
            }
            Some(State::Closing { since, left }) if since.elapsed() < CLOSE_LIMIT => {
                all.open.insert(path.to_owned(), State::Closing { since, left });
                None
            }
            free => {
                all.open.insert(path.to_owned(), State::Opening);
                let left = match free {
                    Some(State::Closing { left, .. } | State::Left(left)) => Some(left),
                    _ => None,
                };
                return Ok(Err(Reservation { path: path.to_owned(), left, fulfilled: false }));
            }
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
                format!("this process is still opening or closing the sled database `{}`", path.display()),
            )
            .with_retry(Retry::Temporary));
        }
        // A notification between the two locks above is not missed for long.
        drop(CHANGED.wait_timeout(all, left.min(LOOK)));
    }
}

/// Waits until the files of a path that nobody holds any more are closed, or for `patience`.
pub(crate) fn wait_until_closed(path: &Path, patience: Duration) {
    let closing = |all: &mut Databases| match all.open.get(path) {
        Some(State::Open { database, .. }) => database.strong_count() == 0,
        Some(State::Closing { .. }) => true,
        Some(State::Left(_) | State::Opening) | None => false,
    };
    drop(CHANGED.wait_timeout_while(databases(), patience, closing));
}

/// Where the damaged directory of a path is now, for its health.
pub(crate) fn was_set_aside(path: PathBuf, aside: PathBuf) {
    databases().set_aside.insert(path, aside);
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

    fn rows(store: &Store) -> usize {
        store.tables().current.tree().iter().count()
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
        assert_eq!(rows(&store), 5_001);
        time.advance(Duration::from_secs(61));
        eventually(|| rows(&store) == 1);
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
        std::fs::create_dir_all(config.path().join("cachekit.lock")).unwrap(); // A file should be there.
        for _ in 0..2 {
            assert!(Database::open(&config, Arc::new(ManualTimes::new())).is_err());
        }
        std::fs::remove_dir(config.path().join("cachekit.lock")).unwrap();
        Database::open(&config, Arc::new(ManualTimes::new())).unwrap();
    }

    /// What sled had in memory when it failed may be lost, and then the files have what was there before.
    #[test]
    fn what_may_have_been_lost_with_a_failed_database_does_not_turn_into_something_older() {
        let (_directory, config) = temporary();
        let config = config.with_flush_every(Duration::from_secs(3_600));
        let open = || Database::open(&config, Arc::new(ManualTimes::new())).unwrap();
        let first = open();
        let store = first.store().unwrap();
        let set = |key: &str, value: &[u8]| store.set(key, value, TTL, 10, &Default::default()).unwrap();
        ["kept", "overwritten", "deleted", "touched"].iter().for_each(|key| set(key, b"old"));
        store.flush().unwrap();
        set("overwritten", b"new");
        set("new", b"new");
        store.delete("deleted", &Default::default()).unwrap();
        store.touch("touched", None, &Default::default()).unwrap();
        let broken = || Err::<(), _>(sled::Error::Io(std::io::ErrorKind::BrokenPipe.into()).into());
        store.attempt(crate::error::Doing::Write, |_| broken()).unwrap_err();
        assert!(first.store().is_err());
        drop((store, first));
        let second = open();
        let store = second.store().unwrap();
        assert_eq!(store.get("kept").unwrap().as_deref(), Some(&b"old"[..]));
        for key in ["overwritten", "new", "deleted", "touched"] {
            assert_eq!(store.get(key).unwrap(), None, "{key}");
        }
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
        assert!(three.get("k").await.unwrap().is_none(), "what sled panicked on was set aside");
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

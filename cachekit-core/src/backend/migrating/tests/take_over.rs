//! Take-overs that end late, or without a word.

use super::*;
use crate::testing::Fault;
use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};

const OLDER: &[u8] = b"older";
const SOON: Duration = Duration::from_millis(10);

/// Applies the older value late, whatever becomes of the caller, as a store does that was sent it.
#[derive(Debug)]
struct Late {
    store: MemoryBackend,
    by: Duration,
    acknowledges: bool,
}

#[async_trait]
impl Backend for Late {
    fn name(&self) -> &'static str {
        "late"
    }
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.store.get(key).await
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        if value != OLDER {
            return self.store.set(key, value, options).await;
        }
        let (store, key, by) = (self.store.clone(), key.to_owned(), self.by);
        let applied = tokio::spawn(async move {
            sleep(by).await;
            store.set(&key, value, options).await
        });
        if self.acknowledges {
            return applied.await.unwrap();
        }
        Err(BackendError::new(ErrorKind::Timeout, "no answer").maybe_applied())
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.store.delete(key).await
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.store.health().await
    }
    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        self.store.exists(key).await
    }
    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        self.store.ttl(key).await
    }
}

/// Two keys that only the old store has, a backend whose new store is late, and that store.
async fn late(by: u64, acknowledges: bool, patience: u64) -> (Arc<dyn Backend>, MemoryBackend) {
    let (new, old) = (MemoryBackend::new(), MemoryBackend::new());
    for key in ["set", "deleted"] {
        put(&old, key, OLDER, 100).await;
    }
    let store = Late { store: new.clone(), by: Duration::from_millis(by), acknowledges };
    let factory = MigratingFactory::new(ScriptedFactory::with_backend(store), MemoryFactory::new(&old))
        .with_patience(Duration::from_millis(patience));
    (factory.build().await.unwrap(), new)
}

async fn replace(backend: &dyn Backend) {
    put(backend, "set", V, None).await;
    backend.delete("deleted").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_take_over_whose_caller_left_lands_before_the_next_write() {
    let (backend, new) = late(100, true, 200).await;
    for key in ["set", "deleted"] {
        assert!(timeout(SOON, backend.get(key)).await.is_err());
    }
    replace(&*backend).await;
    for _ in 0..2 {
        assert_eq!(new.get("set").await.unwrap().as_deref(), Some(V), "the store's own, which others read");
        assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(V));
        assert!(!backend.exists("deleted").await.unwrap() && new.get("deleted").await.unwrap().is_none());
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_over_that_lands_behind_a_write_is_not_read_and_is_removed() {
    let (backend, new) = late(300, true, 20).await;
    let start = Instant::now();
    assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(OLDER), "a read does not wait for it");
    assert_eq!(backend.get("deleted").await.unwrap().as_deref(), Some(OLDER));
    replace(&*backend).await;
    assert!(start.elapsed() <= Duration::from_millis(100), "neither does a write: {:?}", start.elapsed());
    assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(V));
    while start.elapsed() < Duration::from_secs(1) {
        assert_ne!(backend.get("set").await.unwrap().as_deref(), Some(OLDER));
        assert_eq!(backend.get("deleted").await.unwrap(), None);
        sleep(Duration::from_millis(1)).await;
    }
    assert!(new.is_empty());
    put(&*backend, "set", OLDER, None).await;
    assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(OLDER), "the same bytes may be set again");
}

#[tokio::test(start_paused = true)]
async fn one_that_lands_behind_a_write_is_removed_without_being_read() {
    let (backend, new) = late(300, true, 20).await;
    let _ = (backend.get("set").await.unwrap(), backend.get("deleted").await.unwrap());
    replace(&*backend).await;
    sleep(Duration::from_secs(1)).await;
    assert!(new.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_take_over_of_which_nobody_knows_whether_it_will_land_is_not_read_after_a_write() {
    let (backend, new) = late(300, false, 20).await;
    for key in ["set", "deleted"] {
        assert_eq!(backend.get(key).await.unwrap().as_deref(), Some(OLDER));
    }
    replace(&*backend).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(new.get("deleted").await.unwrap().as_deref(), Some(OLDER), "it has landed");
    assert_eq!(backend.ttl("deleted").await.unwrap(), TtlState::Missing);
    assert!(!backend.exists("set").await.unwrap() && backend.get("set").await.unwrap().is_none());
    assert!(new.is_empty());
    replace(&*backend).await;
    assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(V));
}

#[tokio::test(start_paused = true)]
async fn a_take_over_that_landed_without_a_word_is_an_entry_like_any_other() {
    let (backend, new) = late(300, false, 20).await;
    assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(OLDER));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(OLDER));
    put(&*backend, "set", V, None).await;
    put(&new, "set", OLDER, None).await;
    assert_eq!(backend.get("set").await.unwrap().as_deref(), Some(OLDER), "of another process");
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn a_runtime_that_stands_still_over_a_take_over_holds_up_no_write() {
    let (still, running) = (runtime(), runtime());
    let rig = running.block_on(Rig::new());
    running.block_on(put(&rig.old, "k", OLDER, 100));
    rig.new_faults.next(Op::Set, 1, Fault::Delay(Duration::from_millis(50)));
    assert!(still.block_on(async { timeout(SOON, rig.get("k")).await }).is_err());
    let write = async { timeout(Duration::from_secs(30), put(&*rig.backend, "k", V, None)).await };
    running.block_on(write).unwrap();
    assert_eq!(running.block_on(rig.get("k")).as_deref(), Some(V));
    still.block_on(async { sleep(Duration::from_millis(200)).await });
    assert_ne!(running.block_on(rig.get("k")).as_deref(), Some(OLDER));
}

#[test]
fn without_a_runtime_a_read_that_needs_the_old_store_says_so() {
    let rig = runtime().block_on(Rig::new());
    runtime().block_on(put(&rig.new, "new", V, None));
    runtime().block_on(put(&rig.old, "k", V, None));
    assert!(rig.backend.get("new").now_or_never().unwrap().is_ok());
    let error = rig.backend.get("k").now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
    let error = rig.backend.touch("k", None).now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
}

//! What every backend promises, where sled could break it.

use crate::{get, open, poll_once, set, ttl};
use cachekit_core::{BackendFactory, Bytes, ErrorKind, LockScope, TtlState};
use cachekit_sled::{Execution, SledConfig, SledFactory};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn capabilities_say_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    let can = backend.capabilities();
    assert!(can.batch() && can.clear() && can.persistent() && can.touch() && can.ttl() && !can.publish());
    assert_eq!(can.lock(), Some(LockScope::Process));
    assert_eq!((can.max_value_bytes(), can.ttl_slack()), (16 << 20, Duration::from_millis(1)));
    assert_eq!(backend.name(), "sled");
    assert_eq!(backend.publish("c", Bytes::new()).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(backend.subscribe("c").await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn the_operations_work_in_both_executions() {
    for execution in [Execution::Inline, Execution::SpawnBlocking] {
        let directory = tempfile::tempdir().unwrap();
        let config = SledConfig::new(directory.path()).with_execution(execution);
        let backend = SledFactory::new(config).build().await.unwrap();
        assert_eq!(get(&*backend, "k").await, None);
        set(&*backend, "k", b"").await;
        assert_eq!(get(&*backend, "k").await, Some(Bytes::new()));
        assert!(backend.exists("k").await.unwrap());
        assert_eq!(backend.ttl("k").await.unwrap(), TtlState::NoExpiry);
        assert!(backend.touch("k", Some(Duration::from_secs(60))).await.unwrap());
        assert!(
            matches!(backend.ttl("k").await.unwrap(), TtlState::Remaining(left) if left <= Duration::from_secs(60))
        );
        let health = backend.health().await.unwrap();
        assert!(
            health.details.iter().any(|(name, value)| name == "size_on_disk" && value.parse::<u64>().is_ok()),
            "{health:?}"
        );
        assert!(backend.delete("k").await.unwrap());
        assert!(!backend.delete("k").await.unwrap());
        set(&*backend, "p:1", b"1").await;
        backend.clear("p:").await.unwrap();
        assert!(!backend.exists("p:1").await.unwrap());
        assert_eq!(backend.clear("").await.unwrap_err().kind(), ErrorKind::KeyInvalid);
        assert_eq!(backend.get("").await.unwrap_err().kind(), ErrorKind::KeyInvalid);
        backend.set("z", Bytes::new(), ttl(Duration::ZERO)).await.unwrap_err();
    }
}

#[tokio::test]
async fn an_entry_ends_by_the_real_clock_too() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    backend.set("k", Bytes::from_static(b"v"), ttl(Duration::from_nanos(1))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert_eq!(get(&*backend, "k").await, None);
    assert!(!backend.delete("k").await.unwrap());
}

#[tokio::test]
async fn batches_answer_each_key_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let config = SledConfig::new(directory.path()).with_max_value_bytes(100_000);
    let backend = SledFactory::new(config).build().await.unwrap();
    let value = |byte: u8, bytes: usize| Bytes::from(vec![byte; bytes]);
    let entries = [
        ("a", value(1, 10)),
        ("", value(2, 10)),
        ("b", value(3, 100_001)),
        ("c", value(4, 100_000)),
        ("a", value(5, 0)),
    ];
    let stored = backend.set_many(&entries, ttl(Duration::from_secs(60))).await;
    let kinds: Vec<_> = stored.iter().map(|result| result.as_ref().err().map(|error| error.kind())).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::KeyInvalid), Some(ErrorKind::TooLarge), None, None]);

    let found = backend.get_many(&["c", "missing", "a", "", "a", "b"]).await;
    let found: Vec<_> = found.into_iter().map(|result| result.map(|value| value.map(|value| value.len()))).collect();
    assert!(matches!(found[..], [Ok(Some(100_000)), Ok(None), Ok(Some(0)), Err(_), Ok(Some(0)), Ok(None)]));

    let deleted = backend.delete_many(&["a", "missing", "a", "", "c"]).await;
    assert!(matches!(deleted[..], [Ok(true), Ok(false), Ok(false), Err(_), Ok(true)]));
    assert!(backend.get_many(&[]).await.is_empty());
    assert!(backend.set_many(&[], ttl(Duration::ZERO)).await.is_empty());
    assert!(backend.delete_many(&[]).await.is_empty());
    let refused = backend.set_many(&[("a", Bytes::new()), ("b", Bytes::new())], ttl(Duration::ZERO)).await;
    assert!(refused.iter().all(|result| result.as_ref().unwrap_err().kind() == ErrorKind::TtlInvalid));
}

#[tokio::test]
async fn locks_and_entries_of_a_key_do_not_touch_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (open(directory.path()).await, open(directory.path()).await);
    set(&*one, "k", b"v").await;
    let token = one.try_lock("k", Duration::from_secs(60)).await.unwrap().unwrap();
    assert!(two.try_lock("k", Duration::from_secs(60)).await.unwrap().is_none(), "the database is the same");
    assert!(two.delete("k").await.unwrap());
    assert!(one.extend(&token, Duration::from_secs(60)).await.unwrap());
    assert_eq!(get(&*one, "k").await, None);
    assert!(one.unlock(&token).await.unwrap());
    assert!(two.try_lock("k", Duration::from_millis(99)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_keys_do_not_mix_and_overwrites_are_never_torn() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    let tasks: Vec<_> = (0..12_u8)
        .map(|task| {
            let backend = backend.clone();
            tokio::spawn(async move {
                let own = format!("own{task}");
                for round in 0..15_usize {
                    let bytes = [10, 150_000, 61_000][round % 3] + usize::from(task);
                    set(&*backend, &own, &vec![task; bytes]).await;
                    set(&*backend, "shared", &vec![task; bytes]).await;
                    let mine = get(&*backend, &own).await.unwrap();
                    assert!(mine.len() == bytes && mine.iter().all(|byte| *byte == task));
                    let shared = get(&*backend, "shared").await.expect("it was set and never deleted");
                    let writer = shared[0];
                    assert!(shared.iter().all(|byte| *byte == writer), "a mixture");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_write_never_lands_on_top_of_a_later_one() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    for round in 0..200_u32 {
        let abandoned = Bytes::from(vec![0xEE; if round % 2 == 0 { 10 } else { 130_000 }]);
        let entries = [("k", abandoned.clone()), ("other", abandoned.clone()), ("k", abandoned.clone())];
        match round % 4 {
            0 => poll_once(backend.set("k", abandoned, ttl(Duration::from_secs(60)))),
            1 => poll_once(backend.set_many(&entries, ttl(Duration::from_secs(60)))),
            2 => poll_once(backend.delete("k")),
            _ => poll_once(backend.clear("k")),
        }
        set(&*backend, "k", &round.to_be_bytes()).await;
        for _ in 0..3 {
            assert_eq!(get(&*backend, "k").await.unwrap()[..], round.to_be_bytes(), "round {round}");
            tokio::task::yield_now().await;
        }
    }
    // Everything works, and nobody kept a permit: more operations at once than there are permits.
    let all: Vec<_> = (0..64)
        .map(|i| {
            let backend = backend.clone();
            tokio::spawn(async move { set(&*backend, &format!("after{i}"), b"v").await })
        })
        .collect();
    for one in all {
        one.await.unwrap();
    }
}

#[tokio::test]
async fn a_wrapper_of_arcs_is_a_backend_too() {
    let directory = tempfile::tempdir().unwrap();
    let backend: Arc<dyn cachekit_core::Backend> = Arc::new(open(directory.path()).await);
    set(&*backend, "k", b"v").await;
    assert!(backend.exists("k").await.unwrap());
}

//! What no caller sees: which rows there are.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::store::Store;
use crate::tables::{ENDS, ENTRIES, MOST_SWEPT};
use redb::{ReadableDatabase, ReadableTableMetadata};
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOUR: Option<Duration> = Some(Duration::from_secs(3_600));

/// How many entries and ends there are.
fn rows(store: &Store) -> (u64, u64) {
    let count = |database: &redb::Database| {
        let transaction = database.begin_read()?;
        Ok((transaction.open_table(ENTRIES)?.len()?, transaction.open_table(ENDS)?.len()?))
    };
    store.run(count).unwrap()
}

#[test]
fn every_end_belongs_to_an_entry() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("cache.redb"), 1 << 20).unwrap();
    let waits = Arc::new(());
    let caller = Arc::downgrade(&waits);
    let set = |key: &str, ttl| store.write(&caller, |tables| tables.set(key.as_bytes(), b"v", ttl)).unwrap();
    for _ in 0..20 {
        set("a", HOUR);
        set("ab", HOUR);
        set("b", None);
    }
    assert_eq!(rows(&store), (3, 2));
    store.write(&caller, |tables| tables.touch(b"b", HOUR)).unwrap();
    assert_eq!(rows(&store), (3, 3));
    set("ab", None);
    assert_eq!(rows(&store), (3, 2));
    store.write(&caller, |tables| tables.clear(b"a")).unwrap();
    assert_eq!(rows(&store), (1, 1));
    store.write(&caller, |tables| tables.delete(b"b")).unwrap();
    assert_eq!(rows(&store), (0, 0));
}

#[test]
fn the_sweep_removes_what_has_expired_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("cache.redb"), 1 << 20).unwrap();
    let waits = Arc::new(());
    let caller = Arc::downgrade(&waits);
    let fill = |tables: &mut crate::tables::Tables| {
        for i in 0..MOST_SWEPT + 10 {
            tables.set(format!("short {i}").as_bytes(), b"v", Some(Duration::from_millis(1)))?;
        }
        tables.set(b"long", b"v", HOUR)?;
        tables.set(b"for ever", b"v", None)
    };
    store.write(&caller, fill).unwrap();
    // By the thread that does so every second.
    let start = Instant::now();
    while rows(&store) != (2, 1) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", rows(&store));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_write_whose_caller_has_gone_away_does_not_happen() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("cache.redb"), 1 << 20).unwrap();
    let gone = Arc::downgrade(&Arc::new(()));
    assert!(store.write(&gone, |tables| tables.set(b"k", b"v", None)).is_err());
    assert_eq!(rows(&store), (0, 0));
}

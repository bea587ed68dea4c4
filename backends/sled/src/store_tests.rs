use super::*;
use crate::lifetime::manual::ManualTimes;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const MAX: usize = 16 << 20;
const SECOND: Duration = Duration::from_secs(1);

struct Opened {
    store: Store,
    time: Arc<ManualTimes>,
    _directory: tempfile::TempDir,
}

fn opened() -> Opened {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualTimes::new());
    let store = Store::open(directory.path(), 8 << 20, SECOND, time.clone()).unwrap();
    Opened { store, time, _directory: directory }
}

impl Opened {
    fn set(&self, key: &str, value: &[u8], ttl: Option<Duration>) {
        self.store.set(key, value, ttl, MAX, &Cancel::default()).unwrap();
    }

    fn get(&self, key: &str) -> Option<Bytes> {
        self.store.get(key).unwrap()
    }

    /// How many rows there are: entries, chunks, rows of the index. The journal is empty between operations.
    fn rows(&self) -> [usize; 3] {
        count_rows(&self.store)
    }
}

fn count_rows(store: &Store) -> [usize; 3] {
    let mut counts = [0; 3];
    for row in store.tree.iter().keys() {
        counts[match row.unwrap()[0] {
            b'e' => 0,
            b'c' => 1,
            b'd' => 2,
            other => panic!("a row of kind {other}"),
        }] += 1;
    }
    counts
}

fn cancelled() -> Cancel {
    let cancel = Cancel::default();
    drop(cancel.on_drop());
    cancel
}

/// Not two chunks alike.
fn large(bytes: usize, salt: u8) -> Vec<u8> {
    (0..bytes).map(|i| u8::try_from((i / 1_000 + i) % 251).unwrap() ^ salt).collect()
}

#[test]
fn values_of_every_size_around_a_chunk_come_back() {
    let o = opened();
    let fits = ROW_BYTES - HEADER_BYTES - 1;
    for bytes in [0, 1, fits - 1, fits, fits + 1, ROW_BYTES, ROW_BYTES + 1, 2 * ROW_BYTES, 5 * ROW_BYTES + 7] {
        let value = large(bytes, 1);
        o.set("k", &value, None);
        assert!(o.get("k").as_deref() == Some(&value[..]), "{bytes}");
        let chunks = if bytes <= fits { 0 } else { bytes.div_ceil(ROW_BYTES) };
        assert_eq!(o.rows(), [1, chunks, 0], "{bytes}: what was there before left nothing behind");
    }
}

#[test]
fn the_largest_value_fits_and_a_larger_one_changes_nothing() {
    let o = opened();
    let value = large(MAX, 3);
    o.set("k", &value, None);
    assert!(o.get("k").as_deref() == Some(&value[..]));
    let error = o.store.set("k", &large(MAX + 1, 4), None, MAX, &Cancel::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(o.get("k").as_deref() == Some(&value[..]));
}

#[test]
fn keys_of_any_text_do_not_meet() {
    let o = opened();
    let long = "k".repeat(MAX_KEY_BYTES);
    let keys = ["a", "A", " a", "a ", "a\0", "a\r\nb", "\0", "c", "d", "e", "é", "e\u{301}", "😀", "%61", &long];
    for (i, key) in keys.iter().enumerate() {
        o.set(key, &large(70_000 + i, 0), Some(SECOND));
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(o.get(key).unwrap().len(), 70_000 + i, "{key:?}");
    }
    for key in ["", &format!("{long}k")] {
        for error in [
            o.store.get(key).unwrap_err(),
            o.store.exists(key).unwrap_err(),
            o.store.ttl(key).unwrap_err(),
            o.store.delete(key, &Cancel::default()).unwrap_err(),
            o.store.touch(key, None, &Cancel::default()).unwrap_err(),
            o.store.set(key, b"", None, MAX, &Cancel::default()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::KeyInvalid);
        }
    }
}

#[test]
fn an_entry_is_there_for_its_time_and_then_for_no_operation() {
    let o = opened();
    for value in [&b"small"[..], &large(200_000, 0)] {
        o.set("k", value, Some(SECOND));
        o.time.advance(SECOND - Duration::from_nanos(1));
        assert!(o.get("k").as_deref() == Some(value));
        assert!(o.store.exists("k").unwrap());
        o.time.advance(Duration::from_millis(1));
        assert_eq!(o.get("k"), None);
        assert!(!o.store.exists("k").unwrap());
        assert_eq!(o.store.ttl("k").unwrap(), TtlState::Missing);
        assert!(!o.store.touch("k", None, &Cancel::default()).unwrap());
        assert!(!o.store.delete("k", &Cancel::default()).unwrap());
        assert_eq!(o.rows(), [0, 0, 0]);
    }
}

#[test]
fn a_set_replaces_the_time_in_both_directions() {
    let o = opened();
    for (first, second, after, there) in [
        (Some(SECOND), None, 3_600, true),
        (None, Some(SECOND), 2, false),
        (Some(SECOND), Some(60 * SECOND), 30, true),
        (Some(60 * SECOND), Some(SECOND), 30, false),
    ] {
        o.set("k", b"1", first);
        o.set("k", b"2", second);
        o.time.advance(after * SECOND);
        assert_eq!(o.get("k").is_some(), there, "{first:?} {second:?}");
        o.store.sweep(10).unwrap();
        assert_eq!(o.get("k").is_some(), there, "{first:?} {second:?}");
    }
}

#[test]
fn a_zero_time_is_refused_and_changes_nothing() {
    let o = opened();
    o.set("k", b"old", None);
    for error in [
        o.store.set("k", b"new", Some(Duration::ZERO), MAX, &Cancel::default()).unwrap_err(),
        o.store.touch("k", Some(Duration::ZERO), &Cancel::default()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::TtlInvalid);
    }
    assert_eq!(o.get("k").as_deref(), Some(&b"old"[..]));
    assert_eq!(o.store.ttl("k").unwrap(), TtlState::NoExpiry);
}

#[test]
fn a_wall_clock_that_jumps_back_extends_no_reported_time_and_loses_nothing() {
    let o = opened();
    o.set("k", b"v", Some(60 * SECOND));
    o.time.set_wall(SECOND);
    assert_eq!(o.get("k").as_deref(), Some(&b"v"[..]));
    assert_eq!(o.store.ttl("k").unwrap(), TtlState::Remaining(60 * SECOND));
    assert_eq!(o.store.sweep(10).unwrap(), 0);
    o.set("k", b"w", Some(60 * SECOND));
    o.time.advance(61 * SECOND);
    assert_eq!(o.get("k"), None, "what is written after the jump lives by the new time");
}

#[test]
fn a_wall_clock_that_jumps_ahead_ends_what_has_an_end() {
    let o = opened();
    o.set("never", b"v", None);
    o.set("k", b"v", Some(60 * SECOND));
    o.time.set_wall(Duration::MAX);
    assert_eq!(o.get("k"), None);
    assert!(o.get("never").is_some());
    assert_eq!(o.store.sweep(10).unwrap(), 1);
    assert_eq!(o.rows(), [1, 0, 0]);
    o.set("k", b"w", Some(SECOND));
    assert!(o.get("k").is_some(), "no room left for a deadline is for ever");
}

#[test]
fn a_touch_changes_the_time_only() {
    let o = opened();
    for value in [&b"small"[..], &large(200_000, 0)] {
        o.set("k", value, Some(SECOND));
        assert!(o.store.touch("k", Some(10 * SECOND), &Cancel::default()).unwrap());
        o.time.advance(5 * SECOND);
        o.store.sweep(10).unwrap();
        assert!(o.get("k").as_deref() == Some(value));
        assert_eq!(o.rows()[2], 1);
        assert!(o.store.touch("k", None, &Cancel::default()).unwrap());
        assert_eq!(o.store.ttl("k").unwrap(), TtlState::NoExpiry);
        assert_eq!(o.rows()[2], 0);
        assert!(o.get("k").as_deref() == Some(value));
    }
    assert!(!o.store.touch("missing", None, &Cancel::default()).unwrap());
}

#[test]
fn the_sweep_removes_what_is_over_a_few_at_a_time_and_nothing_else() {
    let o = opened();
    for i in 0..25 {
        o.set(&format!("over{i}"), &large(if i % 5 == 0 { 100_000 } else { 10 }, 0), Some(SECOND));
        o.set(&format!("later{i}"), b"v", Some(60 * SECOND));
        o.set(&format!("never{i}"), b"v", None);
    }
    o.time.advance(2 * SECOND);
    assert_eq!([o.store.sweep(10), o.store.sweep(10), o.store.sweep(10)].map(Result::unwrap), [10, 10, 5]);
    assert_eq!(o.store.sweep(10).unwrap(), 0);
    assert_eq!(o.rows(), [50, 0, 25]);
}

#[test]
fn an_index_row_that_outlived_its_entry_removes_no_other() {
    let o = opened();
    o.set("k", b"v", Some(60 * SECOND));
    let now_ms = u64::try_from(o.time.wall().as_millis()).unwrap();
    o.store.tree.insert(rows::due(now_ms - 1, "k"), &[]).unwrap();
    o.store.tree.insert(rows::due(now_ms - 1, "gone"), &[]).unwrap();
    o.store.tree.insert([b'd', 0], &[]).unwrap();
    assert_eq!(o.store.sweep(10).unwrap(), 3);
    assert!(o.get("k").is_some());
    assert_eq!(o.rows(), [1, 0, 1]);
}

#[test]
fn clear_removes_the_prefix_only_with_all_its_rows() {
    let o = opened();
    for i in 0..ROWS_PER_PASS + 5 {
        o.set(&format!("a:{i}"), b"v", Some(SECOND));
    }
    o.set("a:large", &large(300_000, 0), Some(SECOND));
    for other in ["a", "a;", "b:1", "A:1", "a\0:", "*"] {
        o.set(other, b"v", None);
    }
    o.store.clear("a:", &Cancel::default()).unwrap();
    assert_eq!(o.rows(), [6, 0, 0]);
    o.store.clear("*", &Cancel::default()).unwrap();
    assert_eq!(o.rows(), [5, 0, 0]);
    assert_eq!(o.store.clear("", &Cancel::default()).unwrap_err().kind(), ErrorKind::KeyInvalid);
}

#[test]
fn an_abandoned_job_changes_nothing() {
    let o = opened();
    o.set("k", b"v", Some(SECOND));
    let cancel = cancelled();
    o.store.set("k", b"w", None, MAX, &cancel).unwrap();
    o.store.delete("k", &cancel).unwrap();
    o.store.touch("k", None, &cancel).unwrap();
    o.store.clear("k", &cancel).unwrap();
    assert_eq!(o.get("k").as_deref(), Some(&b"v"[..]));
    assert_eq!(o.rows(), [1, 0, 1]);
    assert!(matches!(o.store.ttl("k").unwrap(), TtlState::Remaining(_)));
}

#[test]
fn a_damaged_row_is_a_miss_and_is_removed() {
    let value = large(150_000, 0);
    let spoil: [fn(&Store); 4] = [
        |store| drop(store.tree.insert(rows::entry("k"), &b"\x01\x00nonsense"[..]).unwrap()),
        // A chunk of the right size with one wrong byte.
        |store| {
            let (row, chunk) = store.tree.scan_prefix(b"c").next().unwrap().unwrap();
            let mut chunk = chunk.to_vec();
            chunk[7] ^= 1;
            store.tree.insert(row, chunk).unwrap();
        },
        |store| {
            let row = store.tree.scan_prefix(b"c").keys().next_back().unwrap().unwrap();
            store.tree.remove(row).unwrap();
        },
        // The row of another key.
        |store| {
            let row = store.tree.get(rows::entry("other")).unwrap().unwrap();
            store.tree.insert(rows::entry("k"), row).unwrap();
        },
    ];
    for (i, spoil) in spoil.iter().enumerate() {
        let o = opened();
        o.set("other", b"other value", None);
        o.set("k", &value, Some(SECOND));
        spoil(&o.store);
        assert!(o.get("k").is_none(), "{i}");
        assert!(o.store.tree.get(rows::entry("k")).unwrap().is_none(), "{i}");
        o.set("k", &value, None);
        assert!(o.get("k").as_deref() == Some(&value[..]), "{i}: usable again");
        assert_eq!(o.get("other").as_deref(), Some(&b"other value"[..]));
    }
}

#[test]
fn overwrites_are_never_torn_never_missed_and_leave_nothing_behind() {
    let o = opened();
    let sizes = [10, 70_000, 200_000, 130_000];
    let set = |writer: u8, round: usize| o.set("k", &vec![writer; sizes[round % 4] + round], Some(60 * SECOND));
    set(0, 0);
    let writing = AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for writer in 1..=3 {
            let (set, writing) = (&set, &writing);
            scope.spawn(move || {
                (0..60).for_each(|round| set(writer, round));
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while writing.load(Ordering::SeqCst) > 0 {
                    let value = o.get("k").expect("a value was always there");
                    assert!(value.iter().all(|byte| *byte == value[0]), "a mixture");
                }
            });
        }
    });
    let chunks = match o.get("k").unwrap().len() {
        bytes if bytes < 1_000 => 0,
        bytes => bytes.div_ceil(ROW_BYTES),
    };
    assert_eq!(o.rows(), [1, chunks, 1]);
}

#[test]
fn an_opener_removes_the_chunks_that_belong_to_nobody() {
    let o = opened();
    let Opened { store, .. } = &o;
    let chunks = |store: &Store| store.manifest(&large(150_000, 0)).chunks;
    let write = |chunks: Chunks| {
        (0..chunks.count).for_each(|index| drop(store.tree.insert(rows::chunk(chunks.write, index), b"x").unwrap()));
    };
    for committed in [false, true] {
        o.set("k", &large(200_000, 1), None);
        let row = store.tree.get(rows::entry("k")).unwrap().unwrap();
        let in_use = Record::decode("k", &row).unwrap().chunks().unwrap();
        let other = chunks(store);
        write(other);
        let (added, gone) = if committed { (in_use, other) } else { (other, in_use) };
        let journal = Journal { added: Some(added), gone: Some(gone), key: "k" };
        store.tree.insert(rows::journal(other.write), journal.encode()).unwrap();
        store.tree.insert([rows::JOURNAL[0], 0], b"damaged").unwrap();
        recover(&store.tree).unwrap();
        assert_eq!(o.rows(), [1, 200_000_usize.div_ceil(ROW_BYTES), 0], "committed: {committed}");
        assert!(o.get("k").unwrap() == large(200_000, 1));
    }
    let orphan = chunks(store);
    write(orphan);
    let journal = Journal { added: Some(orphan), gone: None, key: "never set" };
    store.tree.insert(rows::journal(orphan.write), journal.encode()).unwrap();
    recover(&store.tree).unwrap();
    assert_eq!(o.rows(), [1, 200_000_usize.div_ceil(ROW_BYTES), 0]);
}

#[test]
fn a_panic_is_an_error_and_then_the_store_is_closed() {
    let o = opened();
    o.set("k", b"v", None);
    let error = o.store.attempt::<()>(Doing::Write, || panic!("deep inside")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.may_be_applied() && error.context().contains("deep inside"), "{error}");
    assert_eq!(o.store.get("k").unwrap_err().kind(), ErrorKind::Closed);
    assert!(o.store.failure().is_some());
}

#[test]
fn a_failed_write_closes_the_store_and_a_failed_read_does_not() {
    let o = opened();
    let full = || Err(Failure::Sled(sled::Error::Io(std::io::ErrorKind::StorageFull.into())));
    assert_eq!(o.store.attempt::<()>(Doing::Read, full).unwrap_err().kind(), ErrorKind::OutOfSpace);
    let damaged = || Err(Failure::Sled(sled::Error::Corruption { at: None, bt: () }));
    assert_eq!(o.store.attempt::<()>(Doing::Write, damaged).unwrap_err().kind(), ErrorKind::Decode);
    assert_eq!(o.get("k"), None);
    assert_eq!(o.store.attempt::<()>(Doing::Write, full).unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(o.store.get("k").unwrap_err().kind(), ErrorKind::Closed);
}

const KILL_KEYS: usize = 12;

/// A value that says which key and version it is of, all over.
fn marked(key: usize, version: usize) -> Vec<u8> {
    let bytes = [300, 20_000, 100_000, 300_000][(key + version) % 4];
    format!("<{key:03}/{version:09}>").bytes().cycle().take(bytes).collect()
}

#[test]
#[ignore = "the child of the next test, which kills it"]
fn child_that_writes_until_it_is_killed() {
    let path = PathBuf::from(std::env::var_os("CACHEKIT_SLED_TEST_PATH").unwrap());
    let store = Store::open(&path, 8 << 20, Duration::from_millis(20), Arc::new(ManualTimes::new())).unwrap();
    let first: usize = std::env::var("CACHEKIT_SLED_TEST_FIRST").unwrap().parse().unwrap();
    for version in first.. {
        for key in 0..KILL_KEYS {
            let ttl = (key % 2 == 0).then_some(3_600 * SECOND);
            store.set(&format!("key{key}"), &marked(key, version), ttl, MAX, &Cancel::default()).unwrap();
        }
        if version % 5 == 0 {
            store.flush().unwrap();
            println!("flushed {version}");
        }
    }
}

#[test]
fn kill_9_in_the_middle_of_writes_loses_at_most_what_was_not_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let mut flushed = 0;
    let mut blobs_modified = None;
    for round in 0..10_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::child_that_writes_until_it_is_killed", "--ignored", "--nocapture"])
            .env("CACHEKIT_SLED_TEST_PATH", directory.path())
            .env("CACHEKIT_SLED_TEST_FIRST", (flushed + 1_000).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let versions =
            lines.filter_map(|line| line.split_once("flushed ").map(|(_, version)| version.parse().unwrap()));
        flushed = versions.take(1 + usize::try_from(round).unwrap() % 3).last().expect("the child wrote");
        // So that the kill hits another part of the writes each round.
        std::thread::sleep(Duration::from_millis(round * 3));
        child.kill().unwrap();
        child.wait().unwrap();

        let store = Store::open(directory.path(), 8 << 20, SECOND, Arc::new(ManualTimes::new())).unwrap();
        let mut chunks = 0;
        for key in 0..KILL_KEYS {
            let value = store.get(&format!("key{key}")).unwrap().expect("it was flushed");
            let version: usize = std::str::from_utf8(&value[5..14]).unwrap().parse().unwrap();
            assert!(value == marked(key, version), "round {round}: key{key} holds something else");
            assert!(version >= flushed, "round {round}: key{key} is at {version}, flushed was {flushed}");
            chunks += if value.len() > ROW_BYTES { value.len().div_ceil(ROW_BYTES) } else { 0 };
        }
        let [entries, chunk_rows, index_rows] = count_rows(&store);
        assert_eq!([entries, chunk_rows], [KILL_KEYS, chunks], "round {round}: no chunk belongs to nobody");
        // The clock of the children stands still, so every version of a key has the same row in the index.
        assert_eq!(index_rows, KILL_KEYS / 2, "round {round}");

        let blobs = directory.path().join("blobs");
        assert_eq!(std::fs::read_dir(&blobs).unwrap().count(), 0, "round {round}: sled never removes them");
        let modified = blobs.metadata().unwrap().modified().unwrap();
        assert_eq!(*blobs_modified.get_or_insert(modified), modified, "round {round}: there was a file");
        let disk = directory.path().join("db").metadata().unwrap().len();
        println!("round {round}: {} KiB on disk", disk >> 10);
        assert!(disk < 48 << 20, "round {round}: {disk} bytes on disk");
    }
}

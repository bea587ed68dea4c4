use super::*;
use crate::failure::{Failure, Why};
use crate::lifetime::manual::ManualTimes;
use std::fs::File;
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
    opened_with(|config| config)
}

fn opened_with(change: impl FnOnce(SledConfig) -> SledConfig) -> Opened {
    let directory = tempfile::tempdir().unwrap();
    let time = Arc::new(ManualTimes::new());
    let config = change(SledConfig::new(directory.path()).with_cache_capacity(8 << 20).with_flush_every(SECOND));
    let store = open(&config, &time);
    Opened { store, time, _directory: directory }
}

/// What the database does, without its threads.
fn open(config: &SledConfig, time: &Arc<ManualTimes>) -> Store {
    let directory = Directory::lock(config.path()).unwrap();
    let table = Table::open(&directory.rows().unwrap(), config).unwrap();
    let store = Store::new(directory, table, config, time.clone());
    store.usage.counted_until(None);
    store
}

impl Opened {
    fn set(&self, key: &str, value: &[u8], ttl: Option<Duration>) {
        self.store.set(key, value, ttl, MAX, &Cancel::default()).unwrap();
    }

    fn get(&self, key: &str) -> Option<Bytes> {
        self.store.get(key).unwrap()
    }

    /// How much there is: entries, files of values, rows of the index.
    fn counts(&self) -> [usize; 3] {
        count(&self.store)
    }

    fn tree(&self) -> sled::Tree {
        self.store.tables().current.tree().clone()
    }
}

fn count(store: &Store) -> [usize; 3] {
    // Those of replaced values go now.
    if store.failed.get().is_none() {
        store.flush().unwrap();
    }
    let mut counts = [0, files(store).len(), 0];
    for row in store.tables().current.tree().iter().keys() {
        counts[match row.unwrap()[0] {
            b'e' => 0,
            b'd' => 2,
            other => panic!("a row of kind {other}"),
        }] += 1;
    }
    counts
}

fn files(store: &Store) -> Vec<PathBuf> {
    let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries(store.directory.values()).flat_map(entries).collect()
}

fn cancelled() -> Cancel {
    let cancel = Cancel::default();
    drop(cancel.on_drop());
    cancel
}

/// Not two parts alike.
fn large(bytes: usize, salt: u8) -> Vec<u8> {
    (0..bytes).map(|i| u8::try_from((i / 1_000 + i) % 251).unwrap() ^ salt).collect()
}

#[test]
fn values_of_every_size_around_a_row_come_back() {
    let o = opened();
    let fits = ROW_BYTES - HEADER_BYTES - 1;
    for bytes in [0, 1, fits - 1, fits, fits + 1, ROW_BYTES, ROW_BYTES + 1, 2 * ROW_BYTES, 5 * ROW_BYTES + 7] {
        let value = large(bytes, 1);
        o.set("k", &value, None);
        assert!(o.get("k").as_deref() == Some(&value[..]), "{bytes}");
        let files = usize::from(bytes > fits);
        assert_eq!(o.counts(), [1, files, 0], "{bytes}: what was there before left nothing behind");
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
        assert_eq!(o.counts(), [0, 0, 0]);
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
    assert_eq!(o.counts(), [1, 0, 0]);
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
        assert_eq!(o.counts()[2], 1);
        assert!(o.store.touch("k", None, &Cancel::default()).unwrap());
        assert_eq!(o.store.ttl("k").unwrap(), TtlState::NoExpiry);
        assert_eq!(o.counts()[2], 0);
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
    assert_eq!(o.counts(), [50, 0, 25]);
}

#[test]
fn an_index_row_that_outlived_its_entry_removes_no_other() {
    let o = opened();
    o.set("k", b"v", Some(60 * SECOND));
    let now_ms = u64::try_from(o.time.wall().as_millis()).unwrap();
    o.tree().insert(rows::due(now_ms - 1, "k"), &[]).unwrap();
    o.tree().insert(rows::due(now_ms - 1, "gone"), &[]).unwrap();
    o.tree().insert([b'd', 0], &[]).unwrap();
    assert_eq!(o.store.sweep(10).unwrap(), 3);
    assert!(o.get("k").is_some());
    assert_eq!(o.counts(), [1, 0, 1]);
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
    assert_eq!(o.counts(), [6, 0, 0]);
    o.store.clear("*", &Cancel::default()).unwrap();
    assert_eq!(o.counts(), [5, 0, 0]);
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
    assert_eq!(o.counts(), [1, 0, 1]);
    assert!(matches!(o.store.ttl("k").unwrap(), TtlState::Remaining(_)));
}

#[test]
fn a_damaged_file_is_a_miss_and_is_removed() {
    let value = large(150_000, 0);
    let spoil: [fn(&Path); 4] = [
        |file| std::fs::remove_file(file).unwrap(),
        |file| std::fs::write(file, b"").unwrap(),
        |file| File::options().write(true).open(file).unwrap().set_len(149_999).unwrap(),
        |file| {
            let mut bytes = std::fs::read(file).unwrap();
            bytes[70_000] ^= 1;
            std::fs::write(file, bytes).unwrap();
        },
    ];
    for (i, spoil) in spoil.iter().enumerate() {
        let o = opened();
        o.set("other", b"other value", None);
        o.set("k", &value, Some(SECOND));
        spoil(&files(&o.store)[0]);
        assert!(o.get("k").is_none(), "{i}");
        assert_eq!(o.counts(), [1, 0, 0], "{i}");
        o.set("k", &value, None);
        assert!(o.get("k").as_deref() == Some(&value[..]), "{i}: usable again");
        assert_eq!(o.get("other").as_deref(), Some(&b"other value"[..]));
    }
}

#[test]
fn a_damaged_row_is_a_miss_and_then_the_database_is_not_to_be_used_again() {
    let spoil: [fn(&sled::Tree); 2] = [
        |tree| drop(tree.insert(rows::entry("k"), &b"\x01\x00nonsense"[..]).unwrap()),
        // The row of another key.
        |tree| {
            let row = tree.get(rows::entry("other")).unwrap().unwrap();
            tree.insert(rows::entry("k"), row).unwrap();
        },
    ];
    for spoil in spoil {
        let o = opened();
        o.set("other", b"other value", None);
        o.set("k", b"value", Some(SECOND));
        spoil(&o.tree());
        assert!(o.get("k").is_none());
        assert_eq!(o.store.get("k").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(o.store.failure().unwrap().why, Why::Damage);
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
    let files = usize::from(o.get("k").unwrap().len() > ROW_BYTES);
    assert_eq!(o.counts(), [1, files, 1]);
}

#[test]
fn a_panic_is_an_error_and_then_the_store_is_closed() {
    let o = opened();
    o.set("k", b"v", None);
    let error = o.store.attempt::<()>(Doing::Write, |_| panic!("deep inside")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.may_be_applied() && error.context().contains("deep inside"), "{error}");
    assert_eq!(o.store.get("k").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(o.store.failure().unwrap().why, Why::Damage);
}

#[test]
fn a_failed_write_closes_the_store_a_failed_read_does_not_and_damage_always_does() {
    type Attempt = fn() -> Result<(), Failure>;
    let broken: Attempt = || Err(Failure::Sled(sled::Error::Io(std::io::ErrorKind::BrokenPipe.into())));
    let damaged: Attempt = || Err(Failure::Sled(sled::Error::Corruption { at: None, bt: () }));
    for (doing, attempt, kind, why) in [
        (Doing::Read, broken, ErrorKind::Unavailable, None),
        (Doing::Write, broken, ErrorKind::Unavailable, Some(Why::Other)),
        (Doing::Read, damaged, ErrorKind::Decode, Some(Why::Damage)),
        (Doing::Write, damaged, ErrorKind::Decode, Some(Why::Damage)),
    ] {
        let o = opened();
        assert_eq!(o.store.attempt(doing, |_| attempt()).unwrap_err().kind(), kind);
        assert_eq!(o.store.failure().map(|failed| failed.why), why);
        assert_eq!(o.store.get("k").err().map(|error| error.kind()), why.map(|_| ErrorKind::Closed));
    }
}

#[test]
fn when_sled_had_no_room_left_reads_go_on_until_there_is_enough() {
    let full = |_: &Call<'_>| Err::<(), _>(Failure::Sled(sled::Error::Io(std::io::ErrorKind::StorageFull.into())));
    for (min_free, kind) in [(u64::MAX, ErrorKind::OutOfSpace), (0, ErrorKind::Closed)] {
        let o = opened_with(|config| config.with_min_free_bytes(Some(0)));
        o.set("k", b"v", None);
        let o = Opened { store: Store { space: Space::new(o.store.path(), Some(min_free)), ..o.store }, ..o };
        assert_eq!(o.store.attempt(Doing::Write, full).unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(o.get("k").as_deref(), Some(&b"v"[..]));
        assert_eq!(o.store.delete("k", &Cancel::default()).unwrap_err().kind(), kind);
        assert_eq!(o.store.failure().is_some(), kind == ErrorKind::Closed);
    }
}

#[test]
fn the_budget_is_kept_by_removing_what_ends_soonest_and_then_what_has_no_end() {
    let o = opened_with(|config| config.with_max_bytes(1 << 20));
    for i in 0..100 {
        o.set(&format!("never{i:03}"), &large(2_000, 0), None);
        o.set(&format!("ends{i:03}"), &large(2_000, 0), Some((200 - i) * SECOND));
    }
    let left = |prefix: &str| (0..100).filter(|i| o.get(&format!("{prefix}{i:03}")).is_some()).collect::<Vec<_>>();
    o.set("large", &large(650_000, 0), None);
    assert!(o.store.make_room(None, 1_000).unwrap());
    assert!(o.store.usage.total() <= 1 << 20);
    assert_eq!(left("never").len(), 100);
    let ends = left("ends");
    assert!((50..100).contains(&ends.len()) && ends[0] == 0, "those that were to go first went: {ends:?}");
    o.set("another", &large(650_000, 0), None);
    assert!(o.store.make_room(Some("another"), 1_000).unwrap());
    assert!(left("ends").is_empty() && o.get("another").is_some() && o.get("large").is_none());
    assert_eq!(left("never").len(), 100, "`large` was the first without an end");
    o.set("whole", &large(1 << 20, 0), None);
    assert!(o.store.make_room(Some("whole"), 1_000).unwrap());
    assert_eq!((o.counts()[0], o.get("whole").is_some()), (1, true), "what was just written stays");
}

#[test]
fn a_write_removes_a_few_at_most() {
    let o = opened_with(|config| config.with_max_bytes(1 << 20));
    for i in 0..200 {
        o.set(&format!("k{i}"), &large(5_000, 0), Some(60 * SECOND));
    }
    let before = o.counts()[0];
    o.set("large", &large(1_000_000, 0), None);
    assert_eq!(o.counts()[0], before + 1 - EVICTED_PER_WRITE);
    assert!(!o.store.make_room(None, EVICTED_PER_WRITE).unwrap(), "not done yet");
}

#[test]
fn what_is_counted_is_what_is_there_whatever_happened_to_it() {
    let o = opened();
    for round in 0..3 {
        for i in 0..20_u8 {
            let (key, salt) = (format!("k{i}"), i + round);
            let ttl = salt.is_multiple_of(2).then_some(60 * SECOND);
            o.set(&key, &large([10, 50_000][usize::from(salt) % 2], salt), ttl);
            if salt.is_multiple_of(3) {
                o.store.touch(&key, Some(9 * SECOND), &Cancel::default()).unwrap();
            }
            if salt.is_multiple_of(7) {
                o.store.delete(&key, &Cancel::default()).unwrap();
            }
        }
    }
    let counted = o.store.usage.total();
    assert!(counted > 400_000);
    let again = Usage::default();
    for row in o.tree().scan_prefix(b"e") {
        let (name, row) = row.unwrap();
        let key = rows::key_of_entry(&name).unwrap();
        again.count(Cost::of(key, &Record::decode(key, &row).unwrap()));
    }
    assert_eq!((counted, o.store.usage.rows()), (again.total(), again.rows()));
    o.store.clear("k", &Cancel::default()).unwrap();
    assert_eq!(o.store.usage.total(), 0);
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
    let config = SledConfig::new(path).with_cache_capacity(8 << 20).with_flush_every(Duration::from_millis(20));
    let store = open(&config, &Arc::new(ManualTimes::new()));
    let first: usize = std::env::var("CACHEKIT_SLED_TEST_FIRST").unwrap().parse().unwrap();
    let (_going, end) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        // In every other round the rows move from one database to the next all the time.
        if first.is_multiple_of(2) {
            let store = &store;
            scope.spawn(move || {
                loop {
                    let _ = store.rebuild(&end);
                }
            });
        }
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
    });
}

#[test]
fn kill_9_in_the_middle_of_writes_loses_at_most_what_was_not_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let mut databases = HashSet::new();
    let mut flushed = 0;
    for round in 0..10_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::child_that_writes_until_it_is_killed", "--ignored", "--nocapture"])
            .env("CACHEKIT_SLED_TEST_PATH", directory.path())
            .env(
                "CACHEKIT_SLED_TEST_FIRST",
                (flushed / 10 * 10 + 1_000 + usize::try_from(round).unwrap() % 2).to_string(),
            )
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

        let store = open(&SledConfig::new(directory.path()), &Arc::new(ManualTimes::new()));
        let mut large = 0;
        for key in 0..KILL_KEYS {
            let value = store.get(&format!("key{key}")).unwrap().expect("it was flushed");
            let version: usize = std::str::from_utf8(&value[5..14]).unwrap().parse().unwrap();
            assert!(value == marked(key, version), "round {round}: key{key} holds something else");
            assert!(version >= flushed, "round {round}: key{key} is at {version}, flushed was {flushed}");
            large += usize::from(value.len() > ROW_BYTES);
        }
        store.values.remove_orphans(|key, id| store.refers_to(key, id)).map_err(drop).unwrap();
        let [entries, files, index_rows] = count(&store);
        assert_eq!([entries, files], [KILL_KEYS, large], "round {round}: no file belongs to nobody");
        // The clock of the children stands still, so every version of a key has the same row in the index.
        assert_eq!(index_rows, KILL_KEYS / 2, "round {round}");

        let rows = store.tables().current.directory().to_owned();
        assert_eq!(std::fs::read_dir(rows.join("blobs")).unwrap().count(), 0, "round {round}: sled never removes them");
        let others = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(others.count(), 3, "round {round}: the lock, the values and one database");
        databases.insert(rows.clone());
        let disk = rows.join("db").metadata().unwrap().len();
        println!("round {round}: {} KiB on disk", disk >> 10);
        assert!(disk < 16 << 20, "round {round}: {disk} bytes on disk");
    }
    assert!(databases.len() > 1, "the rows moved");
}

//! A cache as one process has it, whose every answer is checked.

use crate::ledger::{Ledger, Value};
use crate::seen::{GRACE, OPERATION, Seen, Speed, function_error, of_deleted, of_fetched, of_stored};
use crate::skip_clock::SkipClock;
use cachekit::{Cache, Fetched, Health, Source, Stored};
use futures_util::future::join_all;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After this long, L1 forgets what it holds.
pub(crate) const L1_TTL: Duration = Duration::from_secs(60);

/// So many callers of one key at once.
const HERD: u64 = 8;

/// How long the function takes that they share.
const FUNCTION: Duration = Duration::from_millis(20);

/// What is asked of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `delete`
    Delete,
    /// `get`
    Get,
    /// `get_or_compute`, by way of `fetch`, which tells more
    GetOrCompute,
    /// `set`
    Set,
}

/// One process: a cache, and what it was told.
#[derive(Debug)]
pub struct Service {
    cache: Cache,
    clock: SkipClock,
    ledger: Arc<Ledger>,
    /// What building may take on top, while the backend is not built.
    build_bound: Duration,
    value_bytes: usize,
    /// The oldest version of a key that may be served.
    oldest: Mutex<HashMap<String, u64>>,
}

impl Service {
    pub(crate) fn new(
        cache: Cache,
        clock: SkipClock,
        ledger: Arc<Ledger>,
        build_bound: Duration,
        value_bytes: usize,
    ) -> Self {
        Self { cache, clock, ledger, build_bound, value_bytes, oldest: Mutex::default() }
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// `ready` once the backend is built; otherwise why not: `failed (unavailable)`.
    #[must_use]
    pub fn backend(&self) -> String {
        let l2 = self.cache.health().l2.expect("there is a backend");
        match l2.last_error {
            Some(error) => format!("{} ({error})", l2.status),
            None => l2.status.to_owned(),
        }
    }

    /// One call, while nobody else uses this cache.
    pub async fn ask(&self, op: Op, key: &str) -> Seen {
        let before = self.cache.health();
        let mut seen = self.ask_in_a_crowd(op, key).await;
        if op == Op::Get {
            seen.words += &news(&before, &self.cache.health());
        }
        seen
    }

    /// One call, while others use this cache: a `get` does not know why it missed.
    pub async fn ask_in_a_crowd(&self, op: Op, key: &str) -> Seen {
        let bound = self.bound();
        let start = Instant::now();
        let words = match op {
            Op::Delete => self.delete(key).await,
            Op::Get => if self.get(key).await { "hit" } else { "miss" }.to_owned(),
            Op::GetOrCompute => of_fetched(&self.fetch(key).await),
            Op::Set => of_stored(self.set(key).await),
        };
        let took = start.elapsed();
        assert!(took < bound, "a {op:?} of `{key}` took {took:?} ({words})");
        Seen { words, speed: Speed::of(took) }
    }

    /// What a call may take.
    fn bound(&self) -> Duration {
        match self.backend().as_str() {
            "ready" => OPERATION + GRACE,
            _ => OPERATION + GRACE + self.build_bound,
        }
    }

    /// A new value for a key.
    pub async fn set(&self, key: &str) -> Stored {
        let value = self.ledger.issue(key, self.value_bytes);
        let version = value.version();
        let stored = self.cache.set(key, value).await.expect("a backend in trouble is no error of a set");
        self.serve_no_older(key, version);
        stored
    }

    async fn delete(&self, key: &str) -> String {
        let newer = self.ledger.latest() + 1;
        let deleted = self.cache.delete(key).await;
        self.serve_no_older(key, newer);
        of_deleted(&deleted)
    }

    /// Whether there was a value.
    async fn get(&self, key: &str) -> bool {
        let oldest = self.oldest(key);
        let value: Option<Value> = self.cache.get(key).await.expect("a backend in trouble is no error of a get");
        let Some(value) = value else { return false };
        self.ledger.check(key, &value, oldest);
        true
    }

    /// A value that was there, or what the function makes: then it has run once.
    pub async fn fetch(&self, key: &str) -> Fetched<Value> {
        let (oldest, runs) = (self.oldest(key), AtomicU64::new(0));
        let function = || async {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(self.ledger.issue(key, self.value_bytes))
        };
        let fetched = self.cache.fetch(key, function).await.expect("the function cannot fail");
        self.ledger.check(key, &fetched.value, oldest);
        let wanted = u64::from(fetched.source == Source::Computed);
        assert_eq!(runs.load(Ordering::SeqCst), wanted, "runs of the function for `{key}`");
        fetched
    }

    /// Many callers of a new key at once share one run of the function, and a function's error reaches its caller.
    pub async fn herd(&self, key: &str) {
        let runs = AtomicU64::new(0);
        let function = || async {
            runs.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(FUNCTION).await;
            Ok::<_, Infallible>(self.ledger.issue(key, self.value_bytes))
        };
        let (bound, start) = (self.bound() + FUNCTION, Instant::now());
        let calls = (0..HERD).map(|_| self.cache.get_or_compute(key, function));
        let values: Vec<Value> =
            join_all(calls).await.into_iter().map(|value| value.expect("it cannot fail")).collect();
        let took = start.elapsed();
        assert!(took < bound, "{HERD} callers of `{key}` at once took {took:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{HERD} callers of `{key}` at once");
        self.ledger.check(key, &values[0], values[0].version());
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        let failing = format!("{key}/failing");
        let result = self.cache.get_or_compute::<Value, _, _, _>(&failing, || async { Err("its own error") }).await;
        assert_eq!(function_error(result), "its own error");
    }

    /// Reads every key there is, from L1 and then from the backend: each is a right value or a miss.
    pub async fn sweep(&self) {
        for skip in [Duration::ZERO, L1_TTL + Duration::from_secs(1)] {
            self.clock.skip(skip);
            for key in self.ledger.keys() {
                self.get(&key).await;
            }
        }
    }

    /// From now on, L1 holds nothing of before.
    pub fn forget_l1(&self) {
        self.clock.skip(L1_TTL + Duration::from_secs(1));
    }

    /// What the backend says about a key that this process was told about, also when that is something older. From then
    /// on it may be.
    pub async fn read_back(&self, key: &str) -> Seen {
        self.forget_l1();
        let told = self.floors().remove(key).unwrap_or(0);
        let (before, start) = (self.cache.health(), Instant::now());
        let value: Option<Value> = self.cache.get(key).await.expect("a backend in trouble is no error of a get");
        let speed = Speed::of(start.elapsed());
        let words = match value {
            None => format!("miss{}", news(&before, &self.cache.health())),
            Some(value) => {
                self.ledger.check(key, &value, 0);
                if value.version() < told { "an older value" } else { "hit" }.to_owned()
            }
        };
        Seen { words, speed }
    }

    fn oldest(&self, key: &str) -> u64 {
        self.floors().get(key).copied().unwrap_or(0)
    }

    fn serve_no_older(&self, key: &str, version: u64) {
        let mut floors = self.floors();
        let floor = floors.entry(key.to_owned()).or_default();
        *floor = version.max(*floor);
    }

    fn floors(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.oldest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a `get` counted: that L1 had it, or why there was nothing.
fn news(before: &Health, after: &Health) -> String {
    if after.requests.l1_hits > before.requests.l1_hits {
        return " (L1)".to_owned();
    }
    let is_new = |reason: &&&str| after.degraded.get(**reason) != before.degraded.get(**reason);
    let reasons: Vec<_> = after.degraded.keys().filter(is_new).copied().collect();
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) }
}

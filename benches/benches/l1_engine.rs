//! moka or quick_cache under the first tier? `docs/decisions/0001-l1-engine.md` holds the tables this prints.
//!
//! `cargo bench -p cachekit-benches --bench l1_engine`. Both engines are set up as the first tier needs them: an `Arc<str>` as key, a shared value with its
//! weight and its expiry next to it, no expiry in the engine, and the weight `max(bytes, max_bytes / max_entries)`.
//! Every round measures the engines in turn; medians are printed, and the median of each round's ratio.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up measures nothing")]
#![allow(clippy::cast_possible_truncation, reason = "every number here is far below the limits of its type")]

use std::any::Any;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;
use std::pin::pin;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use cachekit_benches::{Rng, Zipf, markdown, median, resident_bytes};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const ROUNDS: usize = 5;
const KEY_BYTES: usize = 24;
const SEED: u64 = 20_261_129;

fn key(buffer: &mut String, id: u32) {
    use std::fmt::Write;
    write!(buffer, "catalog:product:{id:08}").unwrap();
}

/// The keys of a run, one after the other, so that reading the next one costs nothing.
struct Keys(String);

impl Keys {
    fn of(ids: impl IntoIterator<Item = u32>) -> Self {
        let mut text = String::new();
        ids.into_iter().for_each(|id| key(&mut text, id));
        Self(text)
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.0.len() / KEY_BYTES).map(|i| &self.0[i * KEY_BYTES..(i + 1) * KEY_BYTES])
    }
}

/// A decoded value as a caller would keep it.
#[derive(Debug)]
struct Product {
    _id: u64,
    _name: [u8; 24],
    _prices: [u32; 4],
}

impl Product {
    fn new() -> Self {
        Self { _id: 7, _name: [b'x'; 24], _prices: [1; 4] }
    }
}

/// What the engine holds under a key: expiry and weight next to the value, behind one `Arc`.
type Held = Arc<Entry<dyn Any + Send + Sync>>;

struct Entry<T: ?Sized> {
    expires: u64,
    weight: u64,
    _value: T,
}

fn held(weight: u64) -> Held {
    Arc::new(Entry { expires: u64::MAX, weight, _value: Product::new() })
}

/// xxh3 over the whole key at once, with a seed drawn per cache.
#[derive(Clone)]
struct Xxh3(u64);

impl Default for Xxh3 {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Xxh3 {
    type Hasher = Xxh3State;

    fn build_hasher(&self) -> Xxh3State {
        Xxh3State(self.0)
    }
}

struct Xxh3State(u64);

impl Hasher for Xxh3State {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = self.0.rotate_left(8) ^ u64::from(byte);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy)]
struct Shape {
    max_entries: u64,
    max_bytes: u64,
    shards: Option<usize>,
    hot: f64,
    /// How many entries quick_cache is told to expect.
    expected: u64,
}

impl Shape {
    /// Room for `entries` entries as small as the bounds allow.
    fn entries(entries: u64) -> Self {
        Self { max_entries: entries, max_bytes: entries * 1_024, shards: None, hot: 0.97, expected: entries }
    }

    fn floor(self) -> u64 {
        self.max_bytes.div_ceil(self.max_entries)
    }
}

trait Engine: Sync {
    fn get(&self, key: &str) -> Option<u64>;
    fn put(&self, key: &str, weight: u64);
    /// Whatever the engine has put off until later.
    fn settle(&self) {}

    // Provided, so that each engine has its own copy of the loops and no call in them is a virtual one.

    fn get_all(&self, keys: &Keys) -> u64 {
        keys.iter().filter(|key| self.get(key).is_some_and(|expires| expires > black_box(1))).count() as u64
    }

    fn put_all(&self, keys: &Keys, weight: u64) {
        keys.iter().for_each(|key| self.put(key, weight));
    }

    /// Get, and put after a miss; the hits among the requests that count.
    fn replay(&self, trace: &Trace) -> f64 {
        let (mut hits, mut counted) = (0_u64, 0_u64);
        for (i, key) in trace.keys.iter().enumerate() {
            let hit = self.get(key).is_some();
            if !hit {
                self.put(key, trace.weights.get(i).copied().map_or(1, u64::from));
            }
            if i >= trace.warm && trace.counts.get(i).copied().unwrap_or(true) {
                hits += u64::from(hit);
                counted += 1;
            }
        }
        hits as f64 / counted as f64
    }
}

/// Moves every evicted entry out of the lock, however many one insert evicts.
struct DropOutside;

impl Clone for DropOutside {
    fn clone(&self) -> Self {
        Self
    }
}

impl quick_cache::Lifecycle<Arc<str>, Held> for DropOutside {
    type RequestState = Vec<(Arc<str>, Held)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: Arc<str>, value: Held) {
        evicted.push((key, value));
    }
}

#[derive(Clone)]
struct Weigh(u64);

impl quick_cache::Weighter<Arc<str>, Held> for Weigh {
    fn weight(&self, _: &Arc<str>, value: &Held) -> u64 {
        value.weight.max(self.0)
    }
}

struct Quick<S>(quick_cache::sync::Cache<Arc<str>, Held, Weigh, S, DropOutside>);

impl<S: BuildHasher + Clone + Default> Quick<S> {
    fn new(shape: Shape) -> Self {
        let mut options = quick_cache::OptionsBuilder::new();
        options
            .estimated_items_capacity(shape.expected as usize)
            .weight_capacity(shape.max_bytes)
            .hot_allocation(shape.hot);
        if let Some(shards) = shape.shards {
            options.shards(shards);
        }
        let options = options.build().unwrap();
        Self(quick_cache::sync::Cache::with_options(options, Weigh(shape.floor()), S::default(), DropOutside))
    }
}

impl<S: BuildHasher + Clone + Send + Sync> Engine for Quick<S> {
    fn get(&self, key: &str) -> Option<u64> {
        self.0.get(key).map(|held| held.expires)
    }

    fn put(&self, key: &str, weight: u64) {
        self.0.insert(Arc::from(key), held(weight));
    }
}

struct MokaSync<S>(moka::sync::Cache<Arc<str>, Held, S>);

impl<S: BuildHasher + Clone + Default + Send + Sync + 'static> MokaSync<S> {
    fn new(shape: Shape) -> Self {
        let floor = shape.floor();
        Self(
            moka::sync::Cache::builder()
                .max_capacity(shape.max_bytes)
                .weigher(move |_: &Arc<str>, held: &Held| u32::try_from(held.weight.max(floor)).unwrap_or(u32::MAX))
                .build_with_hasher(S::default()),
        )
    }
}

impl<S: BuildHasher + Clone + Send + Sync + 'static> Engine for MokaSync<S> {
    fn get(&self, key: &str) -> Option<u64> {
        self.0.get(key).map(|held| held.expires)
    }

    fn put(&self, key: &str, weight: u64) {
        self.0.insert(Arc::from(key), held(weight));
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

struct MokaFuture(moka::future::Cache<Arc<str>, Held>);

impl MokaFuture {
    fn new(shape: Shape) -> Self {
        let floor = shape.floor();
        Self(
            moka::future::Cache::builder()
                .max_capacity(shape.max_bytes)
                .weigher(move |_: &Arc<str>, held: &Held| u32::try_from(held.weight.max(floor)).unwrap_or(u32::MAX))
                .build(),
        )
    }
}

/// Runs a future on this thread; the ones here are ready at once or wait for another thread's short work.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::yield_now(),
        }
    }
}

impl Engine for MokaFuture {
    fn get(&self, key: &str) -> Option<u64> {
        block_on(self.0.get(key)).map(|held| held.expires)
    }

    fn put(&self, key: &str, weight: u64) {
        block_on(self.0.insert(Arc::from(key), held(weight)));
    }

    fn settle(&self) {
        block_on(self.0.run_pending_tasks());
    }
}

type Build = fn(Shape) -> Box<dyn Engine>;

/// The columns of the first table.
const ENGINES: [(&str, Build); 6] = [
    ("quick_cache, SipHash", |shape| Box::new(Quick::<RandomState>::new(shape))),
    ("quick_cache, foldhash", |shape| Box::new(Quick::<foldhash::quality::RandomState>::new(shape))),
    ("quick_cache, xxh3", |shape| Box::new(Quick::<Xxh3>::new(shape))),
    ("moka sync, SipHash", |shape| Box::new(MokaSync::<RandomState>::new(shape))),
    ("moka sync, foldhash", |shape| Box::new(MokaSync::<foldhash::quality::RandomState>::new(shape))),
    ("moka future, SipHash", |shape| Box::new(MokaFuture::new(shape))),
];
const QUICK: usize = 0;
const MOKA: usize = 3;

struct Trace {
    keys: Keys,
    /// Requests at the start that fill the cache and are not counted.
    warm: usize,
    /// Per request, whether it counts; empty for all.
    counts: Vec<bool>,
    /// Per request, the bytes of the value; empty for as few as the bounds allow.
    weights: Vec<u16>,
}

impl Trace {
    const UNIVERSE: usize = 100_000;
    const LENGTH: usize = 300_000;

    fn zipf(s: f64) -> Self {
        let (zipf, mut rng) = (Zipf::new(Self::UNIVERSE, s, SEED), Rng::new(SEED));
        Self::plain((0..Self::LENGTH).map(|_| zipf.draw(&mut rng)))
    }

    fn plain(ids: impl IntoIterator<Item = u32>) -> Self {
        Self { keys: Keys::of(ids), warm: Self::LENGTH / 5, counts: Vec::new(), weights: Vec::new() }
    }

    /// A Zipf trace into which a scan breaks every 20,000 requests, of 10,000 keys that never return.
    fn scans() -> Self {
        let (zipf, mut rng) = (Zipf::new(Self::UNIVERSE, 0.9, SEED), Rng::new(SEED));
        let (mut ids, mut counts, mut fresh) = (Vec::new(), Vec::new(), Self::UNIVERSE as u32);
        for i in 0..Self::LENGTH {
            ids.push(zipf.draw(&mut rng));
            counts.push(true);
            if i % 20_000 == 19_999 {
                ids.extend(fresh..fresh + 10_000);
                counts.resize(ids.len(), false);
                fresh += 10_000;
            }
        }
        Self { counts, ..Self::plain(ids) }
    }

    /// A Zipf trace whose popularity moves on by one rank every 30 requests: a tenth of the keys in its course.
    fn drift() -> Self {
        let (zipf, mut rng) = (Zipf::new(Self::UNIVERSE, 0.9, SEED), Rng::new(SEED));
        Self::plain((0..Self::LENGTH).map(|i| zipf.draw_shifted(&mut rng, Self::UNIVERSE - i / 30)))
    }

    /// A Zipf trace of values of 100 bytes to 16 KiB, small ones as likely as large ones; a key keeps its size.
    fn sizes() -> Self {
        let mut trace = Self::zipf(0.9);
        let size = |key: &str| {
            let id: u64 = key[KEY_BYTES - 8..].parse().unwrap();
            (100.0 * 164.0_f64.powf(Rng::new(id ^ SEED).unit())) as u16
        };
        trace.weights = trace.keys.iter().map(size).collect();
        trace
    }
}

/// Nanoseconds per call as each of `threads` threads sees it.
fn per_call(threads: usize, calls: usize, work: impl Fn(usize) + Sync) -> f64 {
    let start = Barrier::new(threads);
    let timed = |thread: usize| {
        start.wait();
        let began = Instant::now();
        work(thread);
        began.elapsed()
    };
    let spent: Duration = if threads == 1 {
        timed(0)
    } else {
        let timed = &timed;
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    };
    spent.as_nanos() as f64 / (threads * calls) as f64
}

/// Per engine the nanoseconds of each round.
type Rounds = Vec<Vec<f64>>;

fn rounds(engines: &[Box<dyn Engine>], mut measure: impl FnMut(usize, &dyn Engine) -> f64) -> Rounds {
    let mut all = vec![Vec::new(); engines.len()];
    for round in 0..=ROUNDS {
        for (engine, all) in engines.iter().zip(&mut all) {
            let spent = measure(round, engine.as_ref());
            engine.settle();
            // The first round warms up.
            if round > 0 {
                all.push(spent);
            }
        }
    }
    all
}

fn counted(threads: usize) -> &'static str {
    if threads == 1 { "1 thread" } else { "2 threads" }
}

/// One row: the medians, and the median of moka's to quick_cache's in each round.
fn row(what: &str, all: &Rounds) -> Vec<String> {
    let ratios: Vec<f64> = all[MOKA].iter().zip(&all[QUICK]).map(|(moka, quick)| moka / quick).collect();
    let mut cells = vec![what.to_owned()];
    cells.extend((0..ENGINES.len()).map(|column| match all.get(column) {
        Some(rounds) if !rounds.is_empty() => format!("{:.0}", median(rounds)),
        _ => String::new(),
    }));
    cells.push(format!("{:.2}", median(&ratios)));
    cells
}

/// At a million entries only the first columns are measured: filling the others takes most of the bench's time.
fn built(shape: Shape) -> Vec<Box<dyn Engine>> {
    let columns = if shape.max_entries < 1_000_000 { ENGINES.len() } else { MOKA + 1 };
    ENGINES[..columns].iter().map(|(_, build)| build(shape)).collect()
}

fn hits(rows: &mut Vec<Vec<String>>) {
    for (n, name) in [(10_000_u32, "10,000"), (1_000_000, "1,000,000")] {
        // Twice the room, so that every key is held and every get a hit.
        let engines = built(Shape::entries(u64::from(n) * 2));
        let all = Keys::of(0..n);
        for engine in &engines {
            engine.put_all(&all, 1);
            engine.settle();
        }
        let zipf = Zipf::new(n as usize, 0.99, SEED);
        let calls = 100_000;
        let asked = [1, 2].map(|seed| {
            let mut rng = Rng::new(SEED + seed);
            Keys::of((0..calls).map(|_| zipf.draw(&mut rng)))
        });
        for threads in [1, 2] {
            let all = rounds(&engines, |_, engine| {
                per_call(threads, calls, |thread| {
                    assert_eq!(engine.get_all(&asked[thread]), calls as u64, "the working set fits");
                })
            });
            rows.push(row(&format!("hit, {name} entries, {}, ns", counted(threads)), &all));
        }
    }
}

fn writes(rows: &mut Vec<Vec<String>>) {
    let capacity = 50_000_u32;
    let calls = 25_000_u32;
    for threads in [1_u32, 2] {
        let engines = built(Shape::entries(u64::from(capacity)));
        for engine in &engines {
            engine.put_all(&Keys::of(0..capacity), 1);
            engine.settle();
        }
        // Keys never seen before: each insert evicts one entry.
        let fresh: Vec<Vec<Keys>> = (0..=ROUNDS as u32)
            .map(|round| {
                let first = |thread| capacity + (round * threads + thread) * calls;
                (0..threads).map(|thread| Keys::of(first(thread)..first(thread) + calls)).collect()
            })
            .collect();
        let all = rounds(&engines, |round, engine| {
            per_call(threads as usize, calls as usize, |thread| engine.put_all(&fresh[round][thread], 1))
        });
        rows.push(row(&format!("insert that evicts, {}, ns", counted(threads as usize)), &all));

        let engines = built(Shape::entries(u64::from(capacity) * 2));
        for engine in &engines {
            engine.put_all(&Keys::of(0..capacity), 1);
            engine.settle();
        }
        let zipf = Zipf::new(capacity as usize, 0.99, SEED);
        let again: Vec<Keys> = (0..u64::from(threads))
            .map(|thread| {
                let mut rng = Rng::new(SEED + thread);
                Keys::of((0..calls).map(|_| zipf.draw(&mut rng)))
            })
            .collect();
        let all = rounds(&engines, |_, engine| {
            per_call(threads as usize, calls as usize, |thread| engine.put_all(&again[thread], 1))
        });
        rows.push(row(&format!("overwrite, {}, ns", counted(threads as usize)), &all));
    }
}

fn hit_ratios() -> String {
    let one_percent = Shape::entries(Trace::UNIVERSE as u64 / 100);
    let ten_percent = Shape::entries(Trace::UNIVERSE as u64 / 10);
    // The bytes bind: values of 3.2 KiB in the mean, room for 1 % and 10 % of them, and for any number of entries.
    let bytes = |percent: u64| {
        let max_bytes = Trace::UNIVERSE as u64 / 100 * percent * 3_200;
        Shape { max_bytes, max_entries: Trace::UNIVERSE as u64, expected: max_bytes / 512, ..one_percent }
    };
    let traces: [(&str, Trace, [Shape; 2]); 5] = [
        ("Zipf 0.9", Trace::zipf(0.9), [one_percent, ten_percent]),
        ("Zipf 1.1", Trace::zipf(1.1), [one_percent, ten_percent]),
        ("Zipf 0.9 with scans", Trace::scans(), [one_percent, ten_percent]),
        ("Zipf 0.9 that drifts", Trace::drift(), [one_percent, ten_percent]),
        ("Zipf 0.9, 100 B to 16 KiB", Trace::sizes(), [bytes(1), bytes(10)]),
    ];
    type Change = fn(Shape) -> Shape;
    let columns: [(&str, usize, Change); 7] = [
        ("moka sync", MOKA, |shape| shape),
        ("quick_cache", QUICK, |shape| shape),
        ("1 shard", QUICK, |shape| Shape { shards: Some(1), ..shape }),
        ("64 shards", QUICK, |shape| Shape { shards: Some(64), ..shape }),
        ("hot part 100 %", QUICK, |shape| Shape { hot: 1.0, ..shape }),
        ("4 x the entries expected", QUICK, |shape| Shape { expected: shape.expected * 4, ..shape }),
        ("a quarter", QUICK, |shape| Shape { expected: shape.expected / 4, ..shape }),
    ];
    let mut rows = Vec::new();
    for (name, trace, shapes) in &traces {
        for (room, shape) in ["1 %", "10 %"].iter().zip(shapes) {
            let mut cells = vec![format!("{name}, room for {room}")];
            cells.extend(columns.iter().map(|(_, engine, change)| {
                let hits = ENGINES[*engine].1(change(*shape)).replay(trace);
                format!("{:.1}", hits * 100.0)
            }));
            rows.push(cells);
        }
    }
    let mut head = vec!["hit ratio in %"];
    head.extend(columns.iter().map(|(name, ..)| *name));
    markdown(&head, &rows)
}

/// What the child of [`memory`] runs: how much this process grew per entry held, over the bytes of key and value,
/// when an engine with room for `room` entries was given `n`.
fn child(name: &str, room: u32, n: u32) -> Option<f64> {
    let build = ENGINES.iter().find(|(known, _)| *known == name).map(|(_, build)| *build);
    let engine = build.map(|build| build(Shape::entries(u64::from(room))));
    let mut plain: Vec<(Arc<str>, Held)> = Vec::new();
    if engine.is_none() {
        plain.reserve_exact(n as usize);
    }
    let mut text = String::with_capacity(KEY_BYTES);
    let before = resident_bytes()?;
    for id in 0..n {
        text.clear();
        key(&mut text, id);
        match &engine {
            Some(engine) => engine.put(&text, 1),
            None => plain.push((Arc::from(text.as_str()), held(1))),
        }
    }
    if let Some(engine) = &engine {
        engine.settle();
    }
    let grown = resident_bytes()?.saturating_sub(before) as f64 / f64::from(n.min(room));
    black_box((&engine, &plain));
    Some(grown - (KEY_BYTES + size_of::<Product>()) as f64)
}

/// Bytes per entry over key and value, each engine in a process of its own.
fn memory(name: &str, room: u32, n: u32) -> io::Result<f64> {
    let args = ["--child", name, &room.to_string(), &n.to_string()];
    let out = Command::new(env::current_exe()?).args(args).output()?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().parse().unwrap_or(f64::NAN))
}

fn memory_rows(rows: &mut Vec<Vec<String>>) -> io::Result<()> {
    let cases =
        [("1,000,000 entries", 2_000_000, 1_000_000), ("100,000 entries after 200,000 evictions", 100_000, 300_000)];
    for (name, room, n) in cases {
        // The hash function takes no memory: each engine once.
        let all: io::Result<Rounds> = ENGINES
            .iter()
            .map(|(engine, _)| Ok(if engine.ends_with("SipHash") { vec![memory(engine, room, n)?] } else { vec![] }))
            .collect();
        rows.push(row(&format!("bytes per entry over key and value, {name}"), &all?));
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().collect();
    if let [_, flag, name, room, n] = args.as_slice()
        && flag == "--child"
    {
        println!("{}", child(name, room.parse().unwrap(), n.parse().unwrap()).unwrap_or(f64::NAN));
        return Ok(());
    }
    let began = Instant::now();
    let seconds = |what| eprintln!("{:.0} s: {what}", began.elapsed().as_secs_f64());

    let mut rows = Vec::new();
    hits(&mut rows);
    seconds("hits");
    writes(&mut rows);
    seconds("writes");
    memory_rows(&mut rows)?;
    seconds("memory");
    let mut head = vec!["work"];
    head.extend(ENGINES.iter().map(|(name, _)| *name));
    head.push("moka sync ÷ quick_cache, both SipHash");
    println!("{}", markdown(&head, &rows));
    println!("The same keys and values in a `Vec`: {:.0} bytes per entry.\n", memory("plain", 1_000_000, 1_000_000)?);

    println!("{}", hit_ratios());
    seconds("hit ratios");
    Ok(())
}

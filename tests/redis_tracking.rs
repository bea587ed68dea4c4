//! Two processes, each with an L1 of its own, and one Redis that tells each what the other changed. The other process is
//! this test binary again, running one test that only then runs.
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit::{Cache, registry};
use cachekit_servers::{Mode, Proxy, RedisServer};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const URL: &str = "CACHEKIT_TEST_URL";

fn cache(url: &str) -> Cache {
    let factory = registry().factory(url).unwrap();
    Cache::builder("n").backend(factory).track_changes(true).build().unwrap()
}

/// Sets what it reads, line by line, and says so.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a child of other tests: another process with a cache"]
async fn process_a() {
    let cache = cache(&std::env::var(URL).unwrap());
    for line in std::io::stdin().lines() {
        let _ = cache.set("k", line.unwrap()).await.unwrap();
        println!("child: set");
        std::io::stdout().flush().unwrap();
    }
}

/// The other process.
struct ProcessA {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl ProcessA {
    fn start(url: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process_a", "--ignored", "--nocapture"]).env(URL, url);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, orders, answers: BufReader::new(answers).lines() }
    }

    /// Has it set a value, and waits until it has.
    fn set(&mut self, value: &str) {
        writeln!(self.orders, "{value}").unwrap();
        assert!(self.answers.by_ref().map(Result::unwrap).any(|line| line.contains("child: set")));
    }
}

impl Drop for ProcessA {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn got(cache: &Cache) -> Option<String> {
    cache.get("k").await.unwrap()
}

/// How long until this process reads the value.
async fn until(cache: &Cache, value: &str, within: Duration) -> Duration {
    let start = Instant::now();
    while got(cache).await.as_deref() != Some(value) {
        assert!(start.elapsed() < within, "still {:?} after {:?}", got(cache).await, start.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    start.elapsed()
}

fn l1(cache: &Cache) -> (usize, bool, u64) {
    let l1 = cache.health().l1.unwrap();
    let tracking = l1.tracking.unwrap();
    (l1.entries, tracking.on, tracking.lost)
}

async fn wait_for(cache: &Cache, what: &str, wanted: impl Fn((usize, bool, u64)) -> bool) -> Duration {
    let start = Instant::now();
    while !wanted(l1(cache)) {
        assert!(start.elapsed() < Duration::from_secs(5), "not {what}: {:?}", l1(cache));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_writes_leaves_the_l1_of_b_within_100_ms() {
    let server = RedisServer::start();
    let (mut a, b) = (ProcessA::start(&server.url()), cache(&server.url()));
    a.set("first");
    assert_eq!(got(&b).await.as_deref(), Some("first"));
    let mut slowest = Duration::ZERO;
    for round in 0..50 {
        let value = format!("value {round}");
        let hits = b.health().requests.l1_hits;
        got(&b).await;
        assert!(round == 0 || b.health().requests.l1_hits == hits + 1, "b holds the older one");
        a.set(&value);
        slowest = slowest.max(until(&b, &value, Duration::from_millis(100)).await);
        got(&b).await;
    }
    println!("the slowest of 50 took {slowest:?} after A's set had returned");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_wire_of_b_is_cut_its_l1_is_dropped_and_then_follows_again() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let (mut a, b) = (ProcessA::start(&server.url()), cache(&format!("redis://{}", proxy.address())));
    a.set("first");
    for _ in 0..2 {
        assert!(got(&b).await.is_some());
    }
    wait_for(&b, "filled", |(entries, on, _)| entries == 1 && on).await;
    proxy.set(Mode::Refuse);
    proxy.reset_all();
    let took = wait_for(&b, "dropped", |(entries, on, lost)| (entries, on, lost) == (0, false, 1)).await;
    assert!(took < Duration::from_millis(100), "{took:?}");
    a.set("unseen");
    proxy.set(Mode::Pass);
    println!("on again after {:?}", wait_for(&b, "on again", |(_, on, _)| on).await);
    assert_eq!(got(&b).await.as_deref(), Some("unseen"));
    a.set("seen");
    until(&b, "seen", Duration::from_millis(100)).await;
}

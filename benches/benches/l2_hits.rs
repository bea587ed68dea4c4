//! What a cache costs on top of the client below it: hits of 1 KiB that the L2 answers, with L1 off.
//!
//! `cargo bench -p cachekit-benches --bench l2_hits [-- redis|memcached|sled]`. Starts the servers itself. Each round
//! measures the cache and the bare client in turn, on one runtime; medians are printed, and the median of each round's
//! ratio. The bare client does what a careful user of it would write: one multiplexed connection of `redis`, a pool of 32
//! of `memcache`, `sled` behind `spawn_blocking`; each with a timeout of 500 ms, and each decodes to a `String`.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up measures nothing")]
#![allow(clippy::cast_precision_loss, reason = "counts here are far below 2^53")]

use cachekit_benches::{markdown, median};
use cachekit_core::{BackendFactory, BackendUrl, Cache};
use cachekit_memcached::MemcachedFactory;
use cachekit_redis::RedisFactory;
use cachekit_servers::{Memcached, RedisServer};
use cachekit_sled::{SledConfig, SledFactory};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const PIECE: Duration = Duration::from_millis(400);
const IN_FLIGHT: [usize; 3] = [1, 16, 128];
const TIMEOUT: Duration = Duration::from_millis(500);
const KEYS: usize = 64;

fn key(number: usize) -> String {
    format!("catalog:product:{:08}", number % KEYS)
}

fn value() -> String {
    "v".repeat(1_024)
}

/// One way to read a key.
type Read = Arc<dyn Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync>;

fn through_the_cache(cache: &Cache) -> Read {
    let cache = cache.clone();
    Arc::new(move |key| {
        let cache = cache.clone();
        Box::pin(async move { cache.get::<String>(&key).await.unwrap() })
    })
}

/// Reads per second with so many callers.
async fn throughput(read: &Read, callers: usize) -> f64 {
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (read, stop, done) = (Arc::clone(read), Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(async move {
                let (mut number, mut hits) = (caller, 0);
                while !stop.load(Ordering::Relaxed) {
                    // On a machine that is busy elsewhere an answer may come too late, which is a miss.
                    hits += u64::from(read(key(number)).await.is_some_and(|value| value.len() == 1_024));
                    number += 1;
                }
                done.fetch_add(hits, Ordering::Relaxed);
            })
        })
        .collect();
    tokio::time::sleep(PIECE).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

async fn compare(name: &str, cached: &Read, bare: &Read) {
    let mut rows = Vec::new();
    for callers in IN_FLIGHT {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // Whoever is first may find the caches of the machine cold.
            let (one, two) = if round % 2 == 0 {
                let one = throughput(cached, callers).await;
                (one, throughput(bare, callers).await)
            } else {
                let two = throughput(bare, callers).await;
                (throughput(cached, callers).await, two)
            };
            ours.push(one);
            theirs.push(two);
            ratios.push(one / two);
        }
        let (ours, theirs) = (median(&ours), median(&theirs));
        let added = callers as f64 * (1e6 / ours - 1e6 / theirs);
        rows.push(vec![
            format!("{name}, {callers} in flight"),
            format!("{:.0}", ours / 1_000.0),
            format!("{:.0}", theirs / 1_000.0),
            format!("{:.2}", median(&ratios)),
            format!("{added:.1}"),
        ]);
    }
    print!("{}", markdown(&["", "cachekit, 1000/s", "bare, 1000/s", "ratio", "added to a call, µs"], &rows));
    println!();
}

async fn cache(factory: impl BackendFactory) -> Cache {
    let cache = Cache::builder("bench").backend(factory).without_l1().build().unwrap();
    for number in 0..KEYS {
        let _ = cache.set(&key(number), value()).await.unwrap();
    }
    cache
}

fn url(text: &str) -> BackendUrl {
    BackendUrl::parse(text).unwrap()
}

async fn redis() {
    let server = RedisServer::start();
    let cached = through_the_cache(&cache(RedisFactory::from_url(&url(&server.url())).unwrap()).await);
    let client = redis::Client::open(redis_info(&server)).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    for number in 0..KEYS {
        let () = redis::cmd("SET").arg(key(number)).arg(value()).query_async(&mut connection).await.unwrap();
    }
    let bare: Read = Arc::new(move |key| {
        let mut connection = connection.clone();
        Box::pin(async move { redis::cmd("GET").arg(key).query_async(&mut connection).await.unwrap() })
    });
    compare("Redis", &cached, &bare).await;
}

/// With the socket options of ours: without `nodelay`, replies to many callers share packets, and are slower for few.
fn redis_info(server: &RedisServer) -> redis::ConnectionInfo {
    use redis::IntoConnectionInfo;
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    server.url().into_connection_info().unwrap().set_tcp_settings(settings)
}

async fn memcached() {
    let server = Memcached::start();
    let cached = through_the_cache(&cache(MemcachedFactory::from_url(&url(&server.url())).unwrap()).await);
    let client = memcache::exp::AsyncMetaClient::builder()
        .io_timeout(Some(TIMEOUT))
        .max_connections(Some(32))
        .max_idle(32)
        .connect_async(server.address())
        .await
        .unwrap();
    for number in 0..KEYS {
        client.run(memcache::exp::Set::new(key(number), value())).await.unwrap();
    }
    let bare: Read = Arc::new(move |key| {
        let client = client.clone();
        Box::pin(async move {
            let found = client.run(memcache::exp::Get::new(key)).await.unwrap();
            found.value.map(|value| String::from_utf8(value).unwrap())
        })
    });
    compare("memcached", &cached, &bare).await;
}

async fn sled() {
    let directory = tempfile::tempdir().unwrap();
    let config = SledConfig::new(directory.path().join("cachekit"));
    let cached = through_the_cache(&cache(SledFactory::new(config)).await);
    let database = sled::Config::new().path(directory.path().join("bare")).cache_capacity(64 << 20).open().unwrap();
    for number in 0..KEYS {
        database.insert(key(number), value().as_bytes()).unwrap();
    }
    let bare: Read = Arc::new(move |key| {
        let database = database.clone();
        Box::pin(async move {
            let found = tokio::task::spawn_blocking(move || database.get(key).unwrap());
            let found = tokio::time::timeout(TIMEOUT, found).await.unwrap().unwrap();
            found.map(|value| String::from_utf8(value.to_vec()).unwrap())
        })
    });
    compare("sled", &cached, &bare).await;
}

fn main() {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        if wanted("redis") {
            redis().await;
        }
        if wanted("memcached") {
            memcached().await;
        }
        if wanted("sled") {
            sled().await;
        }
    });
}

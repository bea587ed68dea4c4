//! How much memory an outage takes. Alone in its process, so that the memory is this test's.
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

use cachekit_core::{BackendFactory, BackendUrl, Bytes, SetOptions};
use cachekit_memcached::MemcachedFactory;
use cachekit_servers::Memcached;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// In MiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

/// 256 callers write 4 KiB as fast as they can, for longer than three cycles of the server being left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_under_full_load_takes_no_memory() {
    let server = Memcached::start();
    let url = BackendUrl::parse(&server.url()).unwrap();
    let backend = MemcachedFactory::from_url(&url).unwrap().build().await.unwrap();
    let value = Bytes::from(vec![7; 4096]);
    let calls = Arc::new(AtomicUsize::new(0));
    let load = |time: Duration| {
        let (backend, value, calls) = (backend.clone(), value.clone(), calls.clone());
        async move {
            let end = Instant::now() + time;
            let tasks: Vec<_> = (0..256)
                .map(|task| {
                    let (backend, value, calls) = (backend.clone(), value.clone(), calls.clone());
                    tokio::spawn(async move {
                        for number in 0.. {
                            if Instant::now() > end {
                                break;
                            }
                            let key = format!("{task}:{}", number % 10);
                            let _ = backend.set(&key, value.clone(), SetOptions::default()).await;
                            calls.fetch_add(1, Ordering::Relaxed);
                            tokio::task::yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    };
    load(Duration::from_millis(300)).await;
    server.pause();
    let (before, counted) = (resident(), calls.load(Ordering::Relaxed));
    load(Duration::from_secs(4)).await;
    let (after, counted) = (resident(), calls.load(Ordering::Relaxed) - counted);
    println!("{counted} calls on a server that hangs: {before} MiB before, {after} MiB after");
    assert!(counted > 10_000 && after < before + 16, "{counted} calls: {before} MiB before, {after} MiB after");
}

//! Does one thing so many times and nothing else: `scripts/instructions` runs it under a counter of instructions.
#![allow(clippy::panic, reason = "a wrong argument or a wrong outcome ends the measurement")]

use cachekit_core::Cache;
use cachekit_core::breaker::{BreakerConfig, CircuitBreaker};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let count: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or_default();
    match what.as_str() {
        "l1-hit" => {
            let cache = cache();
            ready(async { drop(cache.set("key", 7_u64).await) });
            for _ in 0..count {
                assert!(ready(cache.get::<u64>(black_box("key"))).is_ok_and(|hit| hit == Some(7)));
            }
        }
        "l1-hit-get-or-compute" => {
            let cache = cache();
            ready(async { drop(cache.set("key", 7_u64).await) });
            for _ in 0..count {
                let call = cache.get_or_compute(black_box("key"), || async { Ok::<u64, ()>(0) });
                assert!(ready(call).is_ok_and(|hit| hit == 7));
            }
        }
        "engine-hit" => {
            let engine = quick_cache::sync::Cache::<String, std::sync::Arc<u64>>::new(1_000);
            engine.insert("key".to_owned(), std::sync::Arc::new(7));
            for _ in 0..count {
                assert!(engine.get(black_box("key")).is_some());
            }
        }
        "breaker-closed" => {
            let breaker = breaker();
            for _ in 0..count {
                black_box(&breaker).admit().unwrap_or_else(|open| panic!("{open}")).success();
            }
        }
        "breaker-open" => {
            let breaker = breaker();
            breaker.force_open();
            for _ in 0..count {
                assert!(black_box(&breaker).try_admit().is_none());
            }
        }
        _ => panic!("l1-hit, l1-hit-get-or-compute, engine-hit, breaker-closed or breaker-open, and a number"),
    }
}

fn cache() -> Cache {
    Cache::builder("n").build().unwrap_or_else(|error| panic!("{error}"))
}

fn breaker() -> CircuitBreaker {
    CircuitBreaker::new(BreakerConfig::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// What needs no runtime is ready at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("not ready"),
    }
}

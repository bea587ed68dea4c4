//! The backend as its users see it, on real servers that are broken for real.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod contract;
mod locks;
mod many;
mod options;
mod outages;
mod refusals;
mod sizes;
mod times;
mod wires;

use cachekit_core::{Backend, BackendError, BackendFactory, BackendUrl, Bytes, SetOptions};
use cachekit_memcached::MemcachedFactory;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The operation timeout of the defaults.
const OPERATION: Duration = Duration::from_millis(500);
/// What a machine that is busy with other tests may add to a bound.
const GRACE: Duration = Duration::from_millis(600);
/// In which a server that answers again has to be found.
const RECOVERY: Duration = Duration::from_secs(2);

fn factory(url: &str) -> MemcachedFactory {
    MemcachedFactory::from_url(&BackendUrl::parse(url).unwrap()).unwrap()
}

async fn try_build(url: &str) -> Result<Arc<dyn Backend>, BackendError> {
    factory(url).build().await
}

/// For a test of something else: a machine that is busy may need more than one try.
async fn build(url: &str) -> Arc<dyn Backend> {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        match try_build(url).await {
            Ok(backend) => return backend,
            Err(error) => assert!(error.is_temporary() && Instant::now() < end, "{error}"),
        }
    }
}

async fn set(backend: &dyn Backend, key: &str, value: &str) -> Result<(), BackendError> {
    backend.set(key, Bytes::copy_from_slice(value.as_bytes()), SetOptions::default()).await
}

async fn get(backend: &dyn Backend, key: &str) -> Result<Option<String>, BackendError> {
    Ok(backend.get(key).await?.map(|value| String::from_utf8(value.to_vec()).unwrap()))
}

/// The outcome, and how long it took.
async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let outcome = call.await;
    (outcome, start.elapsed())
}

/// Fails when the call took longer than an operation may.
async fn bounded<T>(call: impl Future<Output = T>) -> T {
    let (outcome, took) = timed(call).await;
    assert!(took < OPERATION + GRACE, "an operation took {took:?}");
    outcome
}

/// Until writes and reads work again; fails when that takes longer than the limit.
async fn recovers(backend: &dyn Backend, within: Duration) -> Duration {
    let start = Instant::now();
    loop {
        let outcome = match bounded(set(backend, "recovered", "yes")).await {
            Ok(()) => bounded(get(backend, "recovered")).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(value) => {
                assert_eq!(value.as_deref(), Some("yes"));
                println!("recovered after {:?}", start.elapsed());
                return start.elapsed();
            }
            Err(error) => assert!(start.elapsed() < within + GRACE, "still {error} after {:?}", start.elapsed()),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

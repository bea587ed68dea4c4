//! The backend as its users see it, on real files.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod contract;
mod lifecycle;
mod options;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod set_aside;
mod space;

use cachekit_core::{Backend, BackendFactory, Bytes, SetOptions};
use cachekit_sled::{SledConfig, SledFactory};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

async fn open(path: &Path) -> Arc<dyn Backend> {
    SledFactory::new(SledConfig::new(path)).build().await.unwrap()
}

async fn set(backend: &dyn Backend, key: &str, value: &[u8]) {
    backend.set(key, Bytes::copy_from_slice(value), SetOptions::default()).await.unwrap();
}

async fn get(backend: &dyn Backend, key: &str) -> Option<Bytes> {
    backend.get(key).await.unwrap()
}

fn ttl(duration: Duration) -> SetOptions {
    SetOptions::default().with_ttl(Some(duration))
}

/// Where the damaged directory of this path is now.
fn set_aside(path: &Path) -> Vec<PathBuf> {
    let prefix = format!("{}.corrupt-", path.file_name().unwrap().to_str().unwrap());
    let siblings = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    siblings
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

/// The directory of the one sled database in there.
fn rows(path: &Path) -> PathBuf {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut all = entries.filter(|entry| entry.file_name().unwrap().to_str().unwrap().starts_with("rows-"));
    let rows = all.next().unwrap();
    assert!(all.next().is_none());
    rows
}

/// Polls a future to its end with no Tokio runtime anywhere.
fn block_on_without_runtime<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Polls a future once and drops it.
fn poll_once(future: impl Future) {
    let _ = pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

//! The one thread that takes away ended entries of caches that nobody writes to.
//!
//! A thread and not a task, since a cache without a backend needs no runtime. It starts with the first cache and ends
//! with the last; where no thread can be had, writes reclaim alone.

use super::L1;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(30);

/// The caches to sweep; `None` while no thread runs.
static WATCHED: Mutex<Option<Vec<Weak<L1>>>> = Mutex::new(None);

pub(super) fn watch(l1: &Arc<L1>) {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    match watched.as_mut() {
        Some(caches) => caches.push(Arc::downgrade(l1)),
        None => {
            let thread = std::thread::Builder::new().name("cachekit-sweeper".to_owned());
            if thread.spawn(run).is_ok() {
                *watched = Some(vec![Arc::downgrade(l1)]);
            }
        }
    }
}

fn run() {
    loop {
        std::thread::sleep(EVERY);
        let caches = {
            let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(caches) = watched.as_mut() else { return };
            caches.retain(|l1| l1.strong_count() > 0);
            if caches.is_empty() {
                *watched = None;
                return;
            }
            caches.clone()
        };
        for l1 in caches.iter().filter_map(Weak::upgrade) {
            // A value whose `Drop` panics ends this round of its cache, not the sweeping of all.
            let _ = catch_unwind(AssertUnwindSafe(|| l1.remove_all_expired()));
        }
    }
}

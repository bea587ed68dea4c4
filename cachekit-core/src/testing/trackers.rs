//! Who is told what of the changes in a store.

use crate::{ChangeReporter, Changes};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Debug, Default)]
pub(super) struct Trackers {
    all: Vec<Tracker>,
    cut: bool,
}

#[derive(Debug)]
struct Tracker {
    /// The handle that tracks, known by its flag.
    handle: Arc<AtomicBool>,
    prefixes: Vec<String>,
    reporter: ChangeReporter,
}

impl Trackers {
    pub(super) fn add(&mut self, prefixes: &[&str], handle: &Arc<AtomicBool>) -> Changes {
        let (reporter, changes) = Changes::new();
        if self.cut {
            reporter.lost();
        }
        let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        self.all.push(Tracker { handle: Arc::clone(handle), prefixes, reporter });
        changes
    }

    /// A handle changed a key.
    pub(super) fn changed(&mut self, key: &str, by: &Arc<AtomicBool>) {
        self.all.retain(|tracker| !tracker.reporter.is_closed());
        if self.cut {
            return;
        }
        for tracker in &self.all {
            let concerned = tracker.prefixes.iter().any(|prefix| key.starts_with(prefix));
            if concerned && !Arc::ptr_eq(&tracker.handle, by) {
                tracker.reporter.changed(key);
            }
        }
    }

    /// A handle was closed.
    pub(super) fn forget(&mut self, handle: &Arc<AtomicBool>) {
        self.all.retain(|tracker| !Arc::ptr_eq(&tracker.handle, handle));
    }

    pub(super) fn cut(&mut self) {
        self.cut = true;
        self.all.iter().for_each(|tracker| tracker.reporter.lost());
    }

    pub(super) fn resume(&mut self) {
        self.cut = false;
        self.all.iter().for_each(|tracker| tracker.reporter.resumed());
    }
}

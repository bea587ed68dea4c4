//! What a change of L1 took out.

use super::Slot;
use crate::key::Key;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Entries that a change of L1 took out. Dropping them is the caller's, once it holds no lock: a value's `Drop` is the user's
/// code. One that panics ends nothing here, and keeps no other from being dropped.
#[derive(Default)]
pub(crate) struct Displaced(Vec<(Key, Arc<Slot>)>);

impl Displaced {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn push(&mut self, entry: (Key, Arc<Slot>)) {
        self.0.push(entry);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }
}

impl Extend<(Key, Arc<Slot>)> for Displaced {
    fn extend<I: IntoIterator<Item = (Key, Arc<Slot>)>>(&mut self, entries: I) {
        self.0.extend(entries);
    }
}

impl FromIterator<(Key, Arc<Slot>)> for Displaced {
    fn from_iter<I: IntoIterator<Item = (Key, Arc<Slot>)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Drop for Displaced {
    fn drop(&mut self) {
        while let Some(entry) = self.0.pop() {
            // The panic hook has told of it.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(entry)));
        }
    }
}

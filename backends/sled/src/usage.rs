//! How many bytes the live entries take, counted by us: sled knows only the size of its file.

use crate::record::{HEADER_BYTES, Record};
use crate::values::Values;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

/// About what sled keeps for a row besides its name and its bytes.
const ROW_OVERHEAD: i64 = 16;

/// What entries take: in the rows, and in files of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) rows: i64,
    pub(crate) files: i64,
}

impl Cost {
    pub(crate) fn of(key: &str, record: &Record<'_>) -> Self {
        let length = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let row = length(1 + key.len() + HEADER_BYTES + record.body_bytes()) + ROW_OVERHEAD;
        let due = record.lifetime.deadline_ms().map_or(0, |_| length(9 + key.len()) + ROW_OVERHEAD);
        let file = record.filed().map_or(0, |filed| Values::room(key, filed.length));
        Self { rows: row + due, files: i64::try_from(file).unwrap_or(i64::MAX) }
    }
}

/// The sum over all entries. After an opening, [`count`](Self::count) goes through those that were there before; those
/// that change meanwhile behind it count at once, those before it when it gets there. What is written in the middle of
/// where it is may be missed, so it is a number to go by and not to rely on.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    rows: AtomicI64,
    files: AtomicI64,
    all_counted: AtomicBool,
    /// The last row that was counted.
    counted: Mutex<Option<Vec<u8>>>,
}

impl Usage {
    /// An entry changed. The caller holds the stripe.
    pub(crate) fn replace(&self, row: &[u8], old: Option<Cost>, new: Option<Cost>) {
        if self.is_counted(row) {
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            self.add(Cost { rows: new.rows - old.rows, files: new.files - old.files });
        }
    }

    /// An entry that was there before. The caller holds the stripe.
    pub(crate) fn count(&self, cost: Cost) {
        self.add(cost);
    }

    /// All entries up to this row are counted, or all there are.
    pub(crate) fn counted_until(&self, row: Option<Vec<u8>>) {
        match row {
            None => self.all_counted.store(true, Ordering::Release),
            row => *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = row,
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.all_counted.load(Ordering::Acquire)
    }

    /// Bytes of rows.
    pub(crate) fn rows(&self) -> u64 {
        u64::try_from(self.rows.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of files.
    pub(crate) fn files(&self) -> u64 {
        u64::try_from(self.files.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes of both.
    pub(crate) fn total(&self) -> u64 {
        self.rows() + self.files()
    }

    fn is_counted(&self, row: &[u8]) -> bool {
        self.is_complete()
            || self.counted.lock().unwrap_or_else(PoisonError::into_inner).as_deref().is_some_and(|last| row <= last)
    }

    fn add(&self, cost: Cost) {
        self.rows.fetch_add(cost.rows, Ordering::Relaxed);
        self.files.fetch_add(cost.files, Ordering::Relaxed);
    }
}

//! Removing entries that nobody asked to remove: their time has passed, or there are too many.

use crate::error::Doing;
use crate::failure::Failure;
use crate::record::Record;
use crate::rows;
use crate::store::Store;
use crate::watch::Call;
use cachekit_core::BackendError;

/// How many entries a write removes at most to make room; the upkeep does the rest.
pub(crate) const EVICTED_PER_WRITE: usize = 32;

impl Store {
    /// Removes entries whose time has passed, at most `limit`, and says how many rows of the index it went through.
    pub(crate) fn sweep(&self, limit: usize) -> Result<usize, BackendError> {
        self.attempt(Doing::Write, |call| {
            let now_ms = u64::try_from(self.time.wall().as_millis()).unwrap_or(u64::MAX);
            let due = self.tables().current.names(rows::due_until(now_ms), limit)?;
            for row in &due {
                self.remove_due(call, row)?;
            }
            Ok(due.len())
        })
    }

    /// Removes entries until all of them fit into the budget: first those that end soonest, then those without an end,
    /// in the order of their keys and on from the last one. Whether it is done: it removes at most `limit`, and not
    /// `spared`, which was just written.
    pub(crate) fn make_room(&self, spared: Option<&str>, limit: usize) -> Result<bool, BackendError> {
        let budget = self.config.max_bytes();
        if budget == 0 || self.usage.total() <= budget {
            return Ok(true);
        }
        // Somebody else is at it.
        let Ok(mut last) = self.evicting.try_lock() else { return Ok(true) };
        self.attempt(Doing::Write, |call| {
            for _ in 0..limit {
                if self.usage.total() <= budget {
                    return Ok(true);
                }
                let due = self.tables().current.names(rows::due_until(u64::MAX), 2)?;
                let others = due.iter().find(|row| rows::parse_due(row).map(|(_, key)| key) != spared);
                if let Some(row) = others {
                    self.remove_due(call, row)?;
                } else if !self.evict_next(call, spared, &mut last)? {
                    return Ok(true);
                }
            }
            Ok(self.usage.total() <= budget)
        })
    }

    /// Removes the entry behind the last one, or the first; `false` when there is none.
    fn evict_next(&self, call: &Call<'_>, spared: Option<&str>, last: &mut Option<Vec<u8>>) -> Result<bool, Failure> {
        for _ in 0..2 {
            for row in self.tables().current.names(rows::entries_behind(last.as_deref()), 2)? {
                *last = Some(row.to_vec());
                match rows::key_of_entry(&row) {
                    key if key == spared => {}
                    Some(key) => {
                        let _stripe = self.lock_stripe(key);
                        self.remove(call, key)?;
                        return Ok(true);
                    }
                    None => self.tables().current.remove(&row)?,
                }
            }
            *last = None;
        }
        Ok(false)
    }

    /// Removes the entry that a row of the index is about, or only the row when it outlived its entry.
    fn remove_due(&self, call: &Call<'_>, row: &[u8]) -> Result<(), Failure> {
        let tables = self.tables();
        let Some((deadline, key)) = rows::parse_due(row) else { return Ok(tables.current.remove(row)?) };
        let _stripe = self.lock_stripe(key);
        let entry = tables.current.entry(key)?;
        let record = entry.as_deref().and_then(|entry| Record::decode(key, entry));
        if record.is_some_and(|record| record.lifetime.deadline_ms() == Some(deadline)) {
            self.remove(call, key)
        } else {
            // It says nothing about the entry that is there now.
            Ok(self.tables().current.remove(row)?)
        }
    }
}

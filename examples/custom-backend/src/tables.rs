//! What lies in the file: the entries, and which of them end when.

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An end, in milliseconds since the Unix epoch, and a value.
type Row = (u64, &'static [u8]);

pub(crate) const ENTRIES: TableDefinition<&[u8], Row> = TableDefinition::new("entries");
/// Ends and keys, so that what has ended is found without a search.
pub(crate) const ENDS: TableDefinition<(u64, &[u8]), ()> = TableDefinition::new("ends");
/// The end of an entry that has none.
pub(crate) const NEVER: u64 = u64::MAX;
/// So many entries are removed in one transaction of the sweep, for which every other writer waits.
pub(crate) const MOST_SWEPT: usize = 1_000;

/// The tables, open for writing.
pub(crate) struct Tables<'t> {
    entries: Table<'t, &'static [u8], Row>,
    ends: Table<'t, (u64, &'static [u8]), ()>,
}

impl<'t> Tables<'t> {
    pub(crate) fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self { entries: transaction.open_table(ENTRIES)?, ends: transaction.open_table(ENDS)? })
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), redb::Error> {
        let end = end_after(ttl);
        if let Some(older) = self.entries.insert(key, (end, value))? {
            self.ends.remove((older.value().0, key))?;
        }
        if end != NEVER {
            self.ends.insert((end, key), ())?;
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, redb::Error> {
        let Some(end) = self.entries.remove(key)?.map(|row| row.value().0) else { return Ok(false) };
        self.ends.remove((end, key))?;
        Ok(now() < end)
    }

    pub(crate) fn touch(&mut self, key: &[u8], ttl: Option<Duration>) -> Result<bool, redb::Error> {
        let Some(value) = find(&self.entries, key, |_, value| value.to_vec())? else { return Ok(false) };
        self.set(key, &value, ttl)?;
        Ok(true)
    }

    pub(crate) fn clear(&mut self, prefix: &[u8]) -> Result<(), redb::Error> {
        // No byte of a text is 255, so there is a next one: the first key behind all that start with the prefix.
        let mut behind = prefix.to_vec();
        if let Some(last) = behind.last_mut() {
            *last += 1;
        }
        for row in self.entries.extract_from_if(prefix..behind.as_slice(), |_, _| true)? {
            let (key, row) = row?;
            self.ends.remove((row.value().0, key.value()))?;
        }
        Ok(())
    }

    /// Removes entries that have ended, at most [`MOST_SWEPT`], and tells how many.
    pub(crate) fn sweep(&mut self) -> Result<usize, redb::Error> {
        let ended = ..(now() + 1, [].as_slice());
        let mut swept = 0;
        for row in self.ends.extract_from_if::<(u64, &[u8]), _>(ended, |_, ()| true)?.take(MOST_SWEPT) {
            self.entries.remove(row?.0.value().1)?;
            swept += 1;
        }
        Ok(swept)
    }
}

/// What `pick` makes of the end and the value of a live entry.
pub(crate) fn find<T>(
    entries: &impl ReadableTable<&'static [u8], Row>,
    key: &[u8],
    pick: impl FnOnce(u64, &[u8]) -> T,
) -> Result<Option<T>, redb::Error> {
    let row = entries.get(key)?;
    let live = row.as_ref().map(|row| row.value()).filter(|(end, _)| now() < *end);
    Ok(live.map(|(end, value)| pick(end, value)))
}

/// The first whole millisecond at which the time to live has passed: never too early, at most one too late.
fn end_after(ttl: Option<Duration>) -> u64 {
    let end = ttl.and_then(|ttl| since_epoch().checked_add(ttl.max(Duration::from_millis(1))));
    end.map_or(NEVER, |end| u64::try_from(end.as_nanos().div_ceil(1_000_000)).unwrap_or(NEVER))
}

pub(crate) fn now() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(NEVER)
}

/// By the wall clock, the only one that goes on while the program is not running.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

//! Who wrote what: every value names its key and its version, so that a wrong one is known at sight.

use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that can be told from every other one of its scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    key: String,
    version: u64,
    padding: String,
}

impl Value {
    /// Later values of a scenario have higher versions.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// All values of a scenario, whichever cache wrote them.
#[derive(Debug, Default)]
pub struct Ledger {
    latest: AtomicU64,
    issued: Mutex<HashMap<String, HashSet<u64>>>,
}

impl Ledger {
    /// A new value for a key, of at least so many bytes.
    #[must_use]
    pub fn issue(&self, key: &str, bytes: usize) -> Value {
        let version = self.latest.fetch_add(1, Ordering::SeqCst) + 1;
        self.lock().entry(key.to_owned()).or_default().insert(version);
        Value { key: key.to_owned(), version, padding: padding(version, bytes) }
    }

    /// The version of the newest value there is.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
    }

    /// Panics unless the value is one that was issued for this key, whole, and no older than `oldest`.
    pub fn check(&self, key: &str, value: &Value, oldest: u64) {
        let Value { key: of, version, padding: found } = value;
        assert!(of == key, "`{key}` was answered with a value of `{of}`");
        let issued = self.lock().get(key).is_some_and(|versions| versions.contains(version));
        assert!(issued, "`{key}` was answered with version {version}, which nobody wrote");
        assert!(*found == padding(*version, found.len()), "`{key}` was answered with a damaged value");
        assert!(*version >= oldest, "`{key}` was answered with version {version}, older than {oldest}");
    }

    /// Every key there was a value for, in a fixed order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.lock().keys().cloned().collect();
        keys.sort();
        keys
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, HashSet<u64>>> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Text that depends on the version, in each of its pieces.
fn padding(version: u64, bytes: usize) -> String {
    let piece = format!("{version:016x}.");
    let mut text = piece.repeat(bytes.div_ceil(piece.len()));
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_wrong_value_is_found() {
        let ledger = Ledger::default();
        let (older, other) = (ledger.issue("k", 40), ledger.issue("other", 40));
        let newer = ledger.issue("k", 40);
        ledger.check("k", &older, 0);
        ledger.check("k", &newer, newer.version());
        let mut unwritten = newer.clone();
        unwritten.version = 99;
        let mut torn = newer.clone();
        torn.padding = older.padding.clone();
        for (value, oldest) in [(other, 0), (unwritten, 0), (torn, 0), (older, newer.version())] {
            let ledger = std::panic::AssertUnwindSafe(&ledger);
            assert!(catch_unwind(|| ledger.check("k", &value, oldest)).is_err(), "{value:?}");
        }
    }
}

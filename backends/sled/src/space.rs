//! How much room there is on the file system, and whether that is enough to write.

use cachekit_core::{BackendError, ErrorKind};
use std::path::{Path, PathBuf};

/// The default of [`SledConfig::min_free_bytes`](crate::SledConfig::min_free_bytes): five percent, between these, but not
/// so much that a small file system of its own would be of no use.
const LEAST: u64 = 256 << 20;
const MOST: u64 = 5 << 30;
const MOST_OF_ALL: u64 = 4;
/// What sled needs to open and go on: a few of its segments. With less, its panics are not taken for damage.
const SLED_NEEDS: u64 = 8 << 20;

#[derive(Debug)]
pub(crate) struct Space {
    path: PathBuf,
    min_free_bytes: Option<u64>,
}

impl Space {
    pub(crate) fn new(path: &Path, min_free_bytes: Option<u64>) -> Self {
        Self { path: path.to_owned(), min_free_bytes }
    }

    /// Bytes that this user could still write.
    pub(crate) fn free(&self) -> Option<u64> {
        fs2::available_space(&self.path).ok()
    }

    /// # Errors
    ///
    /// When so many bytes more would leave less than has to stay free. What cannot be known is no reason to refuse.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), BackendError> {
        let Ok(stats) = fs2::statvfs(&self.path) else { return Ok(()) };
        let reserve = self.reserve(stats.total_space());
        let free = stats.available_space();
        if reserve == 0 || free >= reserve.saturating_add(bytes as u64) {
            return Ok(());
        }
        Err(BackendError::new(
            ErrorKind::OutOfSpace,
            format!("the file system of `{}` has {free} bytes left, of which {reserve} stay free", self.path.display()),
        ))
    }

    /// Whether sled, which stopped for want of room, would get on after a reopening.
    pub(crate) fn is_enough_for_sled(&self) -> bool {
        let Ok(stats) = fs2::statvfs(&self.path) else { return true };
        stats.available_space() >= self.reserve(stats.total_space()).max(SLED_NEEDS)
    }

    /// Whether there is so little that sled may have panicked for it.
    pub(crate) fn is_scarce(&self) -> bool {
        self.free().is_some_and(|free| free < SLED_NEEDS)
    }

    fn reserve(&self, total: u64) -> u64 {
        self.min_free_bytes.unwrap_or_else(|| (total / 20).clamp(LEAST, MOST).min(total / MOST_OF_ALL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_five_percent_within_bounds_unless_it_is_given() {
        let space = |min| Space::new(Path::new("/"), min);
        for (total, reserve) in [(64 << 20, 16 << 20), (2 << 30, LEAST), (40 << 30, 2 << 30), (10 << 40, MOST)] {
            assert_eq!(space(None).reserve(total), reserve);
            assert_eq!(space(Some(7)).reserve(total), 7);
        }
    }

    #[test]
    fn what_would_leave_too_little_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let space = |min| Space::new(directory.path(), min);
        let free = space(None).free().unwrap();
        assert!(free > 0);
        space(Some(0)).check(usize::MAX).unwrap();
        space(Some(1)).check(1).unwrap();
        assert_eq!(space(Some(u64::MAX)).check(0).unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(space(Some(1)).check(usize::MAX).unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert!(!space(Some(u64::MAX)).is_enough_for_sled());
        Space::new(Path::new("/no/such/path"), Some(u64::MAX)).check(1).unwrap();
    }
}

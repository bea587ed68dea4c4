//! What lies in the directory of a cache.
//!
//! - `cachekit.lock`, which the one process holds that has the directory open, and which says whose the directory is;
//! - `rows-<number>/`, a sled database, and for a while a second one that is to take its place ([`crate::rebuild`]);
//! - `values/`, the large values.

use crate::error::{Doing, from_io, locked};
use crate::quarantine::{is_set_aside, set_aside};
use cachekit_core::BackendError;
use fs2::FileExt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// In a sled database that was built beside an older one: it is whole, and the other one is to go.
/// What a directory without it holds is somebody else's.
pub(crate) const LOCK: &str = "cachekit.lock";
const COMPLETE: &str = "complete";
const ROWS: &str = "rows-";
/// Another process that just closed the directory, or was killed, lets go of its lock a little later.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A directory that nobody else can open while any clone of this is there.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// A thread that never ends may hold it as well.
    _lock: Arc<File>,
}

impl Directory {
    /// Locks an existing directory.
    pub(crate) fn lock(path: &Path) -> Result<Self, BackendError> {
        for _ in 1..LOCK_ATTEMPTS {
            if let Some(locked) = Self::try_lock(path)? {
                return Ok(locked);
            }
            thread::sleep(LOCK_PAUSE);
        }
        Self::try_lock(path)?.ok_or_else(|| locked(path))
    }

    fn try_lock(path: &Path) -> Result<Option<Self>, BackendError> {
        let lock = (|| -> io::Result<Option<File>> {
            // Another process may set it aside between the one call and the next.
            fs::create_dir_all(path)?;
            check_ours(path)?;
            let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK))?;
            match file.try_lock_exclusive() {
                Ok(()) => Ok(Some(file)),
                Err(error) if error.kind() == fs2::lock_contended_error().kind() => Ok(None),
                Err(error) => Err(error),
            }
        })();
        let lock = lock.map_err(|error| from_io(error, path, Doing::Open))?;
        Ok(lock.map(|file| Self { path: path.to_owned(), _lock: Arc::new(file) }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn values(&self) -> PathBuf {
        self.path.join("values")
    }

    /// The directory of the database to open; a new one when there is none. Others are left over from a process that was
    /// killed, and are removed.
    pub(crate) fn rows(&self) -> Result<PathBuf, BackendError> {
        let mut all = self.all_rows().map_err(|error| from_io(error, &self.path, Doing::Open))?;
        // The newest that is whole; without such a one, the oldest was being replaced.
        all.sort_by_key(|rows| (!rows.join(COMPLETE).exists(), number(rows)));
        let complete = all.iter().take_while(|rows| rows.join(COMPLETE).exists()).count();
        let Some(current) = all.get(complete.saturating_sub(1)).cloned() else { return Ok(self.new_rows()) };
        for other in all.iter().filter(|rows| **rows != current) {
            let _ = fs::remove_dir_all(other);
        }
        Ok(current)
    }

    /// A name that no database here had before: sled writes some files by their name even when it was given up, and
    /// must not find those of its successor there.
    pub(crate) fn new_rows(&self) -> PathBuf {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let last = self.all_rows().unwrap_or_default().iter().filter_map(|rows| number(rows)).max().unwrap_or(0);
        self.path.join(format!("{ROWS}{}", now.max(last + 1)))
    }

    /// From now on, this is the database.
    pub(crate) fn complete(rows: &Path) -> io::Result<()> {
        File::create(rows.join(COMPLETE)).map(drop)
    }

    /// Sets all of it aside and locks a fresh one in its place. Returns where the old one is now.
    pub(crate) fn replace(self) -> Result<(Self, PathBuf), BackendError> {
        let aside = set_aside(&self.path)?;
        Ok((Self::lock(&self.path)?, aside))
    }

    fn all_rows(&self) -> io::Result<Vec<PathBuf>> {
        let all = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        Ok(all.into_iter().filter(|path| number(path).is_some()).collect())
    }
}

/// A damaged cache may be set aside and its leftovers removed, so nothing but a cache may lie here.
fn check_ours(path: &Path) -> io::Result<()> {
    let is_ours = || path.join(LOCK).symlink_metadata().is_ok();
    if is_ours() {
        return Ok(());
    }
    let cache = path.file_name().unwrap_or_default();
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        // What a new file system comes with, and what was set aside within a directory that cannot be renamed. And another
        // process may just have made it a cache.
        if name != "lost+found" && !is_set_aside(&name, cache) && !is_ours() {
            let what = format!("it is no cache, and not empty: it holds {name:?}");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
    }
    Ok(())
}

fn number(rows: &Path) -> Option<u128> {
    rows.file_name()?.to_str()?.strip_prefix(ROWS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachekit_core::ErrorKind;

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_second_lock_is_refused_until_the_first_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("cache");
        let first = Directory::lock(&path).unwrap();
        let also = first.clone();
        drop(first);
        assert_eq!(Directory::lock(&path).unwrap_err().kind(), ErrorKind::Locked);
        drop(also);
        Directory::lock(&path).unwrap();
    }

    #[test]
    fn what_is_somebody_elses_is_refused_and_left_alone() {
        for name in ["db", "values", "rows-7", ".hidden", "lock"] {
            let parent = tempfile::tempdir().unwrap();
            fs::write(parent.path().join(name), b"precious").unwrap();
            let error = Directory::lock(parent.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
            assert!(error.context().contains(name), "{error}");
            assert_eq!(names(parent.path()), [name]);
        }
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join("lost+found")).unwrap();
        let within = format!("{}.corrupt-1", parent.path().file_name().unwrap().to_str().unwrap());
        fs::create_dir(parent.path().join(within)).unwrap();
        Directory::lock(parent.path()).unwrap();
    }

    #[test]
    fn a_replaced_directory_is_locked_anew_and_empty() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::lock(&parent.path().join("cache")).unwrap();
        let zombie = directory.clone();
        fs::create_dir(directory.new_rows()).unwrap();
        let (fresh, aside) = directory.replace().unwrap();
        assert_eq!(names(fresh.path()), [LOCK]);
        assert_eq!(names(&aside).len(), 2);
        assert_eq!(Directory::lock(zombie.path()).unwrap_err().kind(), ErrorKind::Locked);
    }

    #[test]
    fn the_newest_whole_database_counts_and_the_others_go() {
        for (there, current) in [
            (&["rows-7"][..], "rows-7"),
            (&["rows-7", "rows-8"], "rows-7"),
            (&["rows-7", "rows-8+"], "rows-8"),
            (&["rows-7+", "rows-8"], "rows-7"),
            (&["rows-9+", "rows-10+", "rows-11"], "rows-10"),
        ] {
            let parent = tempfile::tempdir().unwrap();
            let directory = Directory::lock(parent.path()).unwrap();
            for name in there {
                let rows = parent.path().join(name.trim_end_matches('+'));
                fs::create_dir(&rows).unwrap();
                if name.ends_with('+') {
                    Directory::complete(&rows).unwrap();
                }
            }
            fs::create_dir(parent.path().join("rows-of-somebody-else")).unwrap();
            assert_eq!(directory.rows().unwrap(), parent.path().join(current), "{there:?}");
            assert_eq!(names(parent.path()), [LOCK, current, "rows-of-somebody-else"], "{there:?}");
            assert!(number(&directory.new_rows()) > Some(11));
        }
    }
}

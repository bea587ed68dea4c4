//! Setting a damaged directory aside, so that a fresh one can take its place and somebody can still look at the damage.

use crate::directory::LOCK;
use crate::error::{Doing, from_io};
use cachekit_core::BackendError;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const MARK: &str = ".corrupt-";

/// Renames the directory to `<path>.corrupt-<unix seconds>`, removes older ones of that name, and returns the new one.
///
/// A directory that cannot be renamed, a mounted one for example, is emptied into one of that name within it.
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, BackendError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return empty_into_itself(path, OsStr::new("cache"));
    };
    let aside = unused(parent, name);
    if fs::rename(path, &aside).is_err() {
        return empty_into_itself(path, name);
    }
    remove_others(parent, name, &aside);
    Ok(aside)
}

fn empty_into_itself(path: &Path, name: &OsStr) -> Result<PathBuf, BackendError> {
    let aside = unused(path, name);
    let moved = (|| -> io::Result<()> {
        fs::create_dir(&aside)?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if !is_set_aside(&entry.file_name(), name) {
                fs::rename(entry.path(), aside.join(entry.file_name()))?;
            }
        }
        Ok(())
    })();
    moved.map_err(|error| from_io(error, path, Doing::SetAside))?;
    remove_others(path, name, &aside);
    Ok(aside)
}

fn unused(parent: &Path, name: &OsStr) -> PathBuf {
    let mut seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    loop {
        let mut file_name = OsString::from(name);
        file_name.push(format!("{MARK}{seconds}"));
        let path = parent.join(file_name);
        if path.symlink_metadata().is_err() {
            return path;
        }
        seconds += 1;
    }
}

/// Only what is surely ours: a directory with this name, the mark, and nothing but digits, that was a cache.
fn remove_others(parent: &Path, name: &OsStr, kept: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let was_a_cache = directory && entry.path().join(LOCK).symlink_metadata().is_ok();
        if was_a_cache && is_set_aside(&entry.file_name(), name) && entry.path() != kept {
            // What cannot be removed is merely kept.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

pub(crate) fn is_set_aside(file_name: &OsStr, name: &OsStr) -> bool {
    let mut prefix = OsString::from(name);
    prefix.push(MARK);
    let digits = file_name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_directory_is_renamed_and_only_older_ones_of_ours_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        for other in ["db.corrupt-1", "db.corrupt-22", "db.corrupt-", "db.corrupt-2x", "db2.corrupt-1", "db"] {
            fs::create_dir_all(parent.path().join(other).join(LOCK)).unwrap();
        }
        fs::create_dir(parent.path().join("db.corrupt-4")).unwrap();
        fs::write(parent.path().join("db.corrupt-3"), b"a file").unwrap();
        let aside = set_aside(&parent.path().join("db")).unwrap();
        assert!(aside.join(LOCK).is_dir());
        let aside = aside.file_name().unwrap().to_str().unwrap();
        assert_eq!(names(parent.path()), {
            let mut expected = ["db.corrupt-", "db.corrupt-2x", "db.corrupt-3", "db.corrupt-4", "db2.corrupt-1", aside];
            expected.sort_unstable();
            expected
        });
    }

    #[test]
    fn two_in_one_second_do_not_meet() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("db");
        for round in ["first", "second"] {
            fs::create_dir_all(path.join(round)).unwrap();
            fs::write(path.join(LOCK), b"").unwrap();
            let aside = set_aside(&path).unwrap();
            assert_eq!(names(&aside), [LOCK, round]);
        }
        assert_eq!(names(parent.path()).len(), 1);
    }

    #[test]
    fn what_cannot_be_renamed_is_emptied() {
        let directory = tempfile::tempdir().unwrap();
        for round in ["first", "second"] {
            fs::write(directory.path().join(round), b"x").unwrap();
            fs::write(directory.path().join(LOCK), b"").unwrap();
            let aside = empty_into_itself(directory.path(), OsStr::new("db")).unwrap();
            assert_eq!(names(&aside), [LOCK, round]);
            assert_eq!(names(directory.path()).len(), 1);
        }
    }
}

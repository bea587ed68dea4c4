//! Large values: each in a file of its own, named by the write that made it.
//!
//! Sled keeps what was overwritten in its log until it has moved everything else out of the way, so that large values
//! take many times their room there. A file gives its room back when it is removed. It is written whole before the row
//! that refers to it, and removed only after the row that replaced that one has reached the disk; so a kill at any point
//! leaves the older entry whole or the newer one, and besides only files that no row refers to, which the next opener
//! removes. For that each file begins with its key: `key_length(2) key value`.

use crate::rows::WriteId;
use crate::unique::Unique;
use cachekit_core::Bytes;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a file system hands out.
const BLOCK: u64 = 4_096;

#[derive(Debug)]
pub(crate) struct Values {
    directory: PathBuf,
    ids: Unique,
    /// Files that no row refers to any more, once what was written has reached the disk.
    replaced: Mutex<Vec<WriteId>>,
}

impl Values {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, ids: Unique::new(), replaced: Mutex::default() }
    }

    /// What a value takes of the disk.
    pub(crate) fn room(key: &str, length: u64) -> u64 {
        (length + 2 + key.len() as u64).next_multiple_of(BLOCK)
    }

    /// Writes a value. Nothing is left of one that could not be written whole.
    pub(crate) fn write(&self, key: &str, value: &[u8]) -> io::Result<WriteId> {
        let id = WriteId(self.ids.next());
        let path = self.path(id);
        let written = create(&path).and_then(|mut file| {
            file.write_all(&header(key))?;
            file.write_all(value)
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(id)
    }

    /// What was written; `None` when it is not there, or not whole.
    pub(crate) fn read(&self, key: &str, id: WriteId, length: u64) -> io::Result<Option<Bytes>> {
        let header = header(key);
        let all = match fs::read(self.path(id)) {
            Ok(all) => all,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let whole = all.starts_with(&header) && (all.len() - header.len()) as u64 == length;
        Ok(whole.then(|| Bytes::from(all).slice(header.len()..)))
    }

    /// A row that referred to this was replaced or removed.
    pub(crate) fn replaced(&self, id: WriteId) {
        self.lock_replaced().push(id);
    }

    /// Runs a flush, and removes what was replaced before it.
    pub(crate) fn remove_replaced<E>(&self, flush: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let replaced = std::mem::take(&mut *self.lock_replaced());
        if let Err(error) = flush() {
            self.lock_replaced().extend(replaced);
            return Err(error);
        }
        replaced.into_iter().for_each(|id| self.remove(id));
        Ok(())
    }

    /// One that cannot be removed is an orphan for the next opener.
    pub(crate) fn remove(&self, id: WriteId) {
        let _ = fs::remove_file(self.path(id));
    }

    /// Goes through the files of earlier runs, each with its key, and removes those that are not `wanted`. What is not
    /// named as ours are stays, and what a link leads to as well.
    pub(crate) fn remove_orphans<E>(&self, mut wanted: impl FnMut(&str, WriteId) -> Result<bool, E>) -> Result<(), E> {
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if !is_directory(&self.directory) {
            return Ok(());
        }
        for path in entries(&self.directory).filter(|path| is_directory(path)).flat_map(|path| entries(&path)) {
            let id = path.file_name().and_then(|name| WriteId::from_hex(name.to_str()?));
            let Some(id) = id.filter(|id| !self.ids.is_of_this_run(&id.0) && path == self.path(*id)) else { continue };
            if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
                continue;
            }
            // One without its key was not written whole.
            let wanted = read_key(&path).map_or(Ok(false), |key| wanted(&key, id))?;
            if !wanted {
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }

    fn path(&self, id: WriteId) -> PathBuf {
        let name = id.to_hex();
        // The last digits change from one to the next.
        self.directory.join(&name[name.len() - 2..]).join(name)
    }

    fn lock_replaced(&self) -> MutexGuard<'_, Vec<WriteId>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn create(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create_new(path)
        }
        created => created,
    }
}

fn header(key: &str) -> Vec<u8> {
    // Keys have at most 1,024 bytes.
    let length = u16::try_from(key.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes()[..], key.as_bytes()].concat()
}

fn read_key(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut length = [0; 2];
    file.read_exact(&mut length).ok()?;
    let mut key = vec![0; u16::from_be_bytes(length).into()];
    file.read_exact(&mut key).ok()?;
    String::from_utf8(key).ok()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(values: &Values) -> usize {
        entries(&values.directory).map(|directory| entries(&directory).count()).sum()
    }

    #[test]
    fn what_was_written_comes_back_for_its_key_and_length_only() {
        let directory = tempfile::tempdir().unwrap();
        let values = Values::new(directory.path().join("values"));
        for (key, value) in [("k", &b"value"[..]), ("é\0/..", b""), (&"k".repeat(1_024), &[0xFF; 100_000])] {
            let id = values.write(key, value).unwrap();
            assert_eq!(values.read(key, id, value.len() as u64).unwrap().as_deref(), Some(value));
            assert_eq!(values.read(key, id, value.len() as u64 + 1).unwrap(), None);
            assert_eq!(values.read("other", id, value.len() as u64).unwrap(), None);
        }
        assert_eq!(values.read("k", WriteId([0; 16]), 5).unwrap(), None);
    }

    #[test]
    fn a_replaced_value_stays_until_a_flush_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let values = Values::new(directory.path().to_owned());
        let (old, new) = (values.write("k", b"old").unwrap(), values.write("k", b"new").unwrap());
        values.replaced(old);
        values.remove_replaced(|| Err(())).unwrap_err();
        assert_eq!(values.read("k", old, 3).unwrap().as_deref(), Some(&b"old"[..]));
        values
            .remove_replaced(|| {
                values.replaced(new); // During the flush, so not for this one.
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(values.read("k", old, 3).unwrap(), None);
        assert!(values.read("k", new, 3).unwrap().is_some());
        assert_eq!(*values.lock_replaced(), [new]);
    }

    #[test]
    fn orphans_are_what_an_earlier_run_left_and_no_row_wants() {
        let directory = tempfile::tempdir().unwrap();
        let before = Values::new(directory.path().to_owned());
        let wanted = before.write("wanted", b"1").unwrap();
        for key in ["overwritten", "never committed"] {
            before.write(key, b"2").unwrap();
        }
        let now = Values::new(directory.path().to_owned());
        let fresh = now.write("just being written", b"3").unwrap();
        let half = before.path(WriteId([7; 16]));
        fs::create_dir_all(half.parent().unwrap()).unwrap();
        fs::write(half, b"\0").unwrap();
        // Somebody else's, also behind a link.
        let elsewhere = tempfile::tempdir().unwrap();
        let orphan = before.write("orphan", b"4").unwrap();
        let linked = elsewhere.path().join(orphan.to_hex());
        fs::rename(now.path(orphan), &linked).unwrap();
        std::os::unix::fs::symlink(&linked, now.path(orphan)).unwrap();
        fs::write(now.path(fresh).with_file_name("precious"), b"").unwrap();
        assert_eq!(count(&now), 7);
        now.remove_orphans(|key, id| Ok::<_, ()>(key == "wanted" && id == wanted)).unwrap();
        assert_eq!(count(&now), 4);
        assert!(linked.exists());
        assert!(now.read("wanted", wanted, 1).unwrap().is_some());
        assert!(now.read("just being written", fresh, 1).unwrap().is_some());
    }

    #[test]
    fn a_value_that_could_not_be_written_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), b"").unwrap();
        let values = Values::new(directory.path().join("file"));
        values.write("k", b"v").unwrap_err();
    }
}

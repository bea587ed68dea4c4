//! Opening with a deadline: on some damaged directories sled loops for ever, and nobody can stop a thread.

use crate::error::{Doing, from_io};
use cachekit_core::{BackendError, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How much longer a large file may take: sled reads the whole of it after a kill.
const BYTES_PER_SECOND: u64 = 64 << 20;
/// Each takes a processor for itself, so there is a limit, and then nothing is opened any more.
const MOST_HUNG: usize = 8;

static HUNG: AtomicUsize = AtomicUsize::new(0);

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Unopened {
    Failed(BackendError),
    /// It goes on for ever, or at least for much longer than it should.
    Late(BackendError),
}

/// How many threads of this process never came back from sled.
pub(crate) fn hung() -> usize {
    HUNG.load(Ordering::Relaxed)
}

/// A thread that never came back, until it does.
#[derive(Debug)]
pub(crate) struct Hung(());

impl Hung {
    pub(crate) fn one_more() -> Self {
        HUNG.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        HUNG.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `open` on a thread of its own, and waits for `timeout`, and longer for a file of many `bytes`.
pub(crate) fn within<T: Send + 'static>(
    timeout: Duration,
    bytes: u64,
    path: &Path,
    open: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
) -> Result<T, Unopened> {
    if hung() >= MOST_HUNG {
        return Err(Unopened::Failed(too_many()));
    }
    let limit = timeout.saturating_add(Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND));
    let (done, opened) = channel();
    // Set by whoever is first: the thread that is done, or this one that waits no longer.
    let decided = Arc::new(AtomicBool::new(false));
    let its_decided = decided.clone();
    let thread = thread::Builder::new().name("cachekit-sled-open".to_owned()).spawn(move || {
        let result = open();
        if its_decided.swap(true, Ordering::AcqRel) {
            drop(result);
            HUNG.fetch_sub(1, Ordering::Relaxed);
        } else {
            let _ = done.send(result);
        }
    });
    thread.map_err(|error| Unopened::Failed(from_io(error, path, Doing::Open)))?;
    let result = match opened.recv_timeout(limit) {
        Err(RecvTimeoutError::Timeout) => {
            HUNG.fetch_add(1, Ordering::Relaxed);
            if !decided.swap(true, Ordering::AcqRel) {
                let what = format!("the sled database `{}` was not open after {limit:?}", path.display());
                return Err(Unopened::Late(BackendError::new(ErrorKind::Timeout, what)));
            }
            HUNG.fetch_sub(1, Ordering::Relaxed);
            opened.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
        result => result,
    };
    match result {
        Ok(result) => result.map_err(Unopened::Failed),
        Err(_) => Err(Unopened::Failed(BackendError::new(ErrorKind::Internal, "the opening of sled panicked"))),
    }
}

/// Which says nothing about the files.
fn too_many() -> BackendError {
    let what = format!("sled hangs in {MOST_HUNG} threads of this process already, so it opens nothing more");
    BackendError::new(ErrorKind::Overloaded, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::is_damage;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn who_takes_too_long_is_left_behind_and_counted_until_it_ends() {
        let (end, ended) = channel::<()>();
        let path = Path::new("/p");
        assert_eq!(within(Duration::from_secs(60), 0, path, || Ok(7)).unwrap(), 7);
        let before = hung();
        let late = within(SHORT, 0, path, move || Ok(ended.recv().is_ok()));
        assert!(matches!(&late, Err(Unopened::Late(error)) if error.kind() == ErrorKind::Timeout), "{late:?}");
        assert!(hung() > before);
        drop(end);
        let deadline = Instant::now() + Duration::from_secs(10);
        while hung() > before {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn too_many_threads_that_hang_are_no_reason_to_set_anything_aside() {
        assert!(!is_damage(&too_many()));
    }

    #[test]
    fn a_large_file_has_more_time_and_a_panic_is_an_error() {
        let slow = || {
            thread::sleep(SHORT * 5);
            Ok(())
        };
        within(SHORT, 10 << 30, Path::new("/p"), slow).unwrap();
        let failed = within::<()>(SHORT * 100, 0, Path::new("/p"), || {
            std::panic::resume_unwind(Box::new("without a message"));
        });
        assert!(matches!(failed, Err(Unopened::Failed(error)) if error.kind() == ErrorKind::Internal));
    }
}

//! The end of a cache.

use super::{Cache, Error};
use crate::timer;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How often a close looks whether the calls under way are through.
const POLL: Duration = Duration::from_millis(1);

impl Cache {
    /// Ends the use of the backend: waits for the calls under way, then closes it, both within the deadline.
    ///
    /// Afterwards L1 is still read, [`get_or_compute`](Self::get_or_compute) runs its function uncached, and `set`,
    /// `delete` and `clear` are [`Closed`](crate::ErrorKind::Closed). Closing twice is fine. It concerns all clones.
    ///
    /// # Errors
    ///
    /// [`Timeout`](crate::ErrorKind::Timeout) when the backend did not close in time, or whatever it said: what it had
    /// acknowledged may not be flushed. [`ConfigInvalid`](crate::ErrorKind::ConfigInvalid) when there is a backend and
    /// no Tokio runtime.
    pub async fn close(&self, deadline: Duration) -> Result<(), Error> {
        let shared = &*self.shared;
        shared.closed.store(true, Ordering::Release);
        let Some(l2) = shared.l2()? else { return Ok(()) };
        let started = Instant::now();
        while shared.activity.len() > 0 && started.elapsed() < deadline {
            timer::sleep(POLL)?.await;
        }
        Ok(l2.close(deadline.saturating_sub(started.elapsed())).await?)
    }
}

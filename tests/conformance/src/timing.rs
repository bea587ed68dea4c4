//! Conclusions from clocks: a store has its own, and the machine may stop a test at any moment.
//!
//! A check never concludes from a sleep, only from the times it measured: that an entry went too early from a read that
//! ended before its end, that it stayed too long from a read that began after it. A read that fell in between says
//! nothing.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::Subject;
use std::time::{Duration, Instant};

/// How far the store's clock and ours may run apart during a check: both may be slewed.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(5);
const POLL: Duration = Duration::from_millis(10);

/// The times to try in turn, each for a machine that was too slow for the one before.
pub(crate) fn widening(first: Duration) -> impl Iterator<Item = Duration> + Send {
    (0..5).map(move |round| first * (1 << round))
}

pub(crate) fn too_slow() -> Failure {
    Failure::suite("this machine was too slow to tell, several times; run the check when it has less to do")
}

/// When a write was sent and when it was acknowledged: its time to live began in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) before: Instant,
    pub(crate) after: Instant,
}

impl Written {
    /// Whether an entry with this time to live must be there for a call that has ended just now.
    pub(crate) fn must_still_live(&self, ttl: Duration) -> bool {
        self.before.elapsed() + TOLERANCE < ttl
    }
}

impl Subject {
    /// The first moment at which what was written with this time to live must be gone.
    pub(crate) fn end_of(&self, written: Written, ttl: Duration) -> Instant {
        written.after + ttl + self.capabilities().ttl_slack() + TOLERANCE
    }

    /// Waits for an entry to expire; it fails when it is still there after its time and the slack. Nobody reads it
    /// before its time has passed.
    pub(crate) async fn expires(&self, key: &str, written: Written, ttl: Duration, which: &str) -> Outcome {
        sleep_until(written.after + ttl).await;
        let end = self.end_of(written, ttl);
        loop {
            let asked = Instant::now();
            if self.get(key).await?.is_none() {
                return Ok(());
            }
            if asked > end {
                let age = asked - written.after;
                let slack = self.capabilities().ttl_slack();
                return Err(Failure::backend(format!(
                    "{which} was to live for {ttl:?}, and is still there after {age:?}; `ttl_slack` allows {slack:?}"
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Reads an entry until its time to live has passed; it fails when it goes earlier. `false`: too slow to tell, since
    /// no read fell between the age of `from` and the end.
    pub(crate) async fn lives(
        &self,
        key: &str,
        written: Written,
        ttl: Duration,
        from: Duration,
        which: &str,
    ) -> Result<bool, Failure> {
        let mut late_enough = false;
        loop {
            let found = self.get(key).await?.is_some();
            let age = written.before.elapsed();
            if !written.must_still_live(ttl) {
                return Ok(late_enough);
            }
            if !found {
                let text = format!("{which} was to live for {ttl:?}, and was gone {age:?} after it was sent");
                return Err(Failure::backend(text));
            }
            late_enough |= age > from;
            tokio::time::sleep(POLL).await;
        }
    }
}

pub(crate) async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment.into()).await;
}

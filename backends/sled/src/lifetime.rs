//! How long an entry lives, in milliseconds of the wall clock: the only time that still means something after a
//! restart.

use cachekit_core::{BackendError, ErrorKind, TtlState};
use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the backend reads the time; tests move it.
pub(crate) trait Time: Debug + Send + Sync + 'static {
    /// Since the Unix epoch. It may jump.
    fn wall(&self) -> Duration;

    /// Since some moment in the past. It never goes back.
    fn monotonic(&self) -> Duration;
}

/// The operating system's clocks.
#[derive(Debug)]
pub(crate) struct SystemTimes;

impl Time for SystemTimes {
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        // One start for all, since locks outlive the database they were taken with.
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// The deadline of an entry that has none.
const NEVER: u64 = u64::MAX;

/// When an entry was written and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) written_ms: u64,
    pub(crate) deadline_ms: u64,
}

impl Lifetime {
    /// Of an entry written now. Both ends round up, so that it lives no shorter than asked for, and less than a
    /// millisecond longer.
    pub(crate) fn starting(now: Duration, ttl: Option<Duration>) -> Result<Self, BackendError> {
        let written_ms = u64::try_from(millis_up(now)).unwrap_or(NEVER);
        let deadline_ms = match ttl {
            Some(Duration::ZERO) => return Err(BackendError::new(ErrorKind::TtlInvalid, "the time to live is zero")),
            Some(ttl) => u64::try_from(millis_up(now) + millis_up(ttl)).unwrap_or(NEVER),
            None => NEVER,
        };
        Ok(Self { written_ms, deadline_ms })
    }

    /// The deadline, if there is one: what the index of deadlines holds.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        (self.deadline_ms != NEVER).then_some(self.deadline_ms)
    }

    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.deadline_ms().is_some_and(|deadline| now.as_millis() >= u128::from(deadline))
    }

    /// What is left; never more than was asked for, even when the wall clock went back since.
    pub(crate) fn left(&self, now: Duration) -> TtlState {
        match self.deadline_ms() {
            None => TtlState::NoExpiry,
            Some(_) if self.is_over(now) => TtlState::Missing,
            Some(deadline) => {
                let asked_for = Duration::from_millis(deadline.saturating_sub(self.written_ms));
                TtlState::Remaining(Duration::from_millis(deadline).saturating_sub(now).min(asked_for))
            }
        }
    }
}

fn millis_up(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
pub(crate) mod manual {
    use super::*;
    use std::sync::Mutex;

    /// Clocks that stand still until a test moves them.
    #[derive(Debug)]
    pub(crate) struct ManualTimes(Mutex<(Duration, Duration)>);

    impl ManualTimes {
        pub(crate) fn new() -> Self {
            Self(Mutex::new((Duration::from_millis(1_760_000_000_000), Duration::ZERO)))
        }

        /// Time passes.
        pub(crate) fn advance(&self, by: Duration) {
            let mut times = self.0.lock().unwrap();
            times.0 += by;
            times.1 += by;
        }

        /// Somebody sets the wall clock.
        pub(crate) fn set_wall(&self, to: Duration) {
            self.0.lock().unwrap().0 = to;
        }
    }

    impl Time for ManualTimes {
        fn wall(&self) -> Duration {
            self.0.lock().unwrap().0
        }

        fn monotonic(&self) -> Duration {
            self.0.lock().unwrap().1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::new(1_760_000_000, 123_456_789);

    #[test]
    fn it_lives_at_least_as_long_as_asked_for_and_at_most_a_millisecond_longer() {
        for ms in [1, 2, 999, 1_000, 86_400_000] {
            let ttl = Duration::from_millis(ms);
            let life = Lifetime::starting(NOW, Some(ttl)).unwrap();
            assert!(!life.is_over(NOW + ttl - Duration::from_nanos(1)), "{ms}");
            assert!(life.is_over(NOW + ttl + Duration::from_millis(1)), "{ms}");
        }
    }

    #[test]
    fn a_part_of_a_millisecond_counts_as_a_whole_one() {
        let whole = Lifetime::starting(NOW, Some(Duration::from_millis(1))).unwrap();
        assert_eq!(Lifetime::starting(NOW, Some(Duration::from_nanos(1))).unwrap(), whole);
    }

    #[test]
    fn zero_is_refused_and_huge_is_for_ever() {
        assert_eq!(Lifetime::starting(NOW, Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::TtlInvalid);
        for huge in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_secs(u64::MAX / 1_000)] {
            let life = Lifetime::starting(NOW, Some(huge)).unwrap();
            assert_eq!(life.left(NOW), TtlState::NoExpiry);
            assert!(!life.is_over(Duration::MAX));
        }
    }

    #[test]
    fn what_is_left_is_never_more_than_was_asked_for() {
        let life = Lifetime::starting(NOW, Some(Duration::from_secs(60))).unwrap();
        assert!(matches!(life.left(NOW), TtlState::Remaining(left) if left <= Duration::from_secs(60)));
        assert_eq!(life.left(NOW - Duration::from_secs(3_600)), TtlState::Remaining(Duration::from_secs(60)));
        assert_eq!(life.left(NOW + Duration::from_secs(61)), TtlState::Missing);
    }
}

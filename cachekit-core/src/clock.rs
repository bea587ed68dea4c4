//! The one source of time: a monotonic reading for every decision, a wall reading for entry headers only.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point on a clock's monotonic scale, in nanoseconds. Only the difference of two ticks of one clock has a meaning.
pub type Tick = u64;

/// A duration in ticks, saturated: `Duration::MAX` is further away than any clock gets.
#[must_use]
pub fn ticks(duration: Duration) -> Tick {
    Tick::try_from(duration.as_nanos()).unwrap_or(Tick::MAX)
}

/// Where a cache and a circuit breaker read the time.
///
/// [`SystemClock`] is the default; `ManualClock` of the feature `testing` is moved by hand.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The monotonic reading, in nanoseconds.
    fn now(&self) -> Tick;

    /// Whether `deadline` has not passed yet: `now() <= deadline`.
    ///
    /// An implementation may answer `true` from a cheaper reading that is never ahead of [`now`](Self::now) by more
    /// than it accounts for; it must never answer `true` after the deadline.
    fn not_after(&self, deadline: Tick) -> bool {
        self.now() <= deadline
    }

    /// Milliseconds since the Unix epoch. It may jump; nothing but an entry's header is compared with it.
    fn wall_millis(&self) -> u64;
}

/// The tick at which this process first looked at a clock. It is not zero, since a paused Tokio clock may stand at a
/// moment before that.
const ORIGIN: Tick = 3_600 * 1_000_000_000;

/// Tokio's clock, which is the operating system's unless a test pauses it.
///
/// Where Tokio's clock cannot be paused in this build, [`not_after`](Clock::not_after) first asks the kernel's coarse
/// clock (Linux), which costs a fraction of the exact one, and reads the exact one only near the deadline.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    base: Instant,
    coarse_base: Tick,
}

impl SystemClock {
    /// The clock. Every one of a process shows the same ticks.
    #[must_use]
    pub fn new() -> Self {
        static BASE: OnceLock<SystemClock> = OnceLock::new();
        // The coarse reading first: it lags the exact one, so counting from it never runs behind.
        *BASE.get_or_init(|| {
            let coarse_base = coarse::now();
            SystemClock { base: Instant::now(), coarse_base }
        })
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Tick {
        let now = tokio::time::Instant::now().into_std();
        match now.checked_duration_since(self.base) {
            Some(since) => ORIGIN.saturating_add(ticks(since)),
            None => ORIGIN.saturating_sub(ticks(self.base.duration_since(now))),
        }
    }

    fn not_after(&self, deadline: Tick) -> bool {
        if !pausable::TOKIO_CLOCK_CAN_BE_PAUSED {
            // The exact reading is at most one resolution ahead of the coarse one.
            let latest = ORIGIN + (coarse::now() - self.coarse_base) + coarse::RESOLUTION;
            if latest <= deadline {
                return true;
            }
        }
        self.now() <= deadline
    }

    fn wall_millis(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(target_os = "linux")]
mod coarse {
    use super::Tick;

    /// The longest timer tick a Linux kernel is configured with (`HZ=100`), and a little for the crate's rounding.
    pub(super) const RESOLUTION: Tick = 10_000_100;

    pub(super) fn now() -> Tick {
        let since_boot = coarsetime::Instant::now_without_cache_update() - coarsetime::Instant::from_ticks(0);
        since_boot.as_nanos()
    }
}

#[cfg(not(target_os = "linux"))]
mod coarse {
    use super::Tick;

    /// No coarse clock here: never early enough to answer, so the exact clock always does.
    pub(super) const RESOLUTION: Tick = Tick::MAX / 2;

    pub(super) fn now() -> Tick {
        0
    }
}

/// Finds at compile time whether some crate of this build switched on Tokio's `test-util`, without a feature of ours
/// that every user's test would have to name: with it the runtime builder has a method `start_paused`, and an inherent
/// method wins over that of a trait.
mod pausable {
    use tokio::runtime::Builder;

    pub(super) const TOKIO_CLOCK_CAN_BE_PAUSED: bool = can_pause(|builder| builder.start_paused(true));

    trait Outcome {
        const CAN_PAUSE: bool;
    }
    impl Outcome for &'static mut Builder {
        const CAN_PAUSE: bool = true;
    }
    struct NoSuchMethod;
    impl Outcome for NoSuchMethod {
        const CAN_PAUSE: bool = false;
    }

    #[allow(dead_code, reason = "unused exactly when Tokio has the method itself")]
    trait Fallback {
        fn start_paused(&'static mut self, _: bool) -> NoSuchMethod {
            NoSuchMethod
        }
    }
    impl Fallback for Builder {}

    const fn can_pause<T: Outcome>(_: fn(&'static mut Builder) -> T) -> bool {
        T::CAN_PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_build_notices_that_its_clock_can_be_paused() {
        const { assert!(pausable::TOKIO_CLOCK_CAN_BE_PAUSED, "the dev-dependency on Tokio has `test-util`") };
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_moves_the_ticks_exactly() {
        let clock = SystemClock::new();
        let start = clock.now();
        tokio::time::advance(Duration::from_secs(7_200)).await;
        assert_eq!(clock.now() - start, ticks(Duration::from_secs(7_200)));
        assert!(!clock.not_after(start));
    }

    #[test]
    fn a_huge_duration_saturates() {
        assert_eq!(ticks(Duration::MAX), Tick::MAX);
    }
}

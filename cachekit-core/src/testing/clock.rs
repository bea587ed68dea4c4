//! A clock that stands still until a test moves it.

use crate::{Clock, Tick, ticks};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Not zero, so that a subtraction that underflows shows up in a test.
const START_TICK: Tick = 3_600 * 1_000_000_000;
/// 9 October 2025.
const START_WALL_MILLIS: u64 = 1_760_000_000_000;

/// A [`Clock`] that a test moves. Clones show and move the same time.
///
/// ```
/// use cachekit_core::testing::ManualClock;
/// use cachekit_core::Clock;
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let (tick, wall) = (clock.now(), clock.wall_millis());
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now() - tick, 60_000_000_000);
/// assert_eq!(clock.wall_millis() - wall, 60_000);
///
/// // Somebody sets the machine's clock back by an hour: only the wall time notices.
/// clock.shift_wall(-3_600_000);
/// assert_eq!(clock.now() - tick, 60_000_000_000);
/// assert!(clock.wall_millis() < wall);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: Arc<Time>,
}

#[derive(Debug)]
struct Time {
    tick: AtomicU64,
    /// In nanoseconds from the epoch, so that advances of parts of a millisecond add up; the year 2554 is the end.
    wall_nanos: AtomicU64,
}

impl ManualClock {
    /// A clock at 1,760,000,000,000 ms of wall time (9 October 2025), and at a tick that is not zero.
    #[must_use]
    pub fn new() -> Self {
        let wall_nanos = AtomicU64::new(nanos(START_WALL_MILLIS));
        Self { time: Arc::new(Time { tick: AtomicU64::new(START_TICK), wall_nanos }) }
    }

    /// Lets time pass, on both scales.
    pub fn advance(&self, by: Duration) {
        update(&self.time.tick, |tick| tick.saturating_add(ticks(by)));
        update(&self.time.wall_nanos, |wall| wall.saturating_add(ticks(by)));
    }

    /// Sets the wall time alone, as an administrator does.
    pub fn set_wall_millis(&self, millis: u64) {
        self.time.wall_nanos.store(nanos(millis), Ordering::SeqCst);
    }

    /// Makes the wall time alone jump, forward or back.
    pub fn shift_wall(&self, millis: i64) {
        let by = nanos(millis.unsigned_abs());
        update(
            &self.time.wall_nanos,
            |wall| if millis < 0 { wall.saturating_sub(by) } else { wall.saturating_add(by) },
        );
    }
}

fn nanos(millis: u64) -> u64 {
    millis.saturating_mul(1_000_000)
}

fn update(value: &AtomicU64, change: impl Fn(u64) -> u64) {
    // Never an error: the closure always gives a value.
    let _ = value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(change(old)));
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        self.time.tick.load(Ordering::SeqCst)
    }

    fn wall_millis(&self) -> u64 {
        self.time.wall_nanos.load(Ordering::SeqCst) / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_move_together() {
        let clock = ManualClock::new();
        let other = clock.clone();
        other.advance(Duration::from_micros(700));
        other.advance(Duration::from_micros(700));
        assert_eq!(clock.now(), START_TICK + 1_400_000);
        assert_eq!(clock.wall_millis(), START_WALL_MILLIS + 1);
    }

    #[test]
    fn only_the_wall_jumps() {
        let clock = ManualClock::new();
        clock.shift_wall(-1);
        assert_eq!(clock.wall_millis(), START_WALL_MILLIS - 1);
        clock.shift_wall(i64::MIN);
        assert_eq!(clock.wall_millis(), 0);
        clock.set_wall_millis(5_000);
        assert_eq!((clock.wall_millis(), clock.now()), (5_000, START_TICK));
    }

    #[test]
    fn the_end_of_time_is_not_an_overflow() {
        let clock = ManualClock::new();
        clock.advance(Duration::MAX);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Tick::MAX);
    }
}

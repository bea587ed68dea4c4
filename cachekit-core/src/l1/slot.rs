//! One entry of the in-process tier.

use crate::clock::{Tick, ticks};
use std::any::Any;
use std::time::Duration;

/// The entry of a key for which the function found nothing.
#[derive(Debug)]
pub(crate) struct Absent;

/// A value as its own type, next to what decides about it. Unsized at the end, so that one allocation holds both.
pub(crate) struct Slot<T: ?Sized = dyn Any + Send + Sync> {
    /// The last tick at which it may be served; `Tick::MAX`: always.
    pub(super) last: Tick,
    /// The tick at which it was written, by whomever; before this process started for an entry older than that.
    born: i64,
    pub(super) weight: u32,
    pub(super) value: T,
}

impl<T> Slot<T> {
    /// `lives`: how much longer; `None` is for ever. `age`: how long ago it was written.
    pub(crate) fn new(value: T, weight: u32, now: Tick, lives: Option<Duration>, age: Duration) -> Self {
        let last = lives.map_or(Tick::MAX, |lives| now.saturating_add(ticks(lives)).saturating_sub(1));
        let born = signed(now).saturating_sub(signed(ticks(age)));
        Self { last, born, weight, value }
    }
}

impl<T: ?Sized> Slot<T> {
    pub(crate) fn age(&self, now: Tick) -> Duration {
        Duration::from_nanos(u64::try_from(signed(now).saturating_sub(self.born)).unwrap_or(0))
    }
}

fn signed(tick: Tick) -> i64 {
    i64::try_from(tick).unwrap_or(i64::MAX)
}

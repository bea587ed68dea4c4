//! Finding out that sled will never answer: on some damaged pages it loops for ever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often somebody looks.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// How often one call has to be seen before it counts as one that never ends. Counted in looks, not by a clock, so that
/// a process that was stopped, or a machine with no time for us, is no reason.
pub(crate) const PATIENCE: u32 = 12;
/// More calls at once than this are not watched.
const SLOTS: usize = 64;
/// In the slot of a call that waits for the disk.
const WAITING: u64 = u64::MAX;

/// The calls of sled that are under way. Waiting for the disk is not among them: that may take long and end well.
#[derive(Debug)]
pub(crate) struct Calls {
    next: AtomicU64,
    running: [AtomicU64; SLOTS],
}

/// A call, until it is dropped.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    calls: &'a Calls,
    slot: Option<&'a AtomicU64>,
}

/// What one watcher has seen so far.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: [(u64, u32); SLOTS],
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(1), running: [const { AtomicU64::new(0) }; SLOTS] }
    }

    pub(crate) fn begin(&self) -> Call<'_> {
        let name = self.name();
        let start = usize::try_from(name % SLOTS as u64).unwrap_or_default();
        let mut slots = self.running[start..].iter().chain(&self.running[..start]);
        let slot = slots.find(|slot| slot.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        Call { calls: self, slot }
    }

    fn name(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl Call<'_> {
    /// Runs what waits for the disk.
    pub(crate) fn pause<T>(&self, wait: impl FnOnce() -> T) -> T {
        let Some(slot) = self.slot else { return wait() };
        // Not zero, which would give the slot away.
        slot.store(WAITING, Ordering::Relaxed);
        let done = wait();
        slot.store(self.calls.name(), Ordering::Relaxed);
        done
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.store(0, Ordering::Relaxed);
        }
    }
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { seen: [(0, 0); SLOTS] }
    }

    /// Looks once; whether a call was seen by `patience` looks in a row.
    pub(crate) fn look(&mut self, calls: &Calls, patience: u32) -> bool {
        let mut stuck = false;
        for (slot, (name, times)) in calls.running.iter().zip(&mut self.seen) {
            let now = slot.load(Ordering::Relaxed);
            let running = now != 0 && now != WAITING;
            *times = if running && now == *name { *times + 1 } else { 1 };
            *name = now;
            stuck |= running && *times >= patience;
        }
        stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_stays_is_found_out_and_those_that_come_and_go_are_not() {
        let (calls, mut watch) = (Calls::new(), Watch::new());
        for _ in 0..500 {
            let _short = calls.begin();
            assert!(!watch.look(&calls, 3));
        }
        let stuck = calls.begin();
        assert_eq!([(); 3].map(|()| watch.look(&calls, 3)), [false, false, true]);
        drop(stuck);
        assert!(!watch.look(&calls, 3));
    }

    #[test]
    fn waiting_for_the_disk_is_not_being_stuck() {
        let (calls, mut watch) = (Calls::new(), Watch::new());
        let call = calls.begin();
        call.pause(|| assert!((0..9).all(|_| !watch.look(&calls, 3))));
        assert_eq!([(); 3].map(|()| watch.look(&calls, 3)), [false, false, true]);
    }

    #[test]
    fn more_calls_than_there_are_slots_work_unwatched() {
        let calls = Calls::new();
        let all: Vec<_> = (0..2 * SLOTS).map(|_| calls.begin()).collect();
        assert_eq!(all.iter().filter(|call| call.slot.is_some()).count(), SLOTS);
        drop(all);
        assert!(calls.begin().slot.is_some());
    }
}

//! The handle by which a test makes a backend fail.

use super::random::{mix, unit};
use super::{Corruption, Fault, Op};
use crate::ErrorKind;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The faults of a [`FaultyBackend`](super::FaultyBackend), and its counters. Clones are the same handle.
///
/// A call meets the first of: what [`next`](Self::next) still holds for its operation; what
/// [`always`](Self::always) says; what the seed says; no fault.
#[derive(Clone, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    ops: [OpState; Op::ALL.len()],
    random: Option<Random>,
}

#[derive(Default)]
struct OpState {
    always: Option<Fault>,
    calls: u64,
    next: VecDeque<Fault>,
}

struct Random {
    rates: Rates,
    seed: u64,
}

/// How likely each fault is, from 0 to 1; what the sum leaves is the chance of a call without a fault.
///
/// ```
/// # use cachekit_core::testing::Rates;
/// let rates = Rates { fail: 0.05, delay: 0.10, ..Rates::default() };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// [`Fault::ApplyThenFail`] with a timeout.
    pub apply_then_fail: f64,
    /// [`Fault::Corrupt`], either way. No fault of an operation that brings no value.
    pub corrupt: f64,
    /// [`Fault::Delay`], by 1 to 16 ms.
    pub delay: f64,
    /// [`Fault::Fail`], with one of the temporary kinds.
    pub fail: f64,
    /// [`Fault::Hang`].
    pub hang: f64,
    /// [`Fault::Panic`].
    pub panic: f64,
}

impl Faults {
    /// No fault yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Faults at random. The n-th call of an operation meets the same fault under the same seed, whatever other
    /// operations run in between; `Debug` prints the seed.
    #[must_use]
    pub fn seeded(seed: u64, rates: Rates) -> Self {
        let faults = Self::new();
        faults.lock().random = Some(Random { rates, seed });
        faults
    }

    /// The next `count` calls of `op` that nothing is planned for yet meet this fault.
    pub fn next(&self, op: Op, count: usize, fault: Fault) {
        self.lock().ops[op.index()].next.extend(std::iter::repeat_n(fault, count));
    }

    /// Every call of `op` meets this fault, until [`heal`](Self::heal).
    pub fn always(&self, op: Op, fault: Fault) {
        self.lock().ops[op.index()].always = Some(fault);
    }

    /// The next `count` calls of `op` fail.
    pub fn fail_next(&self, op: Op, count: usize, kind: ErrorKind) {
        self.next(op, count, Fault::Fail(kind));
    }

    /// Every call of `op` fails, until [`heal`](Self::heal).
    pub fn fail_all(&self, op: Op, kind: ErrorKind) {
        self.always(op, Fault::Fail(kind));
    }

    /// Every call of every operation fails, until [`heal`](Self::heal): the server is down.
    pub fn down(&self, kind: ErrorKind) {
        for op in Op::ALL {
            self.fail_all(op, kind);
        }
    }

    /// Every call of `op` never answers, until [`heal`](Self::heal); those that hang then go on hanging.
    pub fn hang(&self, op: Op) {
        self.always(op, Fault::Hang);
    }

    /// Every call of `op` takes this much longer by Tokio's clock, until [`heal`](Self::heal).
    pub fn delay(&self, op: Op, by: Duration) {
        self.always(op, Fault::Delay(by));
    }

    /// The next call of `op` panics.
    pub fn panic_next(&self, op: Op) {
        self.next(op, 1, Fault::Panic);
    }

    /// Every value read is that of `key`, until [`heal`](Self::heal).
    pub fn wrong_value(&self, key: &str) {
        for op in Op::ALL.into_iter().filter(|op| op.reads_values()) {
            self.always(op, Fault::WrongValue(key.to_owned()));
        }
    }

    /// Every value read is damaged, until [`heal`](Self::heal).
    pub fn corrupt(&self, how: Corruption) {
        for op in Op::ALL.into_iter().filter(|op| op.reads_values()) {
            self.always(op, Fault::Corrupt(how));
        }
    }

    /// Every call of `op` is carried out and then reported as timed out, possibly applied, until [`heal`](Self::heal).
    pub fn apply_then_fail(&self, op: Op) {
        self.always(op, Fault::ApplyThenFail(ErrorKind::Timeout));
    }

    /// No more faults: forgets all that was planned, also the seed. The counters stay.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.random = None;
        for op in &mut state.ops {
            op.always = None;
            op.next.clear();
        }
    }

    /// How often `op` was called, with a fault or without.
    #[must_use]
    pub fn calls(&self, op: Op) -> u64 {
        self.lock().ops[op.index()].calls
    }

    /// How often any operation was called.
    #[must_use]
    pub fn total_calls(&self) -> u64 {
        self.lock().ops.iter().map(|op| op.calls).sum()
    }

    /// Counts a call, and tells what happens to it.
    pub(super) fn take(&self, op: Op) -> Option<Fault> {
        let mut state = self.lock();
        let state = &mut *state;
        let of_op = &mut state.ops[op.index()];
        of_op.calls += 1;
        let planned = of_op.next.pop_front().or_else(|| of_op.always.clone());
        planned.or_else(|| state.random.as_ref()?.fault(op, of_op.calls))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Random {
    fn fault(&self, op: Op, call: u64) -> Option<Fault> {
        // An index of 0 to 16 fits every integer.
        let bits = mix(mix(self.seed ^ mix(op.index() as u64)) ^ call);
        let detail = mix(bits);
        let mut chance = unit(bits);
        let mut falls_within = |rate: f64| {
            let hit = chance < rate;
            chance -= rate;
            hit
        };
        if falls_within(self.rates.apply_then_fail) {
            return Some(Fault::ApplyThenFail(ErrorKind::Timeout));
        }
        if falls_within(self.rates.corrupt) {
            let how = if detail.is_multiple_of(2) { Corruption::FlipBit } else { Corruption::Truncate };
            return op.reads_values().then_some(Fault::Corrupt(how));
        }
        if falls_within(self.rates.delay) {
            return Some(Fault::Delay(Duration::from_millis(1 + detail % 16)));
        }
        if falls_within(self.rates.fail) {
            let kind = match detail % 4 {
                0 => ErrorKind::Overloaded,
                1 => ErrorKind::Protocol,
                2 => ErrorKind::Timeout,
                _ => ErrorKind::Unavailable,
            };
            return Some(Fault::Fail(kind));
        }
        if falls_within(self.rates.hang) {
            return Some(Fault::Hang);
        }
        falls_within(self.rates.panic).then_some(Fault::Panic)
    }
}

/// With the seed, so that a test that failed can be run again as it was.
impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let mut debug = f.debug_struct("Faults");
        if let Some(random) = &state.random {
            debug.field("seed", &random.seed).field("rates", &random.rates);
        }
        for (op, of_op) in Op::ALL.iter().zip(&state.ops) {
            if of_op.calls > 0 || of_op.always.is_some() || !of_op.next.is_empty() {
                debug.field(&format!("{op:?}"), &format_args!("{of_op:?}"));
            }
        }
        debug.finish()
    }
}

impl fmt::Debug for OpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.calls)?;
        if !self.next.is_empty() {
            write!(f, ", next {:?}", self.next)?;
        }
        self.always.as_ref().map_or(Ok(()), |fault| write!(f, ", always {fault:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_comes_in_its_order() {
        let faults = Faults::new();
        faults.fail_all(Op::Get, ErrorKind::Unavailable);
        faults.fail_next(Op::Get, 2, ErrorKind::Timeout);
        faults.panic_next(Op::Get);
        let met: Vec<_> = (0..4).map(|_| faults.take(Op::Get)).collect();
        let timeout = Some(Fault::Fail(ErrorKind::Timeout));
        assert_eq!(met, [timeout.clone(), timeout, Some(Fault::Panic), Some(Fault::Fail(ErrorKind::Unavailable))]);
        assert_eq!(faults.take(Op::Set), None);
        faults.heal();
        assert_eq!(faults.take(Op::Get), None);
        assert_eq!((faults.calls(Op::Get), faults.total_calls()), (5, 6));
    }

    #[test]
    fn a_seed_repeats_itself_whatever_runs_in_between() {
        let rates = Rates { fail: 0.3, delay: 0.3, corrupt: 0.2, ..Rates::default() };
        let (one, two) = (Faults::seeded(7, rates), Faults::seeded(7, rates));
        let first: Vec<_> = (0..200).map(|_| one.take(Op::Get)).collect();
        let second: Vec<_> = (0..200)
            .map(|_| {
                two.take(Op::Set);
                two.take(Op::Get)
            })
            .collect();
        assert_eq!(first, second);
        assert!(format!("{one:?}").contains("seed: 7"), "{one:?}");
    }

    #[test]
    fn rates_are_what_they_say() {
        let faults = Faults::seeded(42, Rates { fail: 0.25, hang: 0.25, ..Rates::default() });
        let met: Vec<_> = (0..4_000).map(|_| faults.take(Op::Set)).collect();
        let none = met.iter().filter(|fault| fault.is_none()).count();
        let hangs = met.iter().filter(|fault| **fault == Some(Fault::Hang)).count();
        assert!((1_850..2_150).contains(&none), "{none}");
        assert!((880..1_120).contains(&hangs), "{hangs}");
    }

    #[test]
    fn another_seed_gives_other_faults() {
        let rates = Rates { fail: 0.5, ..Rates::default() };
        let of_seed = |seed| {
            let faults = Faults::seeded(seed, rates);
            (0..64).map(|_| faults.take(Op::Get).is_some()).collect::<Vec<_>>()
        };
        assert_ne!(of_seed(1), of_seed(2));
    }
}

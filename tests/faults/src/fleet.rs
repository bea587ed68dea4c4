//! Four caches on one server, one for each operation, so that none sees the outage through another's calls.

use crate::cell::Cell;
use crate::runner::note;
use crate::seen::{GRACE, Seen};
use crate::service::{Op, Service};
use cachekit::{Reason, Stored};
use futures_util::future::join_all;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How soon a cache reads and writes the backend again, once the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The first call after it does.
    NextCall,
    /// The first call that the circuit breaker lets through, one cooldown after it opened.
    Cooldown(Duration),
    /// Within so many seconds.
    Within(u64),
}

impl Recovery {
    fn limit(self) -> Duration {
        match self {
            Self::NextCall => Duration::ZERO,
            Self::Cooldown(cooldown) => cooldown + GRACE,
            Self::Within(seconds) => Duration::from_secs(seconds) + GRACE,
        }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextCall => f.write_str("with the next call"),
            Self::Cooldown(_) => f.write_str("one cooldown, then the next call"),
            Self::Within(seconds) => write!(f, "within {seconds} s"),
        }
    }
}

/// What each operation got, call by call.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Of `get`s of keys that the server had.
    pub get: Vec<Seen>,
    /// Of `set`s of keys that the server had.
    pub set: Vec<Seen>,
    /// Of `delete`s of keys that the server had.
    pub delete: Vec<Seen>,
    /// Of `get_or_compute`s of keys that the server had.
    pub get_or_compute: Vec<Seen>,
}

impl Answers {
    /// In the order of the table.
    fn of(answers: Vec<Vec<Seen>>) -> Self {
        let mut answers = answers.into_iter();
        let mut next = || answers.next().expect("one for each operation");
        Self { get: next(), set: next(), delete: next(), get_or_compute: next() }
    }

    /// One cell for each operation, in the order of the table.
    #[must_use]
    pub fn cells(&self) -> [Cell; 4] {
        [&self.get, &self.set, &self.delete, &self.get_or_compute].map(|seen| Cell::of(seen))
    }

    /// The same, of calls that may each take all of this time.
    #[must_use]
    pub fn in_their_time(&self, time: &str) -> [Cell; 4] {
        [&self.get, &self.set, &self.delete, &self.get_or_compute].map(|seen| Cell::in_its_time(seen, time))
    }

    /// The same, where the calls of these operations may get any of these.
    #[must_use]
    pub fn cells_but(&self, exceptions: &[(Op, &[&str])]) -> [Cell; 4] {
        let mut ops = OPS.iter();
        [&self.get, &self.set, &self.delete, &self.get_or_compute].map(|seen| {
            let op = ops.next();
            match exceptions.iter().find(|(excepted, _)| Some(excepted) == op) {
                Some((_, allowed)) => Cell::among(allowed, seen),
                None => Cell::of(seen),
            }
        })
    }

    /// One cell for each operation, which holds what its calls may get.
    #[must_use]
    pub fn among(&self, get: &[&str], set: &[&str], delete: &[&str], get_or_compute: &[&str]) -> [Cell; 4] {
        [
            Cell::among(get, &self.get),
            Cell::among(set, &self.set),
            Cell::among(delete, &self.delete),
            Cell::among(get_or_compute, &self.get_or_compute),
        ]
    }
}

/// A cache for each operation.
#[derive(Debug)]
pub struct Fleet {
    pub(crate) services: [Service; 4],
    /// One operation after the other.
    pub(crate) in_turn: bool,
    pub(crate) tag: String,
    pub(crate) rounds: AtomicUsize,
}

/// So long it has to be well for having recovered.
const RELAPSE: Duration = Duration::from_millis(300);

const OPS: [Op; 4] = [Op::Get, Op::Set, Op::Delete, Op::GetOrCompute];

/// The key of a call: of one operation, in one phase of the scenario.
pub(crate) fn key(tag: &str, op: Op, phase: &str, call: usize) -> String {
    format!("{tag}{op:?}/{phase}/{call}")
}

impl Fleet {
    /// Has all four backends built.
    pub async fn build(&self) {
        for service in &self.services {
            service.ask(Op::Get, "nothing").await;
            assert_eq!(service.backend(), "ready", "before the fault");
        }
    }

    /// So many calls of each operation, the operations side by side.
    pub async fn ask(&self, phase: &str, calls: usize) -> Answers {
        let asked = self.services.iter().zip(OPS).map(|(service, op)| async move {
            // What is asked for is asked of the backend.
            service.forget_l1();
            let mut seen = Vec::new();
            for call in 0..calls {
                seen.push(service.ask(op, &key(&self.tag, op, phase, call)).await);
            }
            note(format_args!("{phase}: {op:?}: {}", summary(&seen)));
            seen
        });
        Answers::of(self.all(asked).await)
    }

    /// What the backend says about the keys of a phase, whose calls it acknowledged: [`Service::read_back`].
    pub async fn read_back(&self, phase: &str, calls: usize) -> Answers {
        let mut answers = Vec::new();
        for (service, op) in self.services.iter().zip(OPS) {
            let mut seen = Vec::new();
            for call in 0..calls {
                seen.push(service.read_back(&key(&self.tag, op, phase, call)).await);
            }
            note(format_args!("{phase}, read back: {op:?}: {}", summary(&seen)));
            answers.push(seen);
        }
        Answers::of(answers)
    }

    /// [`Service::herd`], on a key that nobody else uses.
    pub async fn herd(&self, phase: &str) {
        self.services[3].herd(&format!("{}herd/{phase}", self.tag)).await;
    }

    /// Calls all four until each reads and writes the backend, without a relapse, and panics when one takes longer than
    /// it may. The server answers since now, or the circuit is open since now.
    pub async fn recovers(&self, recovery: Recovery) -> Recovery {
        let start = Instant::now();
        let round = self.rounds.fetch_add(1, Ordering::SeqCst);
        let called = self.services.iter().zip(OPS).map(|(service, op)| async move {
            let start = if self.in_turn { Instant::now() } else { start };
            let (mut attempt, mut well_since) = (0, None);
            loop {
                let called = start.elapsed();
                // A new key each time: a write that timed out may still land, and is not to meet a later one.
                let fetched = service.fetch(&key(&self.tag, op, &format!("recovery {round}"), attempt)).await;
                attempt += 1;
                if fetched.degraded.is_none() && fetched.stored == Some(Stored::Stored) {
                    let since = *well_since.get_or_insert_with(|| start.elapsed());
                    if recovery == Recovery::NextCall || start.elapsed() >= since + RELAPSE {
                        return since;
                    }
                } else {
                    let rejected = fetched.degraded == Some(Reason::CircuitOpen) && well_since.is_none();
                    let waits = rejected || !matches!(recovery, Recovery::Cooldown(_));
                    let late = called >= recovery.limit();
                    assert!(waits && !late, "after {called:?}: {fetched:?}, {:?}", service.cache().health());
                    if let Some(since) = well_since.take() {
                        let why = fetched.degraded;
                        note(format_args!("{op:?}: well since {since:?}, relapsed after {called:?}: {why:?}"));
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let took = self.all(called).await;
        note(format_args!("recovered after {took:?}"));
        recovery
    }

    async fn all<F: Future>(&self, futures: impl Iterator<Item = F>) -> Vec<F::Output> {
        if !self.in_turn {
            return join_all(futures).await;
        }
        let mut outputs = Vec::new();
        for future in futures {
            outputs.push(future.await);
        }
        outputs
    }

    /// [`Service::sweep`] with all four.
    pub async fn sweep(&self) {
        for service in &self.services {
            service.sweep().await;
        }
    }

    /// The cache that only this operation uses.
    #[must_use]
    pub fn service(&self, op: Op) -> &Service {
        let at = OPS.iter().position(|other| *other == op).expect("all are listed");
        &self.services[at]
    }
}

fn summary(seen: &[Seen]) -> String {
    seen.iter().map(|one| format!("{}{}", one.words, one.speed.after())).collect::<Vec<_>>().join(" | ")
}

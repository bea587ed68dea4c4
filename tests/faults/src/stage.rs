//! Where a scenario plays: one server, and caches on it.

use crate::cell::Cell;
use crate::fleet::{Fleet, key};
use crate::ledger::Ledger;
use crate::runner::note;
use crate::seen::{Seen, Speed};
use crate::service::{L1_TTL, Op, Service};
use crate::skip_clock::SkipClock;
use cachekit::breaker::BreakerConfig;
use cachekit::{BackendFactory, Cache, Stored};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any scenario.
const TTL: Duration = Duration::from_secs(3_600);
const VALUE_BYTES: usize = 200;

type MakeFactory = Arc<dyn Fn() -> Arc<dyn BackendFactory> + Send + Sync>;

/// Makes the caches of a scenario. All of them share its ledger, and nothing else.
#[derive(Clone)]
pub struct Stage {
    factory: MakeFactory,
    breaker: BreakerConfig,
    build_bound: Duration,
    slow_builds: bool,
    in_turn: bool,
    ledger: Arc<Ledger>,
    l1_bytes: Option<u64>,
    tag: String,
    value_bytes: usize,
}

impl Stage {
    /// Caches with the defaults, whose backends are built within `build_bound` or not at all.
    pub fn new(build_bound: Duration, factory: impl Fn() -> Arc<dyn BackendFactory> + Send + Sync + 'static) -> Self {
        Self {
            factory: Arc::new(factory),
            breaker: BreakerConfig::new(),
            build_bound,
            slow_builds: false,
            in_turn: false,
            ledger: Arc::default(),
            l1_bytes: None,
            tag: String::new(),
            value_bytes: VALUE_BYTES,
        }
    }

    /// The same with another circuit breaker.
    #[must_use]
    pub fn with_breaker(mut self, breaker: BreakerConfig) -> Self {
        self.breaker = breaker;
        self
    }

    /// The same with values of at least so many bytes.
    #[must_use]
    pub fn with_value_bytes(mut self, bytes: usize) -> Self {
        self.value_bytes = bytes;
        self
    }

    /// The same where building takes a while, which is for the machine to say: there are many connections.
    #[must_use]
    pub fn with_slow_builds(mut self) -> Self {
        self.slow_builds = true;
        self
    }

    /// The same where connections are encrypted: code that is not optimized does four handshakes at once so slowly that
    /// timeouts pass.
    #[must_use]
    pub fn with_encryption(mut self) -> Self {
        self.in_turn = true;
        self.with_slow_builds()
    }

    /// The same with an L1 of so many bytes.
    #[must_use]
    pub fn with_l1_bytes(mut self, bytes: u64) -> Self {
        self.l1_bytes = Some(bytes);
        self
    }

    /// The same with keys that begin so: with a hash tag, one shard of a cluster has them all.
    #[must_use]
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = tag.into();
        self
    }

    /// The same server, reached in another way.
    #[must_use]
    pub fn by(mut self, factory: impl Fn() -> Arc<dyn BackendFactory> + Send + Sync + 'static) -> Self {
        self.factory = Arc::new(factory);
        self
    }

    /// A new process; nothing is built yet.
    #[must_use]
    pub fn service(&self) -> Service {
        let clock = SkipClock::default();
        let builder = Cache::builder("faults").backend((self.factory)()).clock(Arc::new(clock.clone()));
        let builder = builder.default_ttl(TTL).l1_max_ttl(L1_TTL).breaker(self.breaker.clone());
        let builder = match self.l1_bytes {
            Some(bytes) => builder.max_bytes(bytes),
            None => builder,
        };
        let cache = builder.build().expect("the settings are right");
        Service::new(cache, clock, self.ledger.clone(), self.build_bound, self.value_bytes)
    }

    /// Four new processes; nothing is built yet.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        Fleet {
            services: std::array::from_fn(|_| self.service()),
            in_turn: self.in_turn,
            tag: self.tag.clone(),
            rounds: 0.into(),
        }
    }

    /// Four new processes, ready.
    pub async fn built_fleet(&self) -> Fleet {
        let fleet = self.fleet();
        fleet.build().await;
        fleet
    }

    /// Has another process store what the calls of these phases will ask for.
    pub async fn seed(&self, phases: &[&str], calls: usize) {
        self.seed_for(&[Op::Delete, Op::Get, Op::GetOrCompute, Op::Set], phases, calls).await;
    }

    /// The same for these operations; the others will find nothing.
    pub async fn seed_for(&self, ops: &[Op], phases: &[&str], calls: usize) {
        let seeder = self.service();
        for phase in phases {
            for op in ops {
                for call in 0..calls {
                    let stored = seeder.set(&key(&self.tag, *op, phase, call)).await;
                    assert_eq!(stored, Stored::Stored, "{}", seeder.backend());
                }
            }
        }
    }

    /// What a new process gets whose first call has the backend built: `built` or `failed (unavailable)`, and how fast.
    pub async fn build(&self) -> Cell {
        let seen = [self.see_build().await];
        if self.slow_builds { Cell::in_its_time(&seen, Speed::Connect.at_most()) } else { Cell::of(&seen) }
    }

    /// The same, not yet a cell.
    pub async fn see_build(&self) -> Seen {
        let service = self.service();
        let seen = service.ask(Op::Get, "nothing").await;
        let backend = service.backend();
        let words = if backend == "ready" { "built".to_owned() } else { backend };
        note(format_args!("build: {words}{}", seen.speed.after()));
        Seen { words, speed: seen.speed }
    }

    /// [`Service::sweep`] with a new process.
    pub async fn audit(&self) {
        self.service().sweep().await;
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("breaker", &self.breaker).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

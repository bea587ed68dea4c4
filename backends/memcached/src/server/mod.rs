//! One server: its connections, and when to leave it alone.

use crate::MemcachedConfig;
use crate::backend::runtime;
use crate::dial::{Link, Resolver};
use crate::error::{Doing, Verdict, at, from_driver, no_connection, silent, verdict};
use cachekit_core::{BackendError, ErrorKind, ServerAddress};
use memcache::exp::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

mod guards;
mod names;
mod time;

use guards::{Flight, Probe};
pub(crate) use time::Time;

#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    address: ServerAddress,
    config: Arc<MemcachedConfig>,
    resolver: Resolver,
    /// One per connection that may be in use.
    slots: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Closed,
    /// Left alone until then.
    Down {
        until: Instant,
        why: BackendError,
    },
    /// One operation tries it.
    Probed {
        why: BackendError,
    },
    Up(Arc<Link>),
}

/// What an operation that starts now may do.
enum Admission {
    Go(Arc<Link>),
    Probe,
}

impl Server {
    pub(crate) fn new(address: ServerAddress, config: Arc<MemcachedConfig>, resolver: Resolver) -> Arc<Self> {
        let why = BackendError::new(ErrorKind::Unavailable, "not connected yet");
        Arc::new(Self {
            name: address.to_string(),
            address,
            resolver,
            slots: Semaphore::new(config.max_connections),
            config,
            state: Mutex::new(State::Down { until: Instant::now(), why }),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How long a request that carries so many bytes of values may take.
    pub(crate) fn budget(&self, bytes: usize) -> Duration {
        self.config.budget(bytes)
    }

    /// Finds the server, within the connect timeout.
    ///
    /// A failure leaves it alone for a while.
    pub(crate) async fn connect(&self) -> Result<(), BackendError> {
        let time = Time::new(Instant::now(), self.config.connect_timeout);
        let mut probe = Probe { server: self, time, done: false };
        let found = tokio::time::timeout_at(time.end.into(), self.find()).await.unwrap_or(Err(no_connection()));
        probe.settle(found).map(|_| ())
    }

    pub(crate) fn close(&self) {
        *self.state() = State::Closed;
        self.slots.close();
    }

    /// One command that carries so many bytes of a value. A read whose connection broke is tried once more; a write never
    /// is.
    pub(crate) async fn call<T, F, Fut>(
        self: &Arc<Self>,
        doing: Doing,
        bytes: usize,
        exchange: F,
    ) -> Result<T, BackendError>
    where
        F: Fn(Arc<Link>) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, Error>> + Send,
        T: Send,
    {
        let time = Time::new(Instant::now(), self.config.budget(bytes));
        // Any answer to one command is a sign of life.
        self.call_in(time, doing, |_| Verdict::Alive, exchange).await
    }

    /// As [`call`](Self::call), in this time. `judge` says what an answer tells about the server.
    pub(crate) async fn call_in<T, F, Fut>(
        self: &Arc<Self>,
        time: Time,
        doing: Doing,
        judge: fn(&T) -> Verdict,
        exchange: F,
    ) -> Result<T, BackendError>
    where
        F: Fn(Arc<Link>) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, Error>> + Send,
        T: Send,
    {
        runtime()?;
        let attempt = |time, another| self.attempt(time, doing, judge, &exchange, another);
        let outcome = match attempt(time, doing == Doing::Read).await {
            (_, Verdict::Cut) if doing == Doing::Read => attempt(time.later(), false).await.0,
            (outcome, _) => outcome,
        };
        outcome.map_err(|error| at(&self.name, &error))
    }

    /// The outcome, and what it says; `another`: whether a connection that is cut gets the exchange another try.
    async fn attempt<T, F, Fut>(
        self: &Arc<Self>,
        time: Time,
        doing: Doing,
        judge: fn(&T) -> Verdict,
        exchange: &F,
        another: bool,
    ) -> (Result<T, BackendError>, Verdict)
    where
        F: Fn(Arc<Link>) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let (link, time, _slot) = match self.enter(time).await {
            Ok(entered) => entered,
            Err(error) => return (Err(error), Verdict::Alive),
        };
        let mut flight = Flight { server: self, link: &link, time, landed: false };
        let answer = tokio::time::timeout_at(time.end.into(), exchange(link.clone())).await;
        flight.landed = true;
        let (outcome, verdict) = match answer {
            Ok(Ok(answer)) => {
                let verdict = judge(&answer);
                (Ok(answer), verdict)
            }
            Ok(Err(error)) => (Err(from_driver(&error, doing)), verdict(&error)),
            // Who had waited long for a connection did not wait long for an answer.
            Err(_) => (Err(silent(doing)), if time.is_long() { Verdict::Bad } else { Verdict::Unknown }),
        };
        match verdict {
            Verdict::Alive => link.heard(),
            Verdict::Unknown => {}
            // A connection may have died of age; that of the other try says more.
            Verdict::Cut if another => {}
            Verdict::Bad | Verdict::Cut => self.failed(&link, outcome.as_ref().err()),
        }
        (outcome, verdict)
    }

    /// The connections, when that was, and the right to use one of them.
    async fn enter(self: &Arc<Self>, time: Time) -> Result<(Arc<Link>, Time, SemaphorePermit<'_>), BackendError> {
        let (slot, time) = match self.slots.try_acquire() {
            Ok(slot) => (slot, time),
            Err(_) => {
                // Nobody waits for a server that is left alone.
                self.is_worth_waiting_for()?;
                let patience = (time.end - time.budget / 4).into();
                match tokio::time::timeout_at(patience, self.slots.acquire()).await {
                    Ok(Ok(slot)) => (slot, time.later()),
                    Ok(Err(_)) => return Err(closed()),
                    Err(_) => return Err(self.is_busy()),
                }
            }
        };
        match self.admit(time.now)? {
            Admission::Go(link) => Ok((link, time, slot)),
            Admission::Probe => {
                let mut probe = Probe { server: self, time, done: false };
                let end = time.end.min(time.now + self.config.connect_timeout);
                let found = tokio::time::timeout_at(end.into(), self.find()).await.unwrap_or(Err(no_connection()));
                Ok((probe.settle(found)?, time.later(), slot))
            }
        }
    }

    fn is_worth_waiting_for(&self) -> Result<(), BackendError> {
        match &*self.state() {
            State::Closed => Err(closed()),
            State::Down { why, .. } | State::Probed { why } => Err(left_alone(why)),
            State::Up(_) => Ok(()),
        }
    }

    fn admit(self: &Arc<Self>, now: Instant) -> Result<Admission, BackendError> {
        let mut state = self.state();
        match &*state {
            State::Closed => Err(closed()),
            State::Down { until, why } if *until > now => Err(left_alone(why)),
            State::Down { why, .. } => {
                *state = State::Probed { why: why.clone() };
                Ok(Admission::Probe)
            }
            State::Probed { why } => Err(left_alone(why)),
            State::Up(link) => {
                let link = link.clone();
                drop(state);
                self.resolve_if_due(&link, now);
                Ok(Admission::Go(link))
            }
        }
    }

    /// Counts a failure; after enough in a row the connections are dropped, and those that never worked are not replaced
    /// for a while.
    fn failed(&self, link: &Arc<Link>, why: Option<&BackendError>) {
        if link.failed() < self.config.open_after {
            return;
        }
        let mut state = self.state();
        // What is late concerns connections that are gone already.
        if matches!(&*state, State::Up(current) if Arc::ptr_eq(current, link)) {
            let why = why.cloned().unwrap_or_else(|| BackendError::new(ErrorKind::Unavailable, "connection lost"));
            // One that has worked may have hung for a moment, or only its connections have: the next operation finds out.
            let wait = if link.has_worked() { Duration::ZERO } else { self.config.open_for };
            *state = State::Down { until: Instant::now() + wait, why };
        }
    }

    async fn find(&self) -> Result<Link, BackendError> {
        let addresses = self.resolver.resolve(&self.address).await?;
        Link::open(&self.config, addresses).await
    }

    fn is_busy(&self) -> BackendError {
        let text = format!("all {} connections are in use", self.config.max_connections);
        BackendError::new(ErrorKind::Unavailable, text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> BackendError {
    BackendError::new(ErrorKind::Closed, "the memcached backend was closed")
}

fn left_alone(why: &BackendError) -> BackendError {
    BackendError::new(ErrorKind::Unavailable, format!("left alone for a moment, since {}", why.context()))
}

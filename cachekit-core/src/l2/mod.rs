//! The tier behind L1: a backend that is built when it is first needed, and again after it was lost.

mod session;

use session::Cause;
pub(crate) use session::{Refusal, Session};

use crate::breaker::CircuitBreaker;
use crate::cache::{Events, Listening, Reason, Tracking};
use crate::timer::{self, Ended};
use crate::{Backend, BackendError, BackendFactory, ErrorKind};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, WeakShared};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct L2 {
    factory: Arc<dyn BackendFactory>,
    breaker: Arc<CircuitBreaker>,
    events: Arc<Events>,
    tracking: Option<Arc<Tracking>>,
    build_timeout: Duration,
    operation_timeout: Duration,
    slot: Arc<Slot>,
}

/// Where the backend is, or will be.
#[derive(Debug)]
struct Slot {
    state: RwLock<State>,
}

enum State {
    /// Someone is building it. The callers who wait hold the attempt; when the last one leaves, it is gone.
    Building(WeakShared<BoxFuture<'static, Arc<Attempt>>>),
    /// With the backend, until it has said that it is closed.
    Closed(Option<Arc<dyn Backend>>),
    /// Never asked for, or lost, or the last attempt failed.
    NotBuilt(Option<BackendError>),
    Ready(Built),
}

/// A backend, and what was asked of it once: it is the author's code and may panic.
#[derive(Clone, Debug)]
struct Built {
    backend: Arc<dyn Backend>,
    max_value_bytes: usize,
    listening: Option<Arc<Listening>>,
}

impl Built {
    /// It is given up: what it reports is not to be relied on, though others may still be using it.
    fn forget(self) {
        if let Some(listening) = &self.listening {
            listening.end();
        }
    }
}

/// One attempt to build the backend, as everyone who waited for it sees it.
#[derive(Debug)]
struct Attempt {
    result: Result<Built, BackendError>,
    counted: AtomicBool,
}

impl Attempt {
    /// `true` for the one caller who reports the failure.
    fn is_mine_to_count(&self) -> bool {
        !self.counted.swap(true, Ordering::Relaxed)
    }
}

/// What health says about the backend.
#[derive(Debug)]
pub(crate) enum Status {
    Building,
    Closed,
    Failed(BackendError),
    NotBuilt,
    Ready,
}

impl L2 {
    pub(crate) fn new(
        factory: Arc<dyn BackendFactory>,
        breaker: Arc<CircuitBreaker>,
        events: Arc<Events>,
        tracking: Option<Arc<Tracking>>,
        build_timeout: Duration,
        operation_timeout: Duration,
    ) -> Self {
        let slot = Arc::new(Slot { state: RwLock::new(State::NotBuilt(None)) });
        Self { factory, breaker, events, tracking, build_timeout, operation_timeout, slot }
    }

    pub(crate) fn backend_name(&self) -> &'static str {
        self.factory.name()
    }

    pub(crate) fn status(&self) -> Status {
        match &*self.slot.read() {
            State::Building(attempt) if attempt.upgrade().is_some() => Status::Building,
            State::Building(_) | State::NotBuilt(None) => Status::NotBuilt,
            State::Closed(_) => Status::Closed,
            State::NotBuilt(Some(error)) => Status::Failed(error.clone()),
            State::Ready(_) => Status::Ready,
        }
    }

    /// Asks the circuit breaker, then has the backend built if it is not. Contacts nothing otherwise.
    pub(crate) async fn open(&self) -> Result<Session<'_>, Refusal> {
        let permit = match self.breaker.admit() {
            Ok(permit) => permit,
            Err(open) => {
                return Err(self.refuse(Reason::CircuitOpen, Cause::Open(open)));
            }
        };
        match self.backend().await {
            Ok(backend) => Ok(Session::new(self, backend, permit)),
            Err(Failure::Closed) => {
                permit.raised();
                Err(self.refuse(Reason::Closed, Cause::Failed(closed())))
            }
            Err(Failure::Attempt(attempt, error)) => {
                // One failure per attempt; a probe's always counts, or its cycle could not end.
                if attempt.is_mine_to_count() || permit.is_probe() {
                    permit.failure();
                } else {
                    permit.raised();
                }
                self.events.breaker_may_have_moved(&self.breaker);
                Err(self.refuse(Reason::BuildFailed, Cause::Failed(error)))
            }
        }
    }

    fn refuse(&self, reason: Reason, cause: Cause) -> Refusal {
        self.events.degraded(reason);
        Refusal { reason, cause }
    }

    async fn backend(&self) -> Result<Built, Failure> {
        // Every call passes here, so those that find a backend do not wait for each other.
        if let State::Ready(built) = &*self.slot.read() {
            return Ok(built.clone());
        }
        let attempt = {
            let mut state = self.slot.lock();
            match &*state {
                State::Closed(_) => return Err(Failure::Closed),
                State::Ready(backend) => return Ok(backend.clone()),
                State::Building(attempt) => attempt.upgrade(),
                State::NotBuilt(_) => None,
            }
            .or_else(|| {
                let attempt = self.attempt().boxed().shared();
                *state = State::Building(attempt.downgrade()?);
                Some(attempt)
            })
        };
        // Only a finished future cannot be held weakly, and this one has not been polled.
        let Some(attempt) = attempt else { return Err(Failure::Closed) };
        let attempt = attempt.await;
        match &attempt.result {
            Ok(backend) => Ok(backend.clone()),
            Err(error) => Err(Failure::Attempt(Arc::clone(&attempt), error.clone())),
        }
    }

    /// Polled by whoever waits for it, so it borrows nothing and cannot panic.
    fn attempt(&self) -> impl Future<Output = Arc<Attempt>> + Send + use<> {
        let (factory, slot, events) = (Arc::clone(&self.factory), Arc::clone(&self.slot), Arc::clone(&self.events));
        let (tracking, build_timeout) = (self.tracking.clone(), self.build_timeout);
        async move {
            let result = build(&*factory, tracking.as_ref(), build_timeout).await;
            events.built(factory.name(), result.as_ref().err());
            let came_too_late = {
                let mut state = slot.lock();
                let closed = matches!(*state, State::Closed(_));
                match &result {
                    _ if closed => {}
                    Ok(backend) => *state = State::Ready(backend.clone()),
                    Err(error) => *state = State::NotBuilt(Some(error.clone())),
                }
                result.as_ref().ok().filter(|_| closed)
            };
            if let Some(built) = came_too_late {
                // The cache was closed while it was built, so nobody else will let go of it.
                let _ = timer::bounded(build_timeout, built.backend.close()).await;
            }
            Arc::new(Attempt { result, counted: AtomicBool::new(false) })
        }
    }

    /// Forgets a backend that said it is closed, or that panicked: the next call builds a new one.
    fn discard(&self, lost: &Arc<dyn Backend>, error: &BackendError) {
        let mut state = self.slot.lock();
        if matches!(&*state, State::Ready(current) if Arc::ptr_eq(&current.backend, lost)) {
            let lost = std::mem::replace(&mut *state, State::NotBuilt(Some(error.clone())));
            drop(state);
            // Behind the lock, since L1 is dropped, and with it the user's values.
            if let State::Ready(built) = lost {
                built.forget();
            }
        }
    }

    /// Closes the backend if it is built, and builds none any more. After an error it can be tried again.
    pub(crate) async fn close(&self, deadline: Duration) -> Result<(), BackendError> {
        let (backend, built) = {
            let mut state = self.slot.lock();
            let (backend, built) = match std::mem::replace(&mut *state, State::Closed(None)) {
                State::Ready(built) => (Some(Arc::clone(&built.backend)), Some(built)),
                State::Closed(backend) => (backend, None),
                State::Building(_) | State::NotBuilt(_) => (None, None),
            };
            *state = State::Closed(backend.clone());
            (backend, built)
        };
        if let Some(built) = built {
            built.forget();
        }
        let Some(backend) = backend else { return Ok(()) };
        match timer::bounded(deadline, backend.close()).await? {
            Ended::Returned(Ok(())) => {
                *self.slot.lock() = State::Closed(None);
                Ok(())
            }
            Ended::Returned(Err(error)) => Err(error),
            Ended::Panicked => Err(panicked("close")),
            Ended::TimedOut => Err(BackendError::new(ErrorKind::Timeout, "the backend did not close in time")),
        }
    }
}

enum Failure {
    Attempt(Arc<Attempt>, BackendError),
    Closed,
}

async fn build(
    factory: &dyn BackendFactory,
    tracking: Option<&Arc<Tracking>>,
    build_timeout: Duration,
) -> Result<Built, BackendError> {
    // The call itself may panic, before there is a future.
    match timer::bounded(build_timeout, async {
        let backend = factory.build().await?;
        let max_value_bytes = backend.capabilities().max_value_bytes();
        let listening = match tracking {
            Some(tracking) => Some(Arc::new(tracking.begin(&*backend).await?)),
            None => None,
        };
        Ok(Built { max_value_bytes, backend, listening })
    })
    .await?
    {
        Ended::Returned(result) => result,
        Ended::Panicked => Err(panicked("build")),
        Ended::TimedOut => {
            Err(BackendError::new(ErrorKind::Timeout, format!("the backend was not built within {build_timeout:?}")))
        }
    }
}

fn panicked(what: &str) -> BackendError {
    // The payload may hold anything, so it goes to the panic hook only.
    BackendError::new(ErrorKind::Internal, format!("the backend panicked in {what}"))
}

fn closed() -> BackendError {
    BackendError::new(ErrorKind::Closed, "the cache is closed")
}

impl Slot {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> RwLockWriteGuard<'_, State> {
        // Nothing in here panics half-way through a change.
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Building(_) => "Building",
            Self::Closed(_) => "Closed",
            Self::NotBuilt(_) => "NotBuilt",
            Self::Ready(_) => "Ready",
        })
    }
}

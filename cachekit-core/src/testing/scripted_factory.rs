//! A factory whose attempts go as a test says.

use super::Gate;
use crate::{Backend, BackendError, BackendFactory, ErrorKind, async_trait};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How one attempt to build goes.
#[derive(Clone, Debug)]
pub enum Build {
    /// It succeeds after this long, by Tokio's clock.
    Delay(Duration),
    /// It fails.
    Fail(ErrorKind),
    /// It never ends.
    Hang,
    /// It panics.
    Panic,
    /// It succeeds.
    Succeed,
    /// It succeeds once the gate is open.
    Wait(Gate),
}

/// Wraps a factory, and follows a script: one entry per attempt, then what [`by_default`](Self::by_default) says, which
/// is success unless it was changed. Clones follow the same script and count together.
///
/// ```
/// use cachekit_core::testing::{Build, MemoryFactory, ScriptedFactory};
/// use cachekit_core::{BackendFactory, ErrorKind};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let factory = ScriptedFactory::new(MemoryFactory::default()).then(Build::Fail(ErrorKind::Unavailable));
/// assert!(factory.build().await.is_err());
/// assert!(factory.build().await.is_ok());
/// assert_eq!(factory.attempts(), 2);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedFactory {
    inner: Arc<dyn BackendFactory>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    attempts: u64,
    default: Build,
    running: u64,
    script: VecDeque<Build>,
}

impl ScriptedFactory {
    /// Builds what `inner` builds, when an attempt succeeds.
    pub fn new(inner: impl BackendFactory) -> Self {
        let state = State { attempts: 0, default: Build::Succeed, running: 0, script: VecDeque::new() };
        Self { inner: Arc::new(inner), state: Arc::new(Mutex::new(state)) }
    }

    /// Gives out this very backend, when an attempt succeeds.
    pub fn with_backend(backend: impl Backend) -> Self {
        Self::new(Prepared(Arc::new(backend)))
    }

    /// Adds an attempt to the script.
    #[must_use]
    pub fn then(self, build: Build) -> Self {
        self.push(build);
        self
    }

    /// Adds an attempt to the script of a factory that is in use.
    pub fn push(&self, build: Build) {
        self.lock().script.push_back(build);
    }

    /// How every attempt goes that the script does not name.
    pub fn by_default(&self, build: Build) {
        self.lock().default = build;
    }

    /// How many attempts began.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.lock().attempts
    }

    /// How many attempts began and neither ended nor were dropped.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.lock().running
    }

    fn begin(&self) -> (Build, Running<'_>) {
        let mut state = self.lock();
        state.attempts += 1;
        state.running += 1;
        let build = state.script.pop_front().unwrap_or_else(|| state.default.clone());
        (build, Running(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Running<'a>(&'a ScriptedFactory);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl BackendFactory for ScriptedFactory {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    #[expect(clippy::panic, reason = "a test asked for it")]
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        let (build, _running) = self.begin();
        match build {
            Build::Delay(by) => tokio::time::sleep(by).await,
            Build::Fail(kind) => return Err(BackendError::new(kind, "injected into build")),
            Build::Hang => std::future::pending().await,
            Build::Panic => panic!("injected into build"),
            Build::Succeed => {}
            Build::Wait(gate) => gate.pass().await,
        }
        self.inner.build().await
    }
}

/// A backend that is there already.
#[derive(Debug)]
struct Prepared(Arc<dyn Backend>);

#[async_trait]
impl BackendFactory for Prepared {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MemoryBackend, MemoryFactory};

    #[tokio::test]
    async fn the_script_comes_first_and_then_the_default() {
        let memory = MemoryFactory::default();
        let factory = ScriptedFactory::new(memory.clone()).then(Build::Succeed);
        factory.by_default(Build::Fail(ErrorKind::AuthenticationFailed));
        factory.build().await.unwrap();
        for _ in 0..2 {
            assert_eq!(factory.build().await.unwrap_err().kind(), ErrorKind::AuthenticationFailed);
        }
        assert_eq!((factory.attempts(), factory.running(), memory.builds()), (3, 0, 1));
    }

    #[tokio::test]
    async fn an_attempt_waits_for_its_gate() {
        let gate = Gate::new();
        let factory = ScriptedFactory::with_backend(MemoryBackend::new()).then(Build::Wait(gate.clone()));
        let attempt = tokio::spawn({
            let factory = factory.clone();
            async move { factory.build().await }
        });
        while factory.running() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(!attempt.is_finished());
        gate.open();
        assert_eq!(attempt.await.unwrap().unwrap().name(), "memory");
    }

    #[tokio::test]
    async fn an_attempt_that_was_dropped_is_over() {
        let factory = ScriptedFactory::with_backend(MemoryBackend::new()).then(Build::Hang);
        let hung = tokio::spawn({
            let factory = factory.clone();
            async move { factory.build().await.map(drop) }
        });
        while factory.running() == 0 {
            tokio::task::yield_now().await;
        }
        hung.abort();
        assert!(hung.await.unwrap_err().is_cancelled());
        assert_eq!((factory.attempts(), factory.running()), (1, 0));
    }

    #[tokio::test]
    #[should_panic(expected = "injected into build")]
    async fn a_panic_is_a_panic() {
        let _ = ScriptedFactory::new(MemoryFactory::default()).then(Build::Panic).build().await;
    }
}

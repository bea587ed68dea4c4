//! Keeps one connection, and replaces it when it is of no use any more.
//!
//! The driver's own `ConnectionManager` never recovers from a refused password or a cut handshake while it reconnects,
//! and a response timeout never makes it try another connection; so here is one that does both.

use crate::RedisConfig;
use crate::backoff::Backoff;
use crate::config::Place;
use crate::dial::{OnPush, dial};
use crate::error::{Doing, Verdict, from_redis, unexpected, verdict};
use crate::link::{Master, Request};
use crate::ready::Ready;
use crate::tracking::Trackers;
use cachekit_core::{BackendError, ErrorKind, ServerAddress};
use redis::{PushKind, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// A connection that ends younger than this is replaced no sooner than the one before it.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// How long a master that a sentinel has named by itself is dialed before the others are asked.
const NAMED_FOR: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    dialer: JoinHandle<()>,
}

#[derive(Clone, Debug)]
enum State {
    Closed,
    Down(BackendError),
    Ready(Arc<Ready>),
}

#[derive(Debug)]
struct Shared {
    config: RedisConfig,
    state: watch::Sender<State>,
    /// Tells the dialer to replace a connection that goes on serving until then.
    renew: Notify,
    named: Mutex<Option<(ServerAddress, Instant)>>,
    trackers: Trackers,
}

impl Supervisor {
    /// One dial, and its error at once. From then on the connection is kept.
    pub(crate) async fn start(config: RedisConfig) -> Result<Self, BackendError> {
        runtime()?;
        let unconnected = BackendError::new(ErrorKind::Unavailable, "not connected yet");
        let shared = Arc::new(Shared {
            config,
            state: watch::Sender::new(State::Down(unconnected)),
            renew: Notify::new(),
            named: Mutex::default(),
            trackers: Trackers::default(),
        });
        shared.dial_and_publish(0).await.map_err(|error| shared.at_place(&error, error.kind()))?;
        let dialer = shared.clone();
        let dialer = tokio::spawn(async move {
            tokio::join!(dialer.keep(), dialer.follow_sentinels());
        });
        Ok(Self { shared, dialer })
    }

    pub(crate) fn config(&self) -> &RedisConfig {
        &self.shared.config
    }

    /// Sends a request that carries so many bytes of values, and reads the answer. A read whose connection broke is
    /// sent once more; a write never is.
    pub(crate) async fn call<T>(
        &self,
        doing: Doing,
        request: &Request,
        bytes: usize,
        read: impl Fn(Value) -> Option<T>,
    ) -> Result<T, BackendError> {
        self.call_on(doing, &None, request, bytes, read).await
    }

    /// As [`call`](Self::call), to one of the masters.
    pub(crate) async fn call_on<T>(
        &self,
        doing: Doing,
        master: &Master,
        request: &Request,
        bytes: usize,
        read: impl Fn(Value) -> Option<T>,
    ) -> Result<T, BackendError> {
        let started = Instant::now();
        let timeout = self.config().response_timeout(bytes);
        let (error, lost) = match self.attempt(doing, master, request, timeout, &read).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let left = timeout.saturating_sub(started.elapsed());
        if doing != Doing::Read || !lost || left.is_zero() {
            return Err(error);
        }
        let again = tokio::time::timeout(left, self.attempt(doing, master, request, left, &read)).await;
        again.unwrap_or(Err((error, true))).map_err(|(error, _)| error)
    }

    /// The error, and whether the connection broke under it.
    async fn attempt<T>(
        &self,
        doing: Doing,
        master: &Master,
        request: &Request,
        timeout: Duration,
        read: &impl Fn(Value) -> Option<T>,
    ) -> Result<T, (BackendError, bool)> {
        let ready = self.ready().await.map_err(|error| (error, false))?;
        self.attempt_over(&ready, doing, master, request, timeout, read).await
    }

    /// Sends a request over this very connection, once.
    pub(crate) async fn call_over<T>(
        &self,
        ready: &Ready,
        doing: Doing,
        request: &Request,
        read: impl Fn(Value) -> Option<T>,
    ) -> Result<T, BackendError> {
        let timeout = self.config().response_timeout(0);
        self.attempt_over(ready, doing, &None, request, timeout, &read).await.map_err(|(error, _)| error)
    }

    async fn attempt_over<T>(
        &self,
        ready: &Ready,
        doing: Doing,
        master: &Master,
        request: &Request,
        timeout: Duration,
        read: &impl Fn(Value) -> Option<T>,
    ) -> Result<T, (BackendError, bool)> {
        let mut flight = Flight { supervisor: self, ready, since: Instant::now(), timeout, landed: false };
        let answer = match master {
            None => ready.link.send(request, timeout).await,
            master => ready.link.send_to(master, request, timeout).await,
        };
        flight.landed = true;
        match answer {
            Ok(value) => {
                ready.heard();
                read(value).ok_or_else(|| {
                    let error = unexpected(doing);
                    self.shared.invalidate(ready.generation, &error);
                    (error, false)
                })
            }
            Err(error) => {
                let verdict = verdict(&error);
                let error = from_redis(&error, doing);
                self.judge(ready, verdict, &error);
                Err((error, verdict == Verdict::Lost))
            }
        }
    }

    /// The servers that hold the keys, and whether there may be several.
    pub(crate) async fn masters(&self) -> Result<Vec<Master>, BackendError> {
        let ready = self.ready().await?;
        let answer = ready.link.masters(self.config().response_timeout(0)).await;
        answer.map_err(|error| {
            let (verdict, error) = (verdict(&error), from_redis(&error, Doing::Read));
            self.judge(&ready, verdict, &error);
            error
        })
    }

    /// Whether commands of several keys have to be sent one by one.
    pub(crate) async fn is_spread(&self) -> Result<bool, BackendError> {
        Ok(self.ready().await?.link.is_spread())
    }

    pub(crate) async fn wait_until_ready(&self) -> Result<(), BackendError> {
        self.ready().await.map(|_| ())
    }

    /// Ends when the backend is closed or dropped.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.shared.state.subscribe();
        async move {
            let _ = changes.wait_for(|state| matches!(state, State::Closed)).await;
        }
    }

    /// Ends when this connection is in service no more.
    pub(crate) fn ended(&self, generation: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.shared.state.subscribe();
        async move {
            let serves = |state: &State| matches!(state, State::Ready(ready) if ready.generation == generation);
            let _ = changes.wait_for(|state| !serves(state)).await;
        }
    }

    /// Gives up a connection that still works.
    pub(crate) fn replace(&self, ready: &Ready, why: &BackendError) {
        self.shared.invalidate(ready.generation, why);
    }

    pub(crate) fn trackers(&self) -> &Trackers {
        &self.shared.trackers
    }

    pub(crate) fn close(&self) {
        self.shared.state.send_replace(State::Closed);
        self.shared.trackers.forget_all();
        self.dialer.abort();
    }

    fn judge(&self, ready: &Ready, verdict: Verdict, error: &BackendError) {
        match verdict {
            Verdict::Alive => ready.heard(),
            // One node of many; the driver replaces connections that end by itself.
            _ if ready.link.is_spread() => self.count_trouble(ready),
            Verdict::Lost => self.shared.invalidate(ready.generation, error),
            // A name may lead elsewhere by now, or the sentinels may know better; but a replica that stays one would be
            // dialed for every write.
            Verdict::Misled if ready.since.elapsed() >= SHORT_LIFE => self.shared.invalidate(ready.generation, error),
            Verdict::Misled => ready.heard(),
            Verdict::Silent => self.count_timeout(ready),
        }
    }

    fn count_trouble(&self, ready: &Ready) {
        if ready.is_in_trouble() {
            self.shared.renew.notify_one();
        }
    }

    fn count_timeout(&self, ready: &Ready) {
        if ready.link.is_spread() {
            return self.count_trouble(ready);
        }
        if ready.is_silent() {
            let error = BackendError::new(ErrorKind::Unavailable, "several operations in a row got no answer");
            self.shared.invalidate(ready.generation, &error);
        }
    }

    /// The connection; while there is none, waits a moment for it.
    pub(crate) async fn ready(&self) -> Result<Arc<Ready>, BackendError> {
        runtime()?;
        if let Some(outcome) = self.current() {
            return outcome;
        }
        let mut changes = self.shared.state.subscribe();
        let changed = changes.wait_for(|state| !matches!(state, State::Down(_)));
        let _ = tokio::time::timeout(self.config().down_wait, changed).await;
        self.current().unwrap_or_else(|| Err(self.shared.why_down()))
    }

    /// `None`: there may be a connection soon.
    fn current(&self) -> Option<Result<Arc<Ready>, BackendError>> {
        match &*self.shared.state.borrow() {
            State::Ready(ready) => Some(Ok(ready.clone())),
            State::Closed => Some(Err(BackendError::new(ErrorKind::Closed, "the redis backend was closed"))),
            // The runtime that built this backend has ended, and the dialer with it: the cache has to build it anew.
            State::Down(_) if self.dialer.is_finished() => {
                Some(Err(BackendError::new(ErrorKind::Closed, "the runtime of the redis backend has ended")))
            }
            State::Down(error) if error.kind() == ErrorKind::AuthenticationFailed => Some(Err(error.clone())),
            State::Down(_) => None,
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Ends a generation. A late error of an older one does nothing to the connection there is now.
    fn invalidate(&self, generation: u64, why: &BackendError) {
        let down = self.down(why);
        self.state.send_if_modified(|state| match state {
            State::Ready(ready) if ready.generation == generation => {
                *state = State::Down(down);
                true
            }
            _ => false,
        });
    }

    async fn dial_and_publish(self: &Arc<Self>, generation: u64) -> Result<(), BackendError> {
        let lost = Arc::new(AtomicBool::new(false));
        let on_push: OnPush = {
            // Weak: the connection holds this closure, and the state holds the connection.
            let (shared, lost) = (Arc::downgrade(self), lost.clone());
            Arc::new(move |push| match push.kind {
                PushKind::Disconnection => {
                    lost.store(true, Ordering::SeqCst);
                    if let Some(shared) = shared.upgrade() {
                        shared.invalidate(generation, &ended());
                    }
                }
                PushKind::Invalidate => {
                    if let Some(shared) = shared.upgrade() {
                        shared.trackers.report(&push);
                    }
                }
                _ => {}
            })
        };
        let link = dial(&self.config, self.named(), on_push).await?;
        let ready = Ready::new(link, generation);
        self.state.send_if_modified(|state| match state {
            State::Closed => false,
            _ => {
                *state = State::Ready(Arc::new(ready));
                true
            }
        });
        if lost.load(Ordering::SeqCst) {
            // It ended before it was published.
            self.invalidate(generation, &ended());
        }
        Ok(())
    }

    /// Waits for a connection to end, and dials until there is another one, for ever.
    async fn keep(self: &Arc<Self>) {
        let mut changes = self.state.subscribe();
        let mut backoff = Backoff::default();
        let mut newest = None;
        for generation in 1.. {
            let since = match &*changes.borrow_and_update() {
                State::Ready(ready) => Some(ready.since),
                _ => None,
            };
            let down = async { changes.wait_for(|state| !matches!(state, State::Ready(_))).await.is_ok() };
            let renewal = tokio::select! {
                _ = down => false,
                () = self.renew.notified() => true,
            };
            if renewal {
                // One that fails changes nothing; the next trouble tries again.
                let _ = self.dial_and_publish(generation).await;
                continue;
            }
            // A master that has just been named is worth a dial at once.
            let named_at = self.named.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, at)| *at);
            let news = std::mem::replace(&mut newest, named_at) != named_at;
            if news || since.is_none_or(|since| since.elapsed() >= SHORT_LIFE) {
                backoff = Backoff::default();
            } else {
                backoff.pause().await;
            }
            loop {
                match self.dial_and_publish(generation).await {
                    Ok(()) => break,
                    Err(error) => {
                        let down = self.down(&error);
                        self.state.send_if_modified(|state| match state {
                            State::Down(last) => {
                                *last = down;
                                true
                            }
                            _ => false,
                        });
                    }
                }
                backoff.pause().await;
            }
        }
    }

    /// Leaves a master as soon as a sentinel says that it is one no more.
    async fn follow_sentinels(&self) {
        let Place::Sentinel { sentinels, master } = &self.config.place else { return };
        loop {
            let named = crate::sentinel::switched(&self.config, sentinels, master).await;
            let down = self.down(&BackendError::new(ErrorKind::Unavailable, "another server became the master"));
            *self.named.lock().unwrap_or_else(PoisonError::into_inner) = Some((named.clone(), Instant::now()));
            self.state.send_if_modified(|state| match state {
                // Unless a dial was quicker than this message.
                State::Ready(ready) if ready.link.server() != Some(&named) => {
                    *state = State::Down(down);
                    true
                }
                _ => false,
            });
        }
    }

    fn named(&self) -> Option<ServerAddress> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.as_ref().filter(|(_, since)| since.elapsed() < NAMED_FOR).map(|(address, _)| address.clone())
    }

    /// What callers are told while there is no connection. Nothing was sent, so nothing was applied.
    fn down(&self, why: &BackendError) -> BackendError {
        let kind = match why.kind() {
            kind @ (ErrorKind::AuthenticationFailed
            | ErrorKind::ConfigInvalid
            | ErrorKind::Overloaded
            | ErrorKind::PermissionDenied) => kind,
            _ => ErrorKind::Unavailable,
        };
        self.at_place(why, kind)
    }

    fn at_place(&self, why: &BackendError, kind: ErrorKind) -> BackendError {
        BackendError::new(kind, format!("no connection to redis at {}: {}", self.config.place, why.context()))
    }

    fn why_down(&self) -> BackendError {
        match &*self.state.borrow() {
            State::Down(error) => error.clone(),
            _ => ended(),
        }
    }
}

/// A request under way. One that its caller drops after half of its time counts as a timeout: a cache whose own timeout
/// is shorter than the driver's would never let the driver find out.
struct Flight<'a> {
    supervisor: &'a Supervisor,
    ready: &'a Ready,
    since: Instant,
    timeout: Duration,
    landed: bool,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.landed {
            return;
        }
        // Or, of callers who give up sooner than that, several over the whole of that time.
        if self.since.elapsed() >= self.timeout / 2 || self.ready.is_left_waiting(self.since, self.timeout) {
            self.supervisor.count_timeout(self.ready);
        }
    }
}

fn ended() -> BackendError {
    BackendError::new(ErrorKind::Unavailable, "the connection ended")
}

pub(crate) fn runtime() -> Result<(), BackendError> {
    // A task is always one of a runtime. Asked first: a handle is counted, and all threads would count at the same place.
    if tokio::task::try_id().is_some() || Handle::try_current().is_ok() {
        return Ok(());
    }
    Err(BackendError::new(ErrorKind::ConfigInvalid, "redis needs a Tokio runtime"))
}

//! Finds a server: resolves its name, and makes sure that memcached 1.6 answers.

use crate::MemcachedConfig;
use crate::config::invalid;
use crate::error::{Doing, from_driver, no_connection, not_the_protocol};
use cachekit_core::{BackendError, ErrorKind, ServerAddress};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesOrdered, StreamExt};
use memcache::exp::{AsyncMetaClient, AsyncMetaConnection, Error, build_noop};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

type Lookup = dyn Fn(ServerAddress) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

const UNTRIED: u32 = 1 << 31;

/// Turns names into addresses.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<Lookup>);

impl Resolver {
    /// That of the system.
    pub(crate) fn system() -> Self {
        Self::new(|name| {
            async move { Ok(tokio::net::lookup_host((name.host.as_str(), name.port)).await?.collect()) }.boxed()
        })
    }

    pub(crate) fn new(
        lookup: impl Fn(ServerAddress) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(lookup))
    }

    /// In an order that does not change from one answer to the next, so that everyone uses the same one of several.
    pub(crate) async fn resolve(&self, name: &ServerAddress) -> Result<Vec<SocketAddr>, BackendError> {
        let found = (self.0)(name.clone()).await;
        let mut addresses = found.map_err(|error| {
            let text = format!("the name does not resolve: {error}");
            BackendError::new(ErrorKind::Unavailable, text)
        })?;
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(BackendError::new(ErrorKind::Unavailable, "the name has no address"));
        }
        Ok(addresses)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// A server that was found: the pool of connections to one of its addresses.
pub(crate) struct Link {
    pub(crate) client: AsyncMetaClient,
    /// The one that is used, and all that its name had.
    address: SocketAddr,
    addresses: Vec<SocketAddr>,
    /// How many operations in a row have failed; [`UNTRIED`] and more before the first one that has not.
    failures: AtomicU32,
    since: Instant,
    /// When the name is to be resolved anew, in milliseconds since then.
    due: AtomicU64,
}

impl Link {
    /// Asks every address, and takes the first, in their order, that answers.
    pub(crate) async fn open(config: &MemcachedConfig, addresses: Vec<SocketAddr>) -> Result<Self, BackendError> {
        let mut asked: FuturesOrdered<_> =
            addresses.iter().map(|address| async move { (*address, greet(*address).await) }).collect();
        let mut outcome = Err(no_connection());
        while let Some((address, greeted)) = asked.next().await {
            match greeted {
                Ok(()) => {
                    let client = client(config, address).await?;
                    drop(asked);
                    return Ok(Self::new(client, address, addresses));
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn new(client: AsyncMetaClient, address: SocketAddr, addresses: Vec<SocketAddr>) -> Self {
        let (failures, due) = (AtomicU32::new(UNTRIED), AtomicU64::new(0));
        Self { client, address, addresses, failures, since: Instant::now(), due }
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What is found at these addresses now: with the connections there are, if that is the same server.
    pub(crate) async fn reopen(
        &self,
        config: &MemcachedConfig,
        addresses: Vec<SocketAddr>,
    ) -> Result<Self, BackendError> {
        let found = Self::open(config, addresses).await?;
        let client = if found.address == self.address { self.client.clone() } else { found.client };
        Ok(Self::new(client, found.address, found.addresses))
    }

    pub(crate) fn heard(&self) {
        // Mostly it is zero, and a read does not disturb the other cores.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Counts one, and tells how many there were in a row.
    pub(crate) fn failed(&self) -> u32 {
        (self.failures.fetch_add(1, Ordering::Relaxed) & !UNTRIED).saturating_add(1)
    }

    /// Whether any operation has succeeded.
    pub(crate) fn has_worked(&self) -> bool {
        self.failures.load(Ordering::Relaxed) & UNTRIED == 0
    }

    /// Whether it is time to resolve the name anew: `true` for one caller each time.
    pub(crate) fn is_due(&self, every: Duration, now: Instant) -> bool {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (age, every) = (millis(now.saturating_duration_since(self.since)), millis(every));
        let due = self.due.load(Ordering::Relaxed).max(every);
        age >= due
            && self
                .due
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                    (age >= last.max(every)).then(|| age.saturating_add(every))
                })
                .is_ok()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Contacts nobody yet.
async fn client(config: &MemcachedConfig, address: SocketAddr) -> Result<AsyncMetaClient, BackendError> {
    let client = AsyncMetaClient::builder()
        .connect_timeout(Some(config.dial_timeout()))
        // Each call has its own, which depends on what it sends.
        .io_timeout(None)
        .max_idle(config.max_connections)
        .max_idle_age(config.max_idle_age)
        .connect_async(address)
        .await;
    client.map_err(|error| from_driver(&error, Doing::Read))
}

async fn greet(address: SocketAddr) -> Result<(), BackendError> {
    let dialed = AsyncMetaConnection::connect(address).await;
    let mut connection = dialed.map_err(|error| from_driver(&error, Doing::Read))?;
    match connection.execute(&build_noop()).await {
        // It has one answer only.
        Ok(_) => Ok(()),
        Err(Error::Rejected(_)) => {
            drop(connection);
            Err(why_rejected(address).await)
        }
        Err(error) => Err(from_driver(&error, Doing::Read)),
    }
}

/// Why a server does not know the command that does nothing. The driver leaves out what else it said.
async fn why_rejected(address: SocketAddr) -> BackendError {
    match ask_version(address).await {
        Ok(answer) if answer.contains("Too many open connections") => {
            BackendError::new(ErrorKind::Overloaded, "the server has its most connections")
        }
        Ok(answer) => match answer.strip_prefix("VERSION ") {
            Some(version) => invalid(format!("memcached 1.6 or newer is needed, and this is {version}")),
            None => not_the_protocol(),
        },
        Err(error) => BackendError::new(ErrorKind::Unavailable, error.to_string()),
    }
}

async fn ask_version(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"version\r\n").await?;
    let mut line = Vec::new();
    BufReader::new(stream.take(80)).read_until(b'\n', &mut line).await?;
    let graphic = line.into_iter().filter(|byte| (0x20..=0x7e).contains(byte));
    Ok(graphic.map(char::from).collect())
}

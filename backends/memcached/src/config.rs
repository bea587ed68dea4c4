//! The settings.

use cachekit_core::{BackendError, ErrorKind, ServerAddress};
use std::time::Duration;

pub(crate) const DEFAULT_PORT: u16 = 11211;
/// What memcached adds to a value: the key, at most 250 bytes, and the head of an item.
const MOST_OVERHEAD: usize = 512 + 250;
/// The largest `-I` of memcached.
const MOST_VALUE_BYTES: usize = (1 << 30) - MOST_OVERHEAD;

/// More is a mistake, and would overflow where times are added.
const MOST_TIME: Duration = Duration::from_secs(365 * 86_400);

/// How to reach the servers.
///
/// ```
/// use cachekit_memcached::MemcachedConfig;
/// use std::time::Duration;
///
/// let config = MemcachedConfig::servers([("cache-a.internal", 11211), ("cache-b.internal", 11211)])
///     .with_operation_timeout(Duration::from_millis(300));
/// assert_eq!(config.connect_timeout(), Duration::from_millis(500));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemcachedConfig {
    /// In the order of their names, whatever order they were given in.
    pub(crate) addresses: Vec<ServerAddress>,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_connections: usize,
    pub(crate) max_idle_age: Duration,
    pub(crate) max_value_bytes: usize,
    pub(crate) open_after: u32,
    pub(crate) open_for: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) resolve_every: Option<Duration>,
}

impl MemcachedConfig {
    /// The defaults, for the one server at this host name or IP address.
    pub fn server(host: impl Into<String>, port: u16) -> Self {
        Self::servers([(host, port)])
    }

    /// The defaults, for keys that are spread over these servers. Their order does not matter; their names do: every
    /// process has to call a server the same.
    pub fn servers<H: Into<String>>(servers: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::new(servers.into_iter().map(|(host, port)| ServerAddress { host: host.into(), port }).collect())
    }

    pub(crate) fn new(mut addresses: Vec<ServerAddress>) -> Self {
        for address in &mut addresses {
            address.host.make_ascii_lowercase();
        }
        addresses.sort_by_cached_key(ToString::to_string);
        Self {
            addresses,
            connect_timeout: Duration::from_millis(500),
            max_connections: 32,
            max_idle_age: Duration::from_secs(60),
            max_value_bytes: (1 << 20) - MOST_OVERHEAD,
            open_after: 3,
            open_for: Duration::from_secs(1),
            operation_timeout: Duration::from_millis(500),
            resolve_every: Some(Duration::from_secs(60)),
        }
    }

    /// How long finding a server may take, from name resolution to its first answer (default 500 ms).
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// The most connections to each server (default 32). Each carries one operation, or one batch, at a time; who finds
    /// none free waits for three quarters of an operation's time at most.
    #[must_use]
    pub fn max_connections(&self) -> usize {
        self.max_connections
    }

    /// After how long without use a connection is not used again (default 60 s), since firewalls forget idle ones.
    #[must_use]
    pub fn max_idle_age(&self) -> Duration {
        self.max_idle_age
    }

    /// The largest value this backend stores, in bytes (default 1,047,814: what always fits memcached's own 1 MiB). For a
    /// server with another `-I`, that size less 762.
    #[must_use]
    pub fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    /// After how many failures in a row a server is left alone (default 3).
    #[must_use]
    pub fn open_after(&self) -> u32 {
        self.open_after
    }

    /// For how long a server is left alone before one operation tries it again (default 1 s).
    #[must_use]
    pub fn open_for(&self) -> Duration {
        self.open_for
    }

    /// How long an operation may take (default 500 ms). The backend gives up after 80 % of it and 1 s per 50 MB of values
    /// that are sent. Give the cache's own operation timeout the same value.
    #[must_use]
    pub fn operation_timeout(&self) -> Duration {
        self.operation_timeout
    }

    /// How often a host name in use is resolved anew (default 60 s); `None`: only after failures.
    #[must_use]
    pub fn resolve_every(&self) -> Option<Duration> {
        self.resolve_every
    }

    /// Sets [`connect_timeout`](Self::connect_timeout).
    #[must_use]
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets [`max_connections`](Self::max_connections).
    #[must_use]
    pub fn with_max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// Sets [`max_idle_age`](Self::max_idle_age).
    #[must_use]
    pub fn with_max_idle_age(mut self, max_idle_age: Duration) -> Self {
        self.max_idle_age = max_idle_age;
        self
    }

    /// Sets [`max_value_bytes`](Self::max_value_bytes).
    #[must_use]
    pub fn with_max_value_bytes(mut self, max_value_bytes: usize) -> Self {
        self.max_value_bytes = max_value_bytes;
        self
    }

    /// Sets [`open_after`](Self::open_after).
    #[must_use]
    pub fn with_open_after(mut self, open_after: u32) -> Self {
        self.open_after = open_after;
        self
    }

    /// Sets [`open_for`](Self::open_for).
    #[must_use]
    pub fn with_open_for(mut self, open_for: Duration) -> Self {
        self.open_for = open_for;
        self
    }

    /// Sets [`operation_timeout`](Self::operation_timeout).
    #[must_use]
    pub fn with_operation_timeout(mut self, operation_timeout: Duration) -> Self {
        self.operation_timeout = operation_timeout;
        self
    }

    /// Sets [`resolve_every`](Self::resolve_every).
    #[must_use]
    pub fn with_resolve_every(mut self, resolve_every: Option<Duration>) -> Self {
        self.resolve_every = resolve_every;
        self
    }

    /// How long a request that carries so many bytes of values may take, waiting and dialing included.
    pub(crate) fn budget(&self, bytes: usize) -> Duration {
        // 50 MB/s: a large value is not slow because the server is.
        let more = Duration::from_micros(u64::try_from(bytes / 50).unwrap_or(u64::MAX));
        (self.operation_timeout + more).mul_f64(0.8)
    }

    /// How long the dial within an operation may take: less than the operation, so that one that sent nothing knows it.
    pub(crate) fn dial_timeout(&self) -> Duration {
        self.connect_timeout.min(self.budget(0).mul_f64(0.75))
    }

    pub(crate) fn validate(&self) -> Result<(), BackendError> {
        if self.addresses.is_empty() {
            return Err(invalid("no server is given"));
        }
        for pair in self.addresses.windows(2) {
            if pair[0] == pair[1] {
                return Err(invalid(format!("the server {} is given twice", pair[0])));
            }
        }
        if self.addresses.iter().any(|address| address.host.is_empty()) {
            return Err(invalid("the host is empty"));
        }
        if self.addresses.iter().any(|address| address.port == 0) {
            return Err(invalid("the port is zero"));
        }
        for (name, time) in [
            ("connect_timeout", self.connect_timeout),
            ("max_idle_age", self.max_idle_age),
            ("open_for", self.open_for),
            ("operation_timeout", self.operation_timeout),
            ("resolve_every", self.resolve_every.unwrap_or(MOST_TIME)),
        ] {
            if time < Duration::from_millis(1) {
                return Err(invalid(format!("`{name}` is less than a millisecond")));
            }
            if time > MOST_TIME {
                return Err(invalid(format!("`{name}` is more than a year")));
            }
        }
        if self.max_connections == 0 || self.max_connections > 65_536 {
            return Err(invalid("`max_connections` is not a number from 1 to 65536"));
        }
        if self.open_after == 0 {
            return Err(invalid("`open_after` is zero"));
        }
        if self.max_value_bytes > MOST_VALUE_BYTES {
            return Err(invalid(format!("`max_value_bytes` is over {MOST_VALUE_BYTES}, the most memcached holds")));
        }
        Ok(())
    }
}

pub(crate) fn invalid(why: impl Into<std::borrow::Cow<'static, str>>) -> BackendError {
    BackendError::new(ErrorKind::ConfigInvalid, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_cannot_say_is_refused_too() {
        let good = MemcachedConfig::server("h", 1);
        assert!(good.validate().is_ok());
        let none: [(&str, u16); 0] = [];
        for (config, why) in [
            (MemcachedConfig::servers(none), "no server"),
            (MemcachedConfig::server("", 1), "host is empty"),
            (MemcachedConfig::server("h", 0), "port is zero"),
            (MemcachedConfig::servers([("h", 1), ("i", 1), ("H", 1)]), "h:1 is given twice"),
            (good.clone().with_operation_timeout(Duration::MAX), "`operation_timeout` is more than a year"),
            (good.clone().with_open_for(Duration::MAX), "`open_for` is more than a year"),
            (good.clone().with_max_connections(usize::MAX), "`max_connections`"),
        ] {
            let error = config.validate().unwrap_err();
            assert!(error.context().contains(why), "{error}");
        }
        assert!(good.clone().with_resolve_every(None).validate().is_ok());
        assert!(good.with_resolve_every(Some(Duration::ZERO)).validate().is_err());
    }

    #[test]
    fn a_dial_takes_less_than_the_operation_it_is_for() {
        let config = MemcachedConfig::server("h", 1);
        assert_eq!(
            (config.budget(0), config.budget(50_000_000)),
            (Duration::from_millis(400), Duration::from_millis(1_200))
        );
        assert_eq!(config.dial_timeout(), Duration::from_millis(300));
        let short = config.with_connect_timeout(Duration::from_millis(50));
        assert_eq!(short.dial_timeout(), Duration::from_millis(50));
    }
}

//! The settings.

use cachekit_core::{BackendError, ErrorKind, ServerAddress};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest value Redis holds. One byte more and it closes the connection, and with it everyone else's operations.
const MOST_VALUE_BYTES: usize = 512 << 20;
pub(crate) const DEFAULT_PORT: u16 = 6379;
pub(crate) const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// Text that does not print.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A name and a password; without a name, the user `default` of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Cluster(Vec<ServerAddress>),
    Sentinel { sentinels: Vec<ServerAddress>, master: String },
    Server(ServerAddress),
    Unix(PathBuf),
}

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP2, for a proxy that misbehaves with the newer one.
    Resp2,
    /// RESP3, and RESP2 with a server that does not know it.
    #[default]
    Resp3,
}

/// Whom a connection with TLS trusts, and who it says it is. Files are read anew at each dial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) on: bool,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// How to reach a server, a cluster, or the master behind sentinels.
///
/// ```
/// use cachekit_redis::RedisConfig;
/// use std::time::Duration;
///
/// let config = RedisConfig::server("cache.internal", 6379).with_password("hunter2").with_database(3);
/// assert_eq!(config.operation_timeout(), Duration::from_millis(500));
/// assert!(!format!("{config:?}").contains("hunter2"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    pub(crate) place: Place,
    pub(crate) credentials: Credentials,
    pub(crate) sentinel_credentials: Credentials,
    pub(crate) protocol: Protocol,
    pub(crate) tls: Tls,
    pub(crate) client_info: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) database: u32,
    pub(crate) down_wait: Duration,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) max_value_bytes: usize,
    pub(crate) nodelay: bool,
    pub(crate) operation_timeout: Duration,
    pub(crate) user_timeout: Option<Duration>,
}

impl RedisConfig {
    /// The defaults, for the server at this host name or IP address.
    pub fn server(host: impl Into<String>, port: u16) -> Self {
        Self::new(Place::Server(ServerAddress { host: host.into(), port }))
    }

    /// The defaults, for the server at this Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Place::Unix(path.into()))
    }

    /// The defaults, for the cluster that these nodes belong to; one that answers is enough. Needs the feature
    /// `cluster`.
    pub fn cluster<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::new(Place::Cluster(addresses(nodes)))
    }

    /// The defaults, for the master that these sentinels know by this name. Needs the feature `sentinel`.
    pub fn sentinel<H: Into<String>>(sentinels: impl IntoIterator<Item = (H, u16)>, master: impl Into<String>) -> Self {
        Self::new(Place::Sentinel { sentinels: addresses(sentinels), master: master.into() })
    }

    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            credentials: Credentials::default(),
            sentinel_credentials: Credentials::default(),
            protocol: Protocol::default(),
            tls: Tls::default(),
            client_info: true,
            connect_timeout: Duration::from_secs(1),
            database: 0,
            down_wait: Duration::from_millis(50),
            keepalive: Some(Duration::from_secs(15)),
            max_value_bytes: 32 << 20,
            nodelay: true,
            operation_timeout: Duration::from_millis(500),
            user_timeout: Some(Duration::from_secs(5)),
        }
    }

    /// Whether a connection tells the server the name and version of its library (default true). Off for an access list that
    /// forbids `CLIENT SETINFO`, where each refusal is logged.
    #[must_use]
    pub fn client_info(&self) -> bool {
        self.client_info
    }

    /// How long a dial may take, from name resolution to the first answer (default 1 s).
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// The number of the database (default 0). A cluster has only that one.
    #[must_use]
    pub fn database(&self) -> u32 {
        self.database
    }

    /// How long an operation waits for a connection that is being dialed (default 50 ms).
    #[must_use]
    pub fn down_wait(&self) -> Duration {
        self.down_wait
    }

    /// After how long without traffic TCP asks whether the server is there (default 15 s, then every 5 s, 3 times); `None`:
    /// never.
    #[must_use]
    pub fn keepalive(&self) -> Option<Duration> {
        self.keepalive
    }

    /// The largest value this backend stores, in bytes (default 32 MiB, at most 512 MiB).
    #[must_use]
    pub fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    /// Whether small packets leave at once (default true). Off saves a quarter of the time of many concurrent writes on
    /// one machine, and costs 40 ms per write on some networks.
    #[must_use]
    pub fn nodelay(&self) -> bool {
        self.nodelay
    }

    /// How long an operation may take (default 500 ms). The driver gives up after 80 % of it and 1 s per 50 MB of a value
    /// that is sent. Give the cache's own operation timeout the same value.
    #[must_use]
    pub fn operation_timeout(&self) -> Duration {
        self.operation_timeout
    }

    /// After how long without an acknowledgement TCP gives up a connection (default 5 s, Linux only); `None`: after the
    /// system's 15 minutes.
    #[must_use]
    pub fn user_timeout(&self) -> Option<Duration> {
        self.user_timeout
    }

    /// Whether the server can report what others change: over RESP3, and not in a cluster, where each node would have to
    /// be asked.
    pub(crate) fn reports_changes(&self) -> bool {
        self.protocol == Protocol::Resp3 && !matches!(self.place, Place::Cluster(_))
    }

    /// The version of the protocol (default [`Protocol::Resp3`]).
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether connections are encrypted (default false). Needs the feature `tls`.
    #[must_use]
    pub fn tls(&self) -> bool {
        self.tls.on
    }

    /// The file, in PEM, of the authorities that sign servers' certificates (default: those of the system).
    #[must_use]
    pub fn ca(&self) -> Option<&Path> {
        self.tls.ca.as_deref()
    }

    /// Sets [`client_info`](Self::client_info).
    #[must_use]
    pub fn with_client_info(mut self, client_info: bool) -> Self {
        self.client_info = client_info;
        self
    }

    /// Sets [`connect_timeout`](Self::connect_timeout).
    #[must_use]
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets [`database`](Self::database).
    #[must_use]
    pub fn with_database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// Sets [`down_wait`](Self::down_wait).
    #[must_use]
    pub fn with_down_wait(mut self, down_wait: Duration) -> Self {
        self.down_wait = down_wait;
        self
    }

    /// Sets [`keepalive`](Self::keepalive).
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Option<Duration>) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Sets [`max_value_bytes`](Self::max_value_bytes).
    #[must_use]
    pub fn with_max_value_bytes(mut self, max_value_bytes: usize) -> Self {
        self.max_value_bytes = max_value_bytes;
        self
    }

    /// Sets [`nodelay`](Self::nodelay).
    #[must_use]
    pub fn with_nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// Sets [`operation_timeout`](Self::operation_timeout).
    #[must_use]
    pub fn with_operation_timeout(mut self, operation_timeout: Duration) -> Self {
        self.operation_timeout = operation_timeout;
        self
    }

    /// Sets [`user_timeout`](Self::user_timeout).
    #[must_use]
    pub fn with_user_timeout(mut self, user_timeout: Option<Duration>) -> Self {
        self.user_timeout = user_timeout;
        self
    }

    /// The name of the user, for a server with an access list.
    #[must_use]
    pub fn with_username(mut self, username: impl Into<String>) -> Self {
        self.credentials.username = Some(username.into());
        self
    }

    /// The password. It never prints.
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.credentials.password = Some(Secret(password.into()));
        self
    }

    /// The name of the user for the sentinels, which have users of their own.
    #[must_use]
    pub fn with_sentinel_username(mut self, username: impl Into<String>) -> Self {
        self.sentinel_credentials.username = Some(username.into());
        self
    }

    /// The password for the sentinels.
    #[must_use]
    pub fn with_sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_credentials.password = Some(Secret(password.into()));
        self
    }

    /// Sets [`protocol`](Self::protocol).
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets [`tls`](Self::tls).
    #[must_use]
    pub fn with_tls(mut self, on: bool) -> Self {
        self.tls.on = on;
        self
    }

    /// Sets [`ca`](Self::ca), and switches TLS on.
    #[must_use]
    pub fn with_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(file.into());
        self.with_tls(true)
    }

    /// The files, in PEM, of the certificate and the key that this client shows; switches TLS on.
    #[must_use]
    pub fn with_client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls.client = Some((certificate.into(), key.into()));
        self.with_tls(true)
    }

    /// How long the driver waits for an answer to a command that carries so many bytes of values.
    pub(crate) fn response_timeout(&self, bytes: usize) -> Duration {
        // 50 MB/s: a large value is not slow because the server is.
        let more = Duration::from_micros(u64::try_from(bytes / 50).unwrap_or(u64::MAX));
        (self.operation_timeout + more).mul_f64(0.8)
    }

    pub(crate) fn validate(&self) -> Result<(), BackendError> {
        let addresses = match &self.place {
            Place::Cluster(nodes) => nodes.as_slice(),
            Place::Sentinel { sentinels, master } => {
                if master.is_empty() {
                    return Err(invalid("the name of the master is missing: redis+sentinel://host:port/NAME"));
                }
                sentinels
            }
            Place::Server(address) => std::slice::from_ref(address),
            Place::Unix(path) => {
                if path.as_os_str().is_empty() {
                    return Err(invalid("the path of the socket is empty"));
                }
                if self.tls.on {
                    return Err(invalid("a Unix socket has no TLS"));
                }
                &[]
            }
        };
        if addresses.is_empty() && !matches!(self.place, Place::Unix(_)) {
            return Err(invalid("no address is given"));
        }
        if addresses.iter().any(|address| address.host.is_empty()) {
            return Err(invalid("the host is empty"));
        }
        if addresses.iter().any(|address| address.port == 0) {
            return Err(invalid("the port is zero"));
        }
        if self.database != 0 && matches!(self.place, Place::Cluster(_)) {
            return Err(invalid("a cluster has only the database 0"));
        }
        if self.credentials.username.is_some() && self.credentials.password.is_none() {
            return Err(invalid("a user is given without a password"));
        }
        for (name, time) in [("connect_timeout", self.connect_timeout), ("operation_timeout", self.operation_timeout)] {
            if time < Duration::from_millis(1) {
                return Err(invalid(format!("`{name}` is less than a millisecond")));
            }
        }
        if self.max_value_bytes > MOST_VALUE_BYTES {
            return Err(invalid(format!("`max_value_bytes` is over {MOST_VALUE_BYTES}, the most Redis holds")));
        }
        self.validate_features()
    }

    fn validate_features(&self) -> Result<(), BackendError> {
        let missing = |feature| Err(invalid(format!("this needs the feature `{feature}`, which is not compiled in")));
        match &self.place {
            Place::Cluster(_) if !cfg!(feature = "cluster") => missing("cluster"),
            Place::Sentinel { .. } if !cfg!(feature = "sentinel") => missing("sentinel"),
            _ if self.tls.on && !cfg!(feature = "tls") => missing("tls"),
            _ => Ok(()),
        }
    }
}

fn addresses<H: Into<String>>(hosts: impl IntoIterator<Item = (H, u16)>) -> Vec<ServerAddress> {
    hosts.into_iter().map(|(host, port)| ServerAddress { host: host.into(), port }).collect()
}

pub(crate) fn invalid(why: impl Into<std::borrow::Cow<'static, str>>) -> BackendError {
    BackendError::new(ErrorKind::ConfigInvalid, why)
}

//! From a configuration to a connection that has answered.

use crate::RedisConfig;
use crate::config::{Credentials, Place, Protocol};
use crate::error::{Doing, from_redis};
use crate::link::{Link, Single};
use crate::tls::open;
use cachekit_core::{BackendError, ErrorKind, ServerAddress};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushInfo,
    RedisConnectionInfo, RedisError, RedisResult,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Told what the server pushes, the end of the connection included.
pub(crate) type OnPush = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// One attempt, with nothing retried. The connection has answered a PING.
///
/// `named` is the master that a sentinel has just named by itself; the others may not know yet.
pub(crate) async fn dial(
    config: &RedisConfig,
    named: Option<ServerAddress>,
    on_push: OnPush,
) -> Result<Arc<dyn Link>, BackendError> {
    if let Place::Cluster(nodes) = &config.place {
        return crate::cluster::dial(config, nodes).await;
    }
    if let Some(named) = named {
        let info = info(config, tcp(&named), &config.credentials, config.database);
        if let Ok(single) = dial_one(config, async { info.map_err(failed) }, on_push.clone()).await {
            return Ok(Arc::new(single));
        }
    }
    Ok(Arc::new(dial_one(config, server(config, 0), on_push).await?))
}

fn failed(error: RedisError) -> BackendError {
    from_redis(&error, Doing::Dial)
}

/// A connection to one server; with sentinels, to the master they name.
async fn dial_one(
    config: &RedisConfig,
    info: impl Future<Output = Result<ConnectionInfo, BackendError>>,
    on_push: OnPush,
) -> Result<Single, BackendError> {
    let dialing = async {
        let info = info.await?;
        let server = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(ServerAddress { host: host.clone(), port: *port })
            }
            _ => None,
        };
        let (mut connection, protocol) = connect(config, info, Some(on_push)).await.map_err(failed)?;
        connection.set_response_timeout(config.connect_timeout);
        redis::cmd("PING").exec_async(&mut connection).await.map_err(failed)?;
        if config.client_info {
            introduce(&mut connection).await;
        }
        if matches!(config.place, Place::Sentinel { .. }) {
            crate::sentinel::confirm_master(&mut connection).await?;
        }
        connection.set_response_timeout(config.response_timeout(0));
        Ok(Single { connection, protocol, server })
    };
    in_time(config.connect_timeout, dialing).await
}

/// Tells the server who is there; older ones do not know the command. Not left to the driver, which waits for this
/// answer too when the server has refused the connection and hung up, and so loses what it said.
async fn introduce(connection: &mut MultiplexedConnection) {
    let mut names = redis::pipe();
    names.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("cachekit-redis").ignore();
    names.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION")).ignore();
    let _: RedisResult<()> = names.query_async(connection).await;
}

/// A connection for the messages of a channel.
pub(crate) async fn dial_channel(config: &RedisConfig, channel: &str, attempt: usize) -> Result<PubSub, BackendError> {
    listen(config, server(config, attempt), channel).await
}

pub(crate) async fn listen(
    config: &RedisConfig,
    info: impl Future<Output = Result<ConnectionInfo, BackendError>>,
    channel: &str,
) -> Result<PubSub, BackendError> {
    let dialing = async {
        let info = info.await?;
        // Messages come in either protocol; the older one asks nothing of the server.
        let older = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let client = open(config, info.set_redis_settings(older));
        let subscribing = async {
            let mut messages = client?.get_async_pubsub().await?;
            messages.subscribe(channel).await?;
            Ok(messages)
        };
        subscribing.await.map_err(failed)
    };
    in_time(config.connect_timeout, dialing).await
}

/// The server to dial; in a cluster, where messages go to every node, another one with each attempt.
async fn server(config: &RedisConfig, attempt: usize) -> Result<ConnectionInfo, BackendError> {
    let address = match &config.place {
        Place::Cluster(nodes) => nodes.get(attempt % nodes.len().max(1)).map(tcp).ok_or_else(no_address)?,
        Place::Sentinel { sentinels, master } => crate::sentinel::master(config, sentinels, master).await?,
        Place::Server(address) => tcp(address),
        Place::Unix(path) => ConnectionAddr::Unix(path.clone()),
    };
    info(config, address, &config.credentials, config.database).map_err(failed)
}

/// The whole of a dial within its time; the driver bounds only a part.
pub(crate) async fn in_time<T>(
    limit: Duration,
    dialing: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    let late = || BackendError::new(ErrorKind::Unavailable, format!("no connection within {limit:?}"));
    tokio::time::timeout(limit, dialing).await.unwrap_or_else(|_| Err(late()))
}

fn no_address() -> BackendError {
    BackendError::new(ErrorKind::ConfigInvalid, "no address is given")
}

pub(crate) fn tcp(address: &ServerAddress) -> ConnectionAddr {
    ConnectionAddr::Tcp(address.host.clone(), address.port)
}

/// Connects, with the newer protocol if the server knows it. Also tells which it became.
pub(crate) async fn connect(
    config: &RedisConfig,
    info: ConnectionInfo,
    on_push: Option<OnPush>,
) -> RedisResult<(MultiplexedConnection, Protocol)> {
    let settings = || {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.connect_timeout))
            .set_response_timeout(Some(config.response_timeout(0)))
    };
    if config.protocol == Protocol::Resp3 {
        let mut settings = settings();
        if let Some(on_push) = on_push {
            settings = settings.set_push_sender(move |push| {
                on_push(push);
                Ok::<_, redis::aio::SendError>(())
            });
        }
        match open(config, info.clone())?.get_multiplexed_async_connection_with_config(&settings).await {
            Err(error) if is_too_old(&error) => {}
            outcome => return outcome.map(|connection| (connection, Protocol::Resp3)),
        }
    }
    let older = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    let client = open(config, info.set_redis_settings(older))?;
    let connection = client.get_multiplexed_async_connection_with_config(&settings()).await?;
    Ok((connection, Protocol::Resp2))
}

fn is_too_old(error: &RedisError) -> bool {
    let text = error.to_string();
    error.kind() == redis::ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || text.contains("NOPROTO")
        || (text.contains("unknown command") && text.to_ascii_lowercase().contains("hello"))
}

pub(crate) fn info(
    config: &RedisConfig,
    address: ConnectionAddr,
    credentials: &Credentials,
    database: u32,
) -> RedisResult<ConnectionInfo> {
    let mut settings = RedisConnectionInfo::default().set_db(i64::from(database)).set_protocol(version(config));
    if let Some(username) = &credentials.username {
        settings = settings.set_username(username);
    }
    if let Some(password) = &credentials.password {
        settings = settings.set_password(&password.0);
    }
    if !config.client_info || !matches!(config.place, Place::Cluster(_)) {
        settings = settings.set_skip_set_lib_name();
    }
    let address = match address {
        ConnectionAddr::Tcp(host, port) if config.tls.on => {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        }
        address => address,
    };
    let info = address.into_connection_info()?;
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp_settings(config)))
}

pub(crate) fn version(config: &RedisConfig) -> ProtocolVersion {
    match config.protocol {
        Protocol::Resp2 => ProtocolVersion::RESP2,
        Protocol::Resp3 => ProtocolVersion::RESP3,
    }
}

pub(crate) fn tcp_settings(config: &RedisConfig) -> TcpSettings {
    let mut settings = TcpSettings::default().set_nodelay(config.nodelay);
    if let Some(idle) = config.keepalive {
        let keepalive = TcpKeepalive::new().with_time(idle).with_interval(Duration::from_secs(5)).with_retries(3);
        settings = settings.set_keepalive(keepalive);
    }
    with_user_timeout(settings, config.user_timeout)
}

#[cfg(target_os = "linux")]
fn with_user_timeout(settings: TcpSettings, limit: Option<Duration>) -> TcpSettings {
    match limit {
        Some(limit) => settings.set_user_timeout(limit),
        None => settings,
    }
}

#[cfg(not(target_os = "linux"))]
fn with_user_timeout(settings: TcpSettings, _: Option<Duration>) -> TcpSettings {
    settings
}

/// Where a configuration leads to, for messages.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |addresses: &[ServerAddress]| addresses.iter().map(ServerAddress::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Cluster(nodes) => write!(f, "the cluster at {}", list(nodes)),
            Self::Sentinel { sentinels, master } => write!(f, "`{master}` of the sentinels at {}", list(sentinels)),
            Self::Server(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_options_reach_the_driver() {
        let settings = tcp_settings(&RedisConfig::server("h", 1));
        assert!(settings.nodelay());
        assert_eq!(settings.user_timeout(), Some(Duration::from_secs(5)));
        let keepalive = format!("{:?}", settings.keepalive());
        assert!(keepalive.contains("15s") && keepalive.contains("5s") && keepalive.contains("Some(3)"), "{keepalive}");
        let config = RedisConfig::server("h", 1).with_nodelay(false).with_user_timeout(None).with_keepalive(None);
        let settings = tcp_settings(&config);
        assert!(!settings.nodelay() && settings.user_timeout().is_none() && settings.keepalive().is_none());
    }

    #[test]
    fn places_are_named_without_credentials() {
        let config = RedisConfig::cluster([("::1", 1), ("b", 2)]).with_password("canary");
        assert_eq!(config.place.to_string(), "the cluster at [::1]:1,b:2");
        assert_eq!(RedisConfig::sentinel([("a", 1)], "m").place.to_string(), "`m` of the sentinels at a:1");
    }
}

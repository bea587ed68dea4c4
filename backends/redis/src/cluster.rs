//! Connections to a cluster.

use crate::RedisConfig;
use crate::config::Credentials;
use crate::dial::{in_time, info, tcp, tcp_settings, version};
use crate::error::{Doing, from_redis};
use crate::link::{Link, Master, Request, send};
use cachekit_core::{BackendError, ServerAddress};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{RedisError, RedisFuture, RedisResult, Value};
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The driver's own are 16, with waits of up to ten minutes.
const RETRIES: u32 = 3;
const WAIT_MS: (u64, u64) = (20, 200);

/// The driver finds the other nodes, and keeps the connections to them.
pub(crate) async fn dial(config: &RedisConfig, nodes: &[ServerAddress]) -> Result<Arc<dyn Link>, BackendError> {
    let dialing = async {
        let client = client(config, nodes)?;
        let mut connection = client.get_async_connection().await?;
        redis::cmd("PING").exec_async(&mut connection).await?;
        Ok(connection)
    };
    // Every node there is gets connected to, and one that hangs takes its whole time.
    let limit = config.connect_timeout * 2;
    let failed = |error: RedisError| from_redis(&error, Doing::Dial);
    let connection = in_time(limit, async { dialing.await.map_err(failed) }).await?;
    Ok(Arc::new(Spread(connection)))
}

fn client(config: &RedisConfig, nodes: &[ServerAddress]) -> RedisResult<redis::cluster::ClusterClient> {
    let nodes = nodes
        .iter()
        .map(|node| info(config, tcp(node), &Credentials::default(), 0))
        .collect::<RedisResult<Vec<_>>>()?;
    let mut builder = ClusterClientBuilder::new(nodes)
        .retries(RETRIES)
        .min_retry_wait(WAIT_MS.0)
        .max_retry_wait(WAIT_MS.1)
        // A dead node is dropped until the next look at the topology: less often do all other shards wait for it.
        .max_connection_attempts(NonZeroUsize::MIN)
        .connection_timeout(config.connect_timeout)
        // One command's; `send` sets the bound of a whole request, which grows with what it carries.
        .response_timeout(config.response_timeout(config.max_value_bytes))
        .overall_response_timeout(None)
        .tcp_settings(tcp_settings(config))
        .use_protocol(version(config));
    if let Some(username) = &config.credentials.username {
        builder = builder.username(username);
    }
    if let Some(password) = &config.credentials.password {
        builder = builder.password(&password.0);
    }
    with_tls(builder, config)?.build()
}

#[cfg(feature = "tls")]
fn with_tls(builder: ClusterClientBuilder, config: &RedisConfig) -> RedisResult<ClusterClientBuilder> {
    if !config.tls.on {
        return Ok(builder);
    }
    crate::tls::install_provider();
    Ok(builder.tls(redis::TlsMode::Secure).certs(crate::tls::certificates(config)?))
}

#[cfg(not(feature = "tls"))]
fn with_tls(builder: ClusterClientBuilder, _: &RedisConfig) -> RedisResult<ClusterClientBuilder> {
    Ok(builder)
}

struct Spread(ClusterConnection);

impl Link for Spread {
    fn send<'a>(&'a self, request: &'a Request, timeout: Duration) -> RedisFuture<'a, Value> {
        let mut connection = self.0.clone();
        Box::pin(bounded(timeout, async move { send(&mut connection, request).await }))
    }

    fn send_to<'a>(&'a self, master: &'a Master, request: &'a Request, timeout: Duration) -> RedisFuture<'a, Value> {
        let (Some((host, port)), Request::Command(command)) = (master, request) else {
            return self.send(request, timeout);
        };
        let routing = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host: host.clone(), port: *port });
        let mut connection = self.0.clone();
        let command = command.clone();
        Box::pin(bounded(timeout, async move { connection.route_command(command, routing).await?.extract_error() }))
    }

    fn masters(&self, timeout: Duration) -> RedisFuture<'_, Vec<Master>> {
        Box::pin(async move {
            let mut question = redis::cmd("CLUSTER");
            question.arg("SLOTS");
            let answer = self.send(&Request::Command(question), timeout).await?;
            masters_in(answer).ok_or_else(|| {
                (redis::ErrorKind::UnexpectedReturnType, "CLUSTER SLOTS is not answered with slots").into()
            })
        })
    }

    fn is_spread(&self) -> bool {
        true
    }

    fn reports_changes(&self) -> bool {
        false
    }

    fn server(&self) -> Option<&ServerAddress> {
        None
    }
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spread")
    }
}

async fn bounded<T>(timeout: Duration, call: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// `[[first slot, last slot, [host of the master, port, ...], [a replica's ...], ...], ...]`.
fn masters_in(answer: Value) -> Option<Vec<Master>> {
    let Value::Array(ranges) = answer else { return None };
    let mut masters = Vec::new();
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let Some(Value::Array(node)) = parts.into_iter().nth(2) else { return None };
        let (Some(Value::BulkString(host)), Some(Value::Int(port))) = (node.first(), node.get(1)) else { return None };
        let master = Some((String::from_utf8(host.clone()).ok()?, u16::try_from(*port).ok()?));
        if !masters.contains(&master) {
            masters.push(master);
        }
    }
    (!masters.is_empty()).then_some(masters)
}

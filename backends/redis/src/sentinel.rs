//! Which server the sentinels call the master. Asked at each dial: the driver's own client asks once, and stays with a
//! master that has become a replica.

use crate::RedisConfig;
use crate::backoff::Backoff;
use crate::dial::{connect, info, listen, tcp};
use crate::error::{Doing, from_redis};
use cachekit_core::{BackendError, ErrorKind, ServerAddress};
use futures_util::future::{FutureExt, select_ok};
use futures_util::stream::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, Value};

/// The address that the first sentinel to answer gives.
pub(crate) async fn master(
    config: &RedisConfig,
    sentinels: &[ServerAddress],
    name: &str,
) -> Result<ConnectionAddr, BackendError> {
    let asked = sentinels.iter().map(|sentinel| ask(config, sentinel, name).boxed());
    if sentinels.is_empty() {
        return Err(BackendError::new(ErrorKind::ConfigInvalid, "no sentinel is given"));
    }
    select_ok(asked).await.map(|(address, _)| address)
}

async fn ask(config: &RedisConfig, sentinel: &ServerAddress, name: &str) -> Result<ConnectionAddr, BackendError> {
    let failed = |error| from_redis(&error, Doing::Dial);
    let info = info(config, tcp(sentinel), &config.sentinel_credentials, 0).map_err(failed)?;
    let (mut connection, _) = connect(config, info, None).await.map_err(failed)?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let answer: Option<(String, u16)> = question.query_async(&mut connection).await.map_err(failed)?;
    match answer {
        Some((host, port)) => Ok(ConnectionAddr::Tcp(host, port)),
        None => Err(BackendError::new(ErrorKind::Unavailable, format!("the sentinels know no master `{name}`"))),
    }
}

/// Waits until a sentinel says that another server has become the master. It says so seconds before the old one knows;
/// what that one acknowledges in between is lost.
pub(crate) async fn switched(config: &RedisConfig, sentinels: &[ServerAddress], name: &str) -> ServerAddress {
    let mut backoff = Backoff::default();
    for sentinel in sentinels.iter().cycle() {
        let info = info(config, tcp(sentinel), &config.sentinel_credentials, 0);
        let info = async { info.map_err(|error| from_redis(&error, Doing::Dial)) };
        if let Ok(connection) = listen(config, info, "+switch-master").await {
            backoff = Backoff::default();
            let mut messages = connection.into_on_message();
            while let Some(message) = messages.next().await {
                if let Some(address) = new_master(message.get_payload_bytes(), name) {
                    return address;
                }
            }
        }
        backoff.pause().await;
    }
    std::future::pending().await
}

/// Of `name old-host old-port new-host new-port`.
fn new_master(message: &[u8], name: &str) -> Option<ServerAddress> {
    let words: Vec<&str> = std::str::from_utf8(message).ok()?.split(' ').collect();
    match words[..] {
        [named, _, _, host, port] if named == name => {
            Some(ServerAddress { host: host.to_owned(), port: port.parse().ok()? })
        }
        _ => None,
    }
}

/// For some seconds the sentinels still name a master that is one no more, or one that is not yet.
pub(crate) async fn confirm_master(connection: &mut MultiplexedConnection) -> Result<(), BackendError> {
    let role: Value =
        redis::cmd("ROLE").query_async(connection).await.map_err(|error| from_redis(&error, Doing::Dial))?;
    let is_master = matches!(&role, Value::Array(parts) if matches!(parts.first(),
        Some(Value::BulkString(word)) if word == b"master"));
    if is_master {
        return Ok(());
    }
    Err(BackendError::new(ErrorKind::Unavailable, "the server that the sentinels name is not a master"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_master_counts() {
        let address = new_master(b"main 10.0.0.1 6379 10.0.0.2 6380", "main");
        assert_eq!(address, Some(ServerAddress { host: "10.0.0.2".to_owned(), port: 6380 }));
        for message in ["other a 1 b 2", "main a 1 b", "main a 1 b x", "", "main a 1 b 2 c"] {
            assert_eq!(new_master(message.as_bytes(), "main"), None, "{message}");
        }
    }
}

//! What a command goes through: the connection to one server, or those to a cluster.

use crate::Protocol;
use cachekit_core::ServerAddress;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, Value};
use std::fmt;
use std::time::Duration;

/// What is sent at once.
pub(crate) enum Request {
    Command(Cmd),
    /// Answered with an array of as many answers, errors among them.
    Pipeline(Pipeline),
}

pub(crate) trait Link: Send + Sync + fmt::Debug {
    /// Sends a request, and waits for the answer no longer than this.
    fn send<'a>(&'a self, request: &'a Request, timeout: Duration) -> RedisFuture<'a, Value>;

    /// Sends a command to the master at this address, where there are several.
    fn send_to<'a>(&'a self, master: &'a Master, request: &'a Request, timeout: Duration) -> RedisFuture<'a, Value>;

    /// The servers that hold the keys.
    fn masters(&self, timeout: Duration) -> RedisFuture<'_, Vec<Master>>;

    /// Whether keys are spread over servers: commands of several keys have to be sent one by one.
    fn is_spread(&self) -> bool;

    /// Whether the server can push, and so report what others change.
    fn reports_changes(&self) -> bool;

    /// Where it leads to, where that is one address.
    fn server(&self) -> Option<&ServerAddress>;
}

/// A server that holds keys; `None`: the only one.
pub(crate) type Master = Option<(String, u16)>;

/// One server.
pub(crate) struct Single {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) protocol: Protocol,
    pub(crate) server: Option<ServerAddress>,
}

impl Link for Single {
    fn send<'a>(&'a self, request: &'a Request, timeout: Duration) -> RedisFuture<'a, Value> {
        let mut connection = self.connection.clone();
        connection.set_response_timeout(timeout);
        Box::pin(async move { send(&mut connection, request).await })
    }

    fn send_to<'a>(&'a self, _: &'a Master, request: &'a Request, timeout: Duration) -> RedisFuture<'a, Value> {
        self.send(request, timeout)
    }

    fn masters(&self, _: Duration) -> RedisFuture<'_, Vec<Master>> {
        Box::pin(async { Ok(vec![None]) })
    }

    fn is_spread(&self) -> bool {
        false
    }

    fn reports_changes(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    fn server(&self) -> Option<&ServerAddress> {
        self.server.as_ref()
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Single")
    }
}

pub(crate) async fn send(connection: &mut impl ConnectionLike, request: &Request) -> redis::RedisResult<Value> {
    match request {
        Request::Command(command) => connection.req_packed_command(command).await?.extract_error(),
        Request::Pipeline(pipeline) => {
            connection.req_packed_commands(pipeline, 0, pipeline.len()).await.map(Value::Array)
        }
    }
}

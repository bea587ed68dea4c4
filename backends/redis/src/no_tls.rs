//! Stands for `tls` where the feature is off; the configuration has been refused before.

use crate::RedisConfig;
use redis::{Client, ConnectionInfo, RedisResult};

pub(crate) fn open(_: &RedisConfig, info: ConnectionInfo) -> RedisResult<Client> {
    Client::open(info)
}

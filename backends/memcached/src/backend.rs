//! The operations.

use crate::MemcachedConfig;
use crate::dial::{Link, Resolver};
use crate::error::{Doing, unexpected};
use crate::router::Router;
use crate::server::Server;
use crate::{batch, key, lock, ttl};
use cachekit_core::{
    Backend, BackendError, BackendHealth, Bytes, Capabilities, ErrorKind, LockScope, LockToken, SetOptions, TtlState,
    async_trait,
};
use futures_util::future::join_all;
use memcache::exp::{Delete, Get, GetResult, Meta, MutationResult, MutationStatus, Set};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

pub(crate) const NAME: &str = "memcached";

#[derive(Debug)]
pub(crate) struct MemcachedBackend {
    pub(crate) config: Arc<MemcachedConfig>,
    /// In the order of their names, as the router counts them.
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) router: Router,
}

impl MemcachedBackend {
    /// Finds all servers at once. One that answers is enough: the others are tried again by the operations on their keys.
    pub(crate) async fn connect(config: MemcachedConfig, resolver: Resolver) -> Result<Self, BackendError> {
        runtime()?;
        let config = Arc::new(config);
        let servers: Vec<_> = config
            .addresses
            .iter()
            .map(|address| Server::new(address.clone(), Arc::clone(&config), resolver.clone()))
            .collect();
        let outcomes = join_all(servers.iter().map(|server| server.connect())).await;
        let named = servers
            .iter()
            .zip(&outcomes)
            .map(|(server, outcome)| outcome.as_ref().map_err(|error| crate::error::at(server.name(), error)));
        let mut failures: Vec<BackendError> = named.filter_map(Result::err).collect();
        // One that is too old stays so: a cache that is wrong for some keys must not look as if it worked.
        if let Some(invalid) = failures.iter().position(|error| error.kind() == ErrorKind::ConfigInvalid) {
            return Err(failures.swap_remove(invalid));
        }
        if failures.len() == servers.len() && !failures.is_empty() {
            return Err(failures.swap_remove(0));
        }
        let router = Router::new(servers.iter().map(|server| server.name()));
        Ok(Self { config, servers, router })
    }

    /// The server of a key, by the key itself and not by its name there: a key and its lock share one.
    pub(crate) fn server(&self, key: &str) -> &Arc<Server> {
        &self.servers[self.router.place(key)]
    }

    pub(crate) fn check_value(&self, value: &[u8]) -> Result<(), BackendError> {
        let max = self.config.max_value_bytes;
        if value.len() > max {
            let text = format!("a value of {} bytes, and `max_value_bytes` is {max}", value.len());
            return Err(BackendError::new(ErrorKind::TooLarge, text));
        }
        Ok(())
    }

    async fn look(
        &self,
        doing: Doing,
        key: &str,
        get: impl Fn(Get) -> Get + Send + Sync,
    ) -> Result<GetResult, BackendError> {
        let name = key::entry(key)?;
        let exchange = |link: Arc<Link>| {
            let operation = get(Get::new(name.as_bytes()));
            async move { link.client.run(operation).await }
        };
        self.server(key).call(doing, 0, exchange).await
    }
}

pub(crate) fn runtime() -> Result<(), BackendError> {
    if tokio::task::try_id().is_some() {
        // Mostly; it is cheaper than a handle.
        return Ok(());
    }
    let handle = Handle::try_current();
    handle.map(|_| ()).map_err(|_| BackendError::new(ErrorKind::ConfigInvalid, "memcached needs a Tokio runtime"))
}

/// Whether there is an entry. What an operator has marked as stale is none any more.
fn is_there(found: &GetResult) -> bool {
    found.hit() && !found.is_stale()
}

pub(crate) fn value(found: GetResult) -> Option<Bytes> {
    if !is_there(&found) {
        return None;
    }
    Some(Bytes::from(found.value.unwrap_or_default()))
}

pub(crate) fn stored(outcome: &MutationResult) -> Result<(), BackendError> {
    if outcome.applied() { Ok(()) } else { Err(unexpected(Doing::Write)) }
}

pub(crate) fn removed(outcome: &MutationResult) -> Result<bool, BackendError> {
    match outcome.status {
        MutationStatus::Applied => Ok(true),
        MutationStatus::NotFound => Ok(false),
        _ => Err(unexpected(Doing::Write)),
    }
}

#[async_trait]
impl Backend for MemcachedBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
            .with_batch(true)
            .with_lock(Some(LockScope::Global))
            .with_max_value_bytes(self.config.max_value_bytes)
            .with_min_lock_ttl(lock::MIN_TTL)
            .with_persistent(true)
            .with_touch(true)
            .with_ttl(true)
            .with_ttl_slack(ttl::SLACK)
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.look(Doing::Read, key, |get| get).await.map(value)
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        let name = key::entry(key)?;
        let ttl = ttl::wire(options.ttl)?;
        if let Err(too_large) = self.check_value(&value) {
            // As memcached itself does with what is too large for it. If it fails, the older value stays, which is
            // within the contract too.
            let _ = self.delete(key).await;
            return Err(too_large);
        }
        let exchange = |link: Arc<Link>| {
            let operation = Set::new(name.as_bytes(), &value).ttl_raw(ttl);
            async move { link.client.run(operation).await }
        };
        let outcome = self.server(key).call(Doing::Write, value.len(), exchange).await?;
        stored(&outcome)
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        let name = key::entry(key)?;
        let exchange = |link: Arc<Link>| {
            let operation = Delete::new(name.as_bytes());
            async move { link.client.run(operation).await }
        };
        let outcome = self.server(key).call(Doing::Write, 0, exchange).await?;
        removed(&outcome)
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        let started = Instant::now();
        let noop = |link: Arc<Link>| async move { link.client.noop().await };
        let outcomes = join_all(self.servers.iter().map(|server| server.call(Doing::Read, 0, noop))).await;
        let mut health = BackendHealth::new(started.elapsed());
        let mut first = None;
        let mut answers = 0;
        for (server, outcome) in self.servers.iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    answers += 1;
                    health = health.with_detail(server.name(), "up");
                }
                Err(error) => {
                    health = health.with_detail(server.name(), format!("down: {}", error.context()));
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) if answers == 0 => Err(error),
            _ => Ok(health),
        }
    }

    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        let found = self.look(Doing::Read, key, |get| get.without_value().no_lru_bump()).await?;
        Ok(is_there(&found))
    }

    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        batch::get_many(self, keys).await
    }

    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        batch::set_many(self, entries, options).await
    }

    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        batch::delete_many(self, keys).await
    }

    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        let get = |get: Get| get.without_value().no_lru_bump().meta(Meta::NONE.ttl());
        let found = self.look(Doing::Read, key, get).await?;
        match found.item.ttl {
            _ if !is_there(&found) => Ok(TtlState::Missing),
            Some(-1) => Ok(TtlState::NoExpiry),
            Some(seconds) => Ok(TtlState::Remaining(Duration::from_secs(seconds.try_into().unwrap_or_default()))),
            None => Err(unexpected(Doing::Read)),
        }
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let ttl = ttl::wire(ttl)?;
        let found = self.look(Doing::Write, key, |get| get.without_value().touch_raw(ttl)).await?;
        Ok(is_there(&found))
    }

    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        lock::try_lock(self.server(key), key, ttl).await
    }

    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        lock::extend(self.server(token.key()), token, ttl).await
    }

    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        lock::unlock(self.server(token.key()), token).await
    }

    async fn close(&self) -> Result<(), BackendError> {
        for server in &self.servers {
            server.close();
        }
        Ok(())
    }
}

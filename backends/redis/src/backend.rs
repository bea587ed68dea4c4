//! The operations.

use crate::error::Doing;
use crate::link::Request;
use crate::lock::{self, MIN_TTL, MOST_MILLIS};
use crate::supervisor::Supervisor;
use crate::{batch, channel, clear, reply, tracking};
use cachekit_core::{
    Backend, BackendError, BackendHealth, Bytes, Capabilities, Changes, ErrorKind, LockScope, LockToken, SetOptions,
    Subscription, TtlState, async_trait,
};
use redis::{Cmd, Pipeline, cmd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const NAME: &str = "redis";
const MOST_KEY_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct RedisBackend {
    /// Shared with nobody but a release of a lock under way.
    pub(crate) supervisor: Arc<Supervisor>,
    /// The server does not know UNLINK, or the user may not: DEL does the same, and blocks the server longer.
    only_del: AtomicBool,
}

impl RedisBackend {
    pub(crate) fn new(supervisor: Supervisor) -> Self {
        Self { supervisor: Arc::new(supervisor), only_del: AtomicBool::new(false) }
    }

    async fn read<T>(&self, command: Cmd, read: impl Fn(redis::Value) -> Option<T>) -> Result<T, BackendError> {
        self.supervisor.call(Doing::Read, &Request::Command(command), 0, read).await
    }

    pub(crate) fn check_value(&self, value: &[u8]) -> Result<(), BackendError> {
        let max = self.supervisor.config().max_value_bytes;
        if value.len() > max {
            let text = format!("a value of {} bytes, and `max_value_bytes` is {max}", value.len());
            return Err(BackendError::new(ErrorKind::TooLarge, text));
        }
        Ok(())
    }

    /// Removes with the better of the two commands that the server allows. UNLINK that was refused removed nothing.
    pub(crate) async fn remove<T>(
        &self,
        request: impl Fn(&str) -> Request,
        read: impl Fn(redis::Value) -> Option<T>,
    ) -> Result<T, BackendError> {
        if !self.only_del.load(Ordering::Relaxed) {
            match self.supervisor.call(Doing::Write, &request("UNLINK"), 0, &read).await {
                Err(error) if is_refused(&error) => {}
                outcome => return outcome,
            }
        }
        let outcome = self.supervisor.call(Doing::Write, &request("DEL"), 0, read).await;
        if outcome.is_ok() {
            self.only_del.store(true, Ordering::Relaxed);
        }
        outcome
    }
}

/// Whether the server knows no such command, or does not allow it.
pub(crate) fn is_refused(error: &BackendError) -> bool {
    error.kind() == ErrorKind::PermissionDenied || error.context().contains("unknown command")
}

pub(crate) fn check_key(key: &str) -> Result<(), BackendError> {
    match key.len() {
        0 => Err(BackendError::new(ErrorKind::KeyInvalid, "the key is empty")),
        1..=MOST_KEY_BYTES => Ok(()),
        length => Err(BackendError::new(ErrorKind::KeyInvalid, format!("a key of {length} bytes: 65536 are the most"))),
    }
}

/// Whole milliseconds, rounded up; `None`: for ever.
fn millis(ttl: Option<Duration>) -> Result<Option<u64>, BackendError> {
    let Some(ttl) = ttl else { return Ok(None) };
    if ttl.is_zero() {
        return Err(BackendError::new(ErrorKind::TtlInvalid, "the time to live is zero"));
    }
    let millis = ttl.as_nanos().div_ceil(1_000_000);
    Ok(u64::try_from(millis).ok().filter(|millis| *millis < MOST_MILLIS))
}

pub(crate) fn set_command(key: &str, value: &[u8], options: SetOptions) -> Result<Cmd, BackendError> {
    check_key(key)?;
    let mut command = cmd("SET");
    command.arg(key).arg(value);
    if let Some(millis) = millis(options.ttl)? {
        command.arg("PX").arg(millis);
    }
    Ok(command)
}

pub(crate) fn command(name: &str, key: &str) -> Result<Cmd, BackendError> {
    check_key(key)?;
    let mut command = cmd(name);
    command.arg(key);
    Ok(command)
}

#[async_trait]
impl Backend for RedisBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
            .with_batch(true)
            .with_clear(true)
            .with_lock(Some(LockScope::Global))
            .with_max_value_bytes(self.supervisor.config().max_value_bytes)
            .with_min_lock_ttl(MIN_TTL)
            .with_persistent(true)
            .with_publish(true)
            .with_touch(true)
            .with_track(self.supervisor.config().reports_changes())
            .with_ttl(true)
            .with_ttl_slack(Duration::from_millis(1))
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        match self.read(command("GET", key)?, reply::value).await {
            // A list or a set that somebody else put there is no entry. MGET says the same.
            Err(error) if error.context().contains("WRONGTYPE") => Ok(None),
            outcome => outcome,
        }
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        self.check_value(&value)?;
        let command = set_command(key, &value, options)?;
        self.supervisor.call(Doing::Write, &Request::Command(command), value.len(), reply::ok).await
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        check_key(key)?;
        let request = |name: &str| {
            let mut command = cmd(name);
            command.arg(key);
            Request::Command(command)
        };
        self.remove(request, reply::flag).await
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        let started = Instant::now();
        self.read(cmd("PING"), reply::pong).await?;
        let place = self.supervisor.config().place.to_string();
        Ok(BackendHealth::new(started.elapsed()).with_detail("server", place))
    }

    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        // Not EXISTS, which is true for what `get` does not give.
        self.read(command("TYPE", key)?, reply::is_string).await
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

    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        clear::clear(self, prefix).await
    }

    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        self.read(command("PTTL", key)?, reply::ttl).await
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        if let Some(millis) = millis(ttl)? {
            let mut command = command("PEXPIRE", key)?;
            command.arg(millis);
            return self.supervisor.call(Doing::Write, &Request::Command(command), 0, reply::flag).await;
        }
        // PERSIST alone does not tell an entry without an end from no entry.
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command("PERSIST", key)?).add_command(command("EXISTS", key)?);
        let read = |value| reply::many(value, 2)?.pop().and_then(|answer| reply::each(answer, reply::flag));
        self.supervisor.call(Doing::Write, &Request::Pipeline(pipeline), 0, read).await?
    }

    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        check_key(key)?;
        lock::try_lock(&self.supervisor, key, ttl).await
    }

    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        lock::extend(&self.supervisor, token, ttl).await
    }

    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        lock::unlock(&self.supervisor, token).await
    }

    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        self.check_value(&payload)?;
        let mut command = cmd("PUBLISH");
        command.arg(channel).arg(&*payload);
        let request = Request::Command(command);
        self.supervisor.call(Doing::Write, &request, payload.len(), reply::count).await.map(|_| ())
    }

    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        channel::subscribe(&self.supervisor, channel).await
    }

    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        if !self.capabilities().track() {
            let text = "redis reports changes over RESP3, and not for a cluster";
            return Err(BackendError::new(ErrorKind::Unsupported, text));
        }
        tracking::track(&self.supervisor, prefixes).await
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.supervisor.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_up_and_what_is_too_long_is_for_ever() {
        assert_eq!(millis(None).unwrap(), None);
        assert_eq!(millis(Some(Duration::from_nanos(1))).unwrap(), Some(1));
        assert_eq!(millis(Some(Duration::from_micros(1_001))).unwrap(), Some(2));
        assert_eq!(millis(Some(Duration::from_secs(86_400 * 365 * 20))).unwrap(), Some(630_720_000_000));
        assert_eq!(millis(Some(Duration::MAX)).unwrap(), None);
        assert_eq!(millis(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::TtlInvalid);
    }

    #[test]
    fn keys_are_bounded() {
        assert_eq!(check_key("").unwrap_err().kind(), ErrorKind::KeyInvalid);
        assert!(check_key(&"k".repeat(MOST_KEY_BYTES)).is_ok());
        assert_eq!(check_key(&"k".repeat(MOST_KEY_BYTES + 1)).unwrap_err().kind(), ErrorKind::KeyInvalid);
    }
}

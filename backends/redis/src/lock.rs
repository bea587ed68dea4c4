//! Locks: a key that only its owner's secret removes, and a fence beside it.

use crate::error::Doing;
use crate::link::Request;
use crate::supervisor::Supervisor;
use cachekit_core::{BackendError, ErrorKind, LockToken};
use redis::Value;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) const MIN_TTL: Duration = Duration::from_millis(100);
/// How long a fence outlives the last lock of its key, so that fences do not pile up.
const FENCE_TTL: Duration = Duration::from_secs(30 * 86_400);

/// A fence is the server's time in microseconds, or one more than the last one: it grows also when the last one is gone.
const TAKE: &str = "\
    if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
    local now = redis.call('TIME')
    local fence = now[1] * 1000000 + now[2]
    local last = tonumber(redis.call('GET', KEYS[2]) or '0')
    if fence <= last then fence = last + 1 end
    redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[3])
    return fence";

const EXTEND: &str = "\
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

const RELEASE: &str = "\
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('DEL', KEYS[1])";

/// When a lock that may have been taken is released, each time after the one before.
const RELEASES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

pub(crate) async fn try_lock(
    supervisor: &Arc<Supervisor>,
    key: &str,
    ttl: Duration,
) -> Result<Option<LockToken>, BackendError> {
    let ttl = millis(ttl)?;
    let secret = secret()?;
    let keys = [lock_key(key), fence_key(key)];
    let fence_ttl = u64::try_from(FENCE_TTL.as_millis()).unwrap_or(u64::MAX).saturating_add(ttl).min(MOST_MILLIS);
    let arguments = [secret.clone(), ttl.to_string(), fence_ttl.to_string()];
    let read = |answer| match answer {
        Value::Nil => Some(None),
        Value::Int(fence) => u64::try_from(fence).ok().map(Some),
        _ => None,
    };
    match run(supervisor, TAKE, &keys, &arguments, read).await {
        Ok(fence) => Ok(fence.map(|fence| LockToken::new(key, secret, Some(fence)))),
        Err(error) => {
            if error.may_be_applied() {
                // Nobody has the token, so nobody else can.
                let (supervisor, token) = (Arc::downgrade(supervisor), LockToken::new(key, secret, None));
                tokio::spawn(release_what_may_come(supervisor, token));
            }
            Err(error)
        }
    }
}

/// Releases a lock that may be there or not, or not yet: what was sent over a connection that was given up may come later.
async fn release_what_may_come(supervisor: Weak<Supervisor>, token: LockToken) {
    for pause in RELEASES {
        tokio::time::sleep(pause).await;
        let Some(supervisor) = supervisor.upgrade() else { return };
        if matches!(unlock(&supervisor, &token).await, Ok(true)) {
            return;
        }
    }
}

pub(crate) async fn extend(supervisor: &Supervisor, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
    let arguments = [token.secret().to_owned(), millis(ttl)?.to_string()];
    run(supervisor, EXTEND, &[lock_key(token.key())], &arguments, crate::reply::flag).await
}

pub(crate) async fn unlock(supervisor: &Supervisor, token: &LockToken) -> Result<bool, BackendError> {
    run(supervisor, RELEASE, &[lock_key(token.key())], &[token.secret().to_owned()], crate::reply::flag).await
}

/// By its text and not by its digest, which the server forgets when it restarts.
async fn run<T>(
    supervisor: &Supervisor,
    script: &str,
    keys: &[String],
    arguments: &[String],
    read: impl Fn(Value) -> Option<T>,
) -> Result<T, BackendError> {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    supervisor.call(Doing::Write, &Request::Command(command), 0, read).await
}

/// What Redis takes for a time that never comes is still far from overflowing when it adds the time of now.
pub(crate) const MOST_MILLIS: u64 = 1 << 62;

fn millis(ttl: Duration) -> Result<u64, BackendError> {
    if ttl < MIN_TTL {
        return Err(BackendError::new(ErrorKind::TtlInvalid, "a lock lives for at least 100 ms"));
    }
    Ok(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).min(MOST_MILLIS))
}

fn secret() -> Result<String, BackendError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| BackendError::new(ErrorKind::Internal, "the system gave no random bytes for a lock"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Lock and fence of a key have to be on one node of a cluster, hence the braces around what they have in common. No
/// `}` may stand inside. No key of a cache starts with a brace.
fn lock_key(key: &str) -> String {
    format!("{{{}}}:lock", escaped(key))
}

fn fence_key(key: &str) -> String {
    format!("{{{}}}:fence", escaped(key))
}

fn escaped(key: &str) -> String {
    key.replace('%', "%25").replace('}', "%7D")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_locks_do_not_meet_and_hold_one_tag() {
        assert_eq!(lock_key("a:b"), "{a:b}:lock");
        let names = ["a", "a}", "}", "a%7D", "{a", "a}b", "a%7Db"].map(lock_key);
        for name in &names {
            assert_eq!(name.matches('}').count(), 1, "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}

//! Locks: an item with its owner's secret, which only goes or changes as it was last seen.

use crate::dial::Link;
use crate::error::{Doing, unexpected};
use crate::server::Server;
use crate::{key, ttl};
use cachekit_core::{BackendError, ErrorKind, LockToken};
use memcache::exp::{Delete, Get, Meta, MutationStatus, Set};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Anything shorter is within what the server's clock may be off.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(2);
/// Nobody but its owner changes a lock, so that a second try is rare and a third unheard of.
const TRIES: usize = 4;
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
    server: &Arc<Server>,
    key: &str,
    ttl: Duration,
) -> Result<Option<LockToken>, BackendError> {
    let (name, ttl) = (key::lock(key)?, wire(ttl)?);
    let secret = secret()?;
    let exchange = |link: Arc<Link>| {
        let operation = Set::new(&name, &secret).add().ttl_raw(ttl);
        async move { link.client.run(operation).await }
    };
    match server.call(Doing::Write, 0, exchange).await {
        Ok(outcome) => match outcome.status {
            MutationStatus::Applied => Ok(Some(LockToken::new(key, secret, None))),
            MutationStatus::AlreadyExists => Ok(None),
            _ => Err(unexpected(Doing::Write)),
        },
        Err(error) => {
            if error.may_be_applied() {
                // Nobody has the token, so nobody else can.
                let (server, token) = (Arc::downgrade(server), LockToken::new(key, secret, None));
                tokio::spawn(release_what_may_come(server, token));
            }
            Err(error)
        }
    }
}

/// Releases a lock that may be there or not, or not yet: a server that hung takes what it was sent in any order.
async fn release_what_may_come(server: Weak<Server>, token: LockToken) {
    for pause in RELEASES {
        tokio::time::sleep(pause).await;
        let Some(server) = server.upgrade() else { return };
        if matches!(unlock(&server, &token).await, Ok(true)) {
            return;
        }
    }
}

pub(crate) async fn extend(server: &Arc<Server>, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
    let (name, ttl) = (key::lock(token.key())?, wire(ttl)?);
    for _ in 0..TRIES {
        let Some(seen) = seen(server, &name, token).await? else { return Ok(false) };
        let exchange = |link: Arc<Link>| {
            let operation = Set::new(&name, token.secret()).compare_cas(seen).ttl_raw(ttl);
            async move { link.client.run(operation).await }
        };
        let outcome = server.call(Doing::Write, 0, exchange).await?;
        if let Some(done) = done(outcome.status)? {
            return Ok(done);
        }
    }
    Ok(false)
}

pub(crate) async fn unlock(server: &Arc<Server>, token: &LockToken) -> Result<bool, BackendError> {
    let name = key::lock(token.key())?;
    for _ in 0..TRIES {
        let Some(seen) = seen(server, &name, token).await? else { return Ok(false) };
        let exchange = |link: Arc<Link>| {
            let operation = Delete::new(&name).compare_cas(seen);
            async move { link.client.run(operation).await }
        };
        let outcome = server.call(Doing::Write, 0, exchange).await?;
        if let Some(done) = done(outcome.status)? {
            return Ok(done);
        }
    }
    Ok(false)
}

/// `None`: it has changed since it was seen, and has to be looked at again.
fn done(status: MutationStatus) -> Result<Option<bool>, BackendError> {
    match status {
        MutationStatus::Applied => Ok(Some(true)),
        MutationStatus::NotFound => Ok(Some(false)),
        MutationStatus::CasMismatch => Ok(None),
        _ => Err(unexpected(Doing::Write)),
    }
}

/// The version of a lock, if it is this token's. A version alone would not do: they start anew with the server.
async fn seen(server: &Arc<Server>, name: &str, token: &LockToken) -> Result<Option<u64>, BackendError> {
    let exchange = |link: Arc<Link>| {
        let operation = Get::new(name).meta(Meta::NONE.cas());
        async move { link.client.run(operation).await }
    };
    let found = server.call(Doing::Read, 0, exchange).await?;
    if !found.hit() || found.value.as_deref() != Some(token.secret().as_bytes()) {
        return Ok(None);
    }
    found.item.cas.map(Some).ok_or_else(|| unexpected(Doing::Read))
}

fn wire(ttl: Duration) -> Result<u32, BackendError> {
    if ttl < MIN_TTL {
        return Err(BackendError::new(ErrorKind::TtlInvalid, "a lock lives for at least 2 s"));
    }
    ttl::wire(Some(ttl))
}

fn secret() -> Result<String, BackendError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| BackendError::new(ErrorKind::Internal, "the system gave no random bytes for a lock"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

//! Locks of this process. No other one can open the database, so nobody else could take them.

use crate::lifetime::Time;
use crate::unique::Unique;
use cachekit_core::{BackendError, ErrorKind, LockToken};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) const MIN_TTL: Duration = Duration::from_millis(100);
/// Below so many locks nobody looks for ended ones.
const FEW: usize = 64;

/// The locks on keys of one database. They outlive it: whoever holds a lock while it is closed and opened again still
/// holds it.
#[derive(Debug)]
pub(crate) struct Locks {
    held: Mutex<Held>,
    secrets: Unique,
}

#[derive(Debug)]
struct Held {
    by_key: HashMap<String, Holder>,
    /// The size at which the next `try_lock` throws out the ended ones: twice what was left the last time.
    sweep_at: usize,
}

#[derive(Debug)]
struct Holder {
    secret: String,
    ends: Duration,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self { held: Mutex::new(Held { by_key: HashMap::new(), sweep_at: FEW }), secrets: Unique::new() }
    }

    pub(crate) fn try_lock(
        &self,
        key: &str,
        ttl: Duration,
        time: &dyn Time,
    ) -> Result<Option<LockToken>, BackendError> {
        if key.is_empty() {
            return Err(BackendError::new(ErrorKind::KeyInvalid, "the key is empty"));
        }
        check_ttl(ttl)?;
        let mut held = self.held();
        let now = time.monotonic();
        if held.by_key.get(key).is_some_and(|holder| holder.ends > now) {
            return Ok(None);
        }
        if held.by_key.len() >= held.sweep_at {
            held.by_key.retain(|_, holder| holder.ends > now);
            held.sweep_at = FEW.max(held.by_key.len() * 2);
        }
        let secret = format!("{:032x}", u128::from_be_bytes(self.secrets.next()));
        held.by_key.insert(key.to_owned(), Holder { secret: secret.clone(), ends: now.saturating_add(ttl) });
        // No fence: it would have to grow over restarts too, and what is not flushed yet is lost with the process.
        Ok(Some(LockToken::new(key, secret, None)))
    }

    pub(crate) fn extend(&self, token: &LockToken, ttl: Duration, time: &dyn Time) -> Result<bool, BackendError> {
        check_ttl(ttl)?;
        let now = time.monotonic();
        let mut held = self.held();
        Ok(match held.by_key.get_mut(token.key()).filter(|holder| holder.is(token, now)) {
            Some(holder) => {
                holder.ends = now.saturating_add(ttl);
                true
            }
            None => false,
        })
    }

    pub(crate) fn unlock(&self, token: &LockToken, time: &dyn Time) -> bool {
        let mut held = self.held();
        let owned = held.by_key.get(token.key()).is_some_and(|holder| holder.is(token, time.monotonic()));
        if owned {
            held.by_key.remove(token.key());
        }
        owned
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder {
    fn is(&self, token: &LockToken, now: Duration) -> bool {
        self.secret == token.secret() && self.ends > now
    }
}

fn check_ttl(ttl: Duration) -> Result<(), BackendError> {
    if ttl < MIN_TTL {
        return Err(BackendError::new(ErrorKind::TtlInvalid, "a lock lives for at least 100 ms"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetime::manual::ManualTimes;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_lock_excludes_others_until_it_ends() {
        let (locks, time) = (Locks::new(), ManualTimes::new());
        let first = locks.try_lock("k", SECOND, &time).unwrap().unwrap();
        assert!(locks.try_lock("k", SECOND, &time).unwrap().is_none());
        assert!(locks.try_lock("other", SECOND, &time).unwrap().is_some());
        time.advance(SECOND);
        let second = locks.try_lock("k", SECOND, &time).unwrap().unwrap();
        assert_ne!(first.secret(), second.secret());
        assert!(!locks.unlock(&first, &time) && !locks.extend(&first, SECOND, &time).unwrap());
        assert!(locks.try_lock("k", SECOND, &time).unwrap().is_none(), "the second holder still has it");
        assert!(locks.unlock(&second, &time));
        assert!(!locks.unlock(&second, &time));
    }

    #[test]
    fn a_wall_clock_that_jumps_ends_no_lock() {
        let (locks, time) = (Locks::new(), ManualTimes::new());
        locks.try_lock("k", SECOND, &time).unwrap().unwrap();
        time.set_wall(Duration::MAX);
        assert!(locks.try_lock("k", SECOND, &time).unwrap().is_none());
    }

    #[test]
    fn an_extension_counts_from_now() {
        let (locks, time) = (Locks::new(), ManualTimes::new());
        let token = locks.try_lock("k", SECOND, &time).unwrap().unwrap();
        time.advance(SECOND / 2);
        assert!(locks.extend(&token, SECOND, &time).unwrap());
        time.advance(SECOND * 3 / 4);
        assert!(locks.try_lock("k", SECOND, &time).unwrap().is_none());
        assert!(locks.extend(&token, Duration::MAX, &time).unwrap());
        time.advance(SECOND);
        assert!(locks.unlock(&token, &time));
    }

    #[test]
    fn ended_locks_do_not_pile_up() {
        let (locks, time) = (Locks::new(), ManualTimes::new());
        for i in 0..10_000 {
            locks.try_lock(&format!("k{i}"), MIN_TTL, &time).unwrap().unwrap();
            time.advance(MIN_TTL);
        }
        assert!(locks.held().by_key.len() <= FEW);
    }

    #[test]
    fn a_short_time_and_an_empty_key_are_refused() {
        let (locks, time) = (Locks::new(), ManualTimes::new());
        let short = MIN_TTL - Duration::from_nanos(1);
        assert_eq!(locks.try_lock("k", short, &time).unwrap_err().kind(), ErrorKind::TtlInvalid);
        assert_eq!(locks.try_lock("", SECOND, &time).unwrap_err().kind(), ErrorKind::KeyInvalid);
        let token = locks.try_lock("k", SECOND, &time).unwrap().unwrap();
        assert_eq!(locks.extend(&token, short, &time).unwrap_err().kind(), ErrorKind::TtlInvalid);
    }
}

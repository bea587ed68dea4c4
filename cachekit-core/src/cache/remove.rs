//! Deleting and clearing. An invalidation that may not have happened is never a success.

use super::activity::Clear;
use super::outcome::Reason;
use super::store::Unsettled;
use super::{Cache, Error, Shared};
use crate::key::Scope;
use crate::{BackendError, ErrorKind};
use std::sync::atomic::Ordering;

impl Cache {
    /// Removes a key from both tiers; `true` when either held a value.
    ///
    /// # Errors
    ///
    /// Whatever the error, this process does not serve the entry any more. An error that says "not applied to the
    /// backend" means that other processes may; [`Error::may_be_applied`] that the backend may have done it all the
    /// same. Besides: [`KeyInvalid`](ErrorKind::KeyInvalid), [`Closed`](ErrorKind::Closed), and
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when there is a backend and no Tokio runtime.
    pub async fn delete(&self, key: &str) -> Result<bool, Error> {
        let shared = &*self.shared;
        // What does not open was there too.
        let was_in_l1 = self.find(key)?.is_some_and(|found| self.holds_a_value(found).unwrap_or(true));
        let key = self.place(key)?.key;
        if shared.is_closed() {
            shared.activity.write_at_once(&key, || shared.remove_from_l1(&key));
            return Err(Error::new(ErrorKind::Closed, "delete: the cache is closed"));
        }
        let l2 = match shared.l2() {
            Ok(Some(l2)) => l2,
            Ok(None) => {
                shared.activity.write_at_once(&key, || shared.remove_from_l1(&key));
                return Ok(was_in_l1);
            }
            Err(error) => {
                shared.activity.write_at_once(&key, || shared.remove_from_l1(&key));
                shared.mark_unsynced(&key);
                return Err(error);
            }
        };
        let write = shared.activity.write(&key, || shared.remove_from_l1(&key));
        let unsettled = Unsettled { shared, key: &key, unless_current: None, armed: true };
        let since = shared.unsynced.moment();
        let deleted = match l2.open().await {
            Ok(mut session) => {
                let deleted = session.delete(&key).await;
                session.succeeded();
                deleted.inspect_err(|error| shared.write_failed(error))
            }
            Err(refusal) => Err(refusal.into_error()),
        };
        if deleted.is_ok() {
            unsettled.settled();
        } else {
            drop(unsettled);
        }
        shared.settle(&write, &key, deleted.is_ok().then_some(since));
        match deleted {
            Ok(was_in_l2) => Ok(was_in_l1 || was_in_l2),
            Err(error) => Err(Error::not_applied("delete", error)),
        }
    }

    /// Removes every key of this namespace (of this tenant, for a tenant's handle) from both tiers, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete), but for the key; [`Unsupported`](ErrorKind::Unsupported) when the backend cannot do
    /// it, which is not applied to the backend.
    pub async fn clear(&self) -> Result<(), Error> {
        let shared = &*self.shared;
        let scope = &self.scope;
        if shared.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "clear: the cache is closed"));
        }
        // Marks that are set while it runs stay: what they mark may land behind it.
        let since = shared.unsynced.moment();
        let _clear: Clear<'_> = shared.activity.clear(scope);
        if let Some(l1) = &shared.l1 {
            drop(l1.remove_scope(scope));
        }
        if shared.l2.is_none() {
            return Ok(());
        }
        let uncleared = Uncleared { shared, scope, armed: true };
        let Some(l2) = shared.l2()? else { return Ok(()) };
        let cleared = match l2.open().await {
            Ok(mut session) => {
                let cleared = session.clear(scope).await;
                session.succeeded();
                cleared.inspect_err(|error| shared.write_failed(error))
            }
            Err(refusal) => Err(refusal.into_error()),
        };
        match cleared {
            Ok(()) => {
                uncleared.settled();
                shared.unsynced.clear_synced(scope, since);
                Ok(())
            }
            Err(error) => {
                drop(uncleared);
                Err(Error::not_applied("clear", error))
            }
        }
    }
}

impl Shared {
    fn write_failed(&self, error: &BackendError) {
        let timed_out = error.kind() == ErrorKind::Timeout;
        self.events.degraded(if timed_out { Reason::WriteTimeout } else { Reason::WriteError });
    }
}

/// Marks its scope when a clear ends without the L2 having certainly done it.
struct Uncleared<'a> {
    shared: &'a Shared,
    scope: &'a Scope,
    armed: bool,
}

impl Uncleared<'_> {
    fn settled(mut self) {
        self.armed = false;
    }
}

impl Drop for Uncleared<'_> {
    fn drop(&mut self) {
        if self.armed {
            let shared = self.shared;
            // Not by the wall alone: it may have stepped back since the newest entry was written.
            let latest = shared.clock.wall_millis().max(shared.latest_written_at.load(Ordering::Relaxed));
            if shared.unsynced.mark_clear(self.scope, latest, shared.all_gone_at()) {
                shared.events.unsynced_dropped();
            }
        }
    }
}

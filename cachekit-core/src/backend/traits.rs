//! The trait that third parties implement.

use super::{BackendHealth, Capabilities, Changes, LockToken, SetOptions, Subscription, TtlState};
use crate::{BackendError, ErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// A store of bytes under text keys: the L2 of a cache.
///
/// # Contract
///
/// Every sentence below that can be checked ends with the name of the conformance check that does.
///
/// ## For implementors
///
/// **Values** are opaque: any bytes come back as they went in (`values_of_all_bytes`), of any size from empty, which is
/// not a miss (`empty_value_is_not_a_miss`), to [`max_value_bytes`](Capabilities::max_value_bytes), which still fits
/// (`largest_value_fits`); one byte more is [`TooLarge`](ErrorKind::TooLarge), and then the key holds nothing newer and
/// nothing else than before (`too_large_is_refused`).
///
/// **Keys** are non-empty text. Every key of 1 to 1,024 bytes without control characters works
/// (`keys_of_all_lengths`, `keys_of_any_text`); keys are never truncated, folded or trimmed, so two different ones never
/// meet (`similar_keys_do_not_meet`). The empty key is [`KeyInvalid`](ErrorKind::KeyInvalid) (`empty_key_is_refused`).
/// A key with CR, LF or NUL either round-trips or is `KeyInvalid`; it is never a command and never another key
/// (`control_characters_do_no_harm`).
///
/// **Errors** are for infrastructure trouble. A timed-out or cut write is marked with
/// [`maybe_applied`](BackendError::maybe_applied). An operation that the backend cannot do is
/// [`Unsupported`](ErrorKind::Unsupported) exactly when its capability bit is off (`capabilities_are_honest`). After
/// [`close`](Self::close), an operation either works as before or is [`Closed`](ErrorKind::Closed)
/// (`closed_backend_works_or_says_closed`).
///
/// **Concurrency and cancellation.** All methods may run at once, from any number of tasks
/// (`concurrent_keys_do_not_mix`); readers of a key that is being overwritten see the older or the newer value whole,
/// never a mixture (`overwrites_are_never_torn`). A future may be dropped at any await point: the operation then
/// happened or did not, and everything after it works (`cancellation_leaves_no_trace`).
///
/// ## For callers
///
/// Core never retries; it bounds each call by the operation timeout, catches panics, and turns a failed read into a
/// miss and a failed write into an L1-only write. It drops and rebuilds a backend only after [`ErrorKind::Closed`] or a
/// panic: whatever can be healed by reconnecting is the backend's own task.
///
/// # Example
///
/// ```
/// use cachekit_core::{Backend, BackendError, BackendHealth, Capabilities, SetOptions, async_trait};
/// use bytes::Bytes;
///
/// /// The shape only: it remembers nothing, so it fails the checks of all that is to be remembered.
/// #[derive(Debug)]
/// struct Forgetful;
///
/// #[async_trait]
/// impl Backend for Forgetful {
///     fn name(&self) -> &'static str {
///         "forgetful"
///     }
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::new()
///     }
///     async fn get(&self, _key: &str) -> Result<Option<Bytes>, BackendError> {
///         Ok(None)
///     }
///     async fn set(&self, _key: &str, _value: Bytes, _options: SetOptions) -> Result<(), BackendError> {
///         Ok(())
///     }
///     async fn delete(&self, _key: &str) -> Result<bool, BackendError> {
///         Ok(false)
///     }
///     async fn health(&self) -> Result<BackendHealth, BackendError> {
///         Ok(BackendHealth::default())
///     }
/// }
/// ```
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// A short, fixed name in lower case: `redis`. It stands in logs, metrics and health (`name_is_a_label`).
    fn name(&self) -> &'static str;

    /// What the backend can do. Constant over its life (`capabilities_are_constant`).
    fn capabilities(&self) -> Capabilities;

    /// The value of a key.
    ///
    /// `Ok(None)` is a miss: the store answered, and there is no live entry (`missing_key_is_none`). Trouble is an
    /// error, never a miss. An entry is returned for at least its time to live, and at most
    /// [`ttl_slack`](Capabilities::ttl_slack) longer (`ttl_is_kept`, `ttl_is_not_outlived`).
    ///
    /// # Errors
    ///
    /// When the store did not give an answer.
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError>;

    /// Stores a value under a key, whatever was there before (`set_then_get`, `set_overwrites`).
    ///
    /// `Ok` means that the store acknowledged it: the next `get` sees it. The time to live replaces the older one, in
    /// both directions (`set_replaces_the_ttl`); `None` is for ever (`no_ttl_is_for_ever`). It is never zero when core
    /// calls; handed a zero, a backend answers [`TtlInvalid`](ErrorKind::TtlInvalid) and changes nothing
    /// (`zero_ttl_is_refused`). Less than a millisecond counts as one, a part of a unit as a whole
    /// (`sub_millisecond_ttl_rounds_up`), and what is too long to express as for ever (`huge_ttl_is_for_ever`). The
    /// unit is right over four orders of magnitude (`ttl_units`).
    ///
    /// # Errors
    ///
    /// [`TooLarge`](ErrorKind::TooLarge) over the limit; otherwise when the store did not acknowledge, with
    /// [`may_be_applied`](BackendError::may_be_applied) when it may have stored the value nevertheless.
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError>;

    /// Removes a key; `true` when a live entry was there (`delete_reports_what_was_there`). After `Ok` the entry is
    /// gone (`delete_removes`), and one whose time had passed was not there (`expired_entry_is_not_deleted`).
    ///
    /// # Errors
    ///
    /// When the store did not acknowledge: the entry may still be there.
    async fn delete(&self, key: &str) -> Result<bool, BackendError>;

    /// One round trip to the store (`health_answers`). It writes nothing that others see.
    ///
    /// # Errors
    ///
    /// When the store is not usable.
    async fn health(&self) -> Result<BackendHealth, BackendError>;

    /// Whether `get` would find a value (`exists_agrees_with_get`). The default asks `get`.
    ///
    /// # Errors
    ///
    /// As `get`.
    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        Ok(self.get(key).await?.is_some())
    }

    /// As many results as keys, in their order, each as `get` would give it; duplicates are allowed and an empty slice
    /// costs nothing (`get_many_keeps_order`). One key's failure is that key's alone. The default is a loop.
    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let mut results = Vec::with_capacity(keys.len());
        for key in keys {
            results.push(self.get(key).await);
        }
        results
    }

    /// As many results as entries, in their order, each as `set` would give it; not atomic; of two entries of one key
    /// the later wins (`set_many_sets_each`). The default is a loop.
    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        let mut results = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            results.push(self.set(key, value.clone(), options).await);
        }
        results
    }

    /// As many results as keys, in their order, each as `delete` would give it; not atomic
    /// (`delete_many_deletes_each`). The default is a loop.
    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let mut results = Vec::with_capacity(keys.len());
        for key in keys {
            results.push(self.delete(key).await);
        }
        results
    }

    /// Removes every key that starts with `prefix`, and no other (`clear_removes_the_prefix_only`). Special characters
    /// of the store's own patterns are plain text in a prefix (`clear_takes_the_prefix_literally`). Entries written
    /// while it runs may stay. An empty prefix is [`KeyInvalid`](ErrorKind::KeyInvalid): nobody clears a store that is
    /// shared (`clear_refuses_an_empty_prefix`).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) by default and without [`Capabilities::clear`]; otherwise when the store
    /// did not acknowledge all of it.
    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        let _ = prefix;
        Err(unsupported("clear"))
    }

    /// How long an entry has to live: never more than was asked for, plus the slack (`ttl_reports_what_is_left`).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) by default and without [`Capabilities::ttl`].
    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        let _ = key;
        Err(unsupported("ttl"))
    }

    /// Gives an entry a new time to live from now, shorter or longer, and leaves its value alone; `false` when there is
    /// no live entry (`touch_changes_the_ttl_only`). Times follow the rules of `set`.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) by default and without [`Capabilities::touch`].
    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let _ = (key, ttl);
        Err(unsupported("touch"))
    }

    /// Takes the lock of a key if nobody holds it, for at most `ttl`; `None` when somebody does
    /// (`lock_excludes_others`). It ends by itself when its time has passed (`lock_expires`). Locks and entries of the
    /// same key do not touch each other (`lock_leaves_the_entry_alone`). A fence, where there is one, grows with every
    /// acquisition (`lock_fences_grow`). A time shorter than [`min_lock_ttl`](Capabilities::min_lock_ttl) is
    /// [`TtlInvalid`](ErrorKind::TtlInvalid) (`short_lock_is_refused`).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) by default and without [`Capabilities::lock`].
    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        let _ = (key, ttl);
        Err(unsupported("try_lock"))
    }

    /// Lets a lock that is still held by this token live for `ttl` from now; `false` when it is not
    /// (`lock_is_extended_by_its_owner_only`).
    ///
    /// # Errors
    ///
    /// As `try_lock`.
    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        let _ = (token, ttl);
        Err(unsupported("extend"))
    }

    /// Releases a lock that is still held by this token; `false` when it is not, and then the lock of whoever holds it
    /// now stays (`lock_is_released_by_its_owner_only`).
    ///
    /// # Errors
    ///
    /// As `try_lock`.
    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        let _ = token;
        Err(unsupported("unlock"))
    }

    /// Sends a payload to everyone who subscribed to the channel before (`published_messages_arrive_in_order`), and to
    /// nobody else (`channels_do_not_mix`).
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) by default and without [`Capabilities::publish`].
    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        let _ = (channel, payload);
        Err(unsupported("publish"))
    }

    /// Everything published on the channel from now on, by this process too.
    ///
    /// # Errors
    ///
    /// As `publish`.
    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        let _ = channel;
        Err(unsupported("subscribe"))
    }

    /// Reports the changes that others make to keys with one of these prefixes, from now on: every `set`, `delete`,
    /// `touch` and `clear`, whoever made it (`tracking_reports_changes_of_others`), and no change of another key
    /// (`tracking_reports_the_prefixes_only`). What this backend did itself may be reported too, and so may keys that
    /// ended. While changes may go unreported, the reports say so with [`Change::Lost`](super::Change::Lost), and with
    /// [`Change::Resumed`](super::Change::Resumed) when it is over: resuming is the backend's own task.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) by default and without [`Capabilities::track`]; otherwise when reports
    /// cannot begin now.
    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        let _ = prefixes;
        Err(unsupported("track"))
    }

    /// Flushes what a persistent store still holds in memory, and lets go of connections and files. Closing twice is
    /// fine (`close_is_idempotent`). The default does nothing: a backend with nothing to let go of may go on working.
    ///
    /// # Errors
    ///
    /// When what was acknowledged could not be flushed.
    async fn close(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

fn unsupported(operation: &'static str) -> BackendError {
    BackendError::new(ErrorKind::Unsupported, format!("this backend cannot {operation}"))
}

/// Wraps what derefs to a backend. A wrapper that forgets a method would quietly replace it by its default, so the lint
/// stands above every one.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        (**self).get(key).await
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        (**self).set(key, value, options).await
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        (**self).delete(key).await
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        (**self).health().await
    }
    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        (**self).exists(key).await
    }
    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        (**self).get_many(keys).await
    }
    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        (**self).set_many(entries, options).await
    }
    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        (**self).delete_many(keys).await
    }
    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        (**self).clear(prefix).await
    }
    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        (**self).ttl(key).await
    }
    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        (**self).touch(key, ttl).await
    }
    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        (**self).try_lock(key, ttl).await
    }
    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        (**self).extend(token, ttl).await
    }
    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        (**self).unlock(token).await
    }
    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        (**self).publish(channel, payload).await
    }
    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        (**self).subscribe(channel).await
    }
    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        (**self).track(prefixes).await
    }
    async fn close(&self) -> Result<(), BackendError> {
        (**self).close().await
    }
}

//! The maps behind a [`MemoryBackend`](super::MemoryBackend), under one lock.

use super::mailbox::Mailbox;
use super::trackers::Trackers;
use crate::{Clock, LockToken, Tick, TtlState, ticks};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Store {
    entries: BTreeMap<String, Entry>,
    locks: HashMap<String, Lock>,
    last_fence: u64,
    channels: HashMap<String, Vec<Weak<Mailbox>>>,
    pub(super) trackers: Trackers,
}

#[derive(Debug)]
struct Entry {
    value: Bytes,
    end: End,
}

#[derive(Debug)]
struct Lock {
    fence: u64,
    end: End,
}

/// The last tick at which something is alive; `None`: it has no end.
#[derive(Clone, Copy, Debug)]
pub(super) struct End(Option<Tick>);

impl End {
    /// The end of what lives for `ttl` from now: under a millisecond counts as one, and a time beyond the clock's scale
    /// as for ever.
    pub(super) fn after(ttl: Option<Duration>, clock: &dyn Clock) -> Self {
        let Some(ttl) = ttl else { return Self(None) };
        let ttl = ticks(ttl.max(Duration::from_millis(1)));
        // It lives for `ttl` ticks, the first of which is now.
        Self(clock.now().checked_add(ttl).map(|end| end - 1))
    }

    fn is_alive(self, clock: &dyn Clock) -> bool {
        self.0.is_none_or(|end| clock.not_after(end))
    }
}

impl Store {
    pub(super) fn get(&self, key: &str, clock: &dyn Clock) -> Option<Bytes> {
        self.live(key, clock).map(|entry| entry.value.clone())
    }

    /// The value of a key, also when its time has passed and nobody has looked at it since.
    pub(super) fn raw(&self, key: &str) -> Option<Bytes> {
        self.entries.get(key).map(|entry| entry.value.clone())
    }

    pub(super) fn set(&mut self, key: &str, value: Bytes, end: End) {
        self.entries.insert(key.to_owned(), Entry { value, end });
    }

    pub(super) fn delete(&mut self, key: &str, clock: &dyn Clock) -> bool {
        self.entries.remove(key).is_some_and(|entry| entry.end.is_alive(clock))
    }

    /// Returns the keys that it removed.
    pub(super) fn clear(&mut self, prefix: &str) -> Vec<String> {
        let removed: Vec<_> = self.entries.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        for key in &removed {
            self.entries.remove(key);
        }
        removed
    }

    pub(super) fn ttl(&self, key: &str, clock: &dyn Clock) -> TtlState {
        match self.live(key, clock).map(|entry| entry.end.0) {
            None => TtlState::Missing,
            Some(None) => TtlState::NoExpiry,
            Some(Some(end)) => {
                TtlState::Remaining(Duration::from_nanos(end.saturating_sub(clock.now()).saturating_add(1)))
            }
        }
    }

    pub(super) fn touch(&mut self, key: &str, end: End, clock: &dyn Clock) -> bool {
        match self.entries.get_mut(key).filter(|entry| entry.end.is_alive(clock)) {
            Some(entry) => {
                entry.end = end;
                true
            }
            None => false,
        }
    }

    pub(super) fn live_keys(&self, clock: &dyn Clock) -> Vec<String> {
        self.entries.iter().filter(|(_, entry)| entry.end.is_alive(clock)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn try_lock(&mut self, key: &str, end: End, clock: &dyn Clock) -> Option<LockToken> {
        if self.locks.get(key).is_some_and(|lock| lock.end.is_alive(clock)) {
            return None;
        }
        self.last_fence += 1;
        let fence = self.last_fence;
        self.locks.insert(key.to_owned(), Lock { fence, end });
        Some(LockToken::new(key, fence.to_string(), Some(fence)))
    }

    pub(super) fn extend(&mut self, token: &LockToken, end: End, clock: &dyn Clock) -> bool {
        match self.held(token, clock) {
            Some(lock) => {
                lock.end = end;
                true
            }
            None => false,
        }
    }

    pub(super) fn unlock(&mut self, token: &LockToken, clock: &dyn Clock) -> bool {
        let held = self.held(token, clock).is_some();
        if held {
            self.locks.remove(token.key());
        }
        held
    }

    pub(super) fn subscribe(&mut self, channel: &str, mailbox: &Arc<Mailbox>) {
        self.channels.entry(channel.to_owned()).or_default().push(Arc::downgrade(mailbox));
    }

    /// Those who listen to a channel; forgets those who stopped.
    pub(super) fn subscribers(&mut self, channel: &str) -> Vec<Arc<Mailbox>> {
        let Some(mailboxes) = self.channels.get_mut(channel) else { return Vec::new() };
        mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        mailboxes.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn all_subscribers(&self) -> Vec<Arc<Mailbox>> {
        self.channels.values().flatten().filter_map(Weak::upgrade).collect()
    }

    fn live(&self, key: &str, clock: &dyn Clock) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| entry.end.is_alive(clock))
    }

    fn held(&mut self, token: &LockToken, clock: &dyn Clock) -> Option<&mut Lock> {
        let lock = self.locks.get_mut(token.key())?;
        (lock.fence.to_string() == token.secret() && lock.end.is_alive(clock)).then_some(lock)
    }
}

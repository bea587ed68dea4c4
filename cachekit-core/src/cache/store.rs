//! Storing what a function computed.

use super::activity::Fill;
use super::envelope::Entry;
use super::outcome::{Reason, Stored};
use super::place::Place;
use super::{Cache, Cacheable, Shared};
use crate::ErrorKind;
use crate::key::Key;
use crate::l2::Session;

/// What the L2 may be used for once the function has returned.
pub(super) enum L2Access<'a> {
    /// There is no L2.
    None,
    /// It may be written.
    Open(Session<'a>),
    /// It was not reached: nothing is stored, unless L1 is to be filled during an outage.
    Refused(Reason),
    /// It ran out of time while it was read, so this call does not write to it.
    TimedOut(Session<'a>),
}

impl L2Access<'_> {
    /// The function failed, which says nothing about the backend.
    pub(super) fn raised(self) {
        if let Self::Open(session) | Self::TimedOut(session) = self {
            session.raised();
        }
    }
}

impl Cache {
    /// Stores a computed value in L1, calls `in_l1` (whoever waits for the value may have it now), then in L2.
    /// `in_l1` is told whether whoever comes later finds the value in L1 or is meant to compute again; otherwise it is
    /// on its way to the only tier there is.
    ///
    /// Nothing is stored once a set, delete or clear of the key has happened since the fill began.
    pub(super) async fn store_computed<V: Cacheable>(
        &self,
        place: &Place<'_>,
        fill: &Fill<'_>,
        access: L2Access<'_>,
        value: Option<&V>,
        in_l1: impl FnOnce(bool),
    ) -> Option<Stored> {
        let shared = &*self.shared;
        let (key, ttl) = (&place.key, if value.is_some() { Some(self.ttl) } else { shared.negative_ttl });
        let Some(ttl) = ttl else {
            in_l1(true);
            if let L2Access::Open(session) | L2Access::TimedOut(session) = access {
                session.succeeded();
            }
            return None;
        };
        let prepared = self.prepare(place, value, ttl);
        let commit = |entry: &Entry| fill.commit(|| shared.insert_into_l1(key, entry.slot.as_ref()));
        let stored = match (prepared, access) {
            (Err(Reason::Seal), access) => {
                // Nothing reaches a tier, not even a delete.
                fill.commit(|| shared.remove_from_l1(key));
                in_l1(true);
                if let L2Access::Open(session) | L2Access::TimedOut(session) = access {
                    session.succeeded();
                }
                shared.skip(Reason::Seal)
            }
            (Err(reason), access) => {
                let newest = fill.commit(|| shared.remove_from_l1(key));
                in_l1(true);
                match access {
                    L2Access::Open(mut session) => {
                        let since = shared.unsynced.moment();
                        if newest && shared.delete_older(&mut session, key).await {
                            shared.unsynced.synced(key, since);
                        }
                        session.succeeded();
                    }
                    L2Access::TimedOut(session) => {
                        shared.mark_unsynced(key);
                        session.succeeded();
                    }
                    L2Access::Refused(_) => shared.mark_unsynced(key),
                    L2Access::None => {}
                }
                shared.skip(reason)
            }
            (Ok(entry), L2Access::Refused(reason)) => {
                let l1_only = shared.l1_during_outage && commit(&entry) && entry.slot.is_some();
                in_l1(true);
                if l1_only { Stored::L1Only(reason) } else { Stored::Skipped(reason) }
            }
            (Ok(entry), L2Access::None) => {
                let committed = commit(&entry);
                in_l1(true);
                if committed { Stored::Stored } else { shared.skip(Reason::Superseded) }
            }
            (Ok(entry), L2Access::TimedOut(session)) => {
                let committed = commit(&entry);
                in_l1(true);
                session.succeeded();
                if committed {
                    shared.l1_only(Reason::ReadTimeout, entry.slot.is_some())
                } else {
                    shared.skip(Reason::Superseded)
                }
            }
            (Ok(entry), L2Access::Open(session)) => {
                let committed = commit(&entry);
                in_l1(shared.l1.is_some());
                if committed {
                    self.fill_l2(key, fill, session, entry).await
                } else {
                    session.succeeded();
                    shared.skip(Reason::Superseded)
                }
            }
        };
        Some(stored)
    }

    async fn fill_l2(&self, key: &Key, fill: &Fill<'_>, mut session: Session<'_>, entry: Entry) -> Stored {
        let shared = &*self.shared;
        let in_l1 = entry.slot.is_some();
        let Some(writing) = fill.write_to_l2() else {
            session.succeeded();
            return shared.skip(Reason::Superseded);
        };
        // A caller that goes away in here leaves a write behind that may land after a newer one. Declared after
        // `writing`, it marks the key before the L2 is believed again.
        let unsettled = Unsettled { shared, key, unless_current: Some(fill), armed: true };
        let since = shared.unsynced.moment();
        let written = shared.write_to_l2(&mut session, key, entry).await;
        if !fill.is_current() {
            // Something newer was written meanwhile, and nobody knows which of the two the L2 kept.
            match session.delete(key).await {
                Ok(_) => unsettled.settled(),
                // The guard marks the key.
                Err(_) => drop(unsettled),
            }
            drop(writing);
            session.succeeded();
            return shared.skip(Reason::Superseded);
        }
        unsettled.settled();
        if written.in_sync() {
            shared.unsynced.synced(key, since);
        }
        session.succeeded();
        match written {
            Written::Stored => Stored::Stored,
            Written::Not { why, .. } => shared.l1_only(why, in_l1),
        }
    }
}

/// What became of a write to the L2.
#[derive(Clone, Copy)]
pub(super) enum Written {
    /// `older_gone`: the L2 certainly holds no older value either.
    Not {
        why: Reason,
        older_gone: bool,
    },
    Stored,
}

impl Written {
    /// Whether the L2 certainly holds nothing older than what was written.
    pub(super) fn in_sync(self) -> bool {
        matches!(self, Self::Stored | Self::Not { older_gone: true, .. })
    }
}

impl Shared {
    /// One write, with the older entry deleted where the new one is too large for the backend.
    pub(super) async fn write_to_l2(&self, session: &mut Session<'_>, key: &Key, entry: Entry) -> Written {
        let not = |why| Written::Not { why, older_gone: false };
        if entry.len > session.max_value_bytes() {
            return Written::Not { why: Reason::TooLarge, older_gone: self.delete_older(session, key).await };
        }
        match session.set(key, entry.bytes.unwrap_or_default(), entry.ttl.duration()).await {
            Ok(()) => Written::Stored,
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                Written::Not { why: Reason::TooLarge, older_gone: self.delete_older(session, key).await }
            }
            Err(error) if error.kind() == ErrorKind::Timeout => not(Reason::WriteTimeout),
            Err(_) => not(Reason::WriteError),
        }
    }

    /// Deletes what the L2 holds under a key whose new value it will not get; whether that is certain. If not, the key
    /// is marked.
    pub(super) async fn delete_older(&self, session: &mut Session<'_>, key: &Key) -> bool {
        let unsettled = Unsettled { shared: self, key, unless_current: None, armed: true };
        let deleted = session.delete(key).await.is_ok();
        if deleted {
            unsettled.settled();
        }
        deleted
    }

    /// Counts a write that stayed in this process; if L1 does not hold it, it is nowhere.
    pub(super) fn l1_only(&self, reason: Reason, in_l1: bool) -> Stored {
        self.events.degraded(reason);
        if in_l1 { Stored::L1Only(reason) } else { Stored::Skipped(reason) }
    }

    pub(super) fn skip(&self, reason: Reason) -> Stored {
        self.events.degraded(reason);
        Stored::Skipped(reason)
    }
}

/// Marks its key as unsynced when it is dropped before the L2 has certainly taken what was sent.
pub(super) struct Unsettled<'a> {
    pub(super) shared: &'a Shared,
    pub(super) key: &'a Key,
    /// A fill whose value is still the newest there is does no harm wherever it lands.
    pub(super) unless_current: Option<&'a Fill<'a>>,
    pub(super) armed: bool,
}

impl Unsettled<'_> {
    pub(super) fn settled(mut self) {
        self.armed = false;
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if self.armed && self.unless_current.is_none_or(|fill| !fill.is_current()) {
            self.shared.mark_unsynced(self.key);
        }
    }
}

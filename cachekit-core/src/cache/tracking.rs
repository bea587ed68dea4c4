//! L1 follows what others write, where the backend reports it.
//!
//! What L1 holds while changes are reported is as good as the reports. When they stop, it is dropped, and what is filled in
//! until they are back lives for a moment only.

use super::activity::Activity;
use super::events::Events;
use crate::key::{Key, Scope};
use crate::l1::L1;
use crate::{Backend, BackendError, Change, Changes, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(crate) struct Tracking {
    namespace: Scope,
    l1: Arc<L1>,
    activity: Arc<Activity>,
    events: Arc<Events>,
    untracked_ttl: Duration,
    /// How often reports were begun, each time by another backend.
    begun: AtomicU64,
    /// Whose reports are made right now, by that number; 0: nobody's.
    on: AtomicU64,
}

/// The task that hears of changes, while there is a backend to report them.
#[derive(Debug)]
pub(crate) struct Listening {
    reports: Reports,
    task: AbortHandle,
}

/// The reports of one backend. They are lost when the listener ends, however it does: also with its runtime.
#[derive(Clone, Debug)]
struct Reports {
    /// Weak: what ends with its cache has nobody to tell.
    tracking: Weak<Tracking>,
    number: u64,
}

impl Tracking {
    pub(super) fn new(
        namespace: Scope,
        l1: Arc<L1>,
        activity: Arc<Activity>,
        events: Arc<Events>,
        untracked_ttl: Duration,
    ) -> Self {
        Self { namespace, l1, activity, events, untracked_ttl, begun: AtomicU64::new(0), on: AtomicU64::new(0) }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire) != 0
    }

    /// The longest that L1 may keep what it is given now; `None`: as long as it lives.
    pub(super) fn most(&self) -> Option<Duration> {
        (!self.is_on()).then_some(self.untracked_ttl)
    }

    /// Has a backend report changes. From then on L1 holds nothing that is older than what the backend holds.
    pub(crate) async fn begin(self: &Arc<Self>, backend: &dyn Backend) -> Result<Listening, BackendError> {
        if !backend.capabilities().track() {
            let text = format!("`track_changes` is on, and {} does not report changes", backend.name());
            return Err(BackendError::new(ErrorKind::ConfigInvalid, text));
        }
        let prefixes = [self.namespace.prefix().to_owned(), self.namespace.tenants_prefix()];
        let changes = backend.track(&prefixes.each_ref().map(String::as_str)).await?;
        let runtime = Handle::try_current()
            .map_err(|_| BackendError::new(ErrorKind::ConfigInvalid, "changes are tracked in a Tokio runtime"))?;
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        self.resumed(number);
        let reports = Reports { tracking: Arc::downgrade(self), number };
        let task = runtime.spawn(Ends(reports.clone()).listen(changes)).abort_handle();
        Ok(Listening { reports, task })
    }

    /// Somebody changed this key.
    fn changed(&self, stored: &str) {
        let Some(key) = Key::of_stored(stored) else { return };
        self.events.invalidated();
        self.activity.write_at_once(&key, || self.l1.remove(&key));
    }

    fn lost(&self, number: u64) {
        // What an older backend reported is no loss any more.
        if self.on.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.events.tracking_lost();
            self.flush();
        }
    }

    fn resumed(&self, number: u64) {
        if self.begun.load(Ordering::Acquire) != number {
            return;
        }
        self.flush();
        if self.on.swap(number, Ordering::AcqRel) == 0 {
            self.events.tracking_resumed();
        }
    }

    /// Whatever was read or is being read from the L2 may have changed meanwhile.
    fn flush(&self) {
        self.activity.outdate_all();
        drop(self.l1.remove_all());
    }
}

impl Reports {
    fn lost(&self) {
        if let Some(tracking) = self.tracking.upgrade() {
            tracking.lost(self.number);
        }
    }
}

/// Tells of the end of a listener, also of one that is dropped while it waits, or before it began.
struct Ends(Reports);

impl Ends {
    async fn listen(self, mut changes: Changes) {
        while let Ok(change) = changes.next().await {
            let Some(tracking) = self.0.tracking.upgrade() else { return };
            match change {
                Change::Key(stored) => tracking.changed(&stored),
                Change::Lost => tracking.lost(self.0.number),
                Change::Resumed => tracking.resumed(self.0.number),
            }
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lost();
    }
}

impl Listening {
    /// The backend is given up, though some may still be using it.
    pub(crate) fn end(&self) {
        self.task.abort();
        self.reports.lost();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}

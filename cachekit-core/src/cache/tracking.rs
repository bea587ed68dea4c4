//! L1 follows what others write, where the backend reports it.
//!
//! What L1 holds while changes are reported is as good as the reports. When they stop, it is dropped, and what is filled in
//! until they are back lives for a moment only.

use super::activity::Activity;
use super::events::Events;
use crate::key::{Key, Scope};
use crate::l1::L1;
use crate::{Backend, BackendError, Change, Changes, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether changes are reported right now.
    on: AtomicBool,
}

/// The task that hears of changes, while there is a backend to report them. They are lost when it ends.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Weak: what ends with its cache has nobody to tell.
    tracking: Weak<Tracking>,
    task: AbortHandle,
}

impl Tracking {
    pub(super) fn new(
        namespace: Scope,
        l1: Arc<L1>,
        activity: Arc<Activity>,
        events: Arc<Events>,
        untracked_ttl: Duration,
    ) -> Self {
        Self { namespace, l1, activity, events, untracked_ttl, on: AtomicBool::new(false) }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
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
        self.resumed();
        let tracking = Arc::downgrade(self);
        let task = runtime.spawn(listen(tracking.clone(), changes)).abort_handle();
        Ok(Listening { tracking, task })
    }

    /// Somebody changed this key.
    fn changed(&self, stored: &str) {
        let Some(key) = Key::of_stored(stored) else { return };
        self.events.invalidated();
        survive(|| self.activity.write_at_once(&key, || self.l1.remove(&key)));
    }

    fn lost(&self) {
        if self.on.swap(false, Ordering::AcqRel) {
            self.events.tracking_lost();
            self.flush();
        }
    }

    fn resumed(&self) {
        self.flush();
        if !self.on.swap(true, Ordering::AcqRel) {
            self.events.tracking_resumed();
        }
    }

    /// Whatever was read or is being read from the L2 may have changed meanwhile.
    fn flush(&self) {
        self.activity.outdate_all();
        survive(|| drop(self.l1.remove_all()));
    }
}

async fn listen(tracking: Weak<Tracking>, mut changes: Changes) {
    loop {
        let change = changes.next().await;
        let Some(tracking) = tracking.upgrade() else { return };
        match change {
            Ok(Change::Key(stored)) => tracking.changed(&stored),
            Ok(Change::Lost) => tracking.lost(),
            Ok(Change::Resumed) => tracking.resumed(),
            Err(_) => return tracking.lost(),
        }
    }
}

/// Values are dropped in here, and a value whose `Drop` panics must not end the reports.
fn survive(change: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(change));
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(tracking) = self.tracking.upgrade() {
            tracking.lost();
        }
    }
}

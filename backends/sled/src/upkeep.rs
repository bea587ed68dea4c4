//! The threads behind an open database: one that keeps it in order, and one that finds out when sled hangs.

use crate::databases::{StoreInUse, abandon};
use crate::error::Doing;
use crate::rebuild::Expansion;
use crate::record::Record;
use crate::rows;
use crate::store::{ROWS_PER_PASS, Store};
use crate::usage::Cost;
use crate::watch::{PATIENCE, TICK, Watch};
use cachekit_core::BackendError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How long what is over the budget stays at most, and a file that is too large.
const ROUND: Duration = Duration::from_millis(500);
/// After a rebuilding that came to nothing.
const REBUILD_PAUSE: Duration = Duration::from_secs(10);

/// Starts both. They end when this is dropped, and keep no database open.
pub(crate) fn start(store: &Arc<StoreInUse>, jobs: &Arc<Semaphore>) -> [Sender<()>; 2] {
    let ((upkeep, upkeep_end), (watch, watch_end)) = (channel(), channel());
    let (for_upkeep, for_watch, jobs) = (Arc::downgrade(store), Arc::downgrade(store), jobs.clone());
    // Without a thread to be had, expired entries are merely kept, and the disk fills up to where writes are refused.
    let thread = thread::Builder::new().name("cachekit-sled-upkeep".to_owned());
    let _ = thread.spawn(move || keep_in_order(&for_upkeep, &upkeep_end));
    let thread = thread::Builder::new().name("cachekit-sled-watch".to_owned());
    let _ = thread.spawn(move || watch_over(&for_watch, &jobs, &watch_end));
    [upkeep, watch]
}

fn watch_over(store: &Weak<StoreInUse>, jobs: &Semaphore, end: &Receiver<()>) {
    let mut watch = Watch::new();
    while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let Some(store) = store.upgrade() else { return };
        if watch.look(&store.calls, PATIENCE) {
            abandon(&store);
            store.give_up();
            // Who waits for a job to end waits for nothing.
            jobs.close();
            return;
        }
    }
}

fn keep_in_order(store: &Weak<StoreInUse>, end: &Receiver<()>) {
    let Some(config) = store.upgrade().map(|store| store.config.clone()) else { return };
    let (every, flush_every) = (config.sweep_every(), config.flush_every());
    if !first_look(store, end) {
        return;
    }
    let (mut flushed, mut swept) = (Instant::now(), Instant::now());
    let (mut expansion, mut rebuild_at) = (Expansion::default(), Instant::now());
    while end.recv_timeout(ROUND.min(every).min(flush_every)) == Err(RecvTimeoutError::Timeout) {
        // A thousand at a time, until all is done; in between, the database may close.
        let sweep = swept.elapsed() >= every;
        if sweep {
            swept = Instant::now();
        }
        while end.try_recv() == Err(TryRecvError::Empty) {
            let Some(store) = store.upgrade() else { return };
            let swept_all = !sweep || store.sweep(ROWS_PER_PASS).map_or(true, |swept| swept < ROWS_PER_PASS);
            if swept_all && store.make_room(None, ROWS_PER_PASS).unwrap_or(true) {
                break;
            }
        }
        let Some(store) = store.upgrade() else { return };
        // Sled does so too, but tells nobody when; and then the files of replaced values can go.
        if flushed.elapsed() >= flush_every {
            flushed = Instant::now();
            if store.is_unflushed() {
                let _ = store.flush();
            }
        }
        if Instant::now() >= rebuild_at && store.is_oversized(expansion) {
            match store.rebuild(end) {
                Some(copied) => expansion = copied,
                None => rebuild_at = Instant::now() + REBUILD_PAUSE,
            }
        }
    }
}

/// Counts what is there, and removes the files that a killed process left; `false` when the database closed meanwhile.
fn first_look(store: &Weak<StoreInUse>, end: &Receiver<()>) -> bool {
    let mut last: Option<Vec<u8>> = None;
    loop {
        let Some(store) = store.upgrade() else { return false };
        if end.try_recv() != Err(TryRecvError::Empty) {
            return false;
        }
        match store.count_some(last.as_deref()) {
            Ok(None) => break,
            Ok(Some(row)) => last = Some(row),
            // The store failed, or sled reads a page no better the next time.
            Err(_) => break,
        }
    }
    let Some(store) = store.upgrade() else { return false };
    store.usage.counted_until(None);
    let _ = store.remove_orphans(end);
    true
}

impl Store {
    /// Counts a thousand entries, and returns the last of them.
    fn count_some(&self, last: Option<&[u8]>) -> Result<Option<Vec<u8>>, BackendError> {
        self.attempt(Doing::Read, |_| {
            let names = self.tables().current.names(rows::entries_behind(last), ROWS_PER_PASS)?;
            for name in &names {
                let Some(key) = rows::key_of_entry(name) else { continue };
                let _stripe = self.lock_stripe(key);
                let row = self.tables().current.get(name)?;
                if let Some(record) = row.as_deref().and_then(|row| Record::decode(key, row)) {
                    self.usage.count(Cost::of(key, &record));
                }
                // Within the stripe, so that this entry counts once.
                self.usage.counted_until(Some(name.to_vec()));
            }
            Ok(names.last().map(|name| name.to_vec()))
        })
    }

    fn remove_orphans(&self, end: &Receiver<()>) -> Result<(), BackendError> {
        self.values.remove_orphans(|key, id| {
            // What is left when the database closes is for the next opener.
            let closing = end.try_recv() != Err(TryRecvError::Empty);
            Ok(closing || self.attempt(Doing::Read, |_| self.refers_to(key, id))?)
        })
    }
}

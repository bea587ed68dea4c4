//! The thread that removes entries whose time has passed.

use crate::databases::StoreInUse;
use crate::store::ROWS_PER_PASS;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// Starts it. It ends when the sender is dropped, and keeps no database open.
pub(crate) fn start(store: &Arc<StoreInUse>, every: Duration) -> Sender<()> {
    let (sender, end) = channel();
    let store = Arc::downgrade(store);
    // Without a thread to be had, expired entries are merely kept: no read returns them.
    let _ = thread::Builder::new().name("cachekit-sled-sweep".to_owned()).spawn(move || run(&store, &end, every));
    sender
}

fn run(store: &Weak<StoreInUse>, end: &Receiver<()>, every: Duration) {
    while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        // A thousand at a time, until it has caught up; in between, the database may close.
        while end.try_recv() == Err(TryRecvError::Empty) {
            let Some(store) = store.upgrade() else { return };
            if store.sweep(ROWS_PER_PASS).is_ok_and(|swept| swept == ROWS_PER_PASS) {
                continue;
            }
            break;
        }
    }
}

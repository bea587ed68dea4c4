//! Reports of keys that others changed: `CLIENT TRACKING` in broadcasting mode, on the connection that carries the
//! operations.
//!
//! On that connection and not on one of its own, since only so can the server leave out what this backend changed itself
//! (`NOLOOP`), and since a wire that is dead for the reports is then noticed by the operations too. The server forgets the
//! tracking with the connection, so each new one is told again.

use crate::error::Doing;
use crate::link::Request;
use crate::ready::Ready;
use crate::reply;
use crate::supervisor::Supervisor;
use cachekit_core::{BackendError, ChangeReporter, Changes, ErrorKind};
use redis::{PushInfo, Value, cmd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How often a connection that carries nothing else is asked whether it is alive.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How soon a server that refused to report is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Those who want to hear of changes.
#[derive(Debug, Default)]
pub(crate) struct Trackers(Mutex<Vec<Tracker>>);

#[derive(Clone, Debug)]
struct Tracker {
    prefixes: Vec<String>,
    reporter: ChangeReporter,
}

impl Trackers {
    /// Hands on what the server pushes.
    pub(crate) fn report(&self, push: &PushInfo) {
        let trackers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match push.data.as_slice() {
            [Value::Array(keys)] => {
                for key in keys {
                    let Value::BulkString(key) = key else { continue };
                    // A key of somebody's who writes other bytes than text is none of ours.
                    let Ok(key) = std::str::from_utf8(key) else { continue };
                    trackers.iter().filter(|tracker| tracker.follows(key)).for_each(|it| it.reporter.changed(key));
                }
            }
            // The whole database was emptied.
            _ => trackers.iter().for_each(|tracker| tracker.reporter.resumed()),
        }
    }

    fn add(&self, tracker: Tracker) -> Result<(), BackendError> {
        let mut trackers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trackers.retain(|tracker| !tracker.reporter.is_closed());
        // The server refuses them, and by then half of a command may be done.
        let overlap = |a: &String, b: &String| a != b && (a.starts_with(b.as_str()) || b.starts_with(a.as_str()));
        let known = trackers.iter().flat_map(|tracker| &tracker.prefixes).chain(&tracker.prefixes);
        if known.clone().any(|one| tracker.prefixes.iter().any(|other| overlap(one, other))) {
            let text = "redis reports changes by prefixes of which none is the beginning of another";
            return Err(BackendError::new(ErrorKind::ConfigInvalid, text));
        }
        trackers.push(tracker);
        Ok(())
    }

    /// After the backend was closed: whoever listens is told by the end of the reports.
    pub(crate) fn forget_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Tracker {
    fn follows(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }
}

pub(crate) async fn track(supervisor: &Arc<Supervisor>, prefixes: &[&str]) -> Result<Changes, BackendError> {
    let ready = supervisor.ready().await?;
    let (reporter, changes) = Changes::new();
    let tracker = Tracker { prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(), reporter };
    // Before the server is told: from its answer on, nothing is missed.
    supervisor.trackers().add(tracker.clone())?;
    begin(supervisor, &ready, &tracker).await?;
    tokio::spawn(keep(Arc::downgrade(supervisor), ready.generation, tracker));
    Ok(changes)
}

/// Tells the server, on this connection.
async fn begin(supervisor: &Supervisor, ready: &Ready, tracker: &Tracker) -> Result<(), BackendError> {
    if !ready.link.reports_changes() {
        let text = "redis reports changes over RESP3 only, and this connection speaks RESP2";
        return Err(BackendError::new(ErrorKind::ConfigInvalid, text));
    }
    for prefix in &tracker.prefixes {
        let mut command = cmd("CLIENT");
        command.arg("TRACKING").arg("ON").arg("BCAST").arg("NOLOOP").arg("PREFIX").arg(prefix);
        match supervisor.call_over(ready, Doing::Read, &Request::Command(command), reply::ok).await {
            Err(error) if error.context().contains("overlaps with an existing prefix") => {
                // Somebody else tracks the same one here.
                if error.context().contains(&format!("existing prefix '{prefix}'")) {
                    continue;
                }
                // One that nobody tracks any more is in the way, and only a new connection is without it.
                let error = BackendError::new(ErrorKind::Unavailable, "the connection is replaced to report changes");
                supervisor.replace(ready, &error);
                return Err(error);
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Sees to it that each connection reports, and says when none does. Ends with the backend, or when nobody listens.
async fn keep(supervisor: Weak<Supervisor>, mut generation: u64, tracker: Tracker) {
    loop {
        watch(&supervisor, generation, &tracker).await;
        tracker.reporter.lost();
        generation = loop {
            let Some(supervisor) = supervisor.upgrade() else { return };
            if tracker.reporter.is_closed() {
                return;
            }
            match supervisor.ready().await {
                Ok(ready) if begin(&supervisor, &ready, &tracker).await.is_ok() => break ready.generation,
                Err(error) if error.kind() == ErrorKind::Closed => return,
                _ => {
                    drop(supervisor);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        tracker.reporter.resumed();
    }
}

/// Until this connection is not the one in service any more.
async fn watch(supervisor: &Weak<Supervisor>, generation: u64, tracker: &Tracker) {
    let Some(ended) = supervisor.upgrade().map(|supervisor| supervisor.ended(generation)) else { return };
    let beating = async {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            // A read that gets no answer is counted; after three of them the connection is replaced.
            while let Some(supervisor) = supervisor.upgrade() {
                let answer = supervisor.call(Doing::Read, &Request::Command(cmd("PING")), 0, reply::pong).await;
                if !answer.is_err_and(|error| error.kind() == ErrorKind::Timeout) {
                    break;
                }
            }
            if tracker.reporter.is_closed() {
                return;
            }
        }
    };
    tokio::select! {
        () = ended => {}
        () = beating => {}
    }
}

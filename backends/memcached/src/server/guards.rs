//! What a caller that goes away leaves behind.

use super::{Server, State, Time, closed};
use crate::dial::Link;
use crate::error::{Doing, silent};
use cachekit_core::BackendError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The one operation that tries a server. Whatever becomes of it, another one may try later.
pub(super) struct Probe<'a> {
    pub(super) server: &'a Server,
    pub(super) time: Time,
    pub(super) done: bool,
}

impl Probe<'_> {
    pub(super) fn settle(&mut self, found: Result<Link, BackendError>) -> Result<Arc<Link>, BackendError> {
        self.done = true;
        let mut state = self.server.state();
        if matches!(*state, State::Closed) {
            return Err(closed());
        }
        match found {
            Ok(link) => {
                let link = Arc::new(link);
                *state = State::Up(link.clone());
                Ok(link)
            }
            Err(error) => {
                *state = State::Down { until: Instant::now() + self.server.config.open_for, why: error.clone() };
                Err(error)
            }
        }
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // The caller went away. If it had waited for long, that says something about the server.
        let wait = if self.time.is_long() { self.server.config.open_for } else { Duration::ZERO };
        let mut state = self.server.state();
        if let State::Probed { why } = &*state {
            *state = State::Down { until: Instant::now() + wait, why: why.clone() };
        }
    }
}

/// An operation under way. Its caller may have less patience than we do: an operation that is dropped after half of its
/// time has failed, as far as the server is concerned.
pub(super) struct Flight<'a> {
    pub(super) server: &'a Server,
    pub(super) link: &'a Arc<Link>,
    pub(super) time: Time,
    pub(super) landed: bool,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.landed && self.time.is_long() {
            self.server.failed(self.link, Some(&silent(Doing::Read)));
        }
    }
}

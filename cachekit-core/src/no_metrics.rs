//! The exporter of a build without the feature `metrics`: it exports nothing.

use crate::cache::{Reason, Source};

#[derive(Debug)]
pub(crate) struct Exporter;

#[allow(clippy::unused_self, reason = "the same interface as with the feature")]
impl Exporter {
    pub(crate) fn new(_namespace: &str) -> Self {
        Self
    }

    pub(crate) fn answered(&self, _source: Source) {}

    pub(crate) fn degraded(&self, _reason: Reason) {}

    pub(crate) fn built(&self, _successfully: bool) {}

    pub(crate) fn invalidated(&self) {}

    pub(crate) fn tracking_lost(&self) {}
}

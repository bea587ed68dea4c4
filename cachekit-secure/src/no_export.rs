//! In place of `export` in a build without the feature `metrics`.

use crate::reason::Reason;
use cachekit_core::{SealError, Tier};

pub(crate) fn open(_: Reason, _: Option<usize>, _: Tier) {}

pub(crate) fn seal_failed(_: SealError) {}

pub(crate) fn overlived() {}

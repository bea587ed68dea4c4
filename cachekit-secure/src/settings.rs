//! How a sealer works, keys apart.

use crate::names::Names;
use crate::time::Time;
use crate::{Compression, Padding};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What happens when an entry is not authentic: damaged, forged, of an unknown key, or not sealed at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum FailMode {
    /// It is an error to every caller. The function does not run, and the backend keeps the entry as evidence.
    Closed,
    /// It is a miss, counted apart: the function runs, and its result overwrites the entry.
    #[default]
    Open,
}

pub(crate) type TenantOf = dyn for<'a> Fn(&'a str) -> Cow<'a, str> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) compression: Option<Compression>,
    pub(crate) fail_mode: FailMode,
    pub(crate) max_inflated_bytes: usize,
    pub(crate) names: Option<Arc<Names>>,
    pub(crate) padding: Option<Padding>,
    pub(crate) tenant: Option<Arc<TenantOf>>,
    pub(crate) time: Time,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            compression: None,
            fail_mode: FailMode::default(),
            max_inflated_bytes: 64 << 20,
            names: None,
            padding: None,
            tenant: None,
            time: Time::default(),
        }
    }
}

/// Without the key of the names.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("compression", &self.compression)
            .field("fail_mode", &self.fail_mode)
            .field("hidden_names", &self.names.is_some())
            .field("max_inflated_bytes", &self.max_inflated_bytes)
            .field("padding", &self.padding)
            .field("tenant", &self.tenant.as_ref().map(|_| "by key"))
            .finish_non_exhaustive()
    }
}

//! What the kit is pointed at: a way to make backends.

use cachekit_core::Backend;
use futures_util::future::{BoxFuture, FutureExt};
use std::fmt;
use std::sync::Arc;

type Make = dyn Fn() -> BoxFuture<'static, Arc<dyn Backend>> + Send + Sync;

/// A way to make the backends that are checked.
///
/// It is called once per check, and the check closes or drops what it got. All may share one store, also a durable one
/// that others use at the same time: every check has keys of its own.
#[derive(Clone)]
pub struct Target {
    make: Arc<Make>,
}

impl Target {
    /// Makes backends with this closure. One that cannot make one panics, which the kit reports as `suite: `.
    pub fn new<F, M, B>(make: F) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Future<Output = B> + Send + 'static,
        B: Backend,
    {
        Self { make: Arc::new(move || make().map(|backend| Arc::new(backend) as Arc<dyn Backend>).boxed()) }
    }

    pub(crate) fn make(&self) -> BoxFuture<'static, Arc<dyn Backend>> {
        (self.make)()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

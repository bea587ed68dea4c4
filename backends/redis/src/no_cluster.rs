//! Stands for `cluster` where the feature is off; the configuration has been refused before.

use crate::RedisConfig;
use crate::config::invalid;
use crate::link::Link;
use cachekit_core::{BackendError, ServerAddress};
use std::sync::Arc;

pub(crate) async fn dial(_: &RedisConfig, _: &[ServerAddress]) -> Result<Arc<dyn Link>, BackendError> {
    Err(invalid("this needs the feature `cluster`, which is not compiled in"))
}

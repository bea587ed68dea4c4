//! The settings, and their spelling in a URL.

use cachekit_core::{BackendError, BackendUrl, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest [`max_value_bytes`](SledConfig::max_value_bytes): a value is held in memory whole.
const MOST_VALUE_BYTES: usize = 1 << 30;
const OPTIONS: [&str; 5] = ["cache_capacity", "execution", "flush_every_ms", "max_value_bytes", "sweep_every_ms"];

/// Where the blocking calls of sled run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Execution {
    /// On the thread that polls the operation. Many times the throughput, and no runtime is needed, but while sled
    /// writes or waits for the disk (tens of milliseconds at worst) everything else on that thread stands still.
    Inline,
    /// On Tokio's threads for blocking calls, at most 32 at once.
    #[default]
    SpawnBlocking,
}

/// How to open a database.
///
/// ```
/// use cachekit_sled::{Execution, SledConfig};
/// use std::time::Duration;
///
/// let config = SledConfig::new("/var/cache/app").with_cache_capacity(256 << 20);
/// assert_eq!(config.cache_capacity(), 268_435_456);
/// assert_eq!(config.flush_every(), Duration::from_millis(500));
/// assert_eq!(config.execution(), Execution::SpawnBlocking);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SledConfig {
    path: PathBuf,
    cache_capacity: u64,
    execution: Execution,
    flush_every: Duration,
    max_value_bytes: usize,
    sweep_every: Duration,
}

impl SledConfig {
    /// The defaults, for the database in this directory, which is created when it is missing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cache_capacity: 64 << 20,
            execution: Execution::default(),
            flush_every: Duration::from_millis(500),
            max_value_bytes: 16 << 20,
            sweep_every: Duration::from_secs(30),
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of sled's cache of pages, in bytes (default 64 MiB). The process uses a multiple of it.
    #[must_use]
    pub fn cache_capacity(&self) -> u64 {
        self.cache_capacity
    }

    /// Where blocking calls run (default [`Execution::SpawnBlocking`]).
    #[must_use]
    pub fn execution(&self) -> Execution {
        self.execution
    }

    /// How often sled writes what is in memory to its file (default 500 ms): what a killed process loses at most.
    #[must_use]
    pub fn flush_every(&self) -> Duration {
        self.flush_every
    }

    /// The largest value this backend stores, in bytes (default 16 MiB, at most 1 GiB).
    #[must_use]
    pub fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    /// How often expired entries are removed from the disk (default 30 s). No read returns them in any case.
    #[must_use]
    pub fn sweep_every(&self) -> Duration {
        self.sweep_every
    }

    /// Sets [`cache_capacity`](Self::cache_capacity).
    #[must_use]
    pub fn with_cache_capacity(mut self, bytes: u64) -> Self {
        self.cache_capacity = bytes;
        self
    }

    /// Sets [`execution`](Self::execution).
    #[must_use]
    pub fn with_execution(mut self, execution: Execution) -> Self {
        self.execution = execution;
        self
    }

    /// Sets [`flush_every`](Self::flush_every), in whole milliseconds.
    #[must_use]
    pub fn with_flush_every(mut self, every: Duration) -> Self {
        self.flush_every = every;
        self
    }

    /// Sets [`max_value_bytes`](Self::max_value_bytes).
    #[must_use]
    pub fn with_max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Sets [`sweep_every`](Self::sweep_every).
    #[must_use]
    pub fn with_sweep_every(mut self, every: Duration) -> Self {
        self.sweep_every = every;
        self
    }

    /// So that a later change of the current directory does not make it another database.
    pub(crate) fn with_absolute_path(mut self) -> Self {
        if let Ok(path) = std::path::absolute(&self.path) {
            self.path = path;
        }
        self
    }

    pub(crate) fn validate(&self) -> Result<(), BackendError> {
        if self.path.as_os_str().is_empty() {
            return Err(invalid("the path of the sled database is empty".to_owned()));
        }
        if self.cache_capacity == 0 {
            return Err(invalid("`cache_capacity` is zero".to_owned()));
        }
        if self.flush_every < Duration::from_millis(1) {
            return Err(invalid("`flush_every` is less than a millisecond".to_owned()));
        }
        if self.sweep_every < Duration::from_millis(1) {
            return Err(invalid("`sweep_every` is less than a millisecond".to_owned()));
        }
        if self.max_value_bytes > MOST_VALUE_BYTES {
            return Err(invalid(format!("`max_value_bytes` is over {MOST_VALUE_BYTES}")));
        }
        Ok(())
    }

    pub(crate) fn from_url(url: &BackendUrl) -> Result<Self, BackendError> {
        let mut config = Self::new(BackendUrl::decode(url.expose_place())?);
        for option in url.options("sled", &OPTIONS)? {
            match option.name() {
                "cache_capacity" => config.cache_capacity = option.number()?,
                "execution" => config.execution = option.one_of(&EXECUTIONS)?,
                "flush_every_ms" => config.flush_every = option.millis()?,
                "max_value_bytes" => config.max_value_bytes = option.bytes()?,
                _ => config.sweep_every = option.millis()?,
            }
        }
        Ok(config)
    }
}

const EXECUTIONS: [(&str, Execution); 2] =
    [("inline", Execution::Inline), ("spawn_blocking", Execution::SpawnBlocking)];

fn invalid(why: String) -> BackendError {
    BackendError::new(ErrorKind::ConfigInvalid, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<SledConfig, BackendError> {
        let config = SledConfig::from_url(&BackendUrl::parse(url).unwrap())?;
        config.validate()?;
        Ok(config)
    }

    #[test]
    fn a_url_without_options_has_the_defaults() {
        assert_eq!(parse("sled:///var/cache/app").unwrap(), SledConfig::new("/var/cache/app"));
        assert_eq!(parse("sled://cache/app?").unwrap(), SledConfig::new("cache/app"));
    }

    #[test]
    fn every_option_is_read() {
        let config = parse(
            "sled:///p?cache_capacity=1048576&flush_every_ms=250&max_value_bytes=7&sweep_every_ms=9&execution=inline",
        );
        let expected = SledConfig::new("/p")
            .with_cache_capacity(1 << 20)
            .with_flush_every(Duration::from_millis(250))
            .with_max_value_bytes(7)
            .with_sweep_every(Duration::from_millis(9))
            .with_execution(Execution::Inline);
        assert_eq!(config.unwrap(), expected);
        assert_eq!(parse("sled://p?execution=spawn_blocking").unwrap().execution(), Execution::SpawnBlocking);
    }

    #[test]
    fn an_unknown_option_names_the_nearest() {
        for (option, nearest) in [
            ("cache_capacty=1", "cache_capacity"),
            ("flush_ms=1", "flush_every_ms"),
            ("sweep=1", "sweep_every_ms"),
            ("max_bytes", "max_value_bytes"),
            ("Execution=inline", "execution"),
        ] {
            let error = parse(&format!("sled:///p?{option}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
            assert!(error.context().contains(&format!("the nearest is `{nearest}`")), "{error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for url in [
            "sled://",
            "sled://?cache_capacity=1",
            "sled:///p?cache_capacity=0",
            "sled:///p?cache_capacity=-1",
            "sled:///p?cache_capacity=+1",
            "sled:///p?cache_capacity=64MiB",
            "sled:///p?cache_capacity",
            "sled:///p?cache_capacity=99999999999999999999",
            "sled:///p?flush_every_ms=0",
            "sled:///p?sweep_every_ms=0",
            "sled:///p?max_value_bytes=1073741825",
            "sled:///p?execution=block_in_place",
            "sled:///p?flush_every_ms=1&flush_every_ms=2",
            "sled:///p%",
            "sled:///p%4",
            "sled:///p%4g",
            "sled:///p%+1",
            "sled:///p%é",
            "sled:///p%ff",
            "sled:///p%00",
        ] {
            assert_eq!(parse(url).unwrap_err().kind(), ErrorKind::ConfigInvalid, "{url}");
        }
    }

    #[test]
    fn a_path_may_hold_anything_once_it_is_written_as_hex() {
        assert_eq!(parse("sled:///a%20b%3Fc%25d/%C3%A9é@#").unwrap().path(), Path::new("/a b?c%d/éé@#"));
    }

    #[test]
    fn a_relative_path_does_not_move_with_the_current_directory() {
        let config = SledConfig::new("cache").with_absolute_path();
        assert!(config.path().is_absolute() && config.path().ends_with("cache"));
    }
}

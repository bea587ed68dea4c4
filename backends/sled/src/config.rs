//! The settings, and their spelling in a URL.

use cachekit_core::{BackendError, BackendUrl, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest [`max_value_bytes`](SledConfig::max_value_bytes): a value is held in memory whole.
const MOST_VALUE_BYTES: usize = 1 << 30;
/// With a smaller file of its rows no database is worth being copied.
const REBUILD_FLOOR: u64 = 64 << 20;
/// Every option of a URL.
pub(crate) const OPTIONS: [&str; 9] = [
    "cache_capacity",
    "execution",
    "flush_every_ms",
    "max_bytes",
    "max_value_bytes",
    "min_free_bytes",
    "open_timeout_ms",
    "strict",
    "sweep_every_ms",
];

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
    max_bytes: u64,
    max_value_bytes: usize,
    min_free_bytes: Option<u64>,
    open_timeout: Duration,
    rebuild_floor: u64,
    strict: bool,
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
            max_bytes: 1 << 30,
            max_value_bytes: 16 << 20,
            min_free_bytes: None,
            open_timeout: Duration::from_secs(3),
            rebuild_floor: REBUILD_FLOOR,
            strict: false,
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

    /// What all live entries together may take, in bytes (default 1 GiB); 0 is no limit.
    ///
    /// Counted are keys, values, and what they cost besides. Over it, entries are removed: first those that end soonest,
    /// then those without an end, in the order of their keys. A write removes 32 at most and the upkeep the rest, so it
    /// may be exceeded for a moment. The directory takes up to three times as much, or 64 MiB more when that is larger.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// The largest value this backend stores, in bytes (default 16 MiB, at most 1 GiB).
    #[must_use]
    pub fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    /// How many bytes of the file system stay free: a write that would leave less is refused with
    /// [`OutOfSpace`](ErrorKind::OutOfSpace). The default, `None`, is 5 % of it, but at least 256 MiB and at most 5 GiB,
    /// and never more than a quarter. With 0 everything is tried.
    #[must_use]
    pub fn min_free_bytes(&self) -> Option<u64> {
        self.min_free_bytes
    }

    /// How long the opening may take (default 3 s), and a second more for each 64 MiB of the file. After that the
    /// directory counts as damaged, since on some damaged files sled never comes to an end.
    #[must_use]
    pub fn open_timeout(&self) -> Duration {
        self.open_timeout
    }

    /// The file of the rows has to be so large before it is rebuilt.
    pub(crate) fn rebuild_floor(&self) -> u64 {
        self.rebuild_floor
    }

    /// Whether a damaged directory is left alone and cannot be opened (default: `false`). Otherwise it is renamed to
    /// `<path>.corrupt-<unix seconds>`, the only one of that name that is kept, and an empty one takes its place.
    #[must_use]
    pub fn strict(&self) -> bool {
        self.strict
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

    /// Sets [`max_bytes`](Self::max_bytes).
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets [`max_value_bytes`](Self::max_value_bytes).
    #[must_use]
    pub fn with_max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Sets [`min_free_bytes`](Self::min_free_bytes).
    #[must_use]
    pub fn with_min_free_bytes(mut self, bytes: Option<u64>) -> Self {
        self.min_free_bytes = bytes;
        self
    }

    /// Sets [`open_timeout`](Self::open_timeout).
    #[must_use]
    pub fn with_open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = timeout;
        self
    }

    #[cfg(test)]
    pub(crate) fn with_rebuild_floor(mut self, bytes: u64) -> Self {
        self.rebuild_floor = bytes;
        self
    }

    /// Sets [`strict`](Self::strict).
    #[must_use]
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets [`sweep_every`](Self::sweep_every).
    #[must_use]
    pub fn with_sweep_every(mut self, every: Duration) -> Self {
        self.sweep_every = every;
        self
    }

    /// What is larger than the whole budget is refused.
    pub(crate) fn largest_value(&self) -> usize {
        match self.max_bytes {
            0 => self.max_value_bytes,
            most => self.max_value_bytes.min(usize::try_from(most).unwrap_or(usize::MAX)),
        }
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
        if self.open_timeout < Duration::from_millis(1) {
            return Err(invalid("`open_timeout` is less than a millisecond".to_owned()));
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
                "max_bytes" => config.max_bytes = option.number()?,
                "max_value_bytes" => config.max_value_bytes = option.bytes()?,
                "min_free_bytes" => config.min_free_bytes = Some(option.number()?),
                "open_timeout_ms" => config.open_timeout = option.millis()?,
                "strict" => config.strict = option.flag()?,
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
            "sled:///p?cache_capacity=1048576&execution=inline&flush_every_ms=250&max_bytes=5&max_value_bytes=7\
             &min_free_bytes=3&open_timeout_ms=8&strict=true&sweep_every_ms=9",
        );
        let expected = SledConfig::new("/p")
            .with_cache_capacity(1 << 20)
            .with_flush_every(Duration::from_millis(250))
            .with_max_bytes(5)
            .with_max_value_bytes(7)
            .with_min_free_bytes(Some(3))
            .with_open_timeout(Duration::from_millis(8))
            .with_strict(true)
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
            ("max_value", "max_value_bytes"),
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
            "sled:///p?open_timeout_ms=0",
            "sled:///p?strict=yes",
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

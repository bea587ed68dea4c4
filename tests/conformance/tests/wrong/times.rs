//! Wrong with times to live.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, ErrorKind, SetOptions, TtlState, async_trait};
use std::time::Duration;

/// Keeps entries for another time than it was asked for. `touch` is right.
#[derive(Debug)]
pub(crate) struct Keeps(pub(crate) fn(Option<Duration>) -> Option<Duration>);

#[async_trait]
impl Twist for Keeps {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key, value, SetOptions::default().with_ttl((self.0)(o.ttl))).await
    }
}

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn thousand_times_too_long(ttl: Option<Duration>) -> Option<Duration> {
    ttl.map(|ttl| ttl.saturating_mul(1_000))
}

/// A third of what is a fraction of a second, unless the fraction is small.
pub(crate) fn a_third(ttl: Option<Duration>) -> Option<Duration> {
    let fraction = Duration::from_millis(201)..SECOND;
    ttl.map(|ttl| if fraction.contains(&ttl) { ttl / 3 } else { ttl })
}

pub(crate) fn for_ever(ttl: Option<Duration>) -> Option<Duration> {
    ttl.filter(Duration::is_zero)
}

pub(crate) fn for_a_second_at_least(ttl: Option<Duration>) -> Option<Duration> {
    ttl.map(|ttl| if ttl.is_zero() { ttl } else { ttl.max(SECOND) })
}

pub(crate) fn for_a_second_by_default(ttl: Option<Duration>) -> Option<Duration> {
    ttl.or(Some(SECOND))
}

pub(crate) fn zero_for_ever(ttl: Option<Duration>) -> Option<Duration> {
    ttl.filter(|ttl| !ttl.is_zero())
}

pub(crate) fn whole_milliseconds_and_none_is_for_ever(ttl: Option<Duration>) -> Option<Duration> {
    ttl.filter(|ttl| ttl.is_zero() || ttl.as_millis() > 0)
}

pub(crate) fn whole_seconds_above_one(ttl: Option<Duration>) -> Option<Duration> {
    ttl.map(|ttl| if ttl > SECOND { Duration::from_secs(ttl.as_secs()) } else { ttl })
}

/// More than thirty days are a date in 1970, and what no date can express is for ever.
pub(crate) fn thirty_days(ttl: Option<Duration>) -> Option<Duration> {
    ttl.filter(|ttl| *ttl < DAY * 3_650).map(|ttl| if ttl > DAY * 30 { Duration::from_nanos(1) } else { ttl })
}

/// What no longer fits wraps round to almost nothing.
pub(crate) fn wrapped(ttl: Option<Duration>) -> Option<Duration> {
    ttl.map(|ttl| if ttl > DAY * 3_650 { Duration::from_millis(200) } else { ttl })
}

/// Keeps entries for a ten-thousandth of their time, whoever sets it: by then no other operation has come in between.
#[derive(Debug)]
pub(crate) struct FarTooShort;

#[async_trait]
impl Twist for FarTooShort {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key, value, o.with_ttl(o.ttl.map(ten_thousandth))).await
    }
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        inner.touch(key, ttl.map(ten_thousandth)).await
    }
}

fn ten_thousandth(ttl: Duration) -> Duration {
    if ttl.is_zero() { ttl } else { (ttl / 10_000).max(Duration::from_nanos(1)) }
}

/// Keeps what has no end for a second, and tells nobody.
#[derive(Debug)]
pub(crate) struct QuietlyEnds;

#[async_trait]
impl Twist for QuietlyEnds {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key, value, o.with_ttl(o.ttl.or(Some(SECOND)))).await
    }
    async fn ttl(&self, inner: &MemoryBackend, key: &str) -> Result<TtlState, BackendError> {
        match inner.ttl(key).await? {
            TtlState::Remaining(left) if left <= SECOND => Ok(TtlState::NoExpiry),
            state => Ok(state),
        }
    }
}

/// Some times are too long.
#[derive(Debug)]
pub(crate) struct RefusesHuge;

#[async_trait]
impl Twist for RefusesHuge {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if o.ttl.is_some_and(|ttl| i64::try_from(ttl.as_millis()).is_err()) {
            return Err(BackendError::new(ErrorKind::TtlInvalid, "value is out of range"));
        }
        inner.set(key, value, o).await
    }
}

/// Times of less than a millisecond are no time at all: the entry is not stored.
#[derive(Debug)]
pub(crate) struct ForgetsTiny;

#[async_trait]
impl Twist for ForgetsTiny {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if o.ttl.is_some_and(|ttl| !ttl.is_zero() && ttl.as_millis() == 0) {
            return inner.delete(key).await.map(|_| ());
        }
        inner.set(key, value, o).await
    }
}

/// Every read gives an entry that has an end another ten seconds.
#[derive(Debug)]
pub(crate) struct Sliding;

#[async_trait]
impl Twist for Sliding {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        if let Ok(TtlState::Remaining(left)) = inner.ttl(key).await {
            inner.touch(key, Some(left.max(Duration::from_secs(10)))).await?;
        }
        inner.get(key).await
    }
    async fn exists(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        inner.exists(key).await
    }
}

/// A new value keeps the end of the old one.
#[derive(Debug)]
pub(crate) struct KeepsTheOldEnd;

#[async_trait]
impl Twist for KeepsTheOldEnd {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        let options = match inner.ttl(key).await {
            Ok(TtlState::NoExpiry) if o.ttl.is_some_and(|ttl| !ttl.is_zero()) => o.with_ttl(None),
            Ok(TtlState::Remaining(left)) => o.with_ttl(Some(left)),
            _ => o,
        };
        inner.set(key, value, options).await
    }
}

/// Tells another time than what is left.
#[derive(Debug)]
pub(crate) struct Tells(pub(crate) fn(TtlState) -> TtlState);

#[async_trait]
impl Twist for Tells {
    async fn ttl(&self, inner: &MemoryBackend, key: &str) -> Result<TtlState, BackendError> {
        inner.ttl(key).await.map(self.0)
    }
}

pub(crate) fn milliseconds_as_seconds(state: TtlState) -> TtlState {
    match state {
        TtlState::Remaining(left) => TtlState::Remaining(left * 1_000),
        state => state,
    }
}

pub(crate) fn missing_as_endless(state: TtlState) -> TtlState {
    if state == TtlState::Missing { TtlState::NoExpiry } else { state }
}

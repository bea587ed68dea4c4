//! Times to live in memcached's units.
//!
//! The server counts in seconds of a clock that ticks once in a second: an entry for `n` lives for `n - 1` to `n` seconds,
//! depending on when in a second it came. One more is sent, so that none goes early.

use cachekit_core::{BackendError, ErrorKind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long past its time an entry may still be there: a second for the rounding, another for the tick.
pub(crate) const SLACK: Duration = Duration::from_secs(2);
pub(crate) const NEVER: u32 = 0;
/// A larger number is not a time to live but a moment, in seconds since 1970.
const MOST_RELATIVE: u64 = 30 * 86_400;
/// 2038-01-18. Moments are 32 bits with a sign: what ends after 2038-01-19 is acknowledged, and gone at once.
const LAST_MOMENT: u64 = 2_147_385_600;

/// What goes on the wire now. It changes with the time: never keep it.
pub(crate) fn wire(ttl: Option<Duration>) -> Result<u32, BackendError> {
    wire_at(ttl, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn wire_at(ttl: Option<Duration>, now: Duration) -> Result<u32, BackendError> {
    let Some(ttl) = ttl else { return Ok(NEVER) };
    if ttl.is_zero() {
        return Err(BackendError::new(ErrorKind::TtlInvalid, "the time to live is zero"));
    }
    let relative = whole_seconds(ttl).saturating_add(1);
    let end = now.checked_add(ttl).map_or(u64::MAX, |end| whole_seconds(end).saturating_add(1));
    let wire = match relative {
        _ if end >= LAST_MOMENT => NEVER.into(),
        0..=MOST_RELATIVE => relative,
        // By a clock that is still in 1970 the moment would be taken for a time.
        _ => end.max(MOST_RELATIVE),
    };
    Ok(u32::try_from(wire).unwrap_or(NEVER))
}

/// Rounded up.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_millis(1_800_000_000_300);
    const DAY: Duration = Duration::from_secs(86_400);

    fn of(ttl: Duration) -> u32 {
        wire_at(Some(ttl), NOW).unwrap()
    }

    #[test]
    fn seconds_round_up_and_one_is_added() {
        for (millis, wire) in [(1, 2), (300, 2), (1_000, 2), (1_001, 3), (1_700, 3), (60_000, 61)] {
            assert_eq!(of(Duration::from_millis(millis)), wire, "{millis} ms");
        }
        assert_eq!(of(Duration::from_nanos(1)), 2);
        assert_eq!(wire_at(None, NOW).unwrap(), NEVER);
        assert_eq!(wire_at(Some(Duration::ZERO), NOW).unwrap_err().kind(), ErrorKind::TtlInvalid);
    }

    #[test]
    fn more_than_thirty_days_is_a_moment() {
        assert_eq!(of(DAY * 30 - Duration::from_secs(1)), 2_592_000);
        // Rounded up from .3, and one more.
        assert_eq!(of(DAY * 30), 1_800_000_000 + 2_592_000 + 2);
        assert_eq!(of(DAY * 31), 1_800_000_000 + 2_678_400 + 2);
        assert!(u64::from(wire_at(Some(DAY * 31), Duration::ZERO).unwrap()) > MOST_RELATIVE);
    }

    #[test]
    fn what_ends_after_2038_never_ends() {
        let until_then = Duration::from_secs(LAST_MOMENT) - NOW;
        assert_eq!(u64::from(of(until_then - Duration::from_secs(2))), LAST_MOMENT - 1);
        for ttl in [until_then - Duration::from_secs(1), until_then, DAY * 365 * 20, Duration::MAX] {
            assert_eq!(of(ttl), NEVER, "{ttl:?}");
        }
        // An hour before the end of time as after it.
        assert_eq!(wire_at(Some(Duration::from_secs(5)), Duration::from_secs(LAST_MOMENT - 3)).unwrap(), NEVER);
    }
}

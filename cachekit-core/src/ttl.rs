//! How long an entry lives.

use crate::ErrorKind;
use crate::cache::Error;
use std::time::Duration;

/// How long an entry lives. Every method that takes one takes a [`Duration`] too.
///
/// ```
/// use cachekit_core::Ttl;
/// use std::time::Duration;
///
/// assert_eq!(Ttl::from(Duration::from_secs(60)), Ttl::For(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ttl {
    /// The cache's own, as its builder said.
    #[default]
    Default,
    /// This long. Zero is an error; a part of a millisecond counts as a whole one; what a clock cannot reach is for ever.
    For(Duration),
    /// Until it is deleted or evicted.
    Never,
}

impl From<Duration> for Ttl {
    fn from(duration: Duration) -> Self {
        Self::For(duration)
    }
}

/// A checked time to live: whole milliseconds, at least one; [`Lifetime::NEVER_ENDS`] is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lifetime(u64);

impl Lifetime {
    pub(crate) const NEVER_ENDS: Self = Self(u64::MAX);

    /// `None` stands for [`Ttl::Default`].
    pub(crate) fn parse(ttl: Ttl) -> Result<Option<Self>, Error> {
        match ttl {
            Ttl::Default => Ok(None),
            Ttl::Never => Ok(Some(Self::NEVER_ENDS)),
            Ttl::For(Duration::ZERO) => Err(Error::new(
                ErrorKind::TtlInvalid,
                "a time to live of zero: use `Ttl::Never` for ever, or do not store",
            )),
            Ttl::For(duration) => {
                let millis = duration.as_nanos().div_ceil(1_000_000);
                // Half the range leaves room to add the time of writing.
                Ok(Some(u64::try_from(millis).ok().filter(|ms| *ms < u64::MAX / 2).map_or(Self::NEVER_ENDS, Self)))
            }
        }
    }

    pub(crate) fn millis(self) -> u64 {
        self.0
    }

    pub(crate) fn never_ends(self) -> bool {
        self == Self::NEVER_ENDS
    }

    /// Longer or shorter by a factor; never nothing.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "rounded within the bounds that follow"
    )]
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self(((self.0 as f64 * factor).round() as u64).clamp(1, u64::MAX / 2))
    }

    /// As a backend takes it.
    pub(crate) fn duration(self) -> Option<Duration> {
        (!self.never_ends()).then(|| Duration::from_millis(self.0))
    }

    /// The wall time at which an entry written at `written_at` ends; `u64::MAX`: never.
    pub(crate) fn ends_at(self, written_at: u64) -> u64 {
        written_at.saturating_add(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(duration: Duration) -> u64 {
        Lifetime::parse(Ttl::For(duration)).unwrap().unwrap().millis()
    }

    #[test]
    fn zero_is_refused_and_never_means_for_ever() {
        assert_eq!(Lifetime::parse(Ttl::For(Duration::ZERO)).unwrap_err().kind(), ErrorKind::TtlInvalid);
    }

    #[test]
    fn a_part_of_a_millisecond_rounds_up() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(999)), 1);
        assert_eq!(millis(Duration::from_micros(1_001)), 2);
        assert_eq!(millis(Duration::from_millis(300)), 300);
    }

    #[test]
    fn what_no_clock_reaches_never_ends() {
        for duration in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_millis(u64::MAX / 2)] {
            assert!(Lifetime::parse(Ttl::For(duration)).unwrap().unwrap().never_ends());
        }
        assert_eq!(Lifetime::NEVER_ENDS.ends_at(1_760_000_000_000), u64::MAX);
        assert_eq!(Lifetime::NEVER_ENDS.duration(), None);
    }
}

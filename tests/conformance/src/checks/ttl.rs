//! Times to live: kept, not outlived, replaced, told.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure};
use crate::timing::{TOLERANCE, Written, sleep_until, too_slow, widening};
use cachekit_core::TtlState;
use std::time::{Duration, Instant};

/// Short enough for the check to be short, long enough for a read to fall into it.
const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(100);

pub(crate) async fn ttl_is_kept(subject: &Subject) -> Outcome {
    for (round, ttl) in widening(Duration::from_millis(250)).enumerate() {
        let key = subject.key(&format!("kept{round}"));
        let written = subject.set_for(&key, "value", ttl).await?;
        // A read in the first half would not notice a store that is a little early.
        if subject.lives(&key, written, ttl, ttl / 2, "an entry").await? {
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn ttl_is_not_outlived(subject: &Subject) -> Outcome {
    let unread = subject.key("unread");
    let unread_since = subject.set_for(&unread, "value", SHORT).await?;
    // Reads must not prolong it, nor make it an entry without an end.
    let mut was_read = false;
    for (round, ttl) in widening(SHORT).enumerate() {
        let read = subject.key(&format!("read{round}"));
        let read_since = subject.set_for(&read, "value", ttl).await?;
        while read_since.must_still_live(ttl) {
            subject.get(&read).await?;
            was_read |= read_since.must_still_live(ttl);
            tokio::time::sleep(ttl / 10).await;
        }
        subject.expires(&read, read_since, ttl, "an entry that was read meanwhile").await?;
        if was_read {
            break;
        }
    }
    subject.expires(&unread, unread_since, SHORT, "an entry that nobody read").await?;
    if was_read { Ok(()) } else { Err(too_slow()) }
}

pub(crate) async fn set_replaces_the_ttl(subject: &Subject) -> Outcome {
    let [shorter, longer, never, back] = ["shorter", "longer", "never", "back"].map(|name| subject.key(name));
    subject.set_for(&shorter, "old", LONG).await?;
    subject.set(&back, "old").await?;
    let longer_since = subject.set_for(&longer, "old", SHORT).await?;
    let never_since = subject.set_for(&never, "old", SHORT).await?;
    subject.set_for(&longer, "newer", LONG).await?;
    subject.set_for(&never, "newer", None).await?;
    let shorter_since = subject.set_for(&shorter, "newer", SHORT).await?;
    let back_since = subject.set_for(&back, "newer", SHORT).await?;

    subject.expires(&shorter, shorter_since, SHORT, "an entry that was set again for a shorter time").await?;
    subject.expires(&back, back_since, SHORT, "an entry without an end that was set again for a time").await?;
    sleep_until(subject.end_of(longer_since, SHORT).max(subject.end_of(never_since, SHORT))).await;
    subject.holds(&longer, b"newer", "an entry that was set again for a longer time").await?;
    subject.holds(&never, b"newer", "an entry that was set again without an end").await
}

pub(crate) async fn no_ttl_is_for_ever(subject: &Subject) -> Outcome {
    let key = subject.key("for-ever");
    let written = subject.set(&key, "value").await?;
    // For ever cannot be waited for. A store that adds a default of its own often takes a short one in tests; one that
    // can tell says more below.
    sleep_until(written.after + Duration::from_millis(1_500)).await;
    subject.holds(&key, b"value", "an entry without a time to live, 1.5 s later").await?;
    if subject.capabilities().ttl() {
        let left = answered("ttl", subject.backend().ttl(&key)).await?;
        ensure(left == TtlState::NoExpiry, || {
            format!("`ttl` of an entry without a time to live has to be NoExpiry, and was {left:?}")
        })?;
    }
    Ok(())
}

pub(crate) async fn expired_entry_is_not_deleted(subject: &Subject) -> Outcome {
    let key = subject.key("expired");
    let written = subject.set_for(&key, "value", SHORT).await?;
    // Not read before: a read may remove what has expired, and it is the delete that has to notice.
    sleep_until(subject.end_of(written, SHORT)).await;
    ensure(!subject.delete(&key).await?, || {
        "`delete` of an entry whose time to live and slack have passed has to give false, and gave true".to_owned()
    })
}

pub(crate) async fn ttl_reports_what_is_left(subject: &Subject) -> Outcome {
    if !subject.capabilities().ttl() {
        return Ok(());
    }
    let [missing, brief, short, long, endless] =
        ["missing", "brief", "short", "long", "endless"].map(|name| subject.key(name));
    let ttl = async |key: &str| answered("ttl", subject.backend().ttl(key)).await;

    let left = ttl(&missing).await?;
    ensure(left == TtlState::Missing, || format!("`ttl` of a missing key has to be Missing, and was {left:?}"))?;
    subject.set(&endless, "value").await?;
    let left = ttl(&endless).await?;
    ensure(left == TtlState::NoExpiry, || {
        format!("`ttl` of an entry without an end has to be NoExpiry, and was {left:?}")
    })?;

    let brief_since = subject.set_for(&brief, "value", SHORT).await?;
    for (key, asked) in [(&short, Duration::from_secs(10)), (&long, Duration::from_secs(10_000))] {
        let written = subject.set_for(key, "value", asked).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        says_what_is_left(subject, written, asked, ttl(key).await?)?;
    }
    sleep_until(subject.end_of(brief_since, SHORT)).await;
    let left = ttl(&brief).await?;
    ensure(left == TtlState::Missing, || format!("`ttl` of an expired entry has to be Missing, and was {left:?}"))
}

/// `left` was answered just now.
fn says_what_is_left(subject: &Subject, written: Written, asked: Duration, left: TtlState) -> Outcome {
    let slack = subject.capabilities().ttl_slack();
    let TtlState::Remaining(left) = left else {
        return Err(Failure::backend(format!("`ttl` of an entry for {asked:?} has to be Remaining, and was {left:?}")));
    };
    let age = Instant::now() - written.before;
    // A store rounds to its own unit: a millisecond, or what its slack allows.
    let most = asked + slack + Duration::from_millis(1);
    let least = asked.saturating_sub(age + slack + TOLERANCE + Duration::from_millis(1));
    ensure((least..=most).contains(&left), || {
        format!(
            "`ttl` of an entry for {asked:?}, {age:?} after it was sent, has to be within {least:?} and {most:?}, and \
             was {left:?}"
        )
    })
}

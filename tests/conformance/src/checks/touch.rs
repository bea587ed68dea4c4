//! `touch`: a new time to live for the same value.

use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure, refused};
use crate::timing::{Written, sleep_until, too_slow, widening};
use cachekit_core::ErrorKind;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(100);

pub(crate) async fn touch_changes_the_ttl_only(subject: &Subject) -> Outcome {
    if !subject.capabilities().touch() {
        return Ok(());
    }
    tokio::try_join!(
        touch_prolongs(subject),
        touch_shortens(subject),
        touch_rounds_up(subject),
        touch_finds_what_is_there(subject)
    )?;
    Ok(())
}

async fn touch(subject: &Subject, key: &str, ttl: Option<Duration>) -> Result<bool, crate::Failure> {
    answered(&format!("touch for {ttl:?}"), subject.backend().touch(key, ttl)).await
}

async fn touch_prolongs(subject: &Subject) -> Outcome {
    for (round, ttl) in widening(Duration::from_millis(200)).enumerate() {
        let [longer, never, huge] = ["longer", "never", "huge"].map(|name| subject.key(&format!("{name}{round}")));
        let mut last = None;
        let mut in_time = true;
        for (key, new) in [(&longer, Some(LONG)), (&never, None), (&huge, Some(Duration::MAX))] {
            let written = subject.set_for(key, "value", ttl).await?;
            let found = touch(subject, key, new).await?;
            in_time &= written.must_still_live(ttl);
            ensure(found || !in_time, || "`touch` of a live entry has to give true, and gave false".to_owned())?;
            last = Some(written);
        }
        let (Some(written), true) = (last, in_time) else { continue };
        sleep_until(subject.end_of(written, ttl)).await;
        subject.holds(&longer, b"value", "an entry that `touch` gave a longer time").await?;
        subject.holds(&never, b"value", "an entry that `touch` gave no end").await?;
        return subject.holds(&huge, b"value", "an entry that `touch` gave the longest time").await;
    }
    Err(too_slow())
}

async fn touch_shortens(subject: &Subject) -> Outcome {
    const SHORT: Duration = Duration::from_millis(100);
    let key = subject.key("shorter");
    subject.set_for(&key, "value", LONG).await?;
    let before = Instant::now();
    ensure(touch(subject, &key, Some(SHORT)).await?, || "`touch` of a live entry has to give true".to_owned())?;
    let touched = Written { before, after: Instant::now() };
    subject.expires(&key, touched, SHORT, "an entry that `touch` gave a shorter time").await
}

/// As in `set`, less than a millisecond counts as one.
async fn touch_rounds_up(subject: &Subject) -> Outcome {
    for ttl in [Duration::from_nanos(1), Duration::from_micros(999)] {
        let key = subject.key(&format!("tiny{ttl:?}"));
        subject.set_for(&key, "value", LONG).await?;
        let before = Instant::now();
        ensure(touch(subject, &key, Some(ttl)).await?, || "`touch` of a live entry has to give true".to_owned())?;
        let touched = Written { before, after: Instant::now() };
        let which = format!("an entry that `touch` gave {ttl:?}, which counts as a millisecond,");
        subject.expires(&key, touched, Duration::from_millis(1), &which).await?;
    }
    Ok(())
}

async fn touch_finds_what_is_there(subject: &Subject) -> Outcome {
    let (missing, held) = (subject.key("missing"), subject.key("held"));
    ensure(!touch(subject, &missing, Some(LONG)).await?, || "`touch` of a missing key has to give false".to_owned())?;
    subject.finds_nothing(&missing, "a missing key that was touched").await?;

    subject.set(&held, "value").await?;
    let zero = subject.backend().touch(&held, Some(Duration::ZERO)).await;
    refused(zero, ErrorKind::TtlInvalid, "`touch` with a time to live of zero")?;
    ensure(touch(subject, &held, Some(LONG)).await?, || "`touch` of a live entry has to give true".to_owned())?;
    subject.holds(&held, b"value", "an entry that was touched").await
}

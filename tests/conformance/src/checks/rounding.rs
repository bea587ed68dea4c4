//! Times to live at the edges of what a store can express.

use crate::check::Outcome;
use crate::subject::{Subject, refused};
use crate::timing::{TOLERANCE, sleep_until, too_slow, widening};
use bytes::Bytes;
use cachekit_core::{ErrorKind, SetOptions};
use std::time::{Duration, Instant};

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) async fn zero_ttl_is_refused(subject: &Subject) -> Outcome {
    let (held, new) = (subject.key("held"), subject.key("new"));
    subject.set(&held, "before").await?;
    let zero = SetOptions::default().with_ttl(Some(Duration::ZERO));
    for key in [&held, &new] {
        let set = subject.backend().set(key, Bytes::from_static(b"after"), zero).await;
        refused(set, ErrorKind::TtlInvalid, "`set` with a time to live of zero")?;
    }
    subject.holds(&held, b"before", "an entry after a `set` for no time was refused").await?;
    subject.misses(&new, "a key after a `set` for no time was refused").await
}

pub(crate) async fn sub_millisecond_ttl_rounds_up(subject: &Subject) -> Outcome {
    let part = part_of_a_unit_is_kept(subject);
    let tiny = tiny_ttl_counts_as_one_millisecond(subject);
    tokio::try_join!(part, tiny).map(|_| ())
}

async fn tiny_ttl_counts_as_one_millisecond(subject: &Subject) -> Outcome {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let mut written = Vec::new();
    for ttl in [Duration::from_nanos(1), Duration::from_micros(10), Duration::from_micros(999)] {
        let key = subject.key(&format!("tiny{ttl:?}"));
        // Only a store that answers within the millisecond shows whether it kept the entry; others show the rest.
        for _ in 0..20 {
            let since = subject.set_for(&key, "value", ttl).await?;
            let found = subject.get(&key).await?;
            if since.before.elapsed() < MILLISECOND {
                crate::subject::ensure(found.is_some(), || {
                    format!("an entry for {ttl:?} counts as one for a millisecond, and was gone before that")
                })?;
                break;
            }
        }
        written.push((key.clone(), subject.set_for(&key, "value", ttl).await?, ttl));
    }
    for (key, since, ttl) in written {
        subject
            .expires(&key, since, MILLISECOND, &format!("an entry for {ttl:?}, which counts as a millisecond,"))
            .await?;
    }
    Ok(())
}

/// A store that counts in seconds must not make 1.7 of them one.
async fn part_of_a_unit_is_kept(subject: &Subject) -> Outcome {
    for (round, whole) in widening(Duration::from_secs(1)).enumerate().take(3) {
        let ttl = whole + Duration::from_micros(700_500);
        let key = subject.key(&format!("part{round}"));
        let written = subject.set_for(&key, "value", ttl).await?;
        if subject.lives(&key, written, ttl, whole + TOLERANCE, "an entry").await? {
            return Ok(());
        }
    }
    Err(too_slow())
}

pub(crate) async fn huge_ttl_is_for_ever(subject: &Subject) -> Outcome {
    let times = [
        // Beyond 2038 and 2106, where seconds no longer fit 31 or 32 bits.
        DAY * 365 * 30,
        DAY * 365 * 100,
        Duration::from_secs(i32::MAX as u64),
        Duration::from_secs(u64::from(u32::MAX)),
        Duration::from_millis(i64::MAX as u64),
        Duration::from_millis(u64::MAX),
        Duration::from_secs(i64::MAX as u64),
        Duration::MAX,
    ];
    let mut written = Vec::new();
    for (number, ttl) in times.into_iter().enumerate() {
        let key = subject.key(&format!("huge{number}"));
        subject.set_for(&key, "value", ttl).await?;
        subject.holds(&key, b"value", &format!("an entry for {ttl:?} that was just set")).await?;
        written.push((key, ttl));
    }
    // A deadline in the past is noticed by some stores only when their clock ticks.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for (key, ttl) in written {
        subject.holds(&key, b"value", &format!("an entry for {ttl:?}, a second later")).await?;
    }
    Ok(())
}

pub(crate) async fn ttl_units(subject: &Subject) -> Outcome {
    const TENTH: Duration = Duration::from_millis(100);
    let longer = [Duration::from_secs(10), Duration::from_secs(100), Duration::from_secs(1_000), DAY, DAY * 31];
    let mut there = Vec::new();
    for ttl in longer {
        let key = subject.key(&format!("{ttl:?}"));
        subject.set_for(&key, "value", ttl).await?;
        there.push((key, ttl));
    }
    let tenth = subject.key("tenth");
    let tenth_since = subject.set_for(&tenth, "value", TENTH).await?;

    let start = Instant::now();
    subject.expires(&tenth, tenth_since, TENTH, "an entry").await?;
    // Seconds that were taken for milliseconds are over by now: 1,000 s would be one.
    sleep_until(start + Duration::from_millis(1_100)).await;
    for (key, ttl) in there {
        subject.holds(&key, b"value", &format!("an entry for {ttl:?}, little more than a second later")).await?;
    }
    Ok(())
}

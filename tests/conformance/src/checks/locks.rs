//! Locks, where the backend has them.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure, refused};
use crate::timing::{Written, sleep_until, too_slow, widening};
use cachekit_core::{ErrorKind, LockToken};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;

const LONG: Duration = Duration::from_secs(30);

fn has_locks(subject: &Subject) -> bool {
    subject.capabilities().lock().is_some()
}

/// The shortest lock, and long enough to be seen.
fn short(subject: &Subject) -> Duration {
    subject.capabilities().min_lock_ttl().max(Duration::from_millis(100))
}

async fn try_lock(subject: &Subject, key: &str, ttl: Duration) -> Result<Option<LockToken>, Failure> {
    answered("try_lock", subject.backend().try_lock(key, ttl)).await
}

async fn lock(subject: &Subject, key: &str, ttl: Duration) -> Result<LockToken, Failure> {
    try_lock(subject, key, ttl)
        .await?
        .ok_or_else(|| Failure::backend("`try_lock` of a key that nobody holds has to give a token, and gave None"))
}

async fn is_held(subject: &Subject, key: &str, ttl: Duration, which: &str) -> Outcome {
    let taken = try_lock(subject, key, ttl).await?;
    ensure(taken.is_none(), || format!("`try_lock` of {which} has to give None, and gave a token"))
}

async fn unlock(subject: &Subject, token: &LockToken) -> Result<bool, Failure> {
    answered("unlock", subject.backend().unlock(token)).await
}

async fn extend(subject: &Subject, token: &LockToken, ttl: Duration) -> Result<bool, Failure> {
    answered("extend", subject.backend().extend(token, ttl)).await
}

/// Takes a lock once it has ended by itself; it fails when it does not end.
async fn lock_after_the_end(subject: &Subject, key: &str, taken: Written, ttl: Duration) -> Result<LockToken, Failure> {
    sleep_until(taken.after + ttl).await;
    let end = subject.end_of(taken, ttl);
    loop {
        let asked = Instant::now();
        if let Some(token) = try_lock(subject, key, LONG).await? {
            return Ok(token);
        }
        if asked > end {
            let age = asked - taken.after;
            let text = format!("a lock for {ttl:?} has to end by itself, and was still held after {age:?}");
            return Err(Failure::backend(text));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn lock_excludes_others(subject: &Subject) -> Outcome {
    if !has_locks(subject) {
        return Ok(());
    }
    tokio::try_join!(one_of_many_gets_it(subject), it_is_held_to_its_end(subject), it_is_held_for_long(subject))?;
    Ok(())
}

async fn one_of_many_gets_it(subject: &Subject) -> Outcome {
    let (key, other) = (subject.key("locked"), subject.key("other"));
    let token = lock(subject, &key, LONG).await?;
    is_held(subject, &key, LONG, "a lock that was just taken").await?;
    ensure(token.key() == key, || format!("the token has to name its key {key:?}, and names {:?}", token.key()))?;
    let elsewhere = lock(subject, &other, LONG).await?;

    let free = subject.key("race");
    let together = Arc::new(Barrier::new(8));
    let racers: Vec<_> = (0..8)
        .map(|_| {
            let (backend, key, together) = (Arc::clone(subject.backend()), free.clone(), Arc::clone(&together));
            tokio::spawn(async move {
                together.wait().await;
                backend.try_lock(&key, LONG).await
            })
        })
        .collect();
    let mut winners = Vec::new();
    for racer in racers {
        let taken = racer.await.map_err(|error| Failure::backend(format!("`try_lock` in a task: {error}")))?;
        winners.extend(answered("try_lock", async { taken }).await?);
    }
    ensure(winners.len() == 1, || format!("one of 8 tasks has to get a free lock, and {} did", winners.len()))?;
    for token in winners.iter().chain([&token, &elsewhere]) {
        unlock(subject, token).await?;
    }
    Ok(())
}

/// A lock whose holder did not let go of it is held until its time has passed.
async fn it_is_held_to_its_end(subject: &Subject) -> Outcome {
    for (round, ttl) in widening(short(subject).max(Duration::from_millis(250))).enumerate() {
        let key = subject.key(&format!("to-its-end{round}"));
        let before = Instant::now();
        let token = lock(subject, &key, ttl).await?;
        let taken = Written { before, after: Instant::now() };
        let mut late_enough = false;
        loop {
            let second = try_lock(subject, &key, LONG).await?;
            let age = before.elapsed();
            if !taken.must_still_live(ttl) {
                unlock(subject, second.as_ref().unwrap_or(&token)).await?;
                break;
            }
            ensure(second.is_none(), || {
                format!("a lock for {ttl:?} was given to somebody else {age:?} after it was asked for")
            })?;
            late_enough |= age > ttl / 2;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if late_enough {
            return Ok(());
        }
    }
    Err(too_slow())
}

/// Its end cannot be waited for; one that is cut to a short time often ends by now.
async fn it_is_held_for_long(subject: &Subject) -> Outcome {
    let key = subject.key("for-long");
    let before = Instant::now();
    let token = lock(subject, &key, LONG).await?;
    sleep_until(before + Duration::from_millis(1_500)).await;
    is_held(subject, &key, LONG, "a lock for 30 s, 1.5 s later,").await?;
    unlock(subject, &token).await.map(|_| ())
}

pub(crate) async fn lock_expires(subject: &Subject) -> Outcome {
    if !has_locks(subject) {
        return Ok(());
    }
    let (key, ttl) = (subject.key("expires"), short(subject));
    let before = Instant::now();
    lock(subject, &key, ttl).await?;
    let taken = Written { before, after: Instant::now() };
    let token = lock_after_the_end(subject, &key, taken, ttl).await?;
    unlock(subject, &token).await.map(|_| ())
}

pub(crate) async fn lock_leaves_the_entry_alone(subject: &Subject) -> Outcome {
    if !has_locks(subject) {
        return Ok(());
    }
    let (key, bare) = (subject.key("both"), subject.key("bare"));
    subject.set(&key, "value").await?;
    let token = lock(subject, &key, LONG).await?;
    subject.holds(&key, b"value", "an entry whose key is locked").await?;
    subject.set(&key, "a newer one").await?;
    is_held(subject, &key, LONG, "a lock whose entry was set").await?;
    subject.delete(&key).await?;
    is_held(subject, &key, LONG, "a lock whose entry was deleted").await?;
    subject.set(&key, "newest").await?;
    unlock(subject, &token).await?;
    subject.holds(&key, b"newest", "an entry whose key was unlocked").await?;

    let token = lock(subject, &bare, LONG).await?;
    subject.finds_nothing(&bare, "a key that is locked and was never set").await?;
    unlock(subject, &token).await.map(|_| ())
}

pub(crate) async fn lock_fences_grow(subject: &Subject) -> Outcome {
    if !has_locks(subject) {
        return Ok(());
    }
    let key = subject.key("fenced");
    let mut last = None;
    for _ in 0..5 {
        let token = lock(subject, &key, LONG).await?;
        // None at all is fine: not every store can promise them.
        if let Some(fence) = token.fence() {
            ensure(last.is_none_or(|last| fence > last), || {
                format!("a fence has to be larger than the one before, and {fence} follows {last:?}")
            })?;
            last = Some(fence);
        }
        unlock(subject, &token).await?;
    }
    Ok(())
}

pub(crate) async fn short_lock_is_refused(subject: &Subject) -> Outcome {
    if !has_locks(subject) {
        return Ok(());
    }
    let shortest = subject.capabilities().min_lock_ttl();
    let key = subject.key("short");
    let almost = shortest.saturating_sub(Duration::from_millis(1));
    let times = [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1), shortest / 2, almost];
    for too_short in times.into_iter().filter(|ttl| *ttl < shortest) {
        let taken = subject.backend().try_lock(&key, too_short).await;
        refused(taken, ErrorKind::TtlInvalid, &format!("`try_lock` for {too_short:?}, less than `min_lock_ttl`,"))?;
    }
    lock(subject, &key, shortest.max(Duration::from_millis(1))).await.map(|_| ())
}

pub(crate) async fn lock_is_extended_by_its_owner_only(subject: &Subject) -> Outcome {
    if !has_locks(subject) {
        return Ok(());
    }
    let stranger = LockToken::new(subject.key("held"), "not the secret", None);
    let token = lock(subject, stranger.key(), LONG).await?;
    ensure(!extend(subject, &stranger, LONG).await?, || {
        "`extend` with a token that does not hold the lock has to give false, and gave true".to_owned()
    })?;
    unlock(subject, &token).await?;
    ensure(!extend(subject, &token, LONG).await?, || {
        "`extend` of a lock that was released has to give false, and gave true".to_owned()
    })?;
    tokio::try_join!(extended_lock_is_held_longer(subject), lock_is_extended_to_a_shorter_time(subject))?;
    Ok(())
}

/// The new time is from now, whatever was left of the old one.
async fn lock_is_extended_to_a_shorter_time(subject: &Subject) -> Outcome {
    let (key, ttl) = (subject.key("shortened"), short(subject));
    let token = lock(subject, &key, LONG).await?;
    let before = Instant::now();
    ensure(extend(subject, &token, ttl).await?, || {
        "`extend` of a lock that is held has to give true, and gave false".to_owned()
    })?;
    let extended = Written { before, after: Instant::now() };
    let token = lock_after_the_end(subject, &key, extended, ttl).await?;
    unlock(subject, &token).await.map(|_| ())
}

async fn extended_lock_is_held_longer(subject: &Subject) -> Outcome {
    for (round, ttl) in widening(short(subject)).enumerate() {
        let key = subject.key(&format!("extended{round}"));
        let before = Instant::now();
        let token = lock(subject, &key, ttl).await?;
        let taken = Written { before, after: Instant::now() };
        let extended = extend(subject, &token, LONG).await?;
        if !taken.must_still_live(ttl) {
            continue;
        }
        ensure(extended, || "`extend` of a lock that is held has to give true, and gave false".to_owned())?;
        sleep_until(subject.end_of(taken, ttl)).await;
        is_held(subject, &key, LONG, "a lock that was extended").await?;
        return unlock(subject, &token).await.map(|_| ());
    }
    Err(too_slow())
}

pub(crate) async fn lock_is_released_by_its_owner_only(subject: &Subject) -> Outcome {
    if !has_locks(subject) {
        return Ok(());
    }
    let key = subject.key("released");
    let stranger = LockToken::new(&*key, "not the secret", None);
    let says = |expected: bool, found: bool, which: &str| {
        ensure(expected == found, || format!("`unlock` {which} has to give {expected}, and gave {found}"))
    };
    let first = lock(subject, &key, LONG).await?;
    says(false, unlock(subject, &stranger).await?, "with a token that does not hold the lock")?;
    is_held(subject, &key, LONG, "a lock that a stranger tried to release").await?;
    says(true, unlock(subject, &first).await?, "by its owner")?;
    says(false, unlock(subject, &first).await?, "of a lock that was released")?;

    // The classic: a holder that was late releases the lock of whoever came after it.
    let second = lock(subject, &key, LONG).await?;
    says(false, unlock(subject, &first).await?, "with the token of an earlier holder")?;
    is_held(subject, &key, LONG, "a lock that its earlier holder tried to release").await?;
    says(true, unlock(subject, &second).await?, "by its owner")
}

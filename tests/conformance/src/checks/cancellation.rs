//! Calls that are dropped in the middle.

use crate::Failure;
use crate::abandon::abandon_after;
use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure};
use bytes::Bytes;
use cachekit_core::{Message, SetOptions};
use std::time::{Duration, Instant};

pub(crate) async fn cancellation_leaves_no_trace(subject: &Subject) -> Outcome {
    let (key, other) = (subject.key("dropped"), subject.key("other"));
    let backend = subject.backend();
    for polls in 1..=4 {
        subject.set(&key, "old").await?;
        subject.set(&other, "other".repeat(polls)).await?;

        abandon_after(polls, backend.get(&key)).await;
        works(subject, &other, polls, "get").await?;
        subject.holds(&key, b"old", "a key whose `get` was dropped").await?;

        abandon_after(polls, backend.exists(&key)).await;
        works(subject, &other, polls, "exists").await?;

        abandon_after(polls, backend.get_many(&[&key, &key, &key])).await;
        works(subject, &other, polls, "get_many").await?;

        abandon_after(polls, backend.set(&key, "newer".into(), SetOptions::default())).await;
        works(subject, &other, polls, "set").await?;
        is_one_of(subject, &key, &[Some("old"), Some("newer")], "set").await?;

        abandon_after(polls, backend.delete(&key)).await;
        works(subject, &other, polls, "delete").await?;
        is_one_of(subject, &key, &[Some("old"), Some("newer"), None], "delete").await?;

        abandon_after(polls, backend.health()).await;
        works(subject, &other, polls, "health").await?;

        batches_are_dropped(subject, &other, polls).await?;
        entries_are_touched_and_cleared(subject, &other, polls).await?;
        locks_are_kept_and_released(subject, &other, polls).await?;
    }
    messages_go_on(subject, &other).await?;
    lock_is_not_held_for_ever(subject).await
}

/// Another key's answers are its own: none is left over from the call that was dropped.
async fn works(subject: &Subject, other: &str, polls: usize, dropped: &str) -> Outcome {
    let which = format!("another key, after `{dropped}` was dropped at its await point number {polls}");
    let value = "other".repeat(polls);
    for _ in 0..3 {
        subject.holds(other, value.as_bytes(), &which).await?;
    }
    subject.set(other, value.clone()).await?;
    subject.holds(other, value.as_bytes(), &which).await
}

async fn is_one_of(subject: &Subject, key: &str, allowed: &[Option<&str>], dropped: &str) -> Outcome {
    let found = subject.get(key).await?;
    ensure(allowed.iter().any(|value| value.map(str::as_bytes) == found.as_deref()), || {
        format!("a `{dropped}` that was dropped happened or did not ({allowed:?}), and the key holds {found:?}")
    })
}

const LONG: Duration = Duration::from_secs(100);

/// Keys of its own in every round: what was dropped may still happen.
async fn batches_are_dropped(subject: &Subject, other: &str, polls: usize) -> Outcome {
    let backend = subject.backend();
    let keys = subject.many(3, &format!("batch{polls}:")).await?;
    let slices: Vec<&str> = keys.iter().map(String::as_str).collect();
    let entries: Vec<_> = slices.iter().map(|key| (*key, Bytes::from_static(b"newer"))).collect();
    abandon_after(polls, backend.set_many(&entries, SetOptions::default())).await;
    works(subject, other, polls, "set_many").await?;
    for (number, key) in keys.iter().enumerate() {
        let old = format!("value {number}");
        is_one_of(subject, key, &[Some(&old), Some("newer")], "set_many").await?;
    }
    abandon_after(polls, backend.delete_many(&slices)).await;
    works(subject, other, polls, "delete_many").await?;
    for (number, key) in keys.iter().enumerate() {
        let old = format!("value {number}");
        is_one_of(subject, key, &[Some(&old), Some("newer"), None], "delete_many").await?;
    }
    Ok(())
}

async fn entries_are_touched_and_cleared(subject: &Subject, other: &str, polls: usize) -> Outcome {
    let (backend, capabilities) = (subject.backend(), subject.capabilities());
    let (key, prefix) = (subject.key(&format!("prefix{polls}:1")), subject.key(&format!("prefix{polls}:")));
    subject.set(&key, "value").await?;
    if capabilities.ttl() {
        abandon_after(polls, backend.ttl(&key)).await;
        works(subject, other, polls, "ttl").await?;
        subject.holds(&key, b"value", "a key whose `ttl` was dropped").await?;
    }
    if capabilities.touch() {
        abandon_after(polls, backend.touch(&key, Some(LONG))).await;
        works(subject, other, polls, "touch").await?;
        subject.holds(&key, b"value", "a key whose `touch` was dropped").await?;
    }
    if capabilities.clear() {
        abandon_after(polls, backend.clear(&prefix)).await;
        works(subject, other, polls, "clear").await?;
        is_one_of(subject, &key, &[Some("value"), None], "clear").await?;
    }
    Ok(())
}

async fn locks_are_kept_and_released(subject: &Subject, other: &str, polls: usize) -> Outcome {
    if subject.capabilities().lock().is_none() {
        return Ok(());
    }
    let backend = subject.backend();
    let key = subject.key(&format!("lock{polls}"));
    let try_lock = async || answered("try_lock", backend.try_lock(&key, LONG)).await;
    let Some(token) = try_lock().await? else {
        return Err(Failure::backend("`try_lock` of a key that nobody holds has to give a token, and gave None"));
    };
    abandon_after(polls, backend.extend(&token, LONG)).await;
    works(subject, other, polls, "extend").await?;
    ensure(try_lock().await?.is_none(), || "a lock whose `extend` was dropped was given to somebody else".to_owned())?;

    abandon_after(polls, backend.unlock(&token)).await;
    works(subject, other, polls, "unlock").await?;
    // It happened or did not: afterwards it has, in any case.
    answered("unlock", backend.unlock(&token)).await?;
    let Some(next) = try_lock().await? else {
        return Err(Failure::backend("a lock that was released after an `unlock` was dropped is still held"));
    };
    answered("unlock", backend.unlock(&next)).await.map(|_| ())
}

async fn messages_go_on(subject: &Subject, other: &str) -> Outcome {
    const DROPPED: &[u8] = b"dropped";
    if !subject.capabilities().publish() {
        return Ok(());
    }
    let backend = subject.backend();
    let channel = subject.key("channel");
    let mut subscription = answered("subscribe", backend.subscribe(&channel)).await?;
    for polls in 1..=4 {
        abandon_after(polls, backend.publish(&channel, Bytes::from_static(DROPPED))).await;
        works(subject, other, 4, "publish").await?;
        let after = Bytes::from(format!("after {polls}"));
        answered("publish", backend.publish(&channel, after.clone())).await?;
        loop {
            match answered("next, after a `publish` was dropped,", subscription.next()).await? {
                Message::Payload(payload) if payload == after => break,
                Message::Payload(payload) if payload == DROPPED => {}
                // A connection may have gone with the call, and the message with it.
                Message::Lost => answered("publish", backend.publish(&channel, after.clone())).await?,
                message => {
                    let text = format!("after a `publish` was dropped {after:?} has to come, and {message:?} did");
                    return Err(Failure::backend(text));
                }
            }
        }
    }
    Ok(())
}

async fn lock_is_not_held_for_ever(subject: &Subject) -> Outcome {
    let capabilities = subject.capabilities();
    if capabilities.lock().is_none() {
        return Ok(());
    }
    let key = subject.key("locked");
    let ttl = capabilities.min_lock_ttl();
    if abandon_after(1, subject.backend().try_lock(&key, ttl)).await.is_some() {
        // Not dropped in the middle: this backend's locks have no await point.
        return Ok(());
    }
    let end = Instant::now() + ttl + capabilities.ttl_slack() + Duration::from_secs(1);
    loop {
        let asked = Instant::now();
        if let Some(token) = answered("try_lock", subject.backend().try_lock(&key, ttl)).await? {
            return answered("unlock", subject.backend().unlock(&token)).await.map(|_| ());
        }
        if asked > end {
            let text =
                format!("a lock for {ttl:?} whose `try_lock` was dropped has to end by itself, and is still held");
            return Err(Failure::backend(text));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

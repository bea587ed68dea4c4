//! Calls that are dropped in the middle.

use crate::Failure;
use crate::abandon::abandon_after;
use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure};
use cachekit_core::SetOptions;
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
    }
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

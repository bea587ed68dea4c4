//! What a map does: set, get, overwrite, delete.

use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure, in_time};
use crate::timing::sleep_until;
use std::time::Duration;

pub(crate) async fn missing_key_is_none(subject: &Subject) -> Outcome {
    for name in ["missing", "missing too"] {
        subject.misses(&subject.key(name), "a key that was never set").await?;
    }
    Ok(())
}

pub(crate) async fn set_then_get(subject: &Subject) -> Outcome {
    // Enough to overflow a small shard or a write buffer, and few enough for a store across a network.
    let keys: Vec<String> = (0..500).map(|number| subject.key(&format!("{number}"))).collect();
    for (number, key) in keys.iter().enumerate() {
        subject.set(key, format!("value {number}")).await?;
        subject.holds(key, format!("value {number}").as_bytes(), "a key that was just set").await?;
    }
    for (number, key) in keys.iter().enumerate() {
        let which = "one of 500 small entries that were all acknowledged";
        subject.holds(key, format!("value {number}").as_bytes(), which).await?;
    }
    Ok(())
}

pub(crate) async fn set_overwrites(subject: &Subject) -> Outcome {
    let key = subject.key("overwritten");
    for value in ["one", "two", "a much longer value than the one before it", "short", "other"] {
        subject.set(&key, value).await?;
        subject.holds(&key, value.as_bytes(), "a key that was set again").await?;
    }
    Ok(())
}

pub(crate) async fn delete_reports_what_was_there(subject: &Subject) -> Outcome {
    let key = subject.key("deleted");
    let says = |expected: bool, found: bool, which: &str| {
        ensure(expected == found, || format!("`delete` of {which} has to give {expected}, and gave {found}"))
    };
    says(false, subject.delete(&key).await?, "a key that was never set")?;
    subject.set(&key, "value").await?;
    says(true, subject.delete(&key).await?, "an entry")?;
    says(false, subject.delete(&key).await?, "a key that was deleted just now")?;
    subject.set(&key, "").await?;
    says(true, subject.delete(&key).await?, "an entry with an empty value")
}

pub(crate) async fn delete_removes(subject: &Subject) -> Outcome {
    let (key, other) = (subject.key("deleted"), subject.key("other"));
    subject.set(&key, "value").await?;
    subject.set(&other, "other").await?;
    subject.delete(&key).await?;
    subject.misses(&key, "a key that was deleted").await?;
    subject.holds(&other, b"other", "the neighbour of a key that was deleted").await?;
    subject.set(&key, "again").await?;
    subject.holds(&key, b"again", "a key that was set after it was deleted").await
}

pub(crate) async fn exists_agrees_with_get(subject: &Subject) -> Outcome {
    const TTL: Duration = Duration::from_millis(100);
    let (key, empty, brief) = (subject.key("key"), subject.key("empty"), subject.key("brief"));
    agree(subject, &key, "a key that was never set").await?;
    let written = subject.set_for(&brief, "value", TTL).await?;
    subject.set(&key, "value").await?;
    subject.set(&empty, "").await?;
    agree(subject, &key, "an entry").await?;
    agree(subject, &empty, "an entry with an empty value").await?;
    subject.delete(&key).await?;
    agree(subject, &key, "a key that was deleted").await?;
    sleep_until(subject.end_of(written, TTL)).await;
    agree(subject, &brief, "an entry whose time to live and slack have passed").await
}

/// Asks `exists` first: a `get` may remove what has expired.
async fn agree(subject: &Subject, key: &str, which: &str) -> Outcome {
    let exists = answered("exists", subject.backend().exists(key)).await?;
    let found = matches!(in_time("get", subject.backend().get(key)).await?, Ok(Some(_)));
    ensure(exists == found, || {
        format!("`exists` of {which} was {exists}, and `get` {}", if found { "finds it" } else { "misses" })
    })
}

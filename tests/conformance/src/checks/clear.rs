//! `clear`: the prefix, the whole prefix and nothing but the prefix.

use crate::check::Outcome;
use crate::subject::{Subject, a_few_at_once, answered, refused};
use cachekit_core::ErrorKind;

const MANY: usize = 1_100;

async fn clear(subject: &Subject, prefix: &str) -> Outcome {
    answered(&format!("clear of {prefix:?}"), subject.backend().clear(prefix)).await
}

pub(crate) async fn clear_removes_the_prefix_only(subject: &Subject) -> Outcome {
    if !subject.capabilities().clear() {
        return Ok(());
    }
    let prefix = format!("{}:p:", subject.namespace());
    // More than a store's scan brings in one page, or takes in one command.
    let inside = subject.many(MANY, "p:").await?;
    let outside = [
        subject.key("p"),
        subject.key("P:1"),
        subject.key("q:1"),
        subject.key("pp:1"),
        subject.own(format!("in the middle {prefix}1")),
        subject.own(subject.namespace().to_owned()),
    ];
    let exact = subject.own(prefix.clone());
    for key in outside.iter().chain([&exact]) {
        subject.set(key, "value").await?;
    }
    clear(subject, &prefix).await?;
    subject.misses(&exact, "the key that is the prefix itself, after `clear`").await?;
    let misses = inside.iter().map(|key| subject.misses(key, "a key with the prefix, after `clear`"));
    a_few_at_once(misses.collect()).await?;
    for key in &outside {
        subject.holds(key, b"value", &format!("{key:?}, after `clear` of {prefix:?}")).await?;
    }
    clear(subject, &prefix).await?;
    subject.set(&inside[0], "again").await?;
    subject.holds(&inside[0], b"again", "a key that was set after `clear`").await
}

pub(crate) async fn clear_takes_the_prefix_literally(subject: &Subject) -> Outcome {
    if !subject.capabilities().clear() {
        return Ok(());
    }
    // Each with a name that a pattern would match, or would fail to.
    let patterns = [
        ("a*b", "a-middle-b"),
        ("c?d", "cxd"),
        ("e[fg]h", "efh"),
        ("i[^j]k", "ixk"),
        ("l\\m", "lm"),
        ("n%o", "n-middle-o"),
        ("p_q", "pxq"),
        ("r.s", "rxs"),
        ("t(u|v)w", "tuw"),
        ("{x,y}", "x"),
    ];
    for (pattern, matched) in patterns {
        let (inside, outside) = (subject.key(&format!("{pattern}:1")), subject.key(&format!("{matched}:1")));
        subject.set(&inside, "inside").await?;
        subject.set(&outside, "outside").await?;
        let prefix = format!("{}:{pattern}:", subject.namespace());
        clear(subject, &prefix).await?;
        subject.misses(&inside, &format!("a key with the prefix {prefix:?}, after `clear`")).await?;
        subject.holds(&outside, b"outside", &format!("{outside:?}, after `clear` of {prefix:?}")).await?;
    }
    Ok(())
}

pub(crate) async fn clear_refuses_an_empty_prefix(subject: &Subject) -> Outcome {
    if !subject.capabilities().clear() {
        return Ok(());
    }
    let key = subject.key("kept");
    subject.set(&key, "value").await?;
    refused(subject.backend().clear("").await, ErrorKind::KeyInvalid, "`clear` of an empty prefix")?;
    subject.holds(&key, b"value", "an entry after `clear` of an empty prefix was refused").await
}

//! Reports of changes, where the backend makes them.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure, in_time};
use bytes::Bytes;
use cachekit_core::{Backend, Change, Changes, SetOptions};
use std::sync::Arc;
use std::time::Duration;

/// In which a report has to come, even from a busy machine.
const LONGEST_WAY: Duration = Duration::from_secs(10);
/// How long a report is waited for that another check is about.
const A_WHILE: Duration = Duration::from_secs(2);

/// Another backend on the store of the first; `None`: each has a store of its own, so there are no others to change it.
async fn another(subject: &Subject) -> Result<Option<Arc<dyn Backend>>, Failure> {
    let other = subject.another().await?;
    let key = subject.key("whose");
    set(&*other, &key).await?;
    // How a miss is told is another check's business.
    let shared = matches!(in_time("get", subject.backend().get(&key)).await?, Ok(Some(_)));
    Ok(shared.then_some(other))
}

async fn set(backend: &dyn Backend, key: &str) -> Outcome {
    answered("set by another", backend.set(key, Bytes::from_static(b"value"), SetOptions::default())).await
}

async fn track(subject: &Subject, prefixes: &[&str]) -> Result<Changes, Failure> {
    answered("track", subject.backend().track(prefixes)).await
}

/// Waits for the report of this key, past those of others.
async fn reports(changes: &mut Changes, key: &str, what: &str) -> Outcome {
    let reported = async {
        loop {
            match changes.next().await {
                Ok(Change::Key(reported)) if reported == key => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(Failure::backend(format!("the reports ended with {error}"))),
            }
        }
    };
    let late = || Failure::backend(format!("{what} by another has to be reported, and was not within {LONGEST_WAY:?}"));
    tokio::time::timeout(LONGEST_WAY, reported).await.unwrap_or_else(|_| Err(late()))
}

pub(crate) async fn tracking_reports_changes_of_others(subject: &Subject) -> Outcome {
    if !subject.capabilities().track() {
        return Ok(());
    }
    let Some(other) = another(subject).await? else { return Ok(()) };
    let [new, overwritten, touched, deleted, cleared] =
        ["new", "overwritten", "touched", "deleted", "cleared:1"].map(|name| subject.key(name));
    for key in [&overwritten, &touched, &deleted, &cleared] {
        subject.set(key, "value").await?;
    }
    let mut changes = track(subject, &["somebody else's", &subject.key("")]).await?;
    set(&*other, &new).await?;
    reports(&mut changes, &new, "a `set` of a new key").await?;
    set(&*other, &overwritten).await?;
    reports(&mut changes, &overwritten, "a `set` that overwrites").await?;
    if subject.capabilities().touch() {
        answered("touch by another", other.touch(&touched, Some(Duration::from_secs(60)))).await?;
        reports(&mut changes, &touched, "a `touch`").await?;
    }
    answered("delete by another", other.delete(&deleted)).await?;
    reports(&mut changes, &deleted, "a `delete`").await?;
    if subject.capabilities().clear() {
        answered("clear by another", other.clear(&subject.key("cleared:"))).await?;
        reports(&mut changes, &cleared, "a `clear`").await?;
    }
    Ok(())
}

pub(crate) async fn tracking_reports_the_prefixes_only(subject: &Subject) -> Outcome {
    if !subject.capabilities().track() {
        return Ok(());
    }
    let Some(other) = another(subject).await? else { return Ok(()) };
    let prefix = subject.key("a:");
    let mut changes = track(subject, &[&prefix]).await?;
    for name in ["a", "ab", "A:1", "b:a:1", "a*", "a:1"] {
        set(&*other, &subject.key(name)).await?;
    }
    let last = subject.key("a:1");
    // That something is reported at all is what the other check is about.
    while let Ok(Ok(change)) = tokio::time::timeout(A_WHILE, changes.next()).await {
        let Change::Key(key) = change else { continue };
        ensure(key.starts_with(&prefix), || format!("{prefix:?} is tracked, and {key:?} was reported"))?;
        if key == last {
            break;
        }
    }
    Ok(())
}

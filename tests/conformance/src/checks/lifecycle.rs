//! What a backend says about itself, and its end.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure, in_time};
use bytes::Bytes;
use cachekit_core::{BackendError, ErrorKind, LockToken, SetOptions};
use std::fmt::Debug;
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(30);

pub(crate) async fn name_is_a_label(subject: &Subject) -> Outcome {
    let name = subject.backend().name();
    let fits = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-_.".contains(&letter);
    ensure(!name.is_empty() && name.len() <= 32 && name.bytes().all(fits), || {
        format!("the name has to be 1 to 32 of a-z, 0-9, `-`, `_` and `.`, and is {name:?}")
    })?;
    subject.set(&subject.key("any"), "value").await?;
    let later = subject.backend().name();
    ensure(name == later, || format!("the name has to stay as it is, and {name:?} became {later:?}"))
}

pub(crate) async fn capabilities_are_constant(subject: &Subject) -> Outcome {
    let first = subject.capabilities();
    let same = |when: &str| {
        let later = subject.capabilities();
        ensure(first == later, || format!("{when} the capabilities were {later:?}, and {first:?} before"))
    };
    let key = subject.key("any");
    same("when asked again,")?;
    subject.set(&key, "value").await?;
    same("after a `set`,")?;
    subject.get(&key).await?;
    subject.delete(&key).await?;
    same("after other operations,")
}

pub(crate) async fn health_answers(subject: &Subject) -> Outcome {
    let start = Instant::now();
    let health = answered("health", subject.backend().health()).await?;
    let took = start.elapsed();
    ensure(health.latency <= took, || {
        format!(
            "the latency has to be that of the round trip, which took {took:?} at most, and is {:?}",
            health.latency
        )
    })
}

/// One optional operation: what declares it, and what it answers.
fn honest<T: Debug>(declared: bool, capability: &str, what: &str, answer: &Result<T, BackendError>) -> Outcome {
    match answer {
        Err(error) if error.kind() == ErrorKind::Unsupported && declared => {
            Err(Failure::backend(format!("it declares `{capability}`, so `{what}` has to work, and was {error}")))
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Ok(_) if declared => Ok(()),
        Err(error) if declared => Err(Failure::backend(format!(
            "it declares `{capability}`, so `{what}` has to work, and failed with {error}"
        ))),
        answer => Err(Failure::backend(format!(
            "it does not declare `{capability}`, so `{what}` has to be `Unsupported`, and was {answer:?}"
        ))),
    }
}

pub(crate) async fn capabilities_are_honest(subject: &Subject) -> Outcome {
    let capabilities = subject.capabilities();
    let backend = subject.backend();
    let (key, channel) = (subject.key("any"), subject.key("channel"));
    subject.set(&key, "value").await?;

    let clears = capabilities.clear();
    honest(clears, "clear", "clear", &in_time("clear", backend.clear(&format!("{key}:"))).await?)?;
    honest(capabilities.ttl(), "ttl", "ttl", &in_time("ttl", backend.ttl(&key)).await?)?;
    honest(capabilities.touch(), "touch", "touch", &in_time("touch", backend.touch(&key, Some(TTL))).await?)?;

    let locks = capabilities.lock().is_some();
    let ttl = TTL.max(capabilities.min_lock_ttl());
    let taken = in_time("try_lock", backend.try_lock(&key, ttl)).await?;
    honest(locks, "lock", "try_lock", &taken)?;
    let token = taken.ok().flatten().unwrap_or_else(|| LockToken::new(&*key, "no secret", None));
    honest(locks, "lock", "extend", &in_time("extend", backend.extend(&token, ttl)).await?)?;
    honest(locks, "lock", "unlock", &in_time("unlock", backend.unlock(&token)).await?)?;

    let publishes = capabilities.publish();
    honest(publishes, "publish", "subscribe", &in_time("subscribe", backend.subscribe(&channel)).await?)?;
    honest(publishes, "publish", "publish", &in_time("publish", backend.publish(&channel, Bytes::new())).await?)?;
    honest(capabilities.track(), "track", "track", &in_time("track", backend.track(&[&key])).await?)
}

pub(crate) async fn close_is_idempotent(subject: &Subject) -> Outcome {
    for time in ["first", "second", "third"] {
        answered(&format!("the {time} close"), subject.backend().close()).await?;
    }
    Ok(())
}

/// An answer after `close`: `Closed`, or what `as_before` accepts.
fn as_before_or_closed<T: Debug>(
    what: &str,
    answer: Result<T, BackendError>,
    as_before: impl FnOnce(&T) -> bool,
) -> Outcome {
    match answer {
        // Whether `Unsupported` is right is another check's business.
        Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::Unsupported) => Ok(()),
        Ok(value) if as_before(&value) => Ok(()),
        answer => Err(Failure::backend(format!(
            "after `close`, `{what}` has to work as before or be `Closed`, and was {answer:?}"
        ))),
    }
}

pub(crate) async fn closed_backend_works_or_says_closed(subject: &Subject) -> Outcome {
    let backend = subject.backend();
    let (key, second) = (subject.key("key"), subject.key("second"));
    // For a time only: a backend that is closed cannot remove them from a store that is shared.
    subject.set_for(&key, "value", TTL).await?;
    subject.set_for(&second, "value", TTL).await?;
    let was_healthy = in_time("health", backend.health()).await?.is_ok();
    answered("close", backend.close()).await?;

    let value = Bytes::from_static(b"value");
    let is_value = |found: &Option<Bytes>| found.as_ref() == Some(&value);
    as_before_or_closed("get", in_time("get", backend.get(&key)).await?, is_value)?;
    as_before_or_closed("exists", in_time("exists", backend.exists(&key)).await?, |there| *there)?;
    for answer in in_time("get_many", backend.get_many(&[&key, &second])).await? {
        as_before_or_closed("get_many", answer, is_value)?;
    }
    if was_healthy {
        as_before_or_closed("health", in_time("health", backend.health()).await?, |_| true)?;
    }
    let options = SetOptions::default().with_ttl(Some(TTL));
    as_before_or_closed("set", in_time("set", backend.set(&key, value.clone(), options)).await?, |()| true)?;
    as_before_or_closed("get", in_time("get", backend.get(&key)).await?, is_value)?;
    for answer in in_time("set_many", backend.set_many(&[(&key, value.clone())], options)).await? {
        as_before_or_closed("set_many", answer, |()| true)?;
    }
    as_before_or_closed("delete", in_time("delete", backend.delete(&key)).await?, |there| *there)?;
    for answer in in_time("delete_many", backend.delete_many(&[&second])).await? {
        as_before_or_closed("delete_many", answer, |there| *there)?;
    }
    let capabilities = subject.capabilities();
    if capabilities.clear() {
        as_before_or_closed("clear", in_time("clear", backend.clear(&key)).await?, |()| true)?;
    }
    if capabilities.ttl() {
        as_before_or_closed("ttl", in_time("ttl", backend.ttl(&key)).await?, |_| true)?;
    }
    if capabilities.touch() {
        as_before_or_closed("touch", in_time("touch", backend.touch(&key, Some(TTL))).await?, |_| true)?;
    }
    if capabilities.lock().is_some() {
        let ttl = TTL.max(capabilities.min_lock_ttl());
        as_before_or_closed("try_lock", in_time("try_lock", backend.try_lock(&key, ttl)).await?, Option::is_some)?;
    }
    if capabilities.publish() {
        as_before_or_closed("publish", in_time("publish", backend.publish(&key, Bytes::new())).await?, |()| true)?;
    }
    Ok(())
}

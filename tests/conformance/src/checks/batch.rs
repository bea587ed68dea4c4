//! Many at once: a result for each, as the single operation would give it.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, ensure, in_time};
use bytes::Bytes;
use cachekit_core::{BackendError, ErrorKind, SetOptions};
use std::time::Duration;

fn one_each<T>(results: &[T], expected: usize, what: &str) -> Outcome {
    let found = results.len();
    ensure(found == expected, || format!("`{what}` of {expected} has to give as many results, and gave {found}"))
}

/// What a result is, for a comparison: its value or the kind of its error.
fn outline<T: Clone>(result: &Result<T, BackendError>) -> Result<T, ErrorKind> {
    result.clone().map_err(|error| error.kind())
}

fn same<T: Clone + PartialEq + std::fmt::Debug>(
    found: &Result<T, BackendError>,
    expected: &Result<T, ErrorKind>,
    what: &str,
) -> Outcome {
    let found = outline(found);
    ensure(found == *expected, || format!("{what} has to be {expected:?}, and was {found:?}"))
}

pub(crate) async fn get_many_keeps_order(subject: &Subject) -> Outcome {
    let [a, b, c, empty, missing] = ["a", "b", "c", "empty", "missing"].map(|name| subject.key(name));
    for (key, value) in [(&a, "of a"), (&b, "of b"), (&c, "of c"), (&empty, "")] {
        subject.set(key, value).await?;
    }
    let backend = subject.backend();
    one_each(&in_time("get_many", backend.get_many(&[])).await?, 0, "get_many")?;

    // Neither sorted nor without duplicates, and the empty key in the middle fails alone.
    let keys: [&str; 9] = [&c, &missing, &a, &empty, "", &b, &a, &missing, &c];
    let results = in_time("get_many", backend.get_many(&keys)).await?;
    one_each(&results, keys.len(), "get_many")?;
    for (number, (key, result)) in keys.iter().zip(&results).enumerate() {
        let alone = outline(&backend.get(key).await);
        same(result, &alone, &format!("result {number} of `get_many`, of {key:?}, which `get` answers by itself,"))?;
    }
    Ok(())
}

pub(crate) async fn set_many_sets_each(subject: &Subject) -> Outcome {
    const TTL: Duration = Duration::from_millis(100);
    let [a, b, brief] = ["a", "b", "brief"].map(|name| subject.key(name));
    let backend = subject.backend();
    let options = SetOptions::default();
    one_each(&in_time("set_many", backend.set_many(&[], options)).await?, 0, "set_many")?;

    let value = Bytes::from_static;
    let alone = outline(&backend.set("", value(b"nowhere"), options).await);
    let entries =
        [(&*a, value(b"older")), (&*b, value(b"of b")), ("", value(b"nowhere")), (&*a, value(b"the later one"))];
    let results = in_time("set_many", backend.set_many(&entries, options)).await?;
    if alone.is_ok() {
        // Not left behind in a shared store.
        let _ = backend.delete("").await;
    }
    one_each(&results, entries.len(), "set_many")?;
    for (number, result) in results.iter().enumerate() {
        let expected = if entries[number].0.is_empty() { alone } else { Ok(()) };
        same(result, &expected, &format!("result {number} of `set_many`"))?;
    }
    subject.holds(&a, b"the later one", "the key of two entries of one `set_many`").await?;
    subject.holds(&b, b"of b", "an entry of `set_many`").await?;

    let before = std::time::Instant::now();
    let results =
        in_time("set_many", backend.set_many(&[(&*brief, value(b"brief"))], options.with_ttl(Some(TTL)))).await?;
    if let Some(Err(error)) = results.first() {
        return Err(Failure::backend(format!("`set_many` of one entry failed with {error}")));
    }
    let written = crate::timing::Written { before, after: std::time::Instant::now() };
    subject.expires(&brief, written, TTL, "an entry of `set_many`").await
}

pub(crate) async fn delete_many_deletes_each(subject: &Subject) -> Outcome {
    let [a, b, kept, missing] = ["a", "b", "kept", "missing"].map(|name| subject.key(name));
    for key in [&a, &b, &kept] {
        subject.set(key, "value").await?;
    }
    let backend = subject.backend();
    one_each(&in_time("delete_many", backend.delete_many(&[])).await?, 0, "delete_many")?;

    let alone = outline(&backend.delete("").await);
    let keys: [&str; 4] = [&b, &missing, "", &a];
    let results = in_time("delete_many", backend.delete_many(&keys)).await?;
    one_each(&results, keys.len(), "delete_many")?;
    for (number, expected) in [Ok(true), Ok(false), alone, Ok(true)].into_iter().enumerate() {
        same(
            &results[number],
            &expected,
            &format!("result {number} of `delete_many` of [there, missing, \"\", there]"),
        )?;
    }
    for key in [&a, &b] {
        subject.misses(key, "a key of `delete_many`").await?;
    }
    subject.holds(&kept, b"value", "a key that was not in `delete_many`").await
}

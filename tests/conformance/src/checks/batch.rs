//! Many at once: a result for each, as the single operation would give it.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, a_few_at_once, ensure, in_time, small_value};
use crate::timing::Written;
use bytes::Bytes;
use cachekit_core::{BackendError, ErrorKind, SetOptions};
use std::time::{Duration, Instant};

/// More than a store takes in one command or page.
const MANY: usize = 1_100;
/// What a batch may be tried with beyond its limit: a larger one is taken on trust.
const LARGEST_LIMIT: usize = 64 << 20;

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
    get_many_gets_many(subject).await
}

async fn get_many_gets_many(subject: &Subject) -> Outcome {
    let keys = subject.many(MANY, "many").await?;
    let slices: Vec<&str> = keys.iter().map(String::as_str).collect();
    let results = in_time("get_many", subject.backend().get_many(&slices)).await?;
    one_each(&results, keys.len(), "get_many")?;
    for (number, (key, result)) in keys.iter().zip(&results).enumerate() {
        if outline(result) != Ok(Some(small_value(number))) {
            // Whether all that was acknowledged is kept is another check's business.
            let alone = outline(&subject.backend().get(key).await);
            same(result, &alone, &format!("result {number} of `get_many` of {MANY}, which `get` answers by itself,"))?;
        }
    }
    Ok(())
}

pub(crate) async fn set_many_sets_each(subject: &Subject) -> Outcome {
    const TTL: Duration = Duration::from_millis(100);
    let [a, b, brief, tiny] = ["a", "b", "brief", "tiny"].map(|name| subject.key(name));
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

    for (key, ttl, counts_as) in [(&brief, TTL, TTL), (&tiny, Duration::from_micros(10), Duration::from_millis(1))] {
        let before = Instant::now();
        set_one_in_a_batch(subject, key, value(b"value"), options.with_ttl(Some(ttl))).await?;
        let written = Written { before, after: Instant::now() };
        subject.expires(key, written, counts_as, &format!("an entry of `set_many` for {ttl:?}")).await?;
    }
    set_many_refuses_what_set_does(subject).await?;
    set_many_sets_large_values(subject).await?;
    set_many_sets_many(subject).await
}

async fn set_one_in_a_batch(subject: &Subject, key: &str, value: Bytes, options: SetOptions) -> Outcome {
    match in_time("set_many", subject.backend().set_many(&[(key, value)], options)).await?.first() {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Failure::backend(format!("`set_many` of one entry failed with {error}"))),
        None => Err(Failure::backend("`set_many` of one entry has to give a result, and gave none")),
    }
}

/// No time, and too much: each as `set` answers it alone.
async fn set_many_refuses_what_set_does(subject: &Subject) -> Outcome {
    let [alone, one, two, small] = ["refused", "refused 1", "refused 2", "small"].map(|name| subject.key(name));
    let backend = subject.backend();
    let zero = SetOptions::default().with_ttl(Some(Duration::ZERO));
    let value = Bytes::from_static(b"value");
    let expected = outline(&backend.set(&alone, value.clone(), zero).await);
    let results =
        in_time("set_many", backend.set_many(&[(&*one, value.clone()), (&*two, value.clone())], zero)).await?;
    one_each(&results, 2, "set_many")?;
    for result in &results {
        same(result, &expected, "a result of `set_many` for no time, which `set` answers by itself,")?;
    }
    if expected.is_err() {
        subject.misses(&one, "a key of a `set_many` for no time that was refused").await?;
    }

    let limit = subject.capabilities().max_value_bytes();
    if limit > LARGEST_LIMIT {
        return Ok(());
    }
    let too_large = Bytes::from(vec![0x5a; limit + 1]);
    let expected = outline(&backend.set(&alone, too_large.clone(), SetOptions::default()).await);
    let entries = [(&*one, too_large), (&*small, value)];
    let results = in_time("set_many", backend.set_many(&entries, SetOptions::default())).await?;
    one_each(&results, 2, "set_many")?;
    let what = "the result of `set_many` for a value over the limit, which `set` answers by itself,";
    same(&results[0], &expected, what)?;
    same(&results[1], &Ok(()), "the result of `set_many` for the neighbour of a value over the limit")?;
    subject.holds(&small, b"value", "the neighbour of a value over the limit in one `set_many`").await
}

async fn set_many_sets_large_values(subject: &Subject) -> Outcome {
    // Longer than a page, and than 16 bits can count.
    let size = (subject.capabilities().max_value_bytes() / 2).min(70_000);
    let key = subject.key("large");
    let value: Bytes = b"large".iter().copied().cycle().take(size).collect();
    set_one_in_a_batch(subject, &key, value.clone(), SetOptions::default()).await?;
    subject.holds(&key, &value, "a large value of `set_many`").await
}

async fn set_many_sets_many(subject: &Subject) -> Outcome {
    let keys: Vec<String> = (0..MANY).map(|number| subject.key(&format!("many{number}"))).collect();
    let entries: Vec<(&str, Bytes)> =
        keys.iter().enumerate().map(|(number, key)| (key.as_str(), small_value(number))).collect();
    let results = in_time("set_many", subject.backend().set_many(&entries, SetOptions::default())).await?;
    one_each(&results, MANY, "set_many")?;
    for (number, result) in results.iter().enumerate() {
        same(result, &Ok(()), &format!("result {number} of `set_many` of {MANY}"))?;
    }
    let reads = entries.iter().enumerate().map(async |(number, (key, value))| {
        subject.holds(key, value, &format!("entry {number} of {MANY} of one `set_many`")).await
    });
    a_few_at_once(reads.collect()).await
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
    subject.holds(&kept, b"value", "a key that was not in `delete_many`").await?;

    // Two of one key: whichever comes first deletes it, and for the other nothing is there.
    subject.set(&a, "value").await?;
    let results = in_time("delete_many", backend.delete_many(&[&*a, &*a])).await?;
    let mut told: Vec<_> = results.iter().map(outline).collect();
    told.sort_unstable_by_key(|result| *result == Ok(true));
    ensure(told == [Ok(false), Ok(true)], || {
        format!("`delete_many` of one key twice has to give true once and false once, and gave {told:?}")
    })?;
    delete_many_deletes_many(subject).await
}

async fn delete_many_deletes_many(subject: &Subject) -> Outcome {
    let keys = subject.many(MANY, "many").await?;
    let slices: Vec<&str> = keys.iter().map(String::as_str).collect();
    let results = in_time("delete_many", subject.backend().delete_many(&slices)).await?;
    one_each(&results, MANY, "delete_many")?;
    for (number, result) in results.iter().enumerate() {
        same(result, &Ok(true), &format!("result {number} of `delete_many` of {MANY} entries"))?;
    }
    let misses = keys.iter().map(|key| subject.misses(key, "a key of a large `delete_many`"));
    a_few_at_once(misses.collect()).await
}

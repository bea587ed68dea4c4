//! Many keys at once: one exchange with each server, all servers side by side.

use crate::backend::{MemcachedBackend, removed, stored, value};
use crate::dial::Link;
use crate::error::{Doing, Verdict, at, from_driver, is_refusal, unexpected, verdict};
use crate::server::{Server, Time};
use crate::{key, ttl};
use cachekit_core::{BackendError, Bytes, SetOptions};
use futures_util::future::join_all;
use memcache::exp::{Delete, Error, Get, Op, OpResult, Set};
use std::sync::Arc;
use std::time::Instant;

const MOST_KEYS: usize = 1_000;
const MOST_BYTES: usize = 4 << 20;

type Answers<T> = Vec<Result<T, BackendError>>;

/// A command to a server, and whose result it is.
struct Item {
    place: usize,
    operation: Op,
    bytes: usize,
}

pub(crate) async fn get_many(backend: &MemcachedBackend, keys: &[&str]) -> Answers<Option<Bytes>> {
    let operations = keys.iter().map(|key| Ok((*key, Get::new(key::entry(key)?.as_bytes()).into(), 0)));
    let read = |answer| match answer {
        OpResult::Get(found) => Ok(value(found)),
        _ => Err(unexpected(Doing::Read)),
    };
    run(backend, Doing::Read, operations, read).await
}

pub(crate) async fn set_many(
    backend: &MemcachedBackend,
    entries: &[(&str, Bytes)],
    options: SetOptions,
) -> Answers<()> {
    let operations = entries.iter().map(|(key, value)| {
        let (name, ttl) = (key::entry(key)?, ttl::wire(options.ttl)?);
        Ok(match backend.check_value(value) {
            Ok(()) => (*key, Set::new(name.as_bytes(), value).ttl_raw(ttl).into(), value.len()),
            // In its turn, as `set` does.
            Err(_) => (*key, Delete::new(name.as_bytes()).into(), 0),
        })
    });
    let read = |answer| match answer {
        OpResult::Mutation(outcome) => Ok(outcome),
        _ => Err(unexpected(Doing::Write)),
    };
    let answers = run(backend, Doing::Write, operations, read).await;
    let entries = entries.iter().zip(answers);
    entries
        .map(|((_, value), answer)| backend.check_value(value).and(answer).and_then(|outcome| stored(&outcome)))
        .collect()
}

pub(crate) async fn delete_many(backend: &MemcachedBackend, keys: &[&str]) -> Answers<bool> {
    let operations = keys.iter().map(|key| Ok((*key, Delete::new(key::entry(key)?.as_bytes()).into(), 0)));
    let read = |answer| match answer {
        OpResult::Mutation(outcome) => removed(&outcome),
        _ => Err(unexpected(Doing::Write)),
    };
    run(backend, Doing::Write, operations, read).await
}

/// A result for each operation: of its key, what to do, and how many bytes of a value it carries.
async fn run<'a, T>(
    backend: &MemcachedBackend,
    doing: Doing,
    operations: impl ExactSizeIterator<Item = Result<(&'a str, Op, usize), BackendError>>,
    read: impl Fn(OpResult) -> Result<T, BackendError>,
) -> Answers<T> {
    let mut results: Vec<Option<Result<T, BackendError>>> = Vec::with_capacity(operations.len());
    let mut groups: Vec<Vec<Item>> = backend.servers.iter().map(|_| Vec::new()).collect();
    for (place, operation) in operations.enumerate() {
        match operation {
            Ok((key, operation, bytes)) => {
                groups[backend.router.place(key)].push(Item { place, operation, bytes });
                results.push(None);
            }
            Err(error) => results.push(Some(Err(error))),
        }
    }
    let groups = backend.servers.iter().zip(groups).filter(|(_, group)| !group.is_empty());
    let exchanges: Vec<_> = groups.map(|(server, group)| send_all(server, doing, group)).collect();
    for (place, answer) in join_all(exchanges).await.into_iter().flatten() {
        results[place] = Some(answer.and_then(&read));
    }
    results.into_iter().map(|result| result.unwrap_or_else(|| Err(unexpected(doing)))).collect()
}

/// One exchange after the other, in their order, so that of two entries of one key the later wins.
async fn send_all(
    server: &Arc<Server>,
    doing: Doing,
    items: Vec<Item>,
) -> Vec<(usize, Result<OpResult, BackendError>)> {
    let mut results = Vec::with_capacity(items.len());
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() {
        let (mut places, mut operations, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(item) =
            items.next_if(|item| places.is_empty() || (places.len() < MOST_KEYS && bytes + item.bytes <= MOST_BYTES))
        {
            bytes += item.bytes;
            places.push(item.place);
            operations.push(item.operation);
        }
        let answers = send(server, doing, &operations, bytes).await;
        results.extend(places.into_iter().zip(answers));
    }
    results
}

/// One exchange, and another one with the rest for each command that the server refuses: the driver reads no further than
/// that, and one key's failure is that key's alone.
async fn send(server: &Arc<Server>, doing: Doing, operations: &[Op], bytes: usize) -> Answers<OpResult> {
    let time = Time::new(Instant::now(), server.budget(bytes));
    let mut results = Vec::with_capacity(operations.len());
    while results.len() < operations.len() {
        let rest = &operations[results.len()..];
        let exchange = |link: Arc<Link>| {
            let rest = rest.to_vec();
            async move { link.client.run_batch(rest).await }
        };
        match server.call_in(time.later(), doing, |answers| worst(answers), exchange).await {
            Ok(answers) => {
                let known = refusal(&answers).map_or(answers.len(), |place| place + 1);
                let ours = |error| at(server.name(), &from_driver(&error, doing));
                results.extend(answers.into_iter().take(known).map(|answer| answer.map_err(ours)));
            }
            Err(error) => results.extend(std::iter::repeat_n(Err(error), rest.len())),
        }
    }
    results
}

fn refusal(answers: &[Result<OpResult, Error>]) -> Option<usize> {
    answers.iter().position(|answer| answer.as_ref().is_err_and(is_refusal))
}

fn worst(answers: &[Result<OpResult, Error>]) -> Verdict {
    answers.iter().filter_map(|answer| answer.as_ref().err().map(verdict)).max().unwrap_or(Verdict::Alive)
}

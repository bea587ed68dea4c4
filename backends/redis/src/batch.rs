//! Many keys at once: in one round trip to one server, side by side to a cluster.

use crate::backend::{RedisBackend, check_key, is_refused, set_command};
use crate::error::Doing;
use crate::link::Request;
use crate::reply;
use cachekit_core::{Backend, BackendError, Bytes, SetOptions};
use futures_util::stream::{self, StreamExt};
use redis::{Cmd, Pipeline, Value, cmd};
use std::collections::HashMap;

const MOST_KEYS: usize = 1_000;
const MOST_BYTES: usize = 4 << 20;
/// How many commands to a cluster are under way for one call.
const SIDE_BY_SIDE: usize = 128;

pub(crate) async fn get_many(backend: &RedisBackend, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
    match is_spread(backend, keys.len()).await {
        Ok(false) => {}
        // An answer that is one server's must not depend on another's.
        Ok(true) => {
            // Collected first: a closure that returns futures of borrowed keys is not general enough for a stream.
            let gets: Vec<_> = keys.iter().map(|key| backend.get(key)).collect();
            return stream::iter(gets).buffered(SIDE_BY_SIDE).collect().await;
        }
        Err(error) => return vec![Err(error); keys.len()],
    }
    let mut results = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(MOST_KEYS) {
        let valid: Vec<&str> = chunk.iter().copied().filter(|key| check_key(key).is_ok()).collect();
        let mut values = mget(backend, &valid).await;
        for key in chunk {
            results.push(match check_key(key) {
                Ok(()) => values.next().unwrap_or(Ok(None)),
                Err(error) => Err(error),
            });
        }
    }
    results
}

/// A result for each of these keys.
async fn mget(
    backend: &RedisBackend,
    keys: &[&str],
) -> Box<dyn Iterator<Item = Result<Option<Bytes>, BackendError>> + Send> {
    if keys.is_empty() {
        return Box::new(std::iter::empty());
    }
    let mut command = cmd("MGET");
    command.arg(keys);
    let read = |answer| reply::many(answer, keys.len())?.into_iter().map(reply::value).collect::<Option<Vec<_>>>();
    match backend.supervisor.call(Doing::Read, &Request::Command(command), 0, read).await {
        Ok(values) => Box::new(values.into_iter().map(Ok)),
        Err(error) => Box::new(std::iter::repeat_n(Err(error), keys.len())),
    }
}

pub(crate) async fn set_many(
    backend: &RedisBackend,
    entries: &[(&str, Bytes)],
    options: SetOptions,
) -> Vec<Result<(), BackendError>> {
    match is_spread(backend, entries.len()).await {
        Ok(false) => {}
        Ok(true) => return set_each(backend, entries, options).await,
        Err(error) => return vec![Err(error); entries.len()],
    }
    let mut results = Vec::with_capacity(entries.len());
    let mut chunk = Chunk::default();
    for (key, value) in entries {
        match backend.check_value(value).and_then(|()| set_command(key, value, options)) {
            Ok(command) => {
                if chunk.commands.len() == MOST_KEYS || chunk.bytes + value.len() > MOST_BYTES {
                    chunk.send(backend, &mut results).await;
                }
                chunk.add(results.len(), command, value.len());
                // Until its chunk is sent.
                results.push(Ok(()));
            }
            Err(error) => results.push(Err(error)),
        }
    }
    chunk.send(backend, &mut results).await;
    results
}

/// Commands that go in one pipeline, and where their results stand.
#[derive(Default)]
struct Chunk {
    commands: Vec<(usize, Cmd)>,
    bytes: usize,
}

impl Chunk {
    fn add(&mut self, place: usize, command: Cmd, bytes: usize) {
        self.commands.push((place, command));
        self.bytes += bytes;
    }

    async fn send(&mut self, backend: &RedisBackend, results: &mut [Result<(), BackendError>]) {
        let (commands, bytes) = (std::mem::take(&mut self.commands), std::mem::take(&mut self.bytes));
        let (places, commands): (Vec<_>, Vec<_>) = commands.into_iter().unzip();
        for (place, result) in places.into_iter().zip(pipeline(backend, commands, bytes, reply::ok).await) {
            results[place] = result;
        }
    }
}

/// A result for each of these commands.
async fn pipeline<T: Clone>(
    backend: &RedisBackend,
    commands: Vec<Cmd>,
    bytes: usize,
    read: impl Fn(Value) -> Option<T>,
) -> Vec<Result<T, BackendError>> {
    let count = commands.len();
    if count == 0 {
        return Vec::new();
    }
    let mut pipeline = Pipeline::with_capacity(count);
    pipeline.ignore_errors();
    for command in commands {
        pipeline.add_command(command);
    }
    let read = |answer| reply::many(answer, count)?.into_iter().map(|one| reply::each(one, &read)).collect();
    let sent = backend.supervisor.call(Doing::Write, &Request::Pipeline(pipeline), bytes, read).await;
    sent.unwrap_or_else(|error| vec![Err(error); count])
}

/// Entries of one key in their order, those of different keys side by side.
async fn set_each(
    backend: &RedisBackend,
    entries: &[(&str, Bytes)],
    options: SetOptions,
) -> Vec<Result<(), BackendError>> {
    let mut by_key: HashMap<&str, Vec<(usize, Bytes)>> = HashMap::new();
    for (place, (key, value)) in entries.iter().enumerate() {
        by_key.entry(key).or_default().push((place, value.clone()));
    }
    let sets: Vec<_> = by_key
        .into_iter()
        .map(|(key, values)| async move {
            let mut results = Vec::with_capacity(values.len());
            for (place, value) in values {
                results.push((place, backend.set(key, value, options).await));
            }
            results
        })
        .collect();
    let mut results = vec![Ok(()); entries.len()];
    let mut done = stream::iter(sets).buffer_unordered(SIDE_BY_SIDE);
    while let Some(of_key) = done.next().await {
        for (place, result) in of_key {
            results[place] = result;
        }
    }
    results
}

pub(crate) async fn delete_many(backend: &RedisBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
    match is_spread(backend, keys.len()).await {
        Ok(false) => {}
        Ok(true) => {
            let deletes: Vec<_> = keys.iter().map(|key| backend.delete(key)).collect();
            return stream::iter(deletes).buffered(SIDE_BY_SIDE).collect().await;
        }
        Err(error) => return vec![Err(error); keys.len()],
    }
    let mut results = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(MOST_KEYS) {
        let commands = chunk.iter().filter(|key| check_key(key).is_ok()).map(|key| {
            let mut command = cmd("UNLINK");
            command.arg(*key);
            command
        });
        let mut deleted = pipeline(backend, commands.collect(), 0, reply::flag).await.into_iter();
        for key in chunk {
            results.push(match check_key(key) {
                Err(error) => Err(error),
                Ok(()) => match deleted.next() {
                    Some(Err(error)) if is_refused(&error) => backend.delete(key).await,
                    Some(result) => result,
                    None => Ok(false),
                },
            });
        }
    }
    results
}

/// No keys cost nothing, not even the wait for a connection.
async fn is_spread(backend: &RedisBackend, count: usize) -> Result<bool, BackendError> {
    if count == 0 { Ok(false) } else { backend.supervisor.is_spread().await }
}

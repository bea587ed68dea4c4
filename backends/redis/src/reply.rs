//! Answers of the server, by what a command may be answered with. `None`: that is no answer to it.

use crate::error::from_server;
use cachekit_core::{BackendError, Bytes, TtlState};
use redis::Value;
use std::time::Duration;

pub(crate) fn value(value: Value) -> Option<Option<Bytes>> {
    match value {
        Value::Nil => Some(None),
        Value::BulkString(bytes) => Some(Some(bytes.into())),
        _ => None,
    }
}

pub(crate) fn ok(value: Value) -> Option<()> {
    matches!(value, Value::Okay).then_some(())
}

pub(crate) fn count(value: Value) -> Option<i64> {
    match value {
        Value::Int(count) => Some(count),
        _ => None,
    }
}

pub(crate) fn flag(value: Value) -> Option<bool> {
    count(value).map(|count| count > 0)
}

pub(crate) fn pong(value: Value) -> Option<()> {
    matches!(&value, Value::SimpleString(word) if word == "PONG").then_some(())
}

/// Of PTTL.
pub(crate) fn ttl(value: Value) -> Option<TtlState> {
    match count(value)? {
        -2 => Some(TtlState::Missing),
        -1 => Some(TtlState::NoExpiry),
        left => u64::try_from(left).ok().map(|left| TtlState::Remaining(Duration::from_millis(left))),
    }
}

/// Of TYPE: whether the key holds a value that GET gives.
pub(crate) fn is_string(value: Value) -> Option<bool> {
    match value {
        Value::SimpleString(word) => Some(word == "string"),
        _ => None,
    }
}

/// Of SCAN: where to go on, and keys. A key that is not text is none of ours.
pub(crate) fn page(value: Value) -> Option<(String, Vec<String>)> {
    let Value::Array(parts) = value else { return None };
    let [Value::BulkString(cursor), Value::Array(keys)] = <[Value; 2]>::try_from(parts).ok()? else { return None };
    let keys = keys.into_iter().filter_map(|key| match key {
        Value::BulkString(key) => String::from_utf8(key).ok(),
        _ => None,
    });
    Some((String::from_utf8(cursor).ok()?, keys.collect()))
}

/// Of a pipeline or MGET: as many answers as questions.
pub(crate) fn many(value: Value, expected: usize) -> Option<Vec<Value>> {
    match value {
        Value::Array(answers) if answers.len() == expected => Some(answers),
        _ => None,
    }
}

/// One answer of a pipeline, where an error is its own command's.
pub(crate) fn each<T>(answer: Value, read: impl Fn(Value) -> Option<T>) -> Option<Result<T, BackendError>> {
    match answer {
        Value::ServerError(error) => Some(Err(from_server(error.code(), error.details().unwrap_or_default()))),
        answer => read(answer).map(Ok),
    }
}

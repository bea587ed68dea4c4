//! Removes the keys under a prefix, in pages, so that the server serves others in between.

use crate::backend::RedisBackend;
use crate::error::Doing;
use crate::link::{Master, Request};
use crate::reply;
use cachekit_core::{BackendError, ErrorKind};
use futures_util::stream::{self, TryStreamExt};
use redis::cmd;

/// How many keys the server looks at for a page.
const PAGE: usize = 1_000;
const SIDE_BY_SIDE: usize = 16;

pub(crate) async fn clear(backend: &RedisBackend, prefix: &str) -> Result<(), BackendError> {
    if prefix.is_empty() {
        return Err(BackendError::new(ErrorKind::KeyInvalid, "the prefix is empty: that would be everyone's keys"));
    }
    let pattern = format!("{}*", literal(prefix));
    for master in backend.supervisor.masters().await? {
        clear_on(backend, &master, prefix, &pattern).await?;
    }
    Ok(())
}

async fn clear_on(backend: &RedisBackend, master: &Master, prefix: &str, pattern: &str) -> Result<(), BackendError> {
    let mut cursor = "0".to_owned();
    loop {
        let mut command = cmd("SCAN");
        command.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
        let scan = Request::Command(command);
        let (next, mut keys) = backend.supervisor.call_on(Doing::Read, master, &scan, 0, reply::page).await?;
        keys.retain(|key| key.starts_with(prefix));
        match master {
            None if !keys.is_empty() => remove(backend, &keys).await?,
            None => {}
            // The keys of one master may be in many slots.
            Some(_) => {
                let removals: Vec<Result<_, BackendError>> =
                    keys.iter().map(|key| Ok(remove(backend, std::slice::from_ref(key)))).collect();
                stream::iter(removals).try_buffer_unordered(SIDE_BY_SIDE).try_collect::<()>().await?;
            }
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

async fn remove(backend: &RedisBackend, keys: &[String]) -> Result<(), BackendError> {
    let request = |name: &str| {
        let mut command = cmd(name);
        command.arg(keys);
        Request::Command(command)
    };
    backend.remove(request, reply::count).await.map(|_| ())
}

/// The characters of a pattern of Redis's as plain text.
fn literal(prefix: &str) -> String {
    let mut literal = String::with_capacity(prefix.len());
    for letter in prefix.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            literal.push('\\');
        }
        literal.push(letter);
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn patterns_are_plain_text() {
        assert_eq!(literal("a*b?[c]\\d"), "a\\*b\\?\\[c\\]\\\\d");
        assert_eq!(literal("users@t.1:\u{e9}"), "users@t.1:\u{e9}");
    }
}

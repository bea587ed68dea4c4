//! Wrong with `clear`.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, async_trait};

/// Clears the keys that this says, of a prefix that is not empty.
#[derive(Debug)]
pub(crate) struct Clears(pub(crate) fn(prefix: &str, key: &str) -> bool);

#[async_trait]
impl Twist for Clears {
    async fn clear(&self, inner: &MemoryBackend, prefix: &str) -> Result<(), BackendError> {
        if prefix.is_empty() {
            return inner.clear(prefix).await;
        }
        for key in inner.keys().iter().filter(|key| (self.0)(prefix, key)) {
            inner.delete(key).await?;
        }
        Ok(())
    }
}

pub(crate) fn everything(_: &str, _: &str) -> bool {
    true
}

pub(crate) fn nothing(_: &str, _: &str) -> bool {
    false
}

pub(crate) fn anywhere_in_the_key(prefix: &str, key: &str) -> bool {
    key.contains(prefix)
}

pub(crate) fn in_any_case(prefix: &str, key: &str) -> bool {
    key.to_lowercase().starts_with(&prefix.to_lowercase())
}

pub(crate) fn but_the_prefix_itself(prefix: &str, key: &str) -> bool {
    key.len() > prefix.len() && key.starts_with(prefix)
}

/// `*` and `?` stand for something else.
pub(crate) fn by_glob(prefix: &str, key: &str) -> bool {
    matches(&prefix.chars().collect::<Vec<_>>(), &key.chars().collect::<Vec<_>>(), ('*', '?'))
}

/// `%` and `_` stand for something else.
pub(crate) fn by_like(prefix: &str, key: &str) -> bool {
    matches(&prefix.chars().collect::<Vec<_>>(), &key.chars().collect::<Vec<_>>(), ('%', '_'))
}

fn matches(pattern: &[char], key: &[char], (many, one): (char, char)) -> bool {
    match (pattern, key) {
        ([], _) => true,
        ([first, rest @ ..], _) if *first == many => {
            (0..=key.len()).any(|skipped| matches(rest, &key[skipped..], (many, one)))
        }
        ([first, rest @ ..], [letter, others @ ..]) => {
            (*first == one || first == letter) && matches(rest, others, (many, one))
        }
        (_, []) => false,
    }
}

/// No prefix is all of the store.
#[derive(Debug)]
pub(crate) struct ClearsAllWithoutPrefix;

#[async_trait]
impl Twist for ClearsAllWithoutPrefix {
    async fn clear(&self, inner: &MemoryBackend, prefix: &str) -> Result<(), BackendError> {
        if prefix.is_empty() {
            for key in inner.keys() {
                inner.delete(&key).await?;
            }
            return Ok(());
        }
        inner.clear(prefix).await
    }
}

/// Clears this many keys.
#[derive(Debug)]
pub(crate) struct ClearsUpTo(pub(crate) usize);

#[async_trait]
impl Twist for ClearsUpTo {
    async fn clear(&self, inner: &MemoryBackend, prefix: &str) -> Result<(), BackendError> {
        if prefix.is_empty() {
            return inner.clear(prefix).await;
        }
        for key in inner.keys().iter().filter(|key| key.starts_with(prefix)).take(self.0) {
            inner.delete(key).await?;
        }
        Ok(())
    }
}

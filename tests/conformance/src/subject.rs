//! The backend under test, as a check sees it: keys of its own, and calls whose errors read well.

use crate::check::Outcome;
use crate::run::make;
use crate::timing::Written;
use crate::{Failure, Target};
use bytes::Bytes;
use cachekit_core::{Backend, BackendError, Capabilities, ErrorKind, SetOptions};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After this long a call is said to hang.
const LONGEST_CALL: Duration = Duration::from_secs(15);
/// How many calls are made at once where a check needs many entries; what many at once do is another check's business.
const FEW: usize = 4;

pub(crate) struct Subject {
    backend: Arc<dyn Backend>,
    target: Target,
    namespace: String,
    keys: Mutex<Vec<String>>,
}

impl Subject {
    pub(crate) fn new(backend: Arc<dyn Backend>, target: &Target) -> Self {
        let namespace = format!("ck{:016x}", random());
        Self { backend, target: target.clone(), namespace, keys: Mutex::default() }
    }

    /// Another backend, which may or may not share the store of the first.
    pub(crate) async fn another(&self) -> Result<Arc<dyn Backend>, Failure> {
        make(&self.target).await
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// What every key of this run of this check starts with: 18 bytes that nobody else uses.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A key of this check's own.
    pub(crate) fn key(&self, name: &str) -> String {
        self.own(format!("{}:{name}", self.namespace))
    }

    /// Takes a key of any form into those that are removed in the end.
    pub(crate) fn own(&self, key: String) -> String {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
        key
    }

    pub(crate) async fn remove_all_keys(&self) {
        let keys = std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
        // One that the backend refused was never there; one that was closed keeps what it has.
        let removals = keys.iter().map(async |key| {
            let _ = self.backend.delete(key).await;
            Ok(())
        });
        let _ = a_few_at_once(removals.collect()).await;
    }

    /// That many keys of this check's own, each of which holds its [`small_value`].
    pub(crate) async fn many(&self, count: usize, name: &str) -> Result<Vec<String>, Failure> {
        let keys: Vec<String> = (0..count).map(|number| self.key(&format!("{name}{number}"))).collect();
        let sets =
            keys.iter().enumerate().map(async |(number, key)| self.set(key, small_value(number)).await.map(|_| ()));
        a_few_at_once(sets.collect()).await?;
        Ok(keys)
    }

    pub(crate) async fn get(&self, key: &str) -> Result<Option<Bytes>, Failure> {
        answered(&format!("get of {}", shown(key)), self.backend.get(key)).await
    }

    pub(crate) async fn set(&self, key: &str, value: impl Into<Bytes>) -> Result<Written, Failure> {
        self.set_for(key, value, None).await
    }

    /// Stores a value for a time, and tells when.
    pub(crate) async fn set_for(
        &self,
        key: &str,
        value: impl Into<Bytes>,
        ttl: impl Into<Option<Duration>>,
    ) -> Result<Written, Failure> {
        let ttl = ttl.into();
        let options = SetOptions::default().with_ttl(ttl);
        let before = Instant::now();
        let lifetime = ttl.map_or_else(|| "for ever".to_owned(), |ttl| format!("for {ttl:?}"));
        answered(&format!("set of {} {lifetime}", shown(key)), self.backend.set(key, value.into(), options)).await?;
        Ok(Written { before, after: Instant::now() })
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<bool, Failure> {
        answered(&format!("delete of {}", shown(key)), self.backend.delete(key)).await
    }

    /// Fails unless the key holds this value; `which` names the entry in the backend author's terms.
    pub(crate) async fn holds(&self, key: &str, value: &[u8], which: &str) -> Outcome {
        match self.get(key).await? {
            Some(found) if found == value => Ok(()),
            Some(found) => Err(Failure::backend(format!(
                "{which}: `get` has to give {}, and gave {}",
                shown_bytes(value),
                shown_bytes(&found)
            ))),
            None => Err(Failure::backend(format!("{which}: `get` has to give {}, and missed", shown_bytes(value)))),
        }
    }

    /// Fails when the key has a value; how it says that it has none is another check's business.
    pub(crate) async fn finds_nothing(&self, key: &str, which: &str) -> Outcome {
        match in_time("get", self.backend.get(key)).await? {
            Ok(Some(found)) => {
                Err(Failure::backend(format!("{which}: `get` has to find nothing, and gave {}", shown_bytes(&found))))
            }
            _ => Ok(()),
        }
    }

    /// Fails unless the key is a miss.
    pub(crate) async fn misses(&self, key: &str, which: &str) -> Outcome {
        match self.get(key).await? {
            None => Ok(()),
            Some(found) => {
                let found = shown_bytes(&found);
                Err(Failure::backend(format!("{which}: `get` has to be Ok(None), and gave {found}")))
            }
        }
    }
}

/// What the entry of this number in a large batch holds.
pub(crate) fn small_value(number: usize) -> Bytes {
    format!("value {number}").into()
}

/// Waits for many calls, a few at once, and gives the first failure.
pub(crate) async fn a_few_at_once(calls: Vec<impl Future<Output = Outcome>>) -> Outcome {
    stream::iter(calls).buffer_unordered(FEW).try_collect().await
}

/// Waits for a call, and turns its error or its silence into a failure.
pub(crate) async fn answered<T>(what: &str, call: impl Future<Output = Result<T, BackendError>>) -> Result<T, Failure> {
    in_time(what, call).await?.map_err(|error| Failure::backend(format!("{what} failed with {error}")))
}

/// Waits for a call, and turns its silence into a failure.
pub(crate) async fn in_time<T>(what: &str, call: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(LONGEST_CALL, call)
        .await
        .map_err(|_| Failure::backend(format!("{what} did not answer within {LONGEST_CALL:?}")))
}

/// Fails unless a call was refused with this kind.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, BackendError>, kind: ErrorKind, what: &str) -> Outcome {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(Failure::backend(format!("{what} has to be refused as `{kind:?}`, and failed with {error}"))),
        Ok(value) => Err(Failure::backend(format!("{what} has to be refused as `{kind:?}`, and gave Ok({value:?})"))),
    }
}

/// Fails with the text unless the condition holds.
pub(crate) fn ensure(condition: bool, text: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(Failure::backend(text())) }
}

/// A number nobody else has: the seed of a hash map is random, and differs from one map to the next.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A key as a person can read it: long ones by their ends.
pub(crate) fn shown(key: &str) -> String {
    let length = key.len();
    if length <= 80 {
        return format!("{key:?}");
    }
    let head: String = key.chars().take(30).collect();
    let mut tail: Vec<char> = key.chars().rev().take(20).collect();
    tail.reverse();
    format!("{head:?}...{:?} ({length} bytes)", tail.into_iter().collect::<String>())
}

fn shown_bytes(value: &[u8]) -> String {
    if value.len() <= 40 {
        format!("{:?}", Bytes::copy_from_slice(value))
    } else {
        format!("{:?}... ({} bytes)", Bytes::copy_from_slice(&value[..20]), value.len())
    }
}

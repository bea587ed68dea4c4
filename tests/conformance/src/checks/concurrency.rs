//! Many calls at once.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, ensure, in_time, shown};
use bytes::Bytes;
use cachekit_core::{Backend, SetOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Waits for all tasks and gives the first failure.
async fn all(mut tasks: JoinSet<Outcome>, what: &str) -> Outcome {
    while let Some(ended) = in_time(what, tasks.join_next()).await? {
        ended.map_err(|error| Failure::backend(format!("{what}: a task ended with {error}")))??;
    }
    Ok(())
}

fn failed(what: &str, error: &cachekit_core::BackendError) -> Failure {
    Failure::backend(format!("{what} failed with {error} while other tasks used the backend"))
}

pub(crate) async fn concurrent_keys_do_not_mix(subject: &Subject) -> Outcome {
    const TASKS: usize = 16;
    let mut tasks = JoinSet::new();
    let together = Arc::new(Barrier::new(TASKS));
    for task in 0..TASKS {
        let key = subject.key(&format!("task{task}"));
        tasks.spawn(use_one_key(Arc::clone(subject.backend()), key, task, Arc::clone(&together)));
    }
    all(tasks, "16 tasks with a key each").await
}

/// Nobody else uses the key, so every answer is known beforehand.
async fn use_one_key(backend: Arc<dyn Backend>, key: String, task: usize, together: Arc<Barrier>) -> Outcome {
    for round in 0..20 {
        // Without it a store that answers at once serves one task after the other.
        together.wait().await;
        // Sizes differ, so that a reply that is cut in the wrong place is not valid by accident.
        let value = Bytes::from(format!("{task}/{round};").repeat(1 + (task * 37 + round * 11) % 200));
        backend.set(&key, value.clone(), SetOptions::default()).await.map_err(|error| failed("set", &error))?;
        let found = backend.get(&key).await.map_err(|error| failed("get", &error))?;
        ensure(found.as_ref() == Some(&value), || {
            let found = found.map_or_else(|| "a miss".to_owned(), |found| shown(&String::from_utf8_lossy(&found)));
            format!(
                "a task reads {} of its own key, and has written {}",
                found,
                shown(&String::from_utf8_lossy(&value))
            )
        })?;
        if round % 5 == 4 {
            let there = backend.delete(&key).await.map_err(|error| failed("delete", &error))?;
            ensure(there, || {
                "`delete` of a task's own entry gave false while other tasks used the backend".to_owned()
            })?;
        }
    }
    Ok(())
}

pub(crate) async fn overwrites_are_never_torn(subject: &Subject) -> Outcome {
    const WRITES: usize = 60;
    let key = subject.key("overwritten");
    // Longer than a packet, a page and a chunk.
    let size = (subject.capabilities().max_value_bytes() / 2).min(200_000);
    let values: Arc<[Bytes]> = [b'a', b'b'].map(|byte| Bytes::from(vec![byte; size])).into();
    let writers = Arc::new(AtomicUsize::new(values.len()));
    subject.set(&key, values[0].clone()).await?;

    let together = Arc::new(Barrier::new(2 * values.len()));
    let mut tasks = JoinSet::new();
    for value in values.iter() {
        let value = value.clone();
        let (backend, key, writers) = (Arc::clone(subject.backend()), key.clone(), Arc::clone(&writers));
        let together = Arc::clone(&together);
        tasks.spawn(async move {
            together.wait().await;
            let mut outcome = Ok(());
            for _ in 0..WRITES {
                let set = backend.set(&key, value.clone(), SetOptions::default()).await;
                outcome = outcome.and(set.map_err(|error| failed("set", &error)));
                tokio::task::yield_now().await;
            }
            writers.fetch_sub(1, Ordering::SeqCst);
            outcome
        });
    }
    for _ in 0..values.len() {
        let (backend, key, writers) = (Arc::clone(subject.backend()), key.clone(), Arc::clone(&writers));
        let (values, together) = (Arc::clone(&values), Arc::clone(&together));
        tasks.spawn(async move {
            together.wait().await;
            while writers.load(Ordering::SeqCst) > 0 {
                let found = backend.get(&key).await.map_err(|error| failed("get", &error))?;
                ensure(found.as_ref().is_some_and(|found| values.contains(found)), || match found {
                    None => "a key that is being overwritten is never a miss, and was".to_owned(),
                    Some(found) => format!("a read gave a mixture of two values ({} bytes)", found.len()),
                })?;
                tokio::task::yield_now().await;
            }
            Ok(())
        });
    }
    all(tasks, "2 writers and 2 readers of one key").await
}

//! Many tasks that use one cache at once, while something happens to its server.

use crate::seen::Seen;
use crate::service::{Op, Service};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Tasks that go on until they are stopped. Each has keys of its own.
#[derive(Debug)]
pub struct Load {
    tasks: Vec<JoinHandle<Vec<(Op, Seen)>>>,
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

/// What the tasks got, in no order between them.
#[derive(Clone, Debug)]
pub struct Loaded(Vec<(Op, Seen)>);

impl Load {
    /// So many tasks with so many keys each. A task pauses for `pause` after each call.
    #[must_use]
    pub fn start(service: &Arc<Service>, tasks: usize, keys: usize, pause: Duration) -> Self {
        let (stop, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let tasks = (0..tasks)
            .map(|task| {
                let (service, stop, calls) = (service.clone(), stop.clone(), calls.clone());
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    for round in 0_usize.. {
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                        let key = format!("load/{task}/{}", round / 4 % keys);
                        let op = [Op::Set, Op::Get, Op::Delete, Op::GetOrCompute][round % 4];
                        let one = service.ask_in_a_crowd(op, &key).await;
                        if !seen.contains(&(op, one.clone())) {
                            seen.push((op, one));
                        }
                        calls.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(pause).await;
                    }
                    seen
                })
            })
            .collect();
        Self { tasks, stop, calls }
    }

    /// How many calls have returned.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Ends all tasks. What failed in one of them fails here.
    pub async fn stop(self) -> Loaded {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Vec::new();
        for task in self.tasks {
            all.extend(task.await.expect("what a task checks holds"));
        }
        Loaded(all)
    }
}

impl Loaded {
    /// Each different outcome of an operation, at least once.
    #[must_use]
    pub fn of(&self, op: Op) -> Vec<Seen> {
        self.0.iter().filter(|(of, _)| *of == op).map(|(_, seen)| seen.clone()).collect()
    }

    /// Whether somebody got this.
    #[must_use]
    pub fn has(&self, op: Op, words: &str) -> bool {
        self.of(op).iter().any(|seen| seen.words == words)
    }
}

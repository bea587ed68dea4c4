//! What a test needs in place of servers, outages and waiting: a store in memory, faults on demand, a clock moved by
//! hand. For your tests too; a release build has no business with it.
//!
//! Redis is down:
//!
//! ```
//! use cachekit_core::testing::{FaultyBackend, MemoryBackend, Op};
//! use cachekit_core::{Backend, Bytes, ErrorKind, SetOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), cachekit_core::BackendError> {
//! let redis = FaultyBackend::new(MemoryBackend::new());
//! let faults = redis.faults();
//! redis.set("user:42", Bytes::from_static(b"Alice"), SetOptions::default()).await?;
//!
//! faults.down(ErrorKind::Unavailable);
//! assert_eq!(redis.get("user:42").await.unwrap_err().kind(), ErrorKind::Unavailable);
//!
//! faults.heal();
//! assert_eq!(redis.get("user:42").await?.as_deref(), Some(&b"Alice"[..]));
//! assert_eq!(faults.calls(Op::Get), 2);
//! # Ok(())
//! # }
//! ```

mod clock;
mod fault;
mod faults;
mod faulty;
mod gate;
mod mailbox;
mod memory;
mod memory_factory;
mod random;
mod scripted_factory;
mod store;
mod trackers;

pub use clock::ManualClock;
pub use fault::{Corruption, Fault, Op};
pub use faults::{Faults, Rates};
pub use faulty::FaultyBackend;
pub use gate::Gate;
pub use memory::MemoryBackend;
pub use memory_factory::MemoryFactory;
pub use scripted_factory::{Build, ScriptedFactory};

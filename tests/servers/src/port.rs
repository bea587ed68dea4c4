//! Ports that stay ours, also while the server behind them is dead.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;

/// Below the ephemeral range of Linux (32768 and up), so that no outgoing connection takes one of them.
const PLAIN: Range<u16> = 23_000..30_000;
/// A node of a cluster also listens on its port + 10,000, which has to be below that range too.
const CLUSTER: Range<u16> = 20_000..22_700;
/// How far the second port of a node is from its first.
const BUS: u16 = 10_000;

/// A TCP port of 127.0.0.1 that no other test of this machine uses while this value lives: it holds a file lock.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// A free port.
    #[must_use]
    pub fn reserve() -> Self {
        Self::reserve_in(PLAIN, &[0])
    }

    /// A port for a node of a Redis cluster.
    #[must_use]
    pub fn reserve_for_cluster() -> Self {
        Self::reserve_in(CLUSTER, &[0, BUS])
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    fn reserve_in(range: Range<u16>, offsets: &[u16]) -> Self {
        let directory = std::env::temp_dir().join("cachekit-test-ports");
        std::fs::create_dir_all(&directory).expect("the directory of port locks is writable");
        let random = RandomState::new();
        for attempt in 0..1_000_u32 {
            let span = u64::from(range.end - range.start);
            let offset = u16::try_from(random.hash_one(attempt) % span).expect("a span of ports fits a port");
            let number = range.start + offset;
            let Ok(lock) = File::create(directory.join(number.to_string())) else { continue };
            let ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
            if ours && offsets.iter().all(|more| TcpListener::bind(("127.0.0.1", number + more)).is_ok()) {
                return Self { number, _lock: lock };
            }
        }
        panic!("no free port in {range:?}");
    }
}

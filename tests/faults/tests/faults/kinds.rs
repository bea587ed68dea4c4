//! The servers that the common faults happen to.

use cachekit::{BackendFactory, registry};
use cachekit_faults::{Cell, Row, Stage};
use cachekit_servers::{Certificates, Leaf, Memcached, RedisServer};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server that can be broken.
pub(crate) trait Server: Send + Sync {
    fn address(&self) -> String;
    /// The URL of it behind another address.
    fn url(&self, address: &str) -> String;
    fn kill(&self);
    fn pause(&self);
    fn restart(&self);
    fn resume(&self);
}

/// A backend whose server is one process behind one address.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its section in the document.
    pub(crate) title: &'static str,
    /// The first part of its scenarios' names.
    pub(crate) name: &'static str,
    pub(crate) start: fn() -> Arc<dyn Server>,
    /// What an attempt to build it may take.
    pub(crate) build_bound: Duration,
    pub(crate) encrypted: bool,
}

pub(crate) const REDIS: Kind = Kind {
    title: "Redis",
    name: "redis",
    start: || Arc::new(Redis { server: RedisServer::start(), certificates: None }),
    build_bound: CONNECT,
    encrypted: false,
};

pub(crate) const REDIS_TLS: Kind = Kind {
    title: "Redis with TLS",
    name: "redis-tls",
    start: || {
        let certificates = Certificates::new(Leaf::Good);
        let server = RedisServer::builder().tls(&certificates).start();
        Arc::new(Redis { server, certificates: Some(certificates) })
    },
    build_bound: CONNECT,
    encrypted: true,
};

pub(crate) const MEMCACHED: Kind = Kind {
    title: "memcached",
    name: "memcached",
    start: || Arc::new(Memcached::start()),
    build_bound: Duration::from_millis(500),
    encrypted: false,
};

/// The connect timeout of the Redis backend.
pub(crate) const CONNECT: Duration = Duration::from_secs(1);

struct Redis {
    server: RedisServer,
    certificates: Option<Certificates>,
}

impl Server for Redis {
    fn address(&self) -> String {
        self.server.address()
    }
    fn url(&self, address: &str) -> String {
        match &self.certificates {
            Some(certificates) => format!("rediss://{address}?ca={}", certificates.ca().display()),
            None => format!("redis://{address}"),
        }
    }
    fn kill(&self) {
        self.server.kill();
    }
    fn pause(&self) {
        pause(&self.server);
    }
    fn restart(&self) {
        self.server.restart();
    }
    fn resume(&self) {
        self.server.resume();
    }
}

impl Server for Memcached {
    fn address(&self) -> String {
        self.address()
    }
    fn url(&self, address: &str) -> String {
        format!("memcache://{address}")
    }
    fn kill(&self) {
        self.kill();
    }
    fn pause(&self) {
        self.pause();
        wait_until_stopped(self.pid());
    }
    fn restart(&self) {
        self.restart();
    }
    fn resume(&self) {
        self.resume();
    }
}

impl Kind {
    /// Caches on a server.
    pub(crate) fn stage(&self, server: &dyn Server) -> Stage {
        self.stage_at(server, &server.address())
    }

    /// Caches on a server behind something that has this address.
    pub(crate) fn stage_at(&self, server: &dyn Server, address: &str) -> Stage {
        let stage = Stage::new(self.build_bound, by(&server.url(address)));
        if self.encrypted { stage.with_encryption() } else { stage }
    }

    pub(crate) fn row(&self, fault: &str, operations: [Cell; 4], build: Cell, recovery: impl ToString) -> Row {
        row(self.title, fault, operations, build, recovery)
    }
}

/// How to reach the backend of this URL.
pub(crate) fn by(url: &str) -> impl Fn() -> Arc<dyn BackendFactory> + Send + Sync + 'static {
    let url = url.to_owned();
    move || registry().factory(&url).expect("the URL is right")
}

/// Stops it (SIGSTOP): when this returns, it answers no more.
pub(crate) fn pause(server: &RedisServer) {
    server.pause();
    wait_until_stopped(server.pid());
}

/// A signal is on its way for a moment, and to each thread.
fn wait_until_stopped(pid: u32) {
    let end = Instant::now() + Duration::from_secs(5);
    let is_stopped = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| stat.contains(") T "))
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten().all(is_stopped) {
        assert!(Instant::now() < end, "process {pid} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn row(
    backend: &'static str,
    fault: &str,
    operations: [Cell; 4],
    build: Cell,
    recovery: impl ToString,
) -> Row {
    Row { backend, fault: fault.to_owned(), operations, build, recovery: Cell::text(recovery.to_string()) }
}

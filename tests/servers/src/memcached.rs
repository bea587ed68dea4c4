//! memcached.

use crate::port::Port;
use crate::process::Process;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const READY_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const TRIES: usize = 10;

/// A `memcached` of the test's own.
///
/// ```
/// let server = cachekit_servers::Memcached::start();
/// assert!(server.ask("version").starts_with("VERSION "));
/// ```
#[derive(Debug)]
pub struct Memcached {
    settings: MemcachedBuilder,
    port: Option<Port>,
    directory: TempDir,
    process: Mutex<Process>,
}

/// How to start a [`Memcached`].
#[derive(Clone, Debug, Default)]
pub struct MemcachedBuilder {
    arguments: Vec<String>,
    unix: bool,
}

impl MemcachedBuilder {
    /// Adds an argument of `memcached`: `.arg("-I").arg("4m")`.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Listens on a Unix socket instead of a port.
    #[must_use]
    pub fn unix(mut self) -> Self {
        self.unix = true;
        self
    }

    /// Starts it, and waits until it tells its version.
    #[must_use]
    pub fn start(self) -> Memcached {
        for _ in 0..TRIES {
            let port = (!self.unix).then(Port::reserve);
            let directory = tempfile::Builder::new().prefix("cachekit-memcached-").tempdir().expect("a directory");
            let process = Mutex::new(self.spawn(port.as_ref(), directory.path()));
            let server = Memcached { settings: self.clone(), port, directory, process };
            if server.wait_until_ready() {
                return server;
            }
            if !server.log().contains("Address already in use") {
                panic!("memcached did not get ready within {READY_WITHIN:?}:\n{}", server.log());
            }
        }
        panic!("memcached found no free port in {TRIES} tries");
    }

    fn spawn(&self, port: Option<&Port>, directory: &Path) -> Process {
        let binary = std::env::var("CACHE_MEMCACHED_BIN").unwrap_or_else(|_| "memcached".to_owned());
        let mut command = Command::new(binary);
        command.current_dir(directory);
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root otherwise.
            command.args(["-u", "root"]);
        }
        match port {
            None => command.arg("-s").arg(directory.join("socket")),
            Some(port) => command.args(["-U", "0", "-l", "127.0.0.1", "-p", &port.number().to_string()]),
        };
        command.args(&self.arguments);
        Process::spawn(command, &[directory], "memcached")
    }
}

impl Memcached {
    /// A plain server on a TCP port.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// How to start another one.
    #[must_use]
    pub fn builder() -> MemcachedBuilder {
        MemcachedBuilder::default()
    }

    /// `memcache://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("memcache://{}", self.address())
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        let port = self.port.as_ref().expect("a server on a Unix socket has no port");
        format!("127.0.0.1:{}", port.number())
    }

    /// Its Unix socket, for one that was started with [`unix`](MemcachedBuilder::unix).
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// What it wrote to its output.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// SIGSTOP: it hangs, and its connections stay. None of its threads answers any more when this returns.
    pub fn pause(&self) {
        let process = self.process();
        process.signal(Signal::STOP);
        let end = Instant::now() + READY_WITHIN;
        while runs(process.id()) {
            assert!(Instant::now() < end, "memcached does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.process().signal(Signal::CONT);
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills it if it still runs, starts it on the same port or socket, and waits until it answers.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();
        *process = self.settings.spawn(self.port.as_ref(), self.directory.path());
        drop(process);
        assert!(self.wait_until_ready(), "memcached did not come back:\n{}", self.log());
    }

    /// The answer to a command line of the text protocol: what comes until `END`, or the first line; empty for none.
    pub fn ask(&self, line: &str) -> String {
        let answer = match &self.port {
            Some(_) => TcpStream::connect(self.address()).and_then(|stream| {
                stream.set_read_timeout(Some(ANSWER_WITHIN))?;
                exchange(stream, line)
            }),
            None => UnixStream::connect(self.socket()).and_then(|stream| {
                stream.set_read_timeout(Some(ANSWER_WITHIN))?;
                exchange(stream, line)
            }),
        };
        answer.unwrap_or_default()
    }

    fn wait_until_ready(&self) -> bool {
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            if self.ask("version").starts_with("VERSION ") {
                return true;
            }
            if self.process().has_exited() {
                return false;
            }
            std::thread::sleep(POLL);
        }
        false
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a thread of a process is not stopped: a signal is on its way to each for a while. Where the system does not
/// tell, none is.
fn runs(id: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else { return false };
    threads.flatten().any(|thread| {
        // `123 (memcached) T ...`
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('T'))
    })
}

fn exchange(mut stream: impl Read + Write, line: &str) -> std::io::Result<String> {
    let longer = ["stats", "get", "gets"].iter().any(|command| line.starts_with(command));
    stream.write_all(format!("{line}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !(answer.ends_with(b"\r\n") && (!longer || answer.ends_with(b"END\r\n") || answer.ends_with(b"ERROR\r\n"))) {
        if stream.read(&mut byte)? == 0 {
            break;
        }
        answer.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

//! redis-server.

use crate::certificates::Certificates;
use crate::port::Port;
use crate::process::Process;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const READY_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
/// A port may be taken by a process that is none of our tests.
const TRIES: usize = 10;

/// A `redis-server` of the test's own.
///
/// ```
/// let server = cachekit_servers::RedisServer::start();
/// assert_eq!(server.cli(&["SET", "k", "v"]), "OK");
/// assert_eq!(server.cli(&["GET", "k"]), "v");
/// ```
#[derive(Debug)]
pub struct RedisServer {
    settings: RedisBuilder,
    port: Option<Port>,
    directory: TempDir,
    process: Mutex<Process>,
}

/// How to start a [`RedisServer`].
#[derive(Clone, Debug, Default)]
pub struct RedisBuilder {
    arguments: Vec<String>,
    certificates: Option<Certificates>,
    cluster: bool,
    password: Option<String>,
    sentinel: Option<String>,
    unix: bool,
}

impl RedisBuilder {
    /// Adds an argument of `redis-server`: `.arg("--maxmemory").arg("4mb")`.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments.extend(arguments.map(str::to_owned));
        self
    }

    /// A node of a cluster, to be joined with others.
    #[must_use]
    pub fn cluster_node(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// The password of the user `default`.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// A sentinel instead of a server, with this configuration.
    #[must_use]
    pub fn sentinel(mut self, configuration: impl Into<String>) -> Self {
        self.sentinel = Some(configuration.into());
        self
    }

    /// Listens with TLS, and only so. It asks clients for no certificate.
    #[must_use]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Listens on a Unix socket instead of a port.
    #[must_use]
    pub fn unix(mut self) -> Self {
        self.unix = true;
        self
    }

    /// Starts it, and waits until it answers `PONG`.
    #[must_use]
    pub fn start(self) -> RedisServer {
        self.start_until(is_ready)
    }

    /// Starts it, and waits until it answers anything, for example that it is loading.
    #[must_use]
    pub fn start_unready(self) -> RedisServer {
        self.start_until(is_there)
    }

    fn start_until(self, state: fn(&str) -> bool) -> RedisServer {
        for _ in 0..TRIES {
            let port = match (self.unix, self.cluster) {
                (true, _) => None,
                (false, true) => Some(Port::reserve_for_cluster()),
                (false, false) => Some(Port::reserve()),
            };
            let directory =
                tempfile::Builder::new().prefix("cachekit-redis-").tempdir().expect("a temporary directory");
            if let Some(configuration) = &self.sentinel {
                std::fs::write(directory.path().join("sentinel.conf"), configuration).expect("it is writable");
            }
            let process = Mutex::new(self.spawn(port.as_ref(), directory.path()));
            let server = RedisServer { settings: self.clone(), port, directory, process };
            if server.wait_until(state) {
                return server;
            }
            if !server.log().contains("Address already in use") {
                panic!("redis-server did not get ready within {READY_WITHIN:?}:\n{}", server.log());
            }
        }
        panic!("redis-server found no free port in {TRIES} tries");
    }

    fn spawn(&self, port: Option<&Port>, directory: &Path) -> Process {
        let binary = std::env::var("CACHE_REDIS_BIN").unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(binary);
        if self.sentinel.is_some() {
            command.arg(directory.join("sentinel.conf")).arg("--sentinel");
        } else {
            command.args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]);
        }
        command.arg("--dir").arg(directory).current_dir(directory);
        let number = port.map_or(0, Port::number).to_string();
        match (&self.certificates, port) {
            (_, None) => {
                command.args(["--port", "0", "--unixsocket"]).arg(socket(directory));
            }
            (None, Some(_)) => {
                command.args(["--bind", "127.0.0.1", "--port", &number]);
            }
            (Some(certificates), Some(_)) => {
                command.args(["--bind", "127.0.0.1", "--port", "0", "--tls-port", &number, "--tls-auth-clients", "no"]);
                command.arg("--tls-cert-file").arg(certificates.certificate());
                command.arg("--tls-key-file").arg(certificates.key());
                command.arg("--tls-ca-cert-file").arg(certificates.ca());
            }
        }
        if self.cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"]);
        }
        if let Some(password) = &self.password {
            command.args(["--requirepass", password, "--masterauth", password]);
        }
        command.args(&self.arguments);
        let mut directories = vec![directory];
        directories.extend(self.certificates.as_ref().map(Certificates::directory));
        Process::spawn(command, &directories, "redis-server redis-tools redis-sentinel")
    }
}

impl RedisServer {
    /// A plain server on a TCP port.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// How to start another one.
    #[must_use]
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// The URL of database 0, with the password it was started with.
    #[must_use]
    pub fn url(&self) -> String {
        let user = self.settings.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        match (&self.settings.certificates, &self.port) {
            (_, None) => format!("redis+unix://{user}{}", self.socket().display()),
            (None, Some(port)) => format!("redis://{user}127.0.0.1:{}", port.number()),
            (Some(_), Some(port)) => format!("rediss://{user}localhost:{}", port.number()),
        }
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Its TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.as_ref().expect("a server on a Unix socket has no port").number()
    }

    /// Its Unix socket, for one that was started with [`unix`](RedisBuilder::unix).
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket(self.directory.path())
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// What it wrote to its log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// SIGSTOP: it hangs, and its connections stay.
    pub fn pause(&self) {
        self.process().signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.process().signal(Signal::CONT);
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills it if it still runs, starts it on the same port or socket, and waits until it answers `PONG`.
    pub fn restart(&self) {
        self.restart_until(is_ready);
    }

    /// As [`restart`](Self::restart), with what it had in memory, and waits until it answers anything.
    pub fn save_and_restart_unready(&self) {
        assert_eq!(self.cli(&["SAVE"]), "OK");
        self.restart_until(is_there);
    }

    fn restart_until(&self, state: fn(&str) -> bool) {
        let mut process = self.process();
        process.kill();
        *process = self.settings.spawn(self.port.as_ref(), self.directory.path());
        drop(process);
        assert!(self.wait_until(state), "redis-server did not come back:\n{}", self.log());
    }

    /// What `redis-cli` prints for a command, without the last line end. An error of the server is text too.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = self.cli_output(arguments);
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Waits until `redis-cli` prints what is wanted for a command; panics after ten seconds.
    pub fn wait_for(&self, arguments: &[&str], wanted: impl Fn(&str) -> bool) {
        let end = Instant::now() + READY_WITHIN;
        loop {
            let answer = self.cli(arguments);
            if wanted(&answer) {
                return;
            }
            assert!(Instant::now() < end, "redis-server still says to {arguments:?}: {answer}\n{}", self.log());
            std::thread::sleep(POLL);
        }
    }

    fn cli_output(&self, arguments: &[&str]) -> Output {
        let binary = std::env::var("CACHE_REDIS_CLI_BIN").unwrap_or_else(|_| "redis-cli".to_owned());
        // A server that hangs is what these tests are about.
        let mut command = Command::new("timeout");
        command.args(["10", &binary]);
        match &self.port {
            None => command.arg("-s").arg(self.socket()),
            Some(port) => command.args(["-h", "127.0.0.1", "-p", &port.number().to_string()]),
        };
        if let Some(certificates) = &self.settings.certificates {
            command.args(["--tls", "--insecure"]).arg("--cacert").arg(certificates.ca());
        }
        if let Some(password) = &self.settings.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.args(arguments).output().expect("coreutils has `timeout`");
        let missing = matches!(output.status.code(), Some(126 | 127));
        assert!(!missing, "{binary} does not start: install it with `apt-get install redis-tools`");
        output
    }

    /// Whether it got into the state in time.
    fn wait_until(&self, state: fn(&str) -> bool) -> bool {
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            if state(&self.cli(&["PING"])) {
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

fn socket(directory: &Path) -> PathBuf {
    directory.join("socket")
}

fn is_ready(answer: &str) -> bool {
    answer == "PONG"
}

fn is_there(answer: &str) -> bool {
    // What the server says; what redis-cli itself finds goes to its standard error.
    !answer.is_empty()
}

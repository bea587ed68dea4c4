//! A wire that can be cut: an in-process TCP proxy in front of a server.

use crate::flow::{Flow, carry};
use crate::port::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ends each connection in order (FIN) after so many more bytes of the server's answers.
    CutAfter(u64),
    /// Lets each piece of data wait for so long.
    Delay(Duration),
    /// Lets through one byte per so long, in both directions.
    Drip(Duration),
    /// Holds back everything on the connections there are; those that come later work.
    Freeze,
    /// Replaces the server's answers by noise.
    Garbage,
    /// Lets everything through.
    Pass,
    /// Refuses new connections; those there are go on.
    Refuse,
    /// Holds back everything. New connections are accepted.
    Stall,
}

/// The mode since when: a switch to the same mode begins it anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) mode: Mode,
    pub(crate) switch: u64,
    /// Ends all connections there are with a reset.
    pub(crate) resets: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) to_server: AtomicU64,
    pub(crate) to_client: AtomicU64,
}

/// A TCP proxy on a thread of its own. Dropping it ends its connections.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    setting: watch::Sender<Setting>,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    listening: watch::Receiver<bool>,
}

impl Proxy {
    /// Starts one in front of `host:port`, which need not answer yet.
    #[must_use]
    pub fn start(target: impl Into<String>) -> Self {
        let port = Port::reserve();
        let (setting, settings) = watch::channel(Setting { mode: Mode::Pass, switch: 0, resets: 0 });
        let (stop, stopped) = oneshot::channel();
        let (listens, listening) = watch::channel(false);
        let counts = Arc::<Counts>::default();
        let door = Door { number: port.number(), target: target.into(), settings, counts: counts.clone(), listens };
        let thread = std::thread::Builder::new()
            .name("fault-proxy".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    tokio::select! {
                        () = door.keep() => {}
                        _ = stopped => {}
                    }
                });
                // Connections are tasks of the runtime, and end with it.
                runtime.shutdown_background();
            })
            .expect("a thread");
        let proxy = Self { port, setting, counts, stop: Some(stop), thread: Some(thread), listening };
        proxy.wait_until_listening(true);
        proxy
    }

    /// `127.0.0.1:port` of the proxy.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// Switches what the wire does, for the connections there are too. A refused port is free when this returns.
    pub fn set(&self, mode: Mode) {
        self.setting.send_modify(|setting| {
            setting.mode = mode;
            setting.switch += 1;
        });
        self.wait_until_listening(mode != Mode::Refuse);
    }

    /// Ends all connections there are with a reset, and goes on in the mode it is in.
    pub fn reset_all(&self) {
        self.setting.send_modify(|setting| setting.resets += 1);
    }

    /// How many connections it has accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.counts.open.load(Ordering::Relaxed)
    }

    /// How many bytes went to the server.
    #[must_use]
    pub fn bytes_to_server(&self) -> u64 {
        self.counts.to_server.load(Ordering::Relaxed)
    }

    /// How many bytes went to clients.
    #[must_use]
    pub fn bytes_to_client(&self) -> u64 {
        self.counts.to_client.load(Ordering::Relaxed)
    }

    fn wait_until_listening(&self, wanted: bool) {
        for _ in 0..2_000 {
            if *self.listening.borrow() == wanted {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the proxy did not get to {} its port", if wanted { "open" } else { "close" });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What accepts connections.
struct Door {
    number: u16,
    target: String,
    settings: watch::Receiver<Setting>,
    counts: Arc<Counts>,
    listens: watch::Sender<bool>,
}

impl Door {
    async fn keep(mut self) {
        loop {
            let refused = self.settings.wait_for(|setting| setting.mode != Mode::Refuse).await.is_err();
            if refused {
                return;
            }
            // Ours by its lock, but a closed connection may linger in the kernel.
            let Ok(listener) = TcpListener::bind(("127.0.0.1", self.number)).await else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            self.listens.send_replace(true);
            let mut settings = self.settings.clone();
            tokio::select! {
                () = self.accept_all(&listener) => {}
                _ = settings.wait_for(|setting| setting.mode == Mode::Refuse) => {}
            }
            drop(listener);
            self.listens.send_replace(false);
        }
    }

    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            let Ok((client, _)) = listener.accept().await else { continue };
            self.counts.accepted.fetch_add(1, Ordering::Relaxed);
            let flow = Flow::new(self.settings.clone(), self.counts.clone());
            let target = self.target.clone();
            tokio::spawn(async move {
                // A server that is not there closes the client's connection, as a load balancer does.
                if let Ok(server) = TcpStream::connect(target).await {
                    carry(client, server, flow).await;
                }
            });
        }
    }
}

//! One connection through the proxy.

use crate::proxy::{Counts, Mode, Setting};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct Flow {
    settings: watch::Receiver<Setting>,
    /// The switch and the reset at which it was accepted: later ones find it existing.
    born: Setting,
    counts: Arc<Counts>,
    /// For [`Mode::CutAfter`]: the switch it counts for, and what may still pass.
    cut: Arc<(AtomicU64, AtomicU64)>,
}

enum Way {
    ToClient,
    ToServer,
}

impl Flow {
    pub(crate) fn new(settings: watch::Receiver<Setting>, counts: Arc<Counts>) -> Self {
        let born = *settings.borrow();
        Self { settings, born, counts, cut: Arc::default() }
    }

    fn is_held(&self, setting: &Setting) -> bool {
        match setting.mode {
            Mode::Freeze => setting.switch > self.born.switch,
            Mode::Stall => true,
            _ => false,
        }
    }

    /// The setting, as soon as it lets data through.
    async fn passable(&mut self) -> Option<Setting> {
        let probe = self.clone();
        self.settings.wait_for(|setting| !probe.is_held(setting)).await.ok().map(|setting| *setting)
    }

    /// How much of `wanted` bytes may still pass in this cut.
    fn take(&self, setting: &Setting, most: u64, wanted: usize) -> usize {
        let (counted_for, left) = &*self.cut;
        if counted_for.swap(setting.switch, Ordering::Relaxed) != setting.switch {
            left.store(most, Ordering::Relaxed);
        }
        let allowed = usize::try_from(left.load(Ordering::Relaxed)).unwrap_or(usize::MAX).min(wanted);
        left.fetch_sub(allowed as u64, Ordering::Relaxed);
        allowed
    }
}

pub(crate) async fn carry(mut client: TcpStream, mut server: TcpStream, flow: Flow) {
    flow.counts.open.fetch_add(1, Ordering::Relaxed);
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let mut settings = flow.settings.clone();
    let resets = flow.born.resets;
    let was_reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            // The first direction that ends ends both: what a client or a server sees is a closed connection.
            _ = pump(from_client, to_server, flow.clone(), Way::ToServer) => false,
            _ = pump(from_server, to_client, flow.clone(), Way::ToClient) => false,
            _ = settings.wait_for(|setting| setting.resets > resets) => true,
        }
    };
    if was_reset {
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
    flow.counts.open.fetch_sub(1, Ordering::Relaxed);
}

async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut flow: Flow, way: Way) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        if flow.passable().await.is_none() {
            return Ok(());
        }
        let read = from.read(&mut buffer).await?;
        // What was read while the mode changed is held back too, the end of the connection included.
        let Some(setting) = flow.passable().await else { return Ok(()) };
        if read == 0 {
            return to.shutdown().await;
        }
        let mut data = &mut buffer[..read];
        let count = match way {
            Way::ToClient => &flow.counts.to_client,
            Way::ToServer => &flow.counts.to_server,
        };
        let mut last = false;
        match (setting.mode, &way) {
            (Mode::CutAfter(most), Way::ToClient) => {
                let allowed = flow.take(&setting, most, data.len());
                last = allowed < data.len();
                data = &mut data[..allowed];
            }
            (Mode::Delay(wait), _) => tokio::time::sleep(wait).await,
            (Mode::Drip(every), _) => {
                count.fetch_add(data.len() as u64, Ordering::Relaxed);
                drip(data, &mut to, every, &mut flow.settings).await?;
                continue;
            }
            // Never what a Redis or memcached reply starts with.
            (Mode::Garbage, Way::ToClient) => data.fill(0x7f),
            _ => {}
        }
        // Before they go, so that whoever got them finds them counted.
        count.fetch_add(data.len() as u64, Ordering::Relaxed);
        to.write_all(data).await?;
        if last {
            return to.shutdown().await;
        }
    }
}

/// One byte at a time, until the mode changes.
async fn drip(
    data: &[u8],
    to: &mut WriteHalf<'_>,
    every: Duration,
    settings: &mut watch::Receiver<Setting>,
) -> io::Result<()> {
    let switch = settings.borrow().switch;
    for (at, byte) in data.iter().enumerate() {
        if settings.borrow().switch != switch {
            return to.write_all(&data[at..]).await;
        }
        to.write_all(std::slice::from_ref(byte)).await?;
        tokio::time::sleep(every).await;
    }
    Ok(())
}

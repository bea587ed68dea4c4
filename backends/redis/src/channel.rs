//! Messages of a channel, over a connection of their own that is kept like the other one.

use crate::backoff::Backoff;
use crate::dial::dial_channel;
use crate::supervisor::Supervisor;
use cachekit_core::{BackendError, Bytes, ErrorKind, Message, Subscription, async_trait};
use futures_util::stream::StreamExt;
use redis::aio::PubSub;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many messages wait for a reader before some are lost.
const MOST_WAITING: usize = 1_024;

#[derive(Debug)]
struct Channel {
    messages: mpsc::Receiver<Message>,
    listener: JoinHandle<()>,
}

pub(crate) async fn subscribe(
    supervisor: &Arc<Supervisor>,
    channel: &str,
) -> Result<Box<dyn Subscription>, BackendError> {
    supervisor.wait_until_ready().await?;
    let config = supervisor.config().clone();
    let first = dial_channel(&config, channel, 0).await?;
    let (sender, messages) = mpsc::channel(MOST_WAITING);
    let closed = supervisor.closed();
    let channel = channel.to_owned();
    let listener = tokio::spawn(async move {
        let listening = async {
            let mut listener = Listener { sender, lost: false };
            let mut connection = first;
            for attempt in 1.. {
                listener.listen(connection).await;
                listener.lost = true;
                connection = redial(&config, &channel, attempt).await;
            }
        };
        tokio::select! {
            () = listening => {}
            () = closed => {}
        }
    });
    Ok(Box::new(Channel { messages, listener }))
}

async fn redial(config: &crate::RedisConfig, channel: &str, mut attempt: usize) -> PubSub {
    let mut backoff = Backoff::default();
    loop {
        if let Ok(connection) = dial_channel(config, channel, attempt).await {
            return connection;
        }
        attempt = attempt.wrapping_add(1);
        backoff.pause().await;
    }
}

struct Listener {
    sender: mpsc::Sender<Message>,
    /// The reader has not been told yet that messages are missing.
    lost: bool,
}

impl Listener {
    /// Hands on messages until the connection ends.
    async fn listen(&mut self, connection: PubSub) {
        self.tell_lost();
        let mut messages = connection.into_on_message();
        while let Some(message) = messages.next().await {
            self.tell_lost();
            let payload = Message::Payload(Bytes::copy_from_slice(message.get_payload_bytes()));
            // Never waits: the server drops a subscriber that does not read.
            self.lost |= self.lost || self.sender.try_send(payload).is_err();
        }
    }

    fn tell_lost(&mut self) {
        if self.lost {
            self.lost = self.sender.try_send(Message::Lost).is_err();
        }
    }
}

#[async_trait]
impl Subscription for Channel {
    async fn next(&mut self) -> Result<Message, BackendError> {
        let message = self.messages.recv().await;
        message.ok_or_else(|| BackendError::new(ErrorKind::Closed, "the redis backend was closed"))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

//! Messages that were sealed by whoever published them.

use crate::door::Door;
use cachekit_core::{BackendError, Message, Subscription, async_trait};

#[derive(Debug)]
pub(crate) struct SealedSubscription {
    pub(crate) inner: Box<dyn Subscription>,
    pub(crate) door: Door,
    pub(crate) channel: String,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Subscription for SealedSubscription {
    async fn next(&mut self) -> Result<Message, BackendError> {
        Ok(match self.inner.next().await? {
            // Somebody said something that cannot be read: the same as a message that was missed.
            Message::Payload(message) => {
                self.door.open_message(&self.channel, message).map_or(Message::Lost, Message::Payload)
            }
            other => other,
        })
    }
}

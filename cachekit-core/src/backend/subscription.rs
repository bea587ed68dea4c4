//! Messages between the processes that share a backend.

use crate::BackendError;
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt::Debug;

/// What a [`Subscription`] brings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// Messages may have been missed since the one before: the connection was lost or the reader was too slow.
    Lost,
    /// What somebody published.
    Payload(Bytes),
}

/// Messages of one channel, in the order in which the store saw them. Dropping it ends the subscription.
#[async_trait]
pub trait Subscription: Debug + Send + 'static {
    /// The next message. Dropping the future loses no message.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::ErrorKind::Closed) after the backend was closed; nothing comes after that.
    async fn next(&mut self) -> Result<Message, BackendError>;
}

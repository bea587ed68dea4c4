//! Wrong with messages.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, Message, Subscription, async_trait};
use std::collections::HashMap;
use std::sync::Mutex;

/// Sends on another channel than the one it was given.
#[derive(Debug)]
pub(crate) struct Channels(pub(crate) fn(&str) -> String);

#[async_trait]
impl Twist for Channels {
    async fn publish(&self, inner: &MemoryBackend, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        inner.publish(&(self.0)(channel), payload).await
    }
    async fn subscribe(&self, inner: &MemoryBackend, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        inner.subscribe(&(self.0)(channel)).await
    }
}

pub(crate) fn only_one(_: &str) -> String {
    "everything".to_owned()
}

pub(crate) fn in_lower_case(channel: &str) -> String {
    channel.to_lowercase()
}

/// Brings the last message that somebody sent before.
#[derive(Debug, Default)]
pub(crate) struct Retains(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl Twist for Retains {
    async fn publish(&self, inner: &MemoryBackend, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        self.0.lock().unwrap().insert(channel.to_owned(), payload.clone());
        inner.publish(channel, payload).await
    }
    async fn subscribe(&self, inner: &MemoryBackend, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        let subscription = inner.subscribe(channel).await?;
        let retained = self.0.lock().unwrap().get(channel).cloned();
        if let Some(payload) = retained {
            inner.publish(channel, payload).await?;
        }
        Ok(subscription)
    }
}

/// Loses what it has taken when `next` is dropped.
#[derive(Debug)]
pub(crate) struct LosesWhenDropped;

#[derive(Debug)]
struct Losing(Box<dyn Subscription>);

#[async_trait]
impl Subscription for Losing {
    async fn next(&mut self) -> Result<Message, BackendError> {
        let message = self.0.next().await;
        tokio::task::yield_now().await;
        message
    }
}

#[async_trait]
impl Twist for LosesWhenDropped {
    async fn subscribe(&self, inner: &MemoryBackend, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        Ok(Box::new(Losing(inner.subscribe(channel).await?)))
    }
}

/// Brings messages in pairs, the second first.
#[derive(Debug)]
pub(crate) struct Swaps;

#[derive(Debug)]
struct Swapping(Box<dyn Subscription>, Vec<Message>);

#[async_trait]
impl Subscription for Swapping {
    async fn next(&mut self) -> Result<Message, BackendError> {
        while self.1.len() < 2 {
            let message = self.0.next().await?;
            self.1.push(message);
        }
        Ok(self.1.remove(1))
    }
}

#[async_trait]
impl Twist for Swaps {
    async fn subscribe(&self, inner: &MemoryBackend, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        Ok(Box::new(Swapping(inner.subscribe(channel).await?, Vec::new())))
    }
}

/// Takes payloads of up to 1,000 bytes, and drops the others.
#[derive(Debug)]
pub(crate) struct DropsLong;

#[async_trait]
impl Twist for DropsLong {
    async fn publish(&self, inner: &MemoryBackend, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        if payload.len() > 1_000 { Ok(()) } else { inner.publish(channel, payload).await }
    }
}

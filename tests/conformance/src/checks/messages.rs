//! Messages, where the backend carries them.

use crate::Failure;
use crate::abandon::abandon_after;
use crate::check::Outcome;
use crate::subject::{Subject, answered, ensure};
use bytes::Bytes;
use cachekit_core::{Message, Subscription};

async fn subscribe(subject: &Subject, channel: &str) -> Result<Box<dyn Subscription>, Failure> {
    answered("subscribe", subject.backend().subscribe(channel)).await
}

async fn publish(subject: &Subject, channel: &str, payload: &[u8]) -> Outcome {
    answered("publish", subject.backend().publish(channel, Bytes::copy_from_slice(payload))).await
}

fn shown(message: &Message) -> String {
    match message {
        Message::Payload(payload) if payload.len() > 40 => format!("a payload of {} bytes", payload.len()),
        message => format!("{message:?}"),
    }
}

/// The next message has to be this one.
async fn brings(subscription: &mut Box<dyn Subscription>, expected: &[u8], which: &str) -> Outcome {
    // Given up once, as `select!` does; that loses no message.
    let message = match abandon_after(1, subscription.next()).await {
        Some(message) => answered("next", async { message }).await?,
        None => answered(&format!("next ({which})"), subscription.next()).await?,
    };
    let expected = Message::Payload(Bytes::copy_from_slice(expected));
    ensure(message == expected, || format!("{which} has to be {}, and was {}", shown(&expected), shown(&message)))
}

pub(crate) async fn published_messages_arrive_in_order(subject: &Subject) -> Outcome {
    if !subject.capabilities().publish() {
        return Ok(());
    }
    let channel = subject.key("channel");
    publish(subject, &channel, b"nobody listens yet").await?;
    let mut first = subscribe(subject, &channel).await?;
    let mut second = subscribe(subject, &channel).await?;
    let mut payloads: Vec<Vec<u8>> = (0..20).map(|number| format!("message {number}").into_bytes()).collect();
    payloads.push(b"\0\r\n\xff".to_vec());
    // Longer than a page, and than 16 bits can count.
    let most = subject.capabilities().max_value_bytes();
    payloads.extend([5_000, 70_000].map(|size| b"long".iter().copied().cycle().take(most.min(size)).collect()));
    payloads.push(Vec::new());
    payloads.push(b"the last".to_vec());
    for payload in &payloads {
        publish(subject, &channel, payload).await?;
    }
    for (number, payload) in payloads.iter().enumerate() {
        brings(&mut first, payload, &format!("message {number} of the first subscriber")).await?;
        brings(&mut second, payload, &format!("message {number} of the second subscriber")).await?;
    }
    Ok(())
}

pub(crate) async fn channels_do_not_mix(subject: &Subject) -> Outcome {
    if !subject.capabilities().publish() {
        return Ok(());
    }
    // Some that a pattern would match.
    let channels = ["news", "news:", "NEWS", "new*", "new?"].map(|name| subject.key(name));
    let mut subscriptions = Vec::new();
    for channel in &channels {
        subscriptions.push(subscribe(subject, channel).await?);
    }
    for round in ["one", "two"] {
        for channel in &channels {
            publish(subject, channel, format!("{round} {channel}").as_bytes()).await?;
        }
    }
    for (channel, subscription) in channels.iter().zip(&mut subscriptions) {
        for round in ["one", "two"] {
            let expected = format!("{round} {channel}");
            brings(subscription, expected.as_bytes(), &format!("the next message of {channel:?}")).await?;
        }
    }
    Ok(())
}

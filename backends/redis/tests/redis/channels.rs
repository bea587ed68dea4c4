//! Messages when the connection ends.

use super::*;
use cachekit_core::{ErrorKind, Message};
use cachekit_servers::{Proxy, RedisServer};

async fn publish(backend: &dyn Backend, payload: &str) {
    backend.publish("news", Bytes::copy_from_slice(payload.as_bytes())).await.unwrap();
}

fn payload(text: &str) -> Message {
    Message::Payload(Bytes::copy_from_slice(text.as_bytes()))
}

#[tokio::test]
async fn a_subscription_whose_connection_ends_says_so_and_goes_on() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let backend = build(&format!("redis://{}", proxy.address())).await;
    let mut news = backend.subscribe("news").await.unwrap();
    publish(&*backend, "one").await;
    assert_eq!(news.next().await.unwrap(), payload("one"));
    proxy.reset_all();
    let (lost, took) = timed(news.next()).await;
    assert_eq!(lost.unwrap(), Message::Lost);
    println!("the subscription was back after {took:?}");
    assert!(took < RECOVERY, "{took:?}");
    recovers(&*backend, RECOVERY).await;
    publish(&*backend, "two").await;
    assert_eq!(news.next().await.unwrap(), payload("two"));
    server.restart();
    let (lost, took) = timed(news.next()).await;
    assert!(lost.unwrap() == Message::Lost && took < RECOVERY + GRACE, "{took:?}");
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_that_it_missed_messages() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    let mut news = backend.subscribe("news").await.unwrap();
    for number in 0..1_100 {
        publish(&*backend, &number.to_string()).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    for number in 0..1_024 {
        assert_eq!(news.next().await.unwrap(), payload(&number.to_string()));
    }
    publish(&*backend, "later").await;
    assert_eq!(news.next().await.unwrap(), Message::Lost);
    assert_eq!(news.next().await.unwrap(), payload("later"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_ends_with_its_backend_and_its_connection_with_it() {
    let server = RedisServer::start();
    let subscribers = || server.cli(&["PUBSUB", "NUMSUB", "news"]);
    let backend = build(&server.url()).await;
    let mut news = backend.subscribe("news").await.unwrap();
    let other = backend.subscribe("news").await.unwrap();
    assert_eq!(subscribers(), "news\n2");
    drop(other);
    server.wait_for(&["PUBSUB", "NUMSUB", "news"], |answer| answer == "news\n1");
    backend.close().await.unwrap();
    assert_eq!(news.next().await.unwrap_err().kind(), ErrorKind::Closed);
    server.wait_for(&["PUBSUB", "NUMSUB", "news"], |answer| answer == "news\n0");
    assert_eq!(backend.subscribe("news").await.unwrap_err().kind(), ErrorKind::Closed);
}

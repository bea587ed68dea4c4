//! The server is there, and refuses; or it is another one.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::{Memcached, RedisServer};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

#[tokio::test]
async fn a_server_without_memory_refuses_writes_and_answers_reads() {
    let server = Memcached::builder().arg("-m").arg("2").arg("-M").start();
    let backend = build(&server.url()).await;
    let large = || Bytes::from(vec![b'x'; 100_000]);
    set(&*backend, "small", "v").await.unwrap();
    let mut stored = 0;
    let error = loop {
        match bounded(backend.set(&format!("k{stored}"), large(), SetOptions::default())).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "2 MiB do not hold that");
    };
    assert!(error.kind() == ErrorKind::OutOfSpace && !error.may_be_applied() && !error.is_temporary(), "{error}");
    // The older value is gone with it: memcached makes room for it first.
    let error = backend.set("k0", large(), SetOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert_eq!(get(&*backend, "k0").await.unwrap(), None);
    assert_eq!(get(&*backend, "small").await.unwrap().as_deref(), Some("v"));
    let keys: Vec<String> = (0..8).map(|number| format!("many{number}")).collect();
    let mut entries: Vec<_> = keys.iter().map(|key| (key.as_str(), large())).collect();
    entries.push(("small", Bytes::from_static(b"w")));
    let results = bounded(backend.set_many(&entries, SetOptions::default())).await;
    let mut refused = 0;
    for ((key, value), result) in entries.iter().zip(&results) {
        let found = backend.get(key).await.unwrap();
        match result {
            Ok(()) => assert_eq!(found.as_ref(), Some(value), "{key}"),
            Err(error) => {
                assert!(error.kind() == ErrorKind::OutOfSpace && !error.may_be_applied(), "{error}");
                assert_eq!(found, None, "{key}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && results[8].is_ok(), "{results:?}");
    for number in 0..stored {
        backend.delete(&format!("k{number}")).await.unwrap();
    }
    backend.set("k", large(), SetOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_has_its_most_connections() {
    let server = Memcached::builder().arg("-t").arg("1").arg("-c").arg("20").start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    let mut others = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    let error = loop {
        assert!(Instant::now() < end, "{} others have connections", others.len());
        match try_build(&server.url()).await {
            // The last connection may be that of the greeting, and not closed yet.
            Ok(other) => match set(&*other, "k", "v").await {
                Ok(()) => others.push(other),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Overloaded | ErrorKind::Unavailable), "{error}")
                }
            },
            // It may close the connection before what it says is read.
            Err(error) if error.kind() == ErrorKind::Overloaded => break error,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    };
    assert!(error.is_temporary() && error.context().contains("most connections"), "{error}");
    // Who has a connection goes on.
    for _ in 0..10 {
        assert_eq!(bounded(get(&*backend, "k")).await.unwrap().as_deref(), Some("v"));
    }
    // Who needs more of them gets errors that say so, and is not cut off.
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let backend = backend.clone();
            tokio::spawn(async move { bounded(set(&*backend, "k", "v")).await })
        })
        .collect();
    for task in tasks {
        if let Err(error) = task.await.unwrap() {
            assert!(matches!(error.kind(), ErrorKind::Overloaded | ErrorKind::Unavailable), "{error}");
        }
    }
    drop(others);
    recovers(&*backend, RECOVERY).await;
}

/// A server of our own that answers each line, for what no server says that can be installed.
fn speaking(answer: fn(&str) -> &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
                    stream.get_mut().write_all(answer(line.trim_end()).as_bytes()).unwrap();
                    line.clear();
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_server_that_is_too_old_fails_the_build_and_is_named() {
    let port = speaking(|line| if line == "version" { "VERSION 1.5.22\r\n" } else { "ERROR\r\n" });
    let server = Memcached::start();
    for url in [format!("memcache://127.0.0.1:{port}"), format!("{},127.0.0.1:{port}", server.url())] {
        let error = try_build(&url).await.unwrap_err();
        assert!(error.kind() == ErrorKind::ConfigInvalid && !error.is_temporary(), "{error}");
        let text = format!("127.0.0.1:{port}: memcached 1.6 or newer is needed, and this is 1.5.22");
        assert_eq!(error.context(), text);
    }
}

#[tokio::test]
async fn what_is_no_memcached_is_a_protocol_error() {
    let redis = RedisServer::start();
    let error = try_build(&format!("memcache://{}", redis.address())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    let port = speaking(|line| if line == "version" { "something else\r\n" } else { "ERROR\r\n" });
    let error = try_build(&format!("memcache://127.0.0.1:{port}")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
}

#[tokio::test]
async fn what_makes_no_sense_is_a_protocol_error_and_not_repeated() {
    let port = speaking(|line| if line == "mn" { "MN\r\n" } else { "canary 1 2\r\n" });
    let backend = build(&format!("memcache://127.0.0.1:{port}")).await;
    let error = bounded(set(&*backend, "k", "")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Protocol && error.may_be_applied(), "{error}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    let error = bounded(get(&*backend, "k")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Protocol && !error.may_be_applied(), "{error}");
    let results = bounded(backend.get_many(&["k", "l"])).await;
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Protocol)));
    assert_eq!(bounded(get(&*backend, "k")).await.unwrap_err().kind(), ErrorKind::Unavailable, "left alone");
}

/// A batch whose answers are out of order is dropped whole: each carries the number of its command.
#[tokio::test]
async fn answers_that_are_out_of_order_are_given_to_nobody() {
    let port = speaking(|line| match line {
        "mn" => "MN\r\n",
        "mg a v f O0" => "VA 1 f0 O1\r\nb\r\n",
        _ => "VA 1 f0 O0\r\na\r\n",
    });
    let backend = build(&format!("memcache://127.0.0.1:{port}")).await;
    for result in bounded(backend.get_many(&["a", "b"])).await {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Protocol);
    }
}

//! The servers do what the tests of others rely on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit_servers::{Certificates, Leaf, Memcached, Mode, Proxy, RedisCluster, RedisServer, SentinelTrio};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stream
}

fn ping(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 64];
    let read = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn redis_is_paused_killed_and_restarted_on_its_port() {
    let server = RedisServer::start();
    let mut stream = connect(&server.address());
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    server.pause();
    assert!(matches!(ping(&mut stream).unwrap_err().kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    server.resume();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(stream.read(&mut [0; 7]).unwrap(), 7, "the answer comes late");
    let port = server.port();
    server.kill();
    assert_eq!(TcpStream::connect(server.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    server.restart();
    assert_eq!((server.port(), server.cli(&["PING"])), (port, "PONG".to_owned()));
}

#[test]
fn redis_on_a_socket_with_a_password_and_with_tls() {
    let server = RedisServer::builder().unix().password("canary").start();
    assert_eq!(server.cli(&["SET", "k", "a b"]), "OK");
    assert_eq!(server.url(), format!("redis+unix://:canary@{}", server.socket().display()));
    let server = RedisServer::builder().tls(&Certificates::new(Leaf::Good)).start();
    assert_eq!(server.cli(&["PING"]), "PONG");
    assert!(server.url().starts_with("rediss://localhost:"), "{}", server.url());
}

#[test]
fn memcached_is_paused_killed_and_restarted_on_its_port() {
    let server = Memcached::start();
    server.pause();
    assert_eq!(server.ask("version"), "");
    server.resume();
    assert!(server.ask("version").starts_with("VERSION"));
    assert!(server.ask("stats").contains("STAT pid"));
    server.kill();
    assert_eq!(server.ask("version"), "");
    server.restart();
    assert!(server.ask("version").starts_with("VERSION"));
    assert!(Memcached::builder().unix().start().ask("version").starts_with("VERSION"));
}

#[test]
fn a_dropped_server_is_gone_even_when_it_is_paused() {
    let (redis, memcached) = (RedisServer::start(), Memcached::start());
    let pids = [redis.pid(), memcached.pid()];
    redis.pause();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    drop((redis, memcached));
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

/// What the test below runs as another process, and kills.
#[test]
fn child_that_is_killed() {
    if std::env::var_os("CACHEKIT_SERVERS_CHILD").is_none() {
        return;
    }
    let server = RedisServer::start();
    server.pause();
    eprintln!("server {}", server.pid());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_server_does_not_outlive_a_test_process_that_is_killed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_is_killed", "--nocapture"])
        .env("CACHEKIT_SERVERS_CHILD", "1")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut byte = [0];
    while !said.ends_with('\n') {
        child.stderr.as_mut().unwrap().read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let pid: u32 = said.trim().strip_prefix("server ").unwrap().parse().unwrap();
    assert!(is_alive(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    // A zombie that nobody waits for yet is dead too.
    let runs = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while runs() {
        assert!(Instant::now() < end, "process {pid} outlived the test that started it");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_proxy_passes_counts_and_refuses() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let mut stream = connect(&proxy.address());
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    assert_eq!((proxy.accepted(), proxy.open()), (1, 1));
    assert_eq!((proxy.bytes_to_server(), proxy.bytes_to_client()), (6, 7));
    proxy.set(Mode::Refuse);
    assert_eq!(TcpStream::connect(proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n", "the connection there is goes on");
    proxy.set(Mode::Pass);
    assert_eq!(ping(&mut connect(&proxy.address())).unwrap(), "+PONG\r\n");
    proxy.reset_all();
    assert!(ping(&mut stream).map_or(true, |answer| answer.is_empty()));
}

#[test]
fn the_proxy_holds_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let mut old = connect(&proxy.address());
    assert_eq!(ping(&mut old).unwrap(), "+PONG\r\n");
    proxy.set(Mode::Freeze);
    assert_eq!(ping(&mut old).unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut new = connect(&proxy.address());
    assert_eq!(ping(&mut new).unwrap(), "+PONG\r\n");
    proxy.set(Mode::Stall);
    assert_eq!(ping(&mut new).unwrap_err().kind(), ErrorKind::WouldBlock);
    proxy.set(Mode::Pass);
    assert_eq!(new.read(&mut [0; 64]).unwrap(), 7, "what was held back comes");
}

#[test]
fn the_proxy_damages() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let mut stream = connect(&proxy.address());
    proxy.set(Mode::Delay(Duration::from_millis(20)));
    let start = Instant::now();
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    assert!(start.elapsed() >= Duration::from_millis(40), "both ways: {:?}", start.elapsed());
    proxy.set(Mode::Drip(Duration::from_millis(5)));
    let start = Instant::now();
    let mut answer = [0; 7];
    stream.write_all(b"PING\r\n").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert!(&answer == b"+PONG\r\n" && start.elapsed() >= Duration::from_millis(55), "{:?}", start.elapsed());
    proxy.set(Mode::Garbage);
    assert_eq!(ping(&mut stream).unwrap(), "\u{7f}".repeat(7));
    proxy.set(Mode::CutAfter(10));
    assert_eq!(ping(&mut stream).unwrap(), "+PONG\r\n");
    assert_eq!(ping(&mut stream).unwrap(), "+PO");
    assert_eq!(ping(&mut stream).unwrap_or_default(), "", "the end of the connection");
}

#[test]
fn a_cluster_of_six_survives_its_master() {
    let cluster = RedisCluster::start();
    let master = cluster.master_of("k", 0);
    assert_eq!(master.cli(&["SET", "k", "v"]), "OK");
    let asked = cluster.nodes().iter().position(|node| node.port() != master.port()).unwrap();
    master.kill();
    let end = Instant::now() + Duration::from_secs(10);
    while cluster.nodes()[asked].cli(&["-c", "GET", "k"]) != "v" {
        assert!(Instant::now() < end, "no failover:\n{}", cluster.nodes()[asked].cli(&["CLUSTER", "NODES"]));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn sentinels_make_the_replica_the_master() {
    let trio = SentinelTrio::start();
    let master = trio.master().port();
    trio.master().kill();
    let end = Instant::now() + Duration::from_secs(10);
    while trio.master().port() == master {
        assert!(Instant::now() < end, "no failover");
        std::thread::sleep(Duration::from_millis(50));
    }
}

//! A Redis that is there, and refuses.

use crate::kinds::{CONNECT, REDIS, by};
use crate::outages::{audit, during};
use cachekit_faults::{Op, Recovery, Row, Scenario, Stage};
use cachekit_servers::RedisServer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("redis is given a wrong password", wrong_password),
        Scenario::new("redis has its password rotated", rotated_password),
        Scenario::new("redis does not allow a command", no_permission),
        Scenario::new("redis is out of memory", out_of_memory),
        Scenario::new("redis is a replica", replica),
        Scenario::new("redis loads its data", loading),
        Scenario::new("redis has its most clients", most_clients),
        Scenario::new("redis is busy with a script", busy),
        Scenario::new("redis comes back as it was before", snapshot),
    ]
}

fn on(url: &str) -> Stage {
    Stage::new(CONNECT, by(url))
}

async fn wrong_password() -> Vec<Row> {
    let server = RedisServer::builder().password("right").start();
    let stage = on(&format!("redis://:wrong@{}", server.address()));
    let right = stage.clone().by(by(&server.url()));
    right.seed(&["then"], 2).await;
    let fleet = stage.fleet();
    let answers = during(&fleet, "wrong", 2).await;
    let build = stage.build().await;
    let mut rows = vec![REDIS.row("wrong password", answers.cells(), build, "see the next row")];
    assert_eq!(server.cli(&["CONFIG", "SET", "requirepass", "wrong"]), "OK");
    let answers = fleet.ask("then", 2).await;
    let build = stage.build().await;
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    rows.push(REDIS.row("wrong password, then it is right", answers.cells(), build, recovery));
    rows
}

async fn rotated_password() -> Vec<Row> {
    let server = RedisServer::builder().password("old").start();
    let stage = on(&server.url());
    stage.seed(&["rotated", "cut off"], 3).await;
    let fleet = stage.built_fleet().await;
    let as_new = |arguments: &[&str]| server.cli(&[&["--no-auth-warning", "-a", "new"], arguments].concat());
    assert_eq!(server.cli(&["CONFIG", "SET", "requirepass", "new"]), "OK");
    let answers = during(&fleet, "rotated", 2).await;
    let build = stage.build().await;
    let mut rows = vec![REDIS.row("password rotated, connections stay", answers.cells(), build, "not needed")];
    as_new(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    // The backend hears of the end of its connection, and finds out why there is no other one.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answers = during(&fleet, "cut off", 3).await;
    let build = stage.build().await;
    assert_eq!(as_new(&["CONFIG", "SET", "requirepass", "old"]), "OK");
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    rows.push(REDIS.row("password rotated, connections cut, rotated back", answers.cells(), build, recovery));
    rows
}

async fn no_permission() -> Vec<Row> {
    let server = RedisServer::start();
    let setuser = |rules: &str| {
        let line = format!("ACL SETUSER app {rules}");
        assert_eq!(server.cli(&line.split(' ').collect::<Vec<_>>()), "OK");
    };
    setuser("on >app ~* &* +@all");
    let stage = on(&format!("redis://app:app@{}", server.address()));
    stage.seed_for(&[Op::Get, Op::Set, Op::Delete], &["denied"], 2).await;
    let fleet = stage.built_fleet().await;
    setuser("-set -del -unlink");
    let answers = during(&fleet, "denied", 2).await;
    let build = stage.build().await;
    setuser("+set +del +unlink");
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    vec![REDIS.row("writes are not permitted", answers.cells(), build, recovery)]
}

async fn out_of_memory() -> Vec<Row> {
    let server = RedisServer::start();
    let stage = on(&server.url());
    stage.seed_for(&[Op::Get, Op::Set, Op::Delete], &["full"], 2).await;
    let fleet = stage.built_fleet().await;
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let answers = during(&fleet, "full", 2).await;
    let build = stage.build().await;
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    vec![REDIS.row("out of memory (`maxmemory`, no eviction)", answers.cells(), build, recovery)]
}

async fn replica() -> Vec<Row> {
    let (master, server) = (RedisServer::start(), RedisServer::start());
    let stage = on(&server.url());
    // Of the master is what the replica holds.
    stage.clone().by(by(&master.url())).seed_for(&[Op::Get, Op::Set, Op::Delete], &["replica"], 3).await;
    let fleet = stage.built_fleet().await;
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]), "OK");
    server.wait_for(&["INFO", "replication"], |answer| answer.contains("master_link_status:up"));
    let answers = during(&fleet, "replica", 3).await;
    let build = stage.build().await;
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    // The connection is made anew once: the name may lead to the master by now.
    let cells = answers.cells_but(&[
        (Op::Delete, &["error read_only", "error unavailable"]),
        (Op::GetOrCompute, &["computed, L1 only (write_error)", "computed (read_error), L1 only (write_error)"]),
    ]);
    vec![REDIS.row("read-only replica, becomes the master", cells, build, recovery)]
}

async fn loading() -> Vec<Row> {
    let server = RedisServer::builder()
        .args(["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"])
        .start();
    let stage = on(&server.url());
    stage.seed(&["loading", "loaded"], 3).await;
    let fleet = stage.built_fleet().await;
    assert_eq!(server.cli(&["DEBUG", "POPULATE", "5000"]), "OK");
    server.save_and_restart_unready();
    let answers = during(&fleet, "loading", 3).await;
    let build = stage.build().await;
    assert!(server.cli(&["PING"]).contains("LOADING"), "it has to load for longer");
    server.wait_for(&["PING"], |answer| answer == "PONG");
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    // Until the backend has found the server again, it says what it knows.
    let cells = answers.cells_but(&[(Op::Delete, &["error overloaded", "error unavailable"])]);
    let mut rows = vec![REDIS.row("restarted, LOADING its data", cells, build, recovery)];
    let answers = fleet.ask("loaded", 2).await;
    let build = stage.build().await;
    audit(&stage, &fleet).await;
    rows.push(REDIS.row("its data loaded", answers.cells(), build, recovery));
    rows
}

async fn most_clients() -> Vec<Row> {
    let server = RedisServer::builder().args(["--maxclients", "8"]).start();
    let stage = on(&server.url());
    stage.seed(&["crowded"], 2).await;
    let (fleet, late) = (stage.built_fleet().await, stage.fleet());
    let others: Vec<TcpStream> = (0..4).map(|_| occupy(&server)).collect();
    let answers = during(&fleet, "crowded", 2).await;
    let build = stage.build().await;
    let mut rows = vec![REDIS.row("`maxclients` reached, with a connection", answers.cells(), build, "not needed")];
    let answers = during(&late, "late", 2).await;
    let build = stage.build().await;
    drop(others);
    // The server hears of it. The fifth one is who asks.
    server.wait_for(&["INFO", "clients"], |answer| answer.contains("connected_clients:5"));
    let recovery = late.recovers(Recovery::NextCall).await;
    // There is no room for an auditor.
    drop(late);
    audit(&stage, &fleet).await;
    rows.push(REDIS.row("`maxclients` reached, without a connection", answers.cells(), build, recovery));
    rows
}

/// A client of its own, once the server has noticed that others have left.
fn occupy(server: &RedisServer) -> TcpStream {
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let mut answer = [0; 7];
        if stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"+PONG\r\n" {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("there is no room at all");
}

async fn busy() -> Vec<Row> {
    let server = Arc::new(RedisServer::builder().args(["--busy-reply-threshold", "50"]).start());
    let stage = on(&server.url());
    stage.seed(&["busy"], 3).await;
    let fleet = stage.built_fleet().await;
    let running = server.clone();
    let script = tokio::task::spawn_blocking(move || running.cli(&["EVAL", "while true do end", "0"]));
    server.wait_for(&["PING"], |answer| answer.contains("BUSY"));
    let answers = during(&fleet, "busy", 3).await;
    let build = stage.build().await;
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK");
    script.await.expect("it ends");
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    vec![REDIS.row("busy with a script", answers.cells(), build, recovery)]
}

/// What the server acknowledged since its snapshot is undone.
async fn snapshot() -> Vec<Row> {
    let server = RedisServer::start();
    let stage = on(&server.url());
    stage.seed(&["undone"], 2).await;
    let fleet = stage.built_fleet().await;
    assert_eq!(server.cli(&["SAVE"]), "OK");
    fleet.ask("undone", 2).await;
    server.restart();
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    let answers = fleet.read_back("undone", 2).await;
    let build = stage.build().await;
    audit(&stage, &fleet).await;
    let fault = "restarted with an older snapshot: a `get` of what was acknowledged since, L1 empty";
    vec![REDIS.row(fault, answers.cells(), build, recovery)]
}

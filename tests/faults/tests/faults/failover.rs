//! A cluster, and sentinels: another server takes over.

use crate::kinds::{CONNECT, by, pause, row};
use crate::outages::{audit, during};
use cachekit_faults::{Answers, Cell, Op, Recovery, Row, Scenario, Stage};
use cachekit_servers::{RedisCluster, RedisServer, SentinelTrio};
use std::time::{Duration, Instant};

const CLUSTER: &str = "Redis cluster";
const SENTINEL: &str = "Redis behind sentinels";

/// Once there is a new master.
const FOUND: Recovery = Recovery::Within(5);

/// The servers' own patience included.
const ELECTED: Duration = Duration::from_secs(15);

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("redis-cluster has no node at the start", cluster_down),
        Scenario::new("redis-cluster loses a master", cluster_fails_over),
        Scenario::new("redis-cluster forgets what was acknowledged", cluster_undoes),
        Scenario::new("redis-sentinel has no sentinel", sentinels_down),
        Scenario::new("redis-sentinel loses the master", sentinel_fails_over),
        Scenario::new("redis-sentinel forgets what was acknowledged", sentinel_undoes),
    ]
}

/// A connection to each of the nodes takes part in a cluster's build.
fn on_cluster(url: &str) -> Stage {
    Stage::new(CONNECT * 2, by(url)).with_slow_builds()
}

fn on_sentinels(trio: &SentinelTrio) -> Stage {
    Stage::new(CONNECT, by(&trio.url()))
}

/// What calls may get until another server has taken over: what they meet first depends on the moment. The last of them
/// may come when it already has.
fn meanwhile(answers: &Answers) -> [Cell; 4] {
    let deleted = [
        "deleted",
        "error overloaded",
        "error unavailable",
        "error unavailable, may be applied",
        "error timeout, may be applied",
    ];
    let computed = [
        "hit",
        "computed, L1 only (read_timeout)",
        "computed (read_error), L1 only (write_error)",
        "computed (read_error), L1 only (write_timeout)",
        "computed (read_error), stored",
    ];
    answers.among(
        &["hit", "miss (read_error)", "miss (read_timeout)"],
        &["stored", "L1 only (write_error)", "L1 only (write_timeout)"],
        &deleted,
        &computed,
    )
}

/// Waits for what the servers do by themselves.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + ELECTED;
    while !holds() {
        assert!(Instant::now() < end, "{what}: it did not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn cluster_down() -> Vec<Row> {
    let server = RedisServer::builder().cluster_node().start();
    server.kill();
    let stage = on_cluster(&format!("redis+cluster://{}", server.address()));
    let fleet = stage.fleet();
    let answers = during(&fleet, "down", 2).await;
    let build = stage.build().await;
    server.restart();
    let slots = ["CLUSTER", "ADDSLOTSRANGE", "0", "16383"];
    assert_eq!(server.cli(&slots), "OK");
    server.wait_for(&["CLUSTER", "INFO"], |answer| answer.contains("cluster_state:ok"));
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    vec![row(CLUSTER, "no node answers at the start, then one does", answers.cells(), build, recovery)]
}

/// Waits until the replica has all that was written to the master: what it lacks would be lost with it.
async fn in_step(master: &RedisServer) {
    until("replication", || {
        let said = master.cli(&["INFO", "replication"]);
        let number = |after: &str| {
            let digits = said.split_once(after).map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
            digits.flatten().and_then(|digits| digits.parse::<u64>().ok())
        };
        let (written, arrived) = (number("master_repl_offset:"), number(",offset="));
        written.is_some() && arrived >= written
    })
    .await;
}

/// A node that is not this one.
fn another<'a>(cluster: &'a RedisCluster, than: &RedisServer) -> &'a RedisServer {
    cluster.nodes().iter().find(|node| node.port() != than.port()).expect("there are six")
}

/// Whether another master takes writes of this tag.
fn takes_writes(node: &RedisServer, tag: &str) -> bool {
    node.cli(&["-c", "SET", &format!("{tag}probe"), "x"]).ends_with("OK")
}

async fn cluster_fails_over() -> Vec<Row> {
    let cluster = RedisCluster::start();
    let stage = on_cluster(&cluster.url()).with_tag("{a}");
    stage.seed(&["killed", "after", "hung"], 3).await;
    let fleet = stage.built_fleet().await;

    let master = cluster.master_of("{a}", 0);
    let elsewhere = stage.clone().with_tag("{b}");
    assert_ne!(cluster.master_of("{b}", 0).port(), master.port(), "slots 15495 and 3300");
    elsewhere.seed(&["beside"], 3).await;
    let beside = elsewhere.built_fleet().await;
    in_step(master).await;
    master.kill();
    let (answers, others) = tokio::join!(during(&fleet, "killed", 3), beside.ask("beside", 3));
    let asked = another(&cluster, master);
    until("failover", || takes_writes(asked, "{a}")).await;
    let recovery = fleet.recovers(FOUND).await;
    let build = stage.build().await;
    let mut rows = vec![row(CLUSTER, "the master of the keys is killed", meanwhile(&answers), build.clone(), recovery)];
    let recovery = beside.recovers(FOUND).await;
    beside.sweep().await;
    rows.push(row(CLUSTER, "the same, keys of another shard", meanwhile(&others), build, recovery));
    let answers = fleet.ask("after", 3).await;
    audit(&stage, &fleet).await;
    rows.push(row(CLUSTER, "its replica is the master", answers.cells(), stage.build().await, "not needed"));

    // Back as a replica, so that the second failover has somebody.
    master.restart();
    let at = cluster.nodes().iter().position(|node| node.port() == asked.port()).expect("it is one of them");
    let successor = cluster.master_of("{a}", at);
    successor.wait_for(&["INFO", "replication"], |answer| answer.contains("state=online"));
    in_step(successor).await;
    pause(successor);
    let answers = during(&fleet, "hung", 3).await;
    let asked = another(&cluster, successor);
    until("failover", || takes_writes(asked, "{a}")).await;
    let recovery = fleet.recovers(FOUND).await;
    let build = stage.build().await;
    successor.resume();
    audit(&stage, &fleet).await;
    rows.push(row(CLUSTER, "the master of the keys hangs", meanwhile(&answers), build, recovery));

    cluster.nodes().iter().for_each(RedisServer::kill);
    let answers = during(&fleet, "dead", 3).await;
    let build = stage.build().await;
    cluster.nodes().iter().for_each(RedisServer::restart);
    for node in cluster.nodes() {
        node.wait_for(&["CLUSTER", "INFO"], |answer| answer.contains("cluster_state:ok"));
    }
    let recovery = fleet.recovers(FOUND).await;
    audit(&stage, &fleet).await;
    rows.push(row(CLUSTER, "all nodes are killed and restarted", meanwhile(&answers), build, recovery));
    rows
}

/// The replica gets nothing any more, and then becomes the master.
fn cut_off(master: &RedisServer, replica: &RedisServer) {
    pause(replica);
    assert_eq!(master.cli(&["CLIENT", "KILL", "TYPE", "replica"]), "1");
}

const UNDONE: &str = "failover to a replica that lagged behind: a `get` of what was acknowledged, L1 empty";

async fn cluster_undoes() -> Vec<Row> {
    let cluster = RedisCluster::start();
    let stage = on_cluster(&cluster.url()).with_tag("{a}");
    stage.seed(&["undone"], 2).await;
    let fleet = stage.built_fleet().await;
    let master = cluster.master_of("{a}", 0);
    in_step(master).await;
    let role = master.cli(&["INFO", "replication"]);
    let of_master = |node: &&RedisServer| role.contains(&format!("port={},", node.port()));
    cut_off(master, cluster.nodes().iter().find(of_master).expect("it has a replica"));
    fleet.ask("undone", 2).await;
    master.kill();
    cluster.nodes().iter().find(of_master).expect("it has a replica").resume();
    let asked = another(&cluster, master);
    until("failover", || takes_writes(asked, "{a}")).await;
    let recovery = fleet.recovers(FOUND).await;
    let answers = fleet.read_back("undone", 2).await;
    let build = stage.build().await;
    audit(&stage, &fleet).await;
    vec![row(CLUSTER, UNDONE, answers.cells(), build, recovery)]
}

async fn sentinels_down() -> Vec<Row> {
    let trio = SentinelTrio::start();
    let stage = on_sentinels(&trio);
    stage.seed(&["blind"], 2).await;
    let (fleet, late) = (stage.built_fleet().await, stage.fleet());
    trio.sentinels().iter().for_each(RedisServer::kill);
    let answers = during(&fleet, "blind", 2).await;
    let build = stage.build().await;
    let fault = "all sentinels are killed, the master lives";
    let mut rows = vec![row(SENTINEL, fault, answers.cells(), build, "not needed")];
    let answers = during(&late, "late", 2).await;
    let build = stage.build().await;
    trio.sentinels().iter().for_each(RedisServer::restart);
    let recovery = late.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    audit(&stage, &late).await;
    rows.push(row(SENTINEL, "the same, for a process that starts then", answers.cells(), build, recovery));
    rows
}

async fn sentinel_fails_over() -> Vec<Row> {
    let trio = SentinelTrio::start();
    let stage = on_sentinels(&trio);
    stage.seed(&["killed", "after"], 3).await;
    let fleet = stage.built_fleet().await;
    let first = trio.master().port();
    in_step(trio.master()).await;
    trio.master().kill();
    let answers = during(&fleet, "killed", 3).await;
    until("failover", || trio.master().port() != first && takes_writes(trio.master(), "")).await;
    let recovery = fleet.recovers(FOUND).await;
    let build = stage.build().await;
    let cells = answers.cells_but(&[(Op::Delete, &["error unavailable", "error unavailable, may be applied"])]);
    let mut rows = vec![row(SENTINEL, "the master is killed", cells, build, recovery)];
    let answers = fleet.ask("after", 3).await;
    let build = stage.build().await;
    audit(&stage, &fleet).await;
    rows.push(row(SENTINEL, "the replica is the master", answers.cells(), build, "not needed"));
    rows
}

async fn sentinel_undoes() -> Vec<Row> {
    let trio = SentinelTrio::start();
    let stage = on_sentinels(&trio);
    stage.seed(&["undone"], 2).await;
    let fleet = stage.built_fleet().await;
    let first = trio.master().port();
    let master = trio.master();
    in_step(master).await;
    let replica = trio.servers().iter().find(|server| server.port() != first).expect("there are two");
    cut_off(master, replica);
    fleet.ask("undone", 2).await;
    master.kill();
    replica.resume();
    until("failover", || trio.master().port() != first && takes_writes(trio.master(), "")).await;
    let recovery = fleet.recovers(FOUND).await;
    let answers = fleet.read_back("undone", 2).await;
    let build = stage.build().await;
    audit(&stage, &fleet).await;
    vec![row(SENTINEL, UNDONE, answers.cells(), build, recovery)]
}

//! What memcached does besides what any server does.

use crate::kinds::{MEMCACHED, by};
use crate::outages::{audit, during};
use cachekit_faults::{Cell, Op, Recovery, Row, Scenario, Stage};
use cachekit_servers::Memcached;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("memcached is out of memory", out_of_memory),
        Scenario::new("memcached loses one of three", one_of_three),
    ]
}

/// Larger than what is left of a server with two megabytes.
const LARGE: usize = 200_000;

async fn out_of_memory() -> Vec<Row> {
    let server = Memcached::builder().arg("-m").arg("2").arg("-M").start();
    let stage = Stage::new(MEMCACHED.build_bound, by(&server.url()));
    stage.seed_for(&[Op::Get, Op::Set, Op::Delete], &["full"], 2).await;
    let large = stage.clone().with_value_bytes(LARGE);
    let (fleet, filler) = (large.built_fleet().await, large.service());
    for number in 0..50 {
        filler.set(&format!("filler/{number}")).await;
    }
    let answers = during(&fleet, "full", 2).await;
    let build = stage.build().await;
    assert_eq!(server.ask("flush_all"), "OK");
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    vec![MEMCACHED.row("out of memory (`-M`), values of 200 KB", answers.cells(), build, recovery)]
}

async fn one_of_three() -> Vec<Row> {
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::start()).collect();
    let addresses: Vec<_> = servers.iter().map(Memcached::address).collect();
    let stage = Stage::new(MEMCACHED.build_bound, by(&format!("memcache://{}", addresses.join(","))));
    stage.seed(&["third"], 40).await;
    let fleet = stage.built_fleet().await;
    servers[1].kill();
    let answers = during(&fleet, "third", 40).await;
    let cells = [
        Cell::some_of_each("hit", &["miss (read_error)"], &answers.get),
        Cell::some_of_each("stored", &["L1 only (write_error)"], &answers.set),
        Cell::some_of_each("deleted", &["error unavailable", "error unavailable, may be applied"], &answers.delete),
        Cell::some_of_each("hit", &["computed (read_error), L1 only (write_error)"], &answers.get_or_compute),
    ];
    let build = stage.build().await;
    servers[1].restart();
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    vec![MEMCACHED.row("one of three servers is killed", cells, build, recovery)]
}

//! A cluster of six: three masters, a replica of each.

use crate::RedisServer;
use std::process::Command;
use std::time::{Duration, Instant};

const NODES: usize = 6;
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Six `redis-server`s that form a cluster, each shard with a replica that is in step.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one whose nodes are given up after 1.5 s. Takes about three seconds.
    #[must_use]
    pub fn start() -> Self {
        let node = || {
            RedisServer::builder()
                .cluster_node()
                // Without the second, a replica begins to synchronise only after five seconds.
                .args(["--cluster-node-timeout", "1500", "--repl-diskless-sync-delay", "0"])
                .start()
        };
        let cluster = Self { nodes: (0..NODES).map(|_| node()).collect() };
        cluster.join();
        cluster.wait_until_whole();
        cluster
    }

    /// `redis+cluster://` with the addresses of all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+cluster://{}", self.nodes.iter().map(RedisServer::address).collect::<Vec<_>>().join(","))
    }

    /// All nodes, dead ones included.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The node that is the master of this key, as the node `asked` sees it.
    #[must_use]
    pub fn master_of(&self, key: &str, asked: usize) -> &RedisServer {
        let slot: u16 = self.nodes[asked].cli(&["CLUSTER", "KEYSLOT", key]).parse().expect("a slot");
        let owns = |line: &str| {
            line.split(' ').skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(a), Ok(b)) if (a..=b).contains(&slot))
            })
        };
        let map = self.nodes[asked].cli(&["CLUSTER", "NODES"]);
        let line = map.lines().find(|line| line.contains("master") && !line.contains("fail") && owns(line));
        let line = line.unwrap_or_else(|| panic!("no master of slot {slot}:\n{map}"));
        self.nodes
            .iter()
            .find(|node| line.contains(&format!(" {}@", node.address())))
            .unwrap_or_else(|| panic!("an unknown node: {line}"))
    }

    fn join(&self) {
        let binary = std::env::var("CACHE_REDIS_CLI_BIN").unwrap_or_else(|_| "redis-cli".to_owned());
        let mut command = Command::new("timeout");
        command.args(["20", &binary, "--cluster", "create"]);
        command.args(self.nodes.iter().map(RedisServer::address));
        command.args(["--cluster-replicas", "1", "--cluster-yes"]);
        let output = command.output().expect("coreutils has `timeout`");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "redis-cli --cluster create failed:\n{said}");
    }

    /// Every node has to say that all is well, and every replica that it is in step: a shard whose master dies before
    /// its replica ever was stays dead for ever.
    fn wait_until_whole(&self) {
        let end = Instant::now() + READY_WITHIN;
        let whole = |node: &RedisServer| {
            let state = node.cli(&["CLUSTER", "INFO"]);
            let replication = node.cli(&["INFO", "replication"]);
            state.contains("cluster_state:ok")
                && state.contains("cluster_known_nodes:6")
                && (replication.contains("role:master") && replication.contains("state=online")
                    || replication.contains("master_link_status:up"))
        };
        while !self.nodes.iter().all(whole) {
            assert!(
                Instant::now() < end,
                "the cluster did not get whole:\n{}",
                self.nodes[0].cli(&["CLUSTER", "NODES"])
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

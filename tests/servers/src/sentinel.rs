//! A master, a replica, and three sentinels that watch them.

use crate::RedisServer;

/// The name under which the sentinels know the master.
const MASTER: &str = "cachekit";

/// Two `redis-server`s and three sentinels.
#[derive(Debug)]
pub struct SentinelTrio {
    servers: [RedisServer; 2],
    sentinels: Vec<RedisServer>,
}

impl SentinelTrio {
    /// Starts them; a master that is silent for a second is given up. Takes about three seconds.
    #[must_use]
    pub fn start() -> Self {
        let master = RedisServer::builder().args(["--repl-diskless-sync-delay", "0"]).start();
        let port = master.port().to_string();
        let replica =
            RedisServer::builder().args(["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &port]).start();
        replica.wait_for(&["INFO", "replication"], |answer| answer.contains("master_link_status:up"));
        let configuration = format!(
            "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds {MASTER} 1000\n\
             sentinel failover-timeout {MASTER} 3000\n"
        );
        let sentinels: Vec<_> = (0..3).map(|_| RedisServer::builder().sentinel(&configuration).start()).collect();
        for sentinel in &sentinels {
            sentinel.wait_for(&["SENTINEL", "MASTER", MASTER], |answer| {
                field(answer, "num-other-sentinels") == Some("2") && field(answer, "num-slaves") == Some("1")
            });
        }
        Self { servers: [master, replica], sentinels }
    }

    /// `redis+sentinel://` with the addresses of all sentinels and the name of the master.
    #[must_use]
    pub fn url(&self) -> String {
        let sentinels: Vec<_> = self.sentinels.iter().map(RedisServer::address).collect();
        format!("redis+sentinel://{}/{MASTER}", sentinels.join(","))
    }

    /// The server that the sentinels call the master.
    #[must_use]
    pub fn master(&self) -> &RedisServer {
        let answer = self.sentinels[0].cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
        let port = answer.lines().nth(1).unwrap_or_default();
        let found = self.servers.iter().find(|server| server.port().to_string() == port);
        found.unwrap_or_else(|| panic!("no server of ours is the master: {answer}"))
    }

    /// Both servers.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Tells the sentinels to make the replica the master.
    pub fn fail_over(&self) {
        assert_eq!(self.sentinels[0].cli(&["SENTINEL", "FAILOVER", MASTER]), "OK");
    }
}

/// redis-cli prints the name of a field and its value on lines of their own.
fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = answer.lines();
    lines.find(|line| *line == name)?;
    lines.next()
}

//! A Redis with TLS whose certificate does not fit.

use crate::kinds::{CONNECT, REDIS_TLS, by};
use crate::outages::{audit, during};
use cachekit_faults::{Op, Recovery, Row, Scenario, Speed, Stage};
use cachekit_servers::{Certificates, Leaf, RedisServer};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let unfit = |name, fault, leaf| Scenario::new(name, move || does_not_fit(fault, leaf));
    vec![
        unfit("redis-tls is signed by somebody else", "certificate of an unknown authority, then replaced", None),
        unfit("redis-tls has another name", "certificate of another name, then replaced", Some(Leaf::WrongName)),
        unfit("redis-tls is expired", "certificate expired, then replaced", Some(Leaf::Expired)),
        Scenario::new("redis-tls gets another certificate", replaced),
    ]
}

/// One file with the certificates of several authorities.
fn trusting(authorities: &[&Certificates]) -> PathBuf {
    let bundle: String =
        authorities.iter().map(|of| std::fs::read_to_string(of.ca()).expect("it was written")).collect();
    let path = authorities[0].ca().with_file_name("trusted.pem");
    std::fs::write(&path, bundle).expect("it is writable");
    path
}

fn on(server: &RedisServer, authorities: &[&Certificates]) -> Stage {
    Stage::new(CONNECT, by(&format!("{}?ca={}", server.url(), trusting(authorities).display()))).with_encryption()
}

/// What every connection is shown from now on.
fn show(server: &RedisServer, certificates: &Certificates) {
    let (certificate, key) = (certificates.certificate(), certificates.key());
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    assert_eq!(server.cli(&["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key]), "OK");
}

/// Without a leaf, it is a good one of an authority that nobody trusts.
async fn does_not_fit(fault: &'static str, leaf: Option<Leaf>) -> Vec<Row> {
    let (good, bad) = (Certificates::new(Leaf::Good), Certificates::new(leaf.unwrap_or(Leaf::Good)));
    let server = RedisServer::builder().tls(&bad).start();
    let stage = if leaf.is_some() { on(&server, &[&good, &bad]) } else { on(&server, &[&good]) };
    let fleet = stage.fleet();
    let answers = during(&fleet, "unfit", 2).await;
    let build = stage.build().await;
    show(&server, &good);
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    vec![REDIS_TLS.row(fault, answers.in_their_time(Speed::Connect.at_most()), build, recovery)]
}

async fn replaced() -> Vec<Row> {
    let (good, bad) = (Certificates::new(Leaf::Good), Certificates::new(Leaf::Good));
    let server = RedisServer::builder().tls(&good).start();
    let stage = on(&server, &[&good]);
    stage.seed(&["stays", "cut off"], 3).await;
    let fleet = stage.built_fleet().await;
    show(&server, &bad);
    let answers = during(&fleet, "stays", 2).await;
    let build = stage.build().await;
    let fault = "certificate replaced by one that does not fit, connections stay";
    let mut rows = vec![REDIS_TLS.row(fault, answers.cells(), build, "not needed")];
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    // The backend hears of the end of its connection, and finds out why there is no other one.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answers = during(&fleet, "cut off", 3).await;
    let build = stage.build().await;
    show(&server, &good);
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    let cells = answers.cells_but(&[(Op::Delete, &["error config_invalid", "error unavailable"])]);
    rows.push(REDIS_TLS.row("the same, connections cut", cells, build, recovery));
    rows
}

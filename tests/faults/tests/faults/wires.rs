//! The server is well, and the way to it is not.

use crate::kinds::Kind;
use crate::outages::{audit, during};
use cachekit_faults::{Cell, Op, Recovery, Row, Scenario, Speed};
use cachekit_servers::{Mode, Proxy};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

pub(crate) fn scenarios(kind: Kind) -> Vec<Scenario> {
    let named = |name: &str| format!("{} {name}", kind.name);
    vec![
        Scenario::new(named("is a black hole"), move || black_hole(kind)),
        Scenario::new(named("accepts no connection and refuses none"), move || no_handshake(kind)),
        frozen_scenario(kind),
        Scenario::new(named("is cut in its reply"), move || cut(kind)),
        Scenario::new(named("answers garbage"), move || garbage(kind)),
        Scenario::new(named("is slow"), move || slow(kind)),
        Scenario::new(named("has no name"), move || no_name(kind)),
    ]
}

async fn black_hole(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let proxy = Proxy::start(server.address());
    let stage = kind.stage_at(&*server, &proxy.address());
    stage.seed(&["hole"], 6).await;
    let fleet = stage.built_fleet().await;
    proxy.set(Mode::Stall);
    let answers = during(&fleet, "hole", 6).await;
    let build = stage.build().await;
    proxy.reset_all();
    proxy.set(Mode::Pass);
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    vec![kind.row("black hole: connections are accepted, nothing is answered", answers.cells(), build, recovery)]
}

/// A port whose queue of new connections is full: the kernel drops what comes, as a firewall does.
async fn no_handshake(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener = socket.listen(8).expect("a port to listen at");
    let address = listener.local_addr().expect("it is bound");
    let mut queue = Vec::new();
    let patience = Duration::from_millis(300);
    while let Ok(connected) = tokio::time::timeout(patience, TcpStream::connect(address)).await {
        queue.push(connected.expect("the queue has room"));
    }
    let stage = kind.stage_at(&*server, &address.to_string());
    let fleet = stage.fleet();
    let answers = during(&fleet, "dropped", 2).await;
    let build = stage.build().await;
    drop(queue);
    let forwarder = tokio::spawn(forward(listener, server.address()));
    // Those that were in the queue are through.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    forwarder.abort();
    vec![kind.row("black hole from the start: not even a connection", answers.cells(), build, recovery)]
}

async fn forward(listener: TcpListener, target: String) {
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        let target = target.clone();
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(target).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

pub(crate) fn frozen_scenario(kind: Kind) -> Scenario {
    Scenario::new(format!("{} has a frozen flow", kind.name), move || frozen(kind))
}

async fn frozen(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let proxy = Proxy::start(server.address());
    let stage = kind.stage_at(&*server, &proxy.address());
    stage.seed(&["frozen"], 3).await;
    let fleet = stage.built_fleet().await;
    proxy.set(Mode::Freeze);
    // The third one makes the backend leave the connection.
    let answers = fleet.ask("frozen", 3).await;
    let build = stage.build().await;
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    fleet.herd("frozen").await;
    proxy.reset_all();
    proxy.set(Mode::Pass);
    fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    vec![kind.row("frozen flow: the connection is dead, new ones work", answers.cells(), build, recovery)]
}

async fn cut(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let proxy = Proxy::start(server.address());
    let stage = kind.stage_at(&*server, &proxy.address());
    stage.seed(&["cut"], 1).await;
    let fleet = stage.built_fleet().await;
    proxy.set(Mode::CutAfter(3));
    let answers = during(&fleet, "cut", 1).await;
    let build = stage.build().await;
    proxy.set(Mode::Pass);
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    // What comes first, the half of the reply or the end of the connection, is not ours to say.
    let cells =
        answers.cells_but(&[(Op::Delete, &["error protocol, may be applied", "error unavailable, may be applied"])]);
    vec![kind.row("cut in the middle of each reply", cells, build, recovery)]
}

async fn garbage(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let proxy = Proxy::start(server.address());
    let stage = kind.stage_at(&*server, &proxy.address());
    stage.seed(&["noise"], 3).await;
    let fleet = stage.built_fleet().await;
    proxy.set(Mode::Garbage);
    let answers = during(&fleet, "noise", 3).await;
    let build = stage.build().await;
    proxy.set(Mode::Pass);
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    vec![kind.row("garbage instead of replies", answers.cells(), build, recovery)]
}

async fn slow(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let proxy = Proxy::start(server.address());
    let stage = kind.stage_at(&*server, &proxy.address());
    stage.seed(&["slow", "too slow"], 6).await;
    let fleet = stage.built_fleet().await;
    proxy.set(Mode::Delay(Duration::from_millis(25)));
    let answers = during(&fleet, "slow", 2).await;
    let build = stage.build().await;
    proxy.set(Mode::Pass);
    let recovery = fleet.recovers(Recovery::NextCall).await;
    let mut rows = vec![kind.row("slow: 50 ms for each answer", answers.cells(), build, recovery)];
    proxy.set(Mode::Delay(Duration::from_millis(600)));
    let answers = during(&fleet, "too slow", 6).await;
    let build = stage.build().await;
    proxy.set(Mode::Pass);
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    rows.push(kind.row("too slow: 1.2 s for each answer", answers.cells(), build, recovery));
    rows
}

async fn no_name(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let stage = kind.stage_at(&*server, "nowhere.invalid:1");
    let fleet = stage.fleet();
    let answers = during(&fleet, "nameless", 2).await;
    // How fast that is depends on who is asked for names.
    let cells = answers.in_their_time(Speed::Connect.at_most());
    let build = Cell::in_its_time(&[stage.see_build().await], Speed::Connect.at_most());
    vec![kind.row("DNS failure: the name does not resolve", cells, build, "not shown: needs a name server")]
}

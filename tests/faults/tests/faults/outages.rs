//! The server is not there, dies or hangs: what any server can do.

use crate::kinds::Kind;
use cachekit::breaker::BreakerConfig;
use cachekit_faults::{Answers, Cell, Fleet, Load, Op, Recovery, Row, Scenario, Stage};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn scenarios(kind: Kind) -> Vec<Scenario> {
    let named = |name: &str| format!("{} {name}", kind.name);
    vec![
        Scenario::new(named("is down at the start"), move || down_at_start(kind)),
        Scenario::new(named("is down until the circuit opens"), move || circuit_of_builds(kind)),
        killed_scenario(kind),
        Scenario::new(named("is killed under load"), move || killed_under_load(kind)),
        Scenario::new(named("hangs"), move || hung(kind)),
        Scenario::new(named("is killed and its errors are counted"), move || circuit_of_operations(kind)),
    ]
}

/// Nothing wrong is served, by those who lived through it or by a new process.
pub(crate) async fn audit(stage: &Stage, fleet: &Fleet) {
    fleet.sweep().await;
    stage.audit().await;
}

/// While the fault lasts: each operation, and that no caller lost a value or an error.
pub(crate) async fn during(fleet: &Fleet, phase: &str, calls: usize) -> Answers {
    let answers = fleet.ask(phase, calls).await;
    fleet.herd(phase).await;
    answers
}

async fn down_at_start(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    server.kill();
    let stage = kind.stage(&*server);
    let fleet = stage.fleet();
    // Three calls and the herd would open the circuit.
    let answers = during(&fleet, "down", 2).await;
    let build = stage.build().await;
    let mut rows = vec![kind.row("down at the start", answers.cells(), build, "see the next row")];
    server.restart();
    stage.seed(&["up"], 2).await;
    let answers = fleet.ask("up", 2).await;
    let build = stage.build().await;
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    rows.push(kind.row("down at the start, appears later", answers.cells(), build, recovery));
    rows
}

/// Long enough that all that is asked before it ends is asked before it ends.
const COOLDOWN: Duration = Duration::from_millis(2_500);

fn impatient() -> BreakerConfig {
    BreakerConfig::new().with_recovery_timeout(COOLDOWN)
}

async fn circuit_of_builds(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    server.kill();
    let stage = kind.stage(&*server).with_breaker(impatient());
    let fleet = stage.fleet();
    // Five failures open it.
    let answers = during(&fleet, "down", 8).await;
    let build = stage.build().await;
    server.restart();
    let recovery = fleet.recovers(Recovery::Cooldown(COOLDOWN)).await;
    closes(&fleet).await;
    audit(&stage, &fleet).await;
    vec![kind.row("down until the circuit opens, appears later", answers.cells(), build, recovery)]
}

async fn circuit_of_operations(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let stage = kind.stage(&*server).with_breaker(impatient().with_count_operation_errors(true));
    stage.seed(&["down"], 8).await;
    let fleet = stage.built_fleet().await;
    server.kill();
    let answers = during(&fleet, "down", 8).await;
    let build = stage.build().await;
    server.restart();
    // By then the backend has its connection back.
    let recovery = fleet.recovers(Recovery::Cooldown(COOLDOWN)).await;
    closes(&fleet).await;
    audit(&stage, &fleet).await;
    let delete = ["error unavailable", "error unavailable, may be applied", "error circuit_open"];
    let cells = answers.cells_but(&[(Op::Delete, &delete)]);
    vec![kind.row("killed, with `count_operation_errors(true)`", cells, build, recovery)]
}

/// Two more calls end the probing.
async fn closes(fleet: &Fleet) {
    for _ in 0..2 {
        fleet.recovers(Recovery::NextCall).await;
    }
    for op in [Op::Delete, Op::Get, Op::GetOrCompute, Op::Set] {
        assert_eq!(fleet.service(op).cache().breaker().state().as_str(), "CLOSED");
    }
}

pub(crate) fn killed_scenario(kind: Kind) -> Scenario {
    Scenario::new(format!("{} is killed", kind.name), move || killed(kind))
}

async fn killed(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let stage = kind.stage(&*server);
    stage.seed(&["down"], 4).await;
    let fleet = stage.built_fleet().await;
    server.kill();
    let answers = during(&fleet, "down", 4).await;
    let build = stage.build().await;
    server.restart();
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    // The first one may be on its way when the connection ends.
    let cells = answers.cells_but(&[(Op::Delete, &["error unavailable", "error unavailable, may be applied"])]);
    let mut rows = vec![kind.row("killed", cells, build, recovery)];
    audit(&stage, &fleet).await;

    stage.seed(&["again"], 2).await;
    server.restart();
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    let answers = fleet.ask("again", 2).await;
    let build = stage.build().await;
    audit(&stage, &fleet).await;
    rows.push(kind.row("restarted, its memory lost", answers.cells(), build, recovery));
    rows
}

async fn killed_under_load(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let stage = kind.stage(&*server);
    let fleet = stage.built_fleet().await;
    let service = Arc::new(stage.service());
    service.ask(Op::Get, "nothing").await;
    let load = Load::start(&service, 16, 5, Duration::from_millis(1));
    while load.calls() < 1_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    let killed = load.calls();
    while load.calls() < killed + 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let build = stage.build().await;
    server.restart();
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    // Its connection is another one than the fleet's.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let restarted = load.calls();
    while load.calls() < restarted + 1_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let loaded = load.stop().await;
    assert!(loaded.has(Op::Set, "stored") && loaded.has(Op::Set, "L1 only (write_error)"), "{loaded:?}");
    assert!(loaded.has(Op::Delete, "deleted") && loaded.has(Op::Delete, "error unavailable"), "{loaded:?}");
    let cells = [
        Cell::among(&["hit", "miss"], &loaded.of(Op::Get)),
        Cell::among(&["stored", "L1 only (write_error)"], &loaded.of(Op::Set)),
        Cell::among(
            &["deleted", "nothing there", "error unavailable", "error unavailable, may be applied"],
            &loaded.of(Op::Delete),
        ),
        Cell::among(
            &[
                "hit",
                "hit (L1)",
                "computed, stored",
                "computed (read_error), stored",
                "computed (unsynced), stored",
                "computed, L1 only (write_error)",
                "computed (read_error), L1 only (write_error)",
                "computed (unsynced), L1 only (write_error)",
            ],
            &loaded.of(Op::GetOrCompute),
        ),
    ];
    service.sweep().await;
    audit(&stage, &fleet).await;
    vec![kind.row("killed and restarted under the load of 16 tasks", cells, build, recovery)]
}

async fn hung(kind: Kind) -> Vec<Row> {
    let server = (kind.start)();
    let stage = kind.stage(&*server);
    stage.seed(&["short", "resumed", "long"], 6).await;
    let fleet = stage.built_fleet().await;
    server.pause();
    // Without a herd: a third timeout would end the connection.
    let answers = fleet.ask("short", 2).await;
    let build = stage.build().await;
    server.resume();
    let recovery = fleet.recovers(Recovery::NextCall).await;
    let mut rows = vec![kind.row("hangs (SIGSTOP) for two calls", answers.cells(), build, recovery)];
    let answers = fleet.ask("resumed", 2).await;
    let build = stage.build().await;
    rows.push(kind.row("resumed (SIGCONT)", answers.cells(), build, recovery));
    server.pause();
    let answers = during(&fleet, "long", 6).await;
    let build = stage.build().await;
    server.resume();
    let recovery = fleet.recovers(Recovery::Within(2)).await;
    audit(&stage, &fleet).await;
    rows.push(kind.row("hangs for longer", answers.cells(), build, recovery));
    rows
}

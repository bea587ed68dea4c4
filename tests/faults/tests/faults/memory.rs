//! What an outage under full load costs in memory.

use crate::kinds::REDIS;
use cachekit_faults::{Cell, Load, Op, Recovery, Row, Scenario, Seen, Speed};
use cachekit_servers::{Mode, Proxy};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FAULT: &str = "CACHEKIT_FAULTS_CHILD";
/// For a longer run by hand: then nothing is written.
const SECONDS: &str = "CACHEKIT_FAULTS_SECONDS";

const TASKS: usize = 64;
/// Together just less than the 10,000 keys that a cache remembers as perhaps not applied: it forgets more than that.
const KEYS: usize = 150;
const VALUE_BYTES: usize = 1_024;
const L1_BYTES: u64 = 4 << 20;
/// What the process may grow by after its first second.
const MOST_KIB: u64 = 32 << 10;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("redis hangs under full load", || outage("hang")),
        Scenario::new("redis is a black hole under full load", || outage("hole")),
    ]
}

/// Whether the outage lasts longer than what the document tells of.
pub(crate) fn is_by_hand() -> bool {
    std::env::var_os(SECONDS).is_some()
}

fn seconds() -> u64 {
    std::env::var(SECONDS).map_or(6, |text| text.parse().expect("a number of seconds"))
}

/// In a process of its own, whose memory is not the other scenarios'.
async fn outage(fault: &'static str) -> Vec<Row> {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let output = child.env(FAULT, fault).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    if is_by_hand() {
        println!("{said}");
    }
    let field = |name: &str| {
        let prefix = format!("{name}=");
        said.lines().find_map(|line| line.strip_prefix(&prefix)).expect("it was said").to_owned()
    };
    let grown: u64 = field("grown_kib").parse().expect("a number");
    assert!(grown < MOST_KIB, "{grown} KiB more after the first second");
    let operations = ["get", "set", "delete", "compute"].map(|name| Cell::text(field(name)));
    let how = if fault == "hang" { "hangs (SIGSTOP)" } else { "black hole" };
    let fault = format!("{how} for {} s under full load: {TASKS} tasks, values of 1 KiB", seconds());
    let recovery = format!("within 2 s; the process grows by less than {} MiB", MOST_KIB >> 10);
    vec![REDIS.row(&fault, operations, Cell::text(field("build")), recovery)]
}

/// Runs as the child, if this process is one.
pub(crate) fn run_child() -> bool {
    let Ok(fault) = std::env::var(FAULT) else { return false };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(child(&fault));
    true
}

async fn child(fault: &str) {
    let server = (REDIS.start)();
    let proxy = Proxy::start(server.address());
    let stage = REDIS.stage_at(&*server, &proxy.address()).with_value_bytes(VALUE_BYTES).with_l1_bytes(L1_BYTES);
    let service = Arc::new(stage.service());
    service.ask(Op::Get, "nothing").await;
    let fleet = stage.built_fleet().await;
    // Warm: what a good day needs is there.
    let load = Load::start(&service, TASKS, KEYS, Duration::ZERO);
    while load.calls() < 5_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    load.stop().await;

    let hangs = fault == "hang";
    if hangs {
        server.pause()
    } else {
        proxy.set(Mode::Stall)
    }
    let load = Load::start(&service, TASKS, KEYS, Duration::ZERO);
    let (start, end) = (Instant::now(), Duration::from_secs(seconds()));
    let (mut first, mut most) = (0, 0);
    while start.elapsed() < end {
        let now = resident_kib();
        if start.elapsed() < Duration::from_secs(1) {
            first = now.max(first)
        } else {
            most = now.max(most)
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let build = stage.build().await;
    let (calls, health) = (load.calls(), service.cache().health());
    if hangs {
        server.resume();
    } else {
        proxy.reset_all();
        proxy.set(Mode::Pass);
    }
    // Stopped after it, so that the last calls end like all the others.
    let loaded = load.stop().await;
    fleet.recovers(Recovery::Within(2)).await;
    service.sweep().await;
    stage.audit().await;
    println!("calls={calls}\nfirst_kib={first}\nmost_kib={most}\ngrown_kib={}", most.saturating_sub(first));
    println!("unsynced={} dropped={}", health.unsynced, health.unsynced_dropped);
    let say =
        |name: &str, op: Op, allowed: &[&str]| println!("{name}={}", Cell::among(allowed, &failed(loaded.of(op))));
    say("get", Op::Get, &["hit", "miss"]);
    say("set", Op::Set, &["L1 only (write_timeout)", "L1 only (write_error)"]);
    say("delete", Op::Delete, &["error timeout, may be applied", "error unavailable"]);
    say(
        "compute",
        Op::GetOrCompute,
        &["computed (unsynced), L1 only (write_timeout)", "computed (unsynced), L1 only (write_error)"],
    );
    println!("build={build}");
}

/// Without what got through after the outage had ended.
fn failed(seen: Vec<Seen>) -> Vec<Seen> {
    let ended = ["stored", "computed, stored", "computed (unsynced), stored", "deleted", "nothing there", "hit (L1)"];
    seen.into_iter().filter(|one| !ended.contains(&one.words.as_str()) && one.speed <= Speed::OneTimeout).collect()
}

fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4
}

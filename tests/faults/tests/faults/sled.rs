//! A directory of sled that another process has.

use crate::kinds::{by, row};
use crate::outages::{audit, during};
use cachekit_faults::{Cell, Recovery, Row, Scenario, Stage};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const HELD: &str = "CACHEKIT_FAULTS_SLED";

/// What an attempt to build a backend may take. sled itself waits a while for the other process, and several caches that
/// open one directory wait for each other.
const BUILD: Duration = Duration::from_secs(5);
const IN_TIME: &str = "at most the build timeout (5 s)";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("sled is locked by another process", locked)]
}

/// A directory that is gone when this is dropped.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // One that is left behind is in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn locked() -> Vec<Row> {
    let path = std::env::temp_dir().join(format!("cachekit-faults-sled-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a temporary directory");
    let directory = Directory(path);
    let mut holder = Command::new(std::env::current_exe().expect("this program"))
        .env(HELD, &directory.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    BufReader::new(holder.stdout.as_mut().expect("a pipe")).read_line(&mut said).expect("it says something");
    assert_eq!(said, "held\n");
    let stage = Stage::new(BUILD, by(&format!("sled://{}", directory.0.display())));
    let fleet = stage.fleet();
    let answers = during(&fleet, "locked", 2).await;
    let build = Cell::in_its_time(&[stage.see_build().await], IN_TIME);
    holder.kill().expect("it runs");
    holder.wait().expect("it ends");
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    vec![row(
        "sled",
        "another process has the directory, and is killed",
        answers.in_their_time(IN_TIME),
        build,
        recovery,
    )]
}

/// Runs as the other process, if this is it: holds the directory until its input ends.
pub(crate) fn run_child() -> bool {
    let Some(path) = std::env::var_os(HELD) else { return false };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let stage = Stage::new(BUILD, by(&format!("sled://{}", PathBuf::from(path).display())));
        let _holder = stage.built_fleet().await;
        println!("held");
        let _ = std::io::stdin().read_line(&mut String::new());
    });
    true
}

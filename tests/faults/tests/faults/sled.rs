//! A directory of sled that another process has, or that is damaged.

use crate::kinds::{by, row};
use crate::outages::{audit, during};
use cachekit_faults::{Cell, Recovery, Row, Scenario, Stage};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const HELD: &str = "CACHEKIT_FAULTS_SLED";

/// What an attempt to build a backend may take. sled itself waits a while for the other process, and several caches that
/// open one directory wait for each other.
const BUILD: Duration = Duration::from_secs(5);
const IN_TIME: &str = "at most the build timeout (5 s)";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("sled is locked by another process", locked),
        Scenario::new("sled has a damaged directory", damaged),
    ]
}

/// A directory that is gone when this is dropped, with what was set aside next to it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cachekit-faults-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }

    fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// Writes junk over the files of the database.
    fn spoil(&self) {
        let all = std::fs::read_dir(self.cache()).expect("it is there").flatten().map(|entry| entry.path());
        let mut rows = all.filter(|path| path.is_dir() && path.file_name().is_some_and(|name| name != "values"));
        let rows = rows.next().expect("a database");
        for file in ["conf", "db"] {
            std::fs::write(rows.join(file), [0xa5; 10_000]).expect("it is writable");
        }
    }

    fn stage(&self) -> Stage {
        on(&self.cache())
    }

    /// Another process, which has it open.
    fn holder(&self) -> Child {
        let mut holder = Command::new(std::env::current_exe().expect("this program"))
            .env(HELD, self.cache())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().expect("a pipe")).read_line(&mut said).expect("it says something");
        assert_eq!(said, "held\n");
        holder
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // One that is left behind is in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn on(path: &std::path::Path) -> Stage {
    Stage::new(BUILD, by(&format!("sled://{}", path.display())))
}

fn end(mut holder: Child) {
    holder.kill().expect("it runs");
    holder.wait().expect("it ends");
}

async fn locked() -> Vec<Row> {
    let place = Place::new("locked");
    let holder = place.holder();
    let stage = place.stage();
    let fleet = stage.fleet();
    let answers = during(&fleet, "locked", 2).await;
    let build = Cell::in_its_time(&[stage.see_build().await], IN_TIME);
    end(holder);
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    let fault = "another process has the directory, and is killed";
    vec![row("sled", fault, answers.in_their_time(IN_TIME), build, recovery)]
}

/// What the other process stored is not of our ledger: any of it would be a value that nobody wrote.
async fn damaged() -> Vec<Row> {
    let place = Place::new("damaged");
    end(place.holder());
    place.spoil();
    let stage = place.stage();
    let fleet = stage.fleet();
    let answers = during(&fleet, "damaged", 2).await;
    let build = stage.build().await;
    let recovery = fleet.recovers(Recovery::NextCall).await;
    audit(&stage, &fleet).await;
    let aside = std::fs::read_dir(&place.0).expect("it is there").flatten();
    let aside = aside.filter(|entry| entry.file_name().to_string_lossy().starts_with("cache.corrupt-")).count();
    assert_eq!(aside, 1, "it is set aside");
    vec![row("sled", "damaged directory, is set aside", answers.in_their_time(IN_TIME), build, recovery)]
}

/// Runs as the other process, if this is it: holds the directory until its input ends.
pub(crate) fn run_child() -> bool {
    let Some(path) = std::env::var_os(HELD) else { return false };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let stage = on(&PathBuf::from(path));
        stage.seed(&["damaged"], 2).await;
        let _holder = stage.built_fleet().await;
        // What is in the file by then survives a kill.
        tokio::time::sleep(Duration::from_secs(1)).await;
        println!("held");
        let _ = std::io::stdin().read_line(&mut String::new());
    });
    true
}

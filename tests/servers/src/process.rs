//! A child process that can be stopped, and that never outlives the test.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Waits for a line or for the end of its input, which comes when the test process dies however it dies. Only the end
/// makes it kill the server, whose process id is still taken then: nobody has waited for it.
/// Temporary directories are removed too, since nobody else is left to do it.
const REAPER: &str =
    r#"read -r dismissed || { kill -CONT -"$1"; kill -KILL -"$1"; sleep 0.1; shift; rm -rf -- "$@"; } 2>/dev/null"#;

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    reaper: Child,
    gone: bool,
}

impl Process {
    /// Starts a server in a process group of its own, with its output in the file `log` of the first of its directories.
    pub(crate) fn spawn(mut command: Command, directories: &[&Path], install: &str) -> Self {
        let log = directories[0].join("log");
        let output = std::fs::File::options().create(true).append(true).open(log).expect("the log file is writable");
        let errors = output.try_clone().expect("a file handle can be duplicated");
        let binary = PathBuf::from(command.get_program());
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("{} does not start ({error}): install it with `apt-get install {install}`", binary.display())
        });
        let reaper = Command::new("sh")
            .args(["-c", REAPER, "reaper", &child.id().to_string()])
            .args(directories)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("there is a shell");
        Self { child, reaper, gone: false }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let result = kill_process(self.pid(), signal);
        assert!(result.is_ok(), "signal {signal:?} to {}: {result:?}", self.id());
    }

    /// Whether it ended by itself.
    pub(crate) fn has_exited(&mut self) -> bool {
        self.gone || matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// SIGKILL, also for one that is stopped, and waits for its end.
    pub(crate) fn kill(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        // Both fail only when it has ended already.
        let _ = kill_process_group(self.pid(), Signal::CONT);
        let _ = kill_process_group(self.pid(), Signal::KILL);
        if let Some(mut input) = self.reaper.stdin.take() {
            let _ = input.write_all(b"dismissed\n");
        }
        let _ = self.reaper.wait();
        let _ = self.child.wait();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The program under test, its files, and ways to hurt it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use octavia_xdp_hc::key::Key;
use octavia_xdp_hc::queue::directory::read_snapshot;
use octavia_xdp_hc::queue::format::{QueueFile, Record, decode};
use octavia_xdp_hc::state::State;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_octavia-xdp-hc");
/// Far more than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A checker with its checks file and queue.
pub(crate) struct Node {
    pub(crate) folder: TempDir,
    /// The queue as this process sees it.
    pub(crate) queue: PathBuf,
    pub(crate) child: Option<Child>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("queue");
        fs::create_dir(&queue).unwrap();
        let child = None;
        Self {
            folder,
            queue,
            child,
        }
    }

    pub(crate) fn checks_file(&self) -> PathBuf {
        self.folder.path().join("checks.json")
    }

    pub(crate) fn write(&self, checks: &[Value]) {
        self.write_document(&json!({"version": 1, "checks": checks}));
    }

    pub(crate) fn write_document(&self, document: &Value) {
        let temporary = self.folder.path().join(".tmp-checks");
        fs::write(&temporary, document.to_string()).unwrap();
        fs::rename(temporary, self.checks_file()).unwrap();
    }

    /// A file of the directory that takes the place of the checks file.
    pub(crate) fn write_in_directory(&self, name: &str, document: &Value) {
        let temporary = self.checks_file().join(".tmp-checks");
        fs::write(&temporary, document.to_string()).unwrap();
        fs::rename(temporary, self.checks_file().join(name)).unwrap();
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn launch(&mut self, program: &mut Command) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .unwrap();
        let child = program
            .args(["run", "--checks"])
            .arg(self.checks_file())
            .arg("--queue")
            .arg(self.folder.path().join("queue"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub(crate) fn start(&mut self) {
        self.launch(&mut Command::new(PROGRAM));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().unwrap().id();
        let pid = Pid::from_raw(id.try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        let status = self.child.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }

    pub(crate) fn snapshot(&self) -> Option<QueueFile> {
        read_snapshot(&self.queue).ok()?.ok()
    }

    pub(crate) fn record(&self, key: &str) -> Option<Record> {
        let key: Key = key.parse().unwrap();
        let records = self.snapshot()?.records;
        records.into_iter().find(|record| record.key == key)
    }

    pub(crate) fn state(&self, key: &str) -> Option<(State, bool)> {
        self.record(key).map(|r| (r.state, r.verified))
    }

    /// The deltas that wait, in their order.
    pub(crate) fn delta_paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = fs::read_dir(&self.queue)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "delta"))
            .collect();
        paths.sort();
        paths
    }

    pub(crate) fn deltas(&self) -> Vec<QueueFile> {
        self.delta_paths()
            .iter()
            .map(|path| decode(&fs::read(path).unwrap()).unwrap())
            .collect()
    }

    /// The records of all deltas.
    pub(crate) fn reported(&self) -> Vec<Record> {
        self.deltas().into_iter().flat_map(|d| d.records).collect()
    }

    /// How often something was reported down.
    pub(crate) fn downs(&self) -> usize {
        let records = self.reported();
        records.iter().filter(|r| r.state == State::Down).count()
    }

    /// Wait until so many checks are up, each by a probe of this run.
    pub(crate) fn wait_all_up(&self, number: usize) {
        self.wait("all up", || {
            self.snapshot().is_some_and(|s| {
                s.records.len() == number
                    && s.records.iter().all(|r| r.state == State::Up && r.verified)
            })
        });
    }

    pub(crate) fn wait_logged(&self, text: &str) {
        self.wait(text, || self.log().contains(text));
    }

    pub(crate) fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let end = now() + PATIENCE;
        while !done() {
            assert!(now() < end, "no {what}\n{}", self.log());
            pause(Duration::from_millis(10));
        }
    }

    pub(crate) fn wait_state(&self, key: &str, state: State) {
        self.wait(&format!("{state:?} of {key}"), || {
            self.state(key) == Some((state, true))
        });
    }
}

/// Run the program with some arguments: whether it succeeded, and all its output.
pub(crate) fn output(program: &mut Command, arguments: &[&str]) -> (bool, String) {
    let output = program.args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

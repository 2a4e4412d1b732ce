// SPDX-License-Identifier: Apache-2.0
//! Namespaces of networks and mounts that end with the processes that live in them.

use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};

const INSIDE: &str = "OCTAVIA_XDP_HC_TEST_NAMESPACE";

/// Whether this process is in a namespace for the test `name` (with its module). If not, it runs the test
/// in another process that is, or says why that is impossible.
pub(crate) fn in_namespace(name: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        run("ip link set lo up");
        return true;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount"]);
    let allowed = unshare.arg("true").stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: cannot make a namespace; are you root?");
        return false;
    }
    let output = Command::new("unshare")
        .args(["--net", "--mount"])
        .arg(env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // A name that no test has would be no failure otherwise.
    let ran = output.status.success() && text.contains("1 passed");
    assert!(ran, "{name}: {text}");
    false
}

pub(crate) fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap();
}

pub(crate) fn run(line: &str) {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    let status = command.args(words).status().unwrap();
    assert!(status.success(), "{line}: {status}");
}

/// A machine at the other end of a wire: `198.18.0.2` and `2001:db8::2`; here is `.1`.
pub(crate) struct Peer(Child);

impl Peer {
    pub(crate) fn start() -> Self {
        let here = fs::read_link("/proc/self/ns/net").unwrap();
        let child = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .spawn()
            .unwrap();
        let peer = Self(child);
        let id = peer.0.id();
        let there = format!("/proc/{id}/ns/net");
        while fs::read_link(&there).is_ok_and(|there| there == here) {
            std::thread::yield_now();
        }
        run("ip link add wire0 type veth peer name wire1");
        run(&format!("ip link set wire1 netns {id}"));
        for (before, device, end) in [
            (String::new(), "wire0", 1),
            (format!("nsenter -t {id} -n "), "wire1", 2),
        ] {
            for line in [
                format!("ip addr add 198.18.0.{end}/24 dev {device}"),
                format!("ip addr add 2001:db8::{end}/64 dev {device} nodad"),
                format!("ip link set {device} up"),
            ] {
                run(&(before.clone() + &line));
            }
        }
        peer
    }

    /// The file of its network namespace.
    pub(crate) fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Run a command there.
    pub(crate) fn run(&self, line: &str) {
        run(&format!("nsenter -t {} -n {line}", self.0.id()));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

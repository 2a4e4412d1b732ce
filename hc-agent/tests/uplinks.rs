// SPDX-License-Identifier: Apache-2.0
//! The program beside an agent that says whether uplinks work, or does not answer.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use octavia_xdp_hc::state::State;
use octavia_xdp_hc::uplinks::file::{FILE_NAME, SOCKET_NAME};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::support::documents::{A, http, with_timeout};
use crate::support::node::{Node, pause};
use crate::support::server::{FINE, SILENT, Server};

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

fn write(folder: &Path, since_ns: Option<u64>) {
    let known = json!({"as_of_ns": monotonic_ns(), "since_ns": since_ns});
    let document: Value = json!({"version": 1, "families": {"4": known}});
    let temporary = folder.join(".tmp-uplinks");
    fs::write(&temporary, document.to_string()).unwrap();
    fs::rename(temporary, folder.join(FILE_NAME)).unwrap();
}

/// An agent that answers, until it is dropped.
struct Agent {
    folder: PathBuf,
    since_ns: Arc<Mutex<Option<u64>>>,
    asked: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(node: &Node, since_ns: Option<u64>) -> Self {
        let folder = node.folder.path().to_owned();
        let socket = UnixDatagram::bind(folder.join(SOCKET_NAME)).unwrap();
        let wait = Duration::from_millis(20);
        socket.set_read_timeout(Some(wait)).unwrap();
        let agent = Self {
            folder: folder.clone(),
            since_ns: Arc::new(Mutex::new(since_ns)),
            asked: Arc::default(),
            ends: Arc::default(),
            thread: None,
        };
        let (since, asked, ends) = (
            Arc::clone(&agent.since_ns),
            Arc::clone(&agent.asked),
            Arc::clone(&agent.ends),
        );
        write(&folder, since_ns);
        let answer = move || {
            while !ends.load(Ordering::Relaxed) {
                if socket.recv(&mut [0; 16]).is_ok() {
                    asked.fetch_add(1, Ordering::Relaxed);
                    write(&folder, *since.lock().unwrap());
                }
            }
        };
        Self {
            thread: Some(std::thread::spawn(answer)),
            ..agent
        }
    }

    fn say(&self, since_ns: Option<u64>) {
        *self.since_ns.lock().unwrap() = since_ns;
        write(&self.folder, since_ns);
    }

    /// End without a word.
    fn kill(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A server that answered until now, and a checker that has found it up.
fn up(node: &mut Node) -> Server {
    let server = Server::start(FINE);
    let target = server.address;
    node.write(&[with_timeout(http(A, target, 2), 1)]);
    node.start();
    node.wait_state(A, State::Up);
    drop(server);
    Server::at(target, SILENT)
}

#[test]
fn time_outs_without_an_uplink_are_discarded_and_count_once_one_works() {
    let mut node = Node::new();
    let agent = Agent::start(&node, Some(1));
    let _server = up(&mut node);
    agent.say(None);
    node.wait_logged("no uplink works");
    // More than `fall` probes with their timeouts.
    pause(Duration::from_secs(6));
    assert_eq!(node.state(A), Some((State::Up, true)));
    agent.say(Some(monotonic_ns()));
    node.wait_state(A, State::Down);
    assert!(agent.asked.load(Ordering::Relaxed) >= 2, "for each failure");
    agent.kill();
}

#[test]
fn a_killed_agent_leaves_the_checker_as_it_is_without_one() {
    let mut node = Node::new();
    let agent = Agent::start(&node, None);
    let _server = up(&mut node);
    agent.kill();
    node.wait_state(A, State::Down);
}

#[test]
fn failures_count_beside_an_agent_that_does_not_answer() {
    let mut node = Node::new();
    let folder = node.folder.path().to_owned();
    let _deaf = UnixDatagram::bind(folder.join(SOCKET_NAME)).unwrap();
    write(&folder, Some(1));
    let _server = up(&mut node);
    node.wait_state(A, State::Down);
    assert!(!node.log().contains("no uplink works"));
}

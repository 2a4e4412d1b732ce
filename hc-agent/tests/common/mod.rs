// SPDX-License-Identifier: Apache-2.0
//! Servers that misbehave on purpose, on the loopback device.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::disallowed_methods,
    reason = "threads of tests may sleep and block"
)]

pub(crate) mod node;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

/// What a server does with a connection, after the request has come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Habit {
    /// Send this and close.
    Say(&'static str),
    /// Send this after some time.
    SayLate(&'static str, Duration),
    /// Send this byte by byte, with a pause after each.
    Drip(&'static str, Duration),
    /// Send this, then the filling for ever.
    Flood(&'static str, &'static str),
    /// Hold the connection and say nothing.
    Silent,
    /// Close with unread data, which resets the connection.
    Reset,
}

pub(crate) const FINE: Habit = Habit::Say("HTTP/1.0 200 OK\r\n\r\n");

/// A listener that is gone, connections and all, when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(habit: Habit) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), habit)
    }

    /// Listen at an address, also where a server was a moment ago.
    pub(crate) fn at(address: SocketAddr, habit: Habit) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&connections));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        counter.fetch_add(1, Ordering::Relaxed);
                        let stopped = Arc::clone(&stopped);
                        thread::spawn(move || {
                            let _ = serve(stream, habit, &stopped);
                        });
                    }
                    Err(_) => sleep(Duration::from_millis(2)),
                }
            }
        });
        Self {
            address,
            connections,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(mut stream: TcpStream, habit: Habit, stop: &AtomicBool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    if matches!(habit, Habit::Reset) {
        let mut one = [0];
        stream.read_exact(&mut one)?;
        return Ok(());
    }
    let mut request = Vec::new();
    let mut some = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut some)? {
            0 => return Ok(()),
            n => request.extend_from_slice(&some[..n]),
        }
    }
    match habit {
        Habit::Say(text) => stream.write_all(text.as_bytes())?,
        Habit::SayLate(text, pause) => {
            sleep(pause);
            stream.write_all(text.as_bytes())?;
        }
        Habit::Drip(text, pause) => {
            for byte in text.bytes() {
                stream.write_all(&[byte])?;
                sleep(pause);
            }
        }
        Habit::Flood(head, filling) => {
            stream.write_all(head.as_bytes())?;
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(filling.as_bytes())?;
            }
        }
        Habit::Silent => {
            while !stop.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(20));
            }
        }
        Habit::Reset => {}
    }
    stream.shutdown(Shutdown::Write)
}

/// An address where nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

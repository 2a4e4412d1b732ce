// SPDX-License-Identifier: Apache-2.0
//! Servers end their answers in peace, within bounds, though the result is known before.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use octavia_xdp_hc::config::{HttpSpec, HttpsSpec, ProbeSpec};
use octavia_xdp_hc::probe::{Source, run};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConnection, StreamOwned, SupportedProtocolVersion};

use crate::support::documents::{get, http, key, single};
use crate::support::node::{Node, PATIENCE};
use crate::support::server::tls_config;

const STATUS_LINE: &[u8] = b"HTTP/1.0 200 OK\r\n";
/// Time in which a connection that is closed behind the status line is reset.
const BETWEEN_PARTS: Duration = Duration::from_millis(50);

/// The behaviour of a server after its status line.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// So many parts of 1,024 bytes, and an end.
    Parts(usize),
    /// Nothing, and no end.
    Held,
}

/// A connection whose end this side can say.
trait Connection: Read + Write + Send {
    fn end(&mut self) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn end(&mut self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

impl Connection for StreamOwned<ServerConnection, TcpStream> {
    fn end(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.end()
    }
}

/// Answer one request. Returns how the client ends the connection.
fn answer(mut connection: impl Connection, rest: Rest) -> io::Result<()> {
    let _ = connection.read(&mut [0; 4096])?;
    connection.write_all(STATUS_LINE)?;
    connection.flush()?;
    if let Rest::Parts(parts) = rest {
        for _ in 0..parts {
            thread::sleep(BETWEEN_PARTS);
            connection.write_all(&[b'x'; 1024])?;
            connection.flush()?;
        }
        connection.end()?;
    }
    // With TLS this is an error also if FIN comes without close_notify.
    connection.read(&mut [0]).map(drop)
}

/// A server for one connection.
fn serve(
    version: Option<&'static SupportedProtocolVersion>,
    rest: Rest,
) -> (SocketAddr, JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        match version {
            None => answer(stream, rest),
            Some(version) => {
                let tls = ServerConnection::new(tls_config(version)).unwrap();
                answer(StreamOwned::new(tls, stream), rest)
            }
        }
    });
    (address, server)
}

/// Probe once, and tell how the server has seen the end.
async fn end(
    version: Option<&'static SupportedProtocolVersion>,
    rest: Rest,
    expected: u16,
) -> Result<(), io::ErrorKind> {
    let (target, server) = serve(version, rest);
    let (request, codes) = get(expected);
    let probe = if version.is_some() {
        let check = HttpsSpec::new(target, &request, codes, None);
        ProbeSpec::Https(Arc::new(check))
    } else {
        ProbeSpec::Http(Arc::new(HttpSpec::with(target, &request, codes)))
    };
    let outcome = run(&single(probe, target, PATIENCE), &Source::default()).await;
    assert_eq!(outcome.status, 200);
    assert_eq!(outcome.result.is_ok(), expected == 200);
    server.join().unwrap().map_err(|e| e.kind())
}

#[tokio::test]
async fn a_server_says_all_that_it_has_to_say_whatever_its_status_is() {
    for version in [None, Some(&TLS12), Some(&TLS13)] {
        for expected in [200, 204] {
            assert_eq!(end(version, Rest::Parts(2), expected).await, Ok(()));
        }
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_reset_in_the_end() {
    for rest in [Rest::Held, Rest::Parts(1_000_000)] {
        for version in [None, Some(&TLS13)] {
            let end = end(version, rest, 200).await;
            let reset = [
                Err(io::ErrorKind::ConnectionReset),
                Err(io::ErrorKind::BrokenPipe),
            ];
            assert!(reset.contains(&end), "{rest:?}: {end:?}");
        }
    }
}

/// Python's own server, of a page that takes several segments.
struct Python {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Python {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("page"), vec![b'x'; 32 << 10]).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut child = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "-d"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        // Serving HTTP on 127.0.0.1 port 8000 (http://127.0.0.1:8000/) ...
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let port = line.split_whitespace().nth(5).unwrap().parse().unwrap();
        Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            folder,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_stock_server_logs_no_error() {
    let server = Python::start();
    let mut node = Node::new();
    let checks: Vec<_> = (1..=50)
        .map(|number| {
            let mut check = http(&key(number), server.address, 3);
            check["http"]["path"] = "/page".into();
            check
        })
        .collect();
    node.write(&checks);
    node.start();
    node.wait("answers", || {
        server.log().matches("GET /page").count() >= 250
    });
    let log = server.log();
    assert!(!log.contains("Error"), "{log}");
}

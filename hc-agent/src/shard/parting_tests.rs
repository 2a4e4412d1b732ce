// SPDX-License-Identifier: Apache-2.0

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::*;
use crate::config::{CodeRange, HttpSpec, Method, ProbeSpec, Version};
use crate::key::Key;

const PATIENCE: Duration = Duration::from_secs(60);

/// Send the status line, then read the rest.
fn serve(listener: &TcpListener) -> io::Result<usize> {
    let (mut stream, _) = listener.accept()?;
    let _ = stream.read(&mut [0; 1024])?;
    stream.write_all(b"HTTP/1.0 200 OK\r\n")?;
    // Shutting down a connection that was reset fails; reading reports the reset.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    stream.read(&mut [0])
}

fn check(target: SocketAddr) -> Arc<Check> {
    let expected = vec![CodeRange {
        first: 200,
        last: 200,
    }];
    let http = HttpSpec::new(target, Method::Get, "/", Version::Http10, None, expected);
    Arc::new(Check {
        key: Key::new(1).unwrap(),
        target,
        mark: None,
        proxy_protocol: None,
        delay: PATIENCE,
        timeout: PATIENCE,
        rise: 1,
        fall: 1,
        probe: ProbeSpec::Http(Arc::new(http)),
    })
}

/// Probe once, with so many permits for connections that stay open after their result.
async fn probe(max_partings: usize) -> io::Result<usize> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let server = thread::spawn(move || serve(&listener));
    let settings = Settings {
        max_in_flight: 1,
        max_partings,
        fast_interval_ms: None,
        once: true,
    };
    let shard = Shard::new(settings, Source::default(), Arc::default());
    shard.core().put(check(target), 0, || None, 0);
    Arc::clone(&shard).run().await;
    assert_eq!(shard.core().counts[State::Up as usize], 1);
    tokio::task::spawn_blocking(move || server.join().unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn connections_end_in_peace_as_far_as_there_are_places() {
    assert_eq!(probe(1).await.unwrap(), 0);
    let error = probe(0).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

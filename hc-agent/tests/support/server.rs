// SPDX-License-Identifier: Apache-2.0
//! TCP and TLS servers on the loopback device that do exactly what a test says.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::crypto::ring as provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};

/// A server's reaction to the first bytes of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// Send this and end the connection.
    Say(&'static [u8]),
    /// Send this after some time and end the connection.
    SayLate(&'static [u8], Duration),
    /// Send this and say nothing more.
    SayAndHold(&'static [u8]),
    /// Send this byte by byte, with a pause after each.
    Drip(&'static [u8], Duration),
    /// Send the first, then the second for ever.
    Flood(&'static [u8], &'static [u8]),
    /// Close with data unread, which resets.
    Reset,
}

/// A listener.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    /// Nobody listens.
    Nobody,
    /// The kernel drops SYNs.
    BacklogFull,
    /// It accepts and closes without a look.
    CloseAtOnce,
    /// Plain TCP.
    Plain(Then),
    /// TLS of this version, and the same inside.
    Tls(&'static SupportedProtocolVersion, Then),
}

/// Answers each request with success.
pub(crate) const FINE: Behaviour =
    Behaviour::Plain(Then::Say(b"HTTP/1.0 200 OK\r\n\r\n"));
/// Takes connections and says nothing.
pub(crate) const SILENT: Behaviour = Behaviour::Plain(Then::SayAndHold(b""));

/// Answers each request with success, so late.
pub(crate) fn fine_after(pause: Duration) -> Behaviour {
    Behaviour::Plain(Then::SayLate(b"HTTP/1.0 200 OK\r\n\r\n", pause))
}

/// A server that is gone, connections and all, when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Connections that were taken.
    pub(crate) connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    listener: Option<(TcpListener, JoinHandle<()>)>,
    /// Connections that fill a backlog, or what keeps a port from others.
    _held: Vec<socket2::Socket>,
}

impl Server {
    /// On a free port of a loopback address that no other server has.
    ///
    /// So nothing takes its port between its end and a server that comes
    /// [`at`](Self::at) the same address later: the sockets of other tests have
    /// other addresses, and connections to it begin at 127.0.0.1.
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        Self::at(SocketAddr::new(own_address().into(), 0), behaviour)
    }

    /// At an address, also where a server was a moment ago.
    pub(crate) fn at(any: SocketAddr, behaviour: Behaviour) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let mut held = Vec::new();
        let mut running = None;
        let address = match behaviour {
            Behaviour::Nobody => reserve(any, &mut held),
            Behaviour::BacklogFull => fill(any, &mut held),
            _ => {
                let listener = TcpListener::bind(any).unwrap();
                let address = listener.local_addr().unwrap();
                let ours = listener.try_clone().unwrap();
                let (stop, counter) = (Arc::clone(&stop), Arc::clone(&connections));
                let accept = move || accept(&listener, behaviour, &counter, &stop);
                running = Some((ours, thread::spawn(accept)));
                address
            }
        };
        Self {
            address,
            connections,
            stop,
            listener: running,
            _held: held,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some((listener, thread)) = self.listener.take() {
            // Ends the accept that waits.
            let _ = socket2::SockRef::from(&listener).shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

/// An address within 127.0.0.0/8 for one server of this process.
fn own_address() -> Ipv4Addr {
    static SERVERS: AtomicU32 = AtomicU32::new(0);
    let number = SERVERS.fetch_add(1, Ordering::Relaxed);
    // Processes side by side begin 65,536 addresses apart; 127.0.0.0/16 and
    // the broadcast address of the whole are nobody's.
    let process = std::process::id() % 254 + 1;
    Ipv4Addr::from_bits(127 << 24 | process << 16 | number & 0xffff)
}

fn stream(any: SocketAddr) -> socket2::Socket {
    let domain = socket2::Domain::for_address(any);
    socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap()
}

/// A port where nobody listens, not even a test that runs beside.
fn reserve(any: SocketAddr, held: &mut Vec<socket2::Socket>) -> SocketAddr {
    let bound = stream(any);
    bound.bind(&any.into()).unwrap();
    let address = bound.local_addr().unwrap();
    held.push(bound);
    address.as_socket().unwrap()
}

fn fill(any: SocketAddr, held: &mut Vec<socket2::Socket>) -> SocketAddr {
    let socket = || stream(any);
    let listener = socket();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    held.push(listener);
    for _ in 0..4 {
        let client = socket();
        client.set_nonblocking(true).unwrap();
        let _ = client.connect(&address);
        held.push(client);
        sleep(Duration::from_millis(20));
    }
    address.as_socket().unwrap()
}

fn accept(
    listener: &TcpListener,
    behaviour: Behaviour,
    connections: &AtomicUsize,
    stop: &Arc<AtomicBool>,
) {
    while let Ok((stream, _)) = listener.accept() {
        connections.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::clone(stop);
        thread::spawn(move || serve(stream, behaviour, &stop));
    }
}

fn serve(stream: TcpStream, behaviour: Behaviour, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match behaviour {
        Behaviour::Plain(then) => act(stream, then, stop),
        Behaviour::Tls(version, then) => {
            let tls = ServerConnection::new(tls_config(version)).unwrap();
            act(StreamOwned::new(tls, stream), then, stop)
        }
        _ => Ok(()),
    }
}

fn act(mut stream: impl Read + Write, then: Then, stop: &AtomicBool) -> io::Result<()> {
    let hold = || {
        while !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(10));
        }
    };
    if let Then::Reset = then {
        return stream.read_exact(&mut [0]);
    }
    let _ = stream.read(&mut [0; 4096])?;
    match then {
        Then::Say(bytes) => stream.write_all(bytes)?,
        Then::SayLate(bytes, pause) => {
            sleep(pause);
            stream.write_all(bytes)?;
        }
        Then::SayAndHold(bytes) => {
            stream.write_all(bytes)?;
            stream.flush()?;
            hold();
        }
        Then::Drip(bytes, pause) => {
            for byte in bytes {
                stream.write_all(&[*byte])?;
                stream.flush()?;
                sleep(pause);
            }
            hold();
        }
        Then::Flood(head, more) => {
            stream.write_all(head)?;
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(more)?;
            }
        }
        Then::Reset => {}
    }
    stream.flush()
}

/// A certificate that is none: nobody looks at it.
#[derive(Debug)]
struct Nonsense(Arc<CertifiedKey>);

impl ResolvesServerCert for Nonsense {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

static KEY: LazyLock<Arc<CertifiedKey>> = LazyLock::new(|| {
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.as_ref().to_vec());
    let key = provider::sign::any_ecdsa_type(&key.into()).unwrap();
    let certificate = CertificateDer::from(b"no certificate at all".to_vec());
    Arc::new(CertifiedKey::new(vec![certificate], key))
});

pub(crate) fn tls_config(
    version: &'static SupportedProtocolVersion,
) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(provider::default_provider().into())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Nonsense(Arc::clone(&KEY))));
    Arc::new(config)
}

/// An address where nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

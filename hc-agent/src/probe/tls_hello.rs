// SPDX-License-Identifier: Apache-2.0
//! The TLS-HELLO check: send a `ClientHello` that any server can answer, and judge the
//! first records that come back. There is no cryptography: the key share is a constant,
//! as its shared secret is never used. Numbers are big endian (RFC 8446).

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::failure::Failure;
use super::progress::{Progress, Stage};
use crate::config::TlsHelloSpec;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const WARNING: u8 = 1;
const CLOSE_NOTIFY: u8 = 0;
/// A record's header: type, version, length.
const HEADER: usize = 5;
/// Longest record, in bytes (RFC 5246, section 6.2.3).
const MAX_RECORD_BYTES: usize = (1 << 14) + 2048;
/// Bytes read: enough to reach the first byte of a handshake message.
const MAX_READ_BYTES: usize = 64;

/// Suites of TLS 1.3, of 1.2 with ECDHE, DHE and RSA, for old servers, and the
/// signalling suite of RFC 5746.
const SUITES: [u16; 21] = [
    0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0x009e,
    0x009f, 0xc009, 0xc013, 0xc00a, 0xc014, 0x009c, 0x009d, 0x0033, 0x002f, 0x0035,
    0x00ff,
];
/// X25519, P-256, P-384, P-521, X448, and brainpool's of 256, 384 and 512 bits, for TLS
/// 1.2 and for 1.3. No finite-field groups: a server that supports none of them but has
/// its own group would then refuse DHE in TLS 1.2 (RFC 7919, section 4).
const GROUPS: [u16; 11] = [
    0x001d, 0x0017, 0x0018, 0x0019, 0x001e, 0x001a, 0x001b, 0x001c, 0x001f, 0x0020,
    0x0021,
];
/// Includes the schemes of RSA keys restricted to PSS and of brainpool's curves:
/// nothing is verified, and servers with such certificates require them.
const SIGNATURES: [u16; 19] = [
    0x0403, 0x0503, 0x0603, 0x0807, 0x0808, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501,
    0x0601, 0x0201, 0x0203, 0x0809, 0x080a, 0x080b, 0x081a, 0x081b, 0x081c,
];
/// TLS 1.3 down to 1.0.
const VERSIONS: [u16; 4] = [0x0304, 0x0303, 0x0302, 0x0301];
/// A valid public key: the first one of RFC 7748, section 6.1.
const KEY: [u8; 32] = [
    0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e,
    0xf7, 0x5a, 0x0d, 0xbf, 0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e,
    0xaa, 0x9b, 0x4e, 0x6a,
];

static PLAIN: LazyLock<Vec<u8>> = LazyLock::new(|| client_hello(None));
/// Random and session ID of all hellos of this process.
static NOISE: LazyLock<[u8; 64]> = LazyLock::new(|| {
    let seed = RandomState::new();
    let mut noise = [0; 64];
    for (place, bytes) in (0_u8..).zip(noise.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&seed.hash_one(place).to_be_bytes());
    }
    noise
});

/// Send the hello and judge the answer.
pub(super) async fn talk(
    mut stream: TcpStream,
    check: &TlsHelloSpec,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let hello = match &check.server_name {
        None => Cow::Borrowed(PLAIN.as_slice()),
        Some(name) => Cow::Owned(client_hello(Some(name))),
    };
    progress.stage = Stage::Send;
    stream
        .write_all(&hello)
        .await
        .map_err(|e| Failure::of(e, Stage::Send))?;
    progress.stage = Stage::Handshake;
    progress.note(|| format!("sent a ClientHello of {} bytes", hello.len()));
    let mut data = [0; MAX_READ_BYTES];
    let mut length = 0;
    loop {
        let read = stream
            .read(&mut data[length..])
            .await
            .map_err(|e| Failure::of(e, Stage::Handshake))?;
        if read == 0 {
            return Err(Failure::Closed(Stage::Handshake));
        }
        length += read;
        match judge(&data[..length]) {
            None if length == MAX_READ_BYTES => {
                return Err(Failure::Tls("nothing but warnings".to_owned()));
            }
            None => {}
            Some(result) => {
                match &result {
                    Ok(()) => progress.note(|| "a ServerHello came".to_owned()),
                    Err(Failure::TlsAlert(alert)) => progress.detail = (*alert).into(),
                    Err(_) => {}
                }
                return result;
            }
        }
    }
}

/// Judge the first records; `None` while more bytes are needed.
fn judge(mut data: &[u8]) -> Option<Result<(), Failure>> {
    loop {
        let no_record = || Some(Err(Failure::Tls("not a TLS record".to_owned())));
        match data {
            [] => return None,
            [ALERT | HANDSHAKE] | [ALERT | HANDSHAKE, 3, ..] => {}
            _ => return no_record(),
        }
        let header = data.first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if !(1..=MAX_RECORD_BYTES).contains(&length) {
            return no_record();
        }
        let body = &data[HEADER..];
        match (header[0], body) {
            (HANDSHAKE, [SERVER_HELLO, ..]) => return Some(Ok(())),
            (HANDSHAKE, [other, ..]) => {
                let text = format!("handshake message {other} instead of a ServerHello");
                return Some(Err(Failure::Tls(text)));
            }
            // A warning, for example about an unknown name; the hello follows.
            (_, [WARNING, alert, ..]) if *alert != CLOSE_NOTIFY && length == 2 => {
                data = &body[2..];
            }
            (_, [_, alert, ..]) => return Some(Err(Failure::TlsAlert(*alert))),
            (_, [] | [_]) => return None,
        }
    }
}

/// Build a record with the hello.
fn client_hello(name: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(384);
    out.extend([HANDSHAKE, 3, 1]);
    within(&mut out, |out| {
        // The first byte of the three-byte length of a handshake message.
        out.extend([CLIENT_HELLO, 0]);
        within(out, |out| {
            out.extend([3, 3]);
            out.extend(&NOISE[..32]);
            out.push(32);
            out.extend(&NOISE[32..]);
            within(out, |out| put_all(out, &SUITES));
            // No compression.
            out.extend([1, 0]);
            within(out, |out| extensions(out, name));
        });
    });
    out
}

fn extensions(out: &mut Vec<u8>, name: Option<&str>) {
    if let Some(name) = name {
        extension(out, 0, |out| {
            within(out, |out| {
                out.push(0);
                within(out, |out| out.extend(name.as_bytes()));
            });
        });
    }
    // Uncompressed points; extended master secret.
    extension(out, 11, |out| out.extend([1, 0]));
    extension(out, 23, |_| {});
    extension(out, 10, |out| within(out, |out| put_all(out, &GROUPS)));
    extension(out, 13, |out| within(out, |out| put_all(out, &SIGNATURES)));
    extension(out, 43, |out| {
        out.push(8);
        put_all(out, &VERSIONS);
    });
    extension(out, 51, |out| {
        within(out, |out| {
            put_all(out, &GROUPS[..1]);
            within(out, |out| out.extend(KEY));
        });
    });
}

fn extension(out: &mut Vec<u8>, number: u16, body: impl FnOnce(&mut Vec<u8>)) {
    put_all(out, &[number]);
    within(out, body);
}

fn put_all(out: &mut Vec<u8>, numbers: &[u16]) {
    for number in numbers {
        out.extend(number.to_be_bytes());
    }
}

/// Write a part, preceded by its two-byte length.
fn within(out: &mut Vec<u8>, part: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0, 0]);
    part(out);
    // A name has at most 253 bytes and the rest is constant, so the length fits.
    let length = u16::try_from(out.len() - start - 2).unwrap_or(u16::MAX);
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustls::server::Acceptor;

    use super::*;

    #[test]
    fn a_tls_library_reads_the_hello() {
        for name in [None, Some("www.example.org")] {
            let hello = client_hello(name);
            let mut acceptor = Acceptor::default();
            acceptor.read_tls(&mut hello.as_slice()).unwrap();
            let accepted = acceptor.accept().unwrap().expect("it is whole");
            let hello = accepted.client_hello();
            assert_eq!(hello.server_name(), name);
            assert_eq!(hello.cipher_suites().len(), SUITES.len());
            assert_eq!(hello.signature_schemes().len(), SIGNATURES.len());
            for number in [0x0809, 0x080b, 0x081a, 0x081c] {
                assert!(hello.signature_schemes().contains(&number.into()));
            }
        }
    }

    const SERVER_HELLO: &[u8] = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76";

    #[test]
    fn a_server_hello_is_a_success_after_a_warning_too() {
        let hello = SERVER_HELLO;
        assert!(matches!(judge(hello), Some(Ok(()))));
        let warned = [b"\x15\x03\x01\x00\x02\x01\x70", hello].concat();
        assert!(matches!(judge(&warned), Some(Ok(()))));
        for end in 0..6 {
            assert!(judge(&hello[..end.min(5)]).is_none());
            assert!(judge(&warned[..7 + end.min(5)]).is_none());
        }
    }

    #[test]
    fn an_alert_that_ends_the_session_is_a_failure_with_its_number() {
        for alert in [
            b"\x15\x03\x03\x00\x02\x02\x28".as_slice(),
            b"\x15\x03\x01\x00\x02\x01\x00",
        ] {
            let number = alert[6];
            let judgement = judge(alert);
            assert!(
                matches!(judgement, Some(Err(Failure::TlsAlert(n))) if n == number),
                "{judgement:?}"
            );
        }
    }

    #[test]
    fn what_is_no_server_hello_is_a_failure() {
        for noise in [
            b"HTTP/1.1 400 Bad Request\r\n".as_slice(),
            b"\x16\x02\x00\x00\x01\x02",
            b"\x16\x03\x03\x00\x00\x02",
            b"\x16\x03\x03\xff\xff\x02",
            b"\x16\x03\x03\x00\x01\x00",
            b"\x17\x03\x03\x00\x01\x00",
        ] {
            let judgement = judge(noise);
            assert!(
                matches!(judgement, Some(Err(Failure::Tls(_)))),
                "{judgement:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn noise_is_judged(data in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = judge(&data);
        }
    }
}

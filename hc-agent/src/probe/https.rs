// SPDX-License-Identifier: Apache-2.0
//! The HTTPS check: TLS by rustls, and HTTP inside.
//!
//! As in Octavia, certificates and signatures are not verified. Sessions are never
//! resumed, as that would hide a server that cannot complete a full handshake.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use rustls::client::Resumption;
use rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, ProtocolVersion,
    SignatureScheme,
};
use tokio::net::TcpStream;

use super::failure::Failure;
use super::http::{Answer, says_status, sent};
use super::now::Now;
use super::parting::Parting;
use super::progress::{Progress, Stage};
use crate::config::HttpsSpec;

/// Bytes read from a server before a probe gives up, including certificates.
const MAX_READ_BYTES: usize = 256 << 10;

static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| Arc::new(config()));

/// Only X25519 is offered with a key share; other curves cost one more round trip.
fn config() -> ClientConfig {
    let mut provider = ring::default_provider();
    // The cheapest suite first: servers without a preference choose it.
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("ring knows both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config
}

/// Shake hands, send the request, judge the answer.
pub(super) async fn talk(
    stream: TcpStream,
    target: IpAddr,
    check: &HttpsSpec,
    progress: &mut Progress,
) -> Result<(), Failure> {
    // An address is not a server name; no SNI is sent for it.
    let name = check.server_name.clone();
    let name = name.map_or_else(|| target.into(), ServerName::DnsName);
    let mut tls =
        ClientConnection::new(Arc::clone(&CONFIG), name).map_err(|e| broken(&e))?;
    // The request is sent with the end of the handshake.
    tls.writer()
        .write_all(&check.http.request)
        .map_err(Failure::Local)?;
    progress.stage = Stage::Handshake;
    let mut answer = Answer::default();
    let mut total = 0;
    loop {
        while tls.wants_write() {
            match tls.write_tls(&mut Now(&stream)) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let ready = stream.writable().await;
                    ready.map_err(|e| Failure::of(e, progress.stage))?;
                }
                Err(e) => return Err(Failure::of(e, progress.stage)),
                Ok(_) => {}
            }
        }
        if progress.stage == Stage::Handshake && !tls.is_handshaking() {
            progress.stage = Stage::Receive;
            progress.note(|| agreed(&tls));
            progress.note(|| sent(&check.http));
        }
        let ready = stream.readable().await;
        ready.map_err(|e| Failure::of(e, progress.stage))?;
        match tls.read_tls(&mut Now(&stream)) {
            Ok(0) => return Err(Failure::Closed(progress.stage)),
            Ok(read) => total += read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            Err(e) => return Err(Failure::of(e, progress.stage)),
        }
        let state = tls.process_new_packets().map_err(|e| {
            if let rustls::Error::AlertReceived(alert) = &e {
                progress.detail = u8::from(*alert).into();
            }
            broken(&e)
        })?;
        if state.plaintext_bytes_to_read() > 0 {
            let mut reader = tls.reader().take(answer.room());
            reader
                .read_to_end(&mut answer.data)
                .or_else(pending)
                .map_err(|e| Failure::of(e, progress.stage))?;
            if let Some(result) = answer.look(&check.http, progress) {
                if says_status(&result) {
                    progress.parting = Some(Parting::tls(stream, tls));
                }
                return result;
            }
        }
        if state.peer_has_closed() {
            return Err(Failure::Closed(progress.stage));
        }
        if total > MAX_READ_BYTES {
            return Err(Failure::Tls("no status line in 256 KiB".to_owned()));
        }
    }
}

/// Turn `WouldBlock` into 0 bytes.
fn pending(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(0),
        _ => Err(error),
    }
}

fn broken(error: &rustls::Error) -> Failure {
    match error {
        rustls::Error::AlertReceived(alert) => Failure::TlsAlert((*alert).into()),
        other => Failure::Tls(other.to_string()),
    }
}

/// The negotiated version and suite, for display.
fn agreed(tls: &ClientConnection) -> String {
    let version = match tls.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
        _ => "TLS 1.2",
    };
    let suite = tls.negotiated_cipher_suite().map(|suite| suite.suite());
    let suite = suite.as_ref().and_then(CipherSuite::as_str);
    let suite = suite.unwrap_or("unknown suite");
    format!("{version}, {suite}, certificates not verified")
}

/// Accepts any certificate with any signature.
#[derive(Debug)]
struct Anything;

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// All schemes that a server's certificate may use.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::ED448,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::RSA_PKCS1_SHA1,
            SignatureScheme::ECDSA_SHA1_Legacy,
            // RSA keys restricted to PSS, and brainpool's curves.
            SignatureScheme::Unknown(0x0809),
            SignatureScheme::Unknown(0x080a),
            SignatureScheme::Unknown(0x080b),
            SignatureScheme::Unknown(0x081a),
            SignatureScheme::Unknown(0x081b),
            SignatureScheme::Unknown(0x081c),
        ]
    }
}

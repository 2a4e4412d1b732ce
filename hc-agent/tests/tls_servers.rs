// SPDX-License-Identifier: Apache-2.0
//! Real servers with the rarer keys and groups: what is not verified is not in the way.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use octavia_xdp_hc::config::{HttpsSpec, ProbeSpec, TlsHelloSpec};
use octavia_xdp_hc::probe::{Source, run};
use octavia_xdp_hc::reason::Reason;

use crate::support::documents::{get, single};
use crate::support::node::PATIENCE;

const UP: Reason = Reason::NONE;
const ALERT: Reason = Reason::TLS_ALERT;
const NO_TLS: Reason = Reason::TLS_ERROR;

const RSA: &[&str] = &["RSA", "rsa_keygen_bits:2048"];
const PSS: &[&str] = &["RSA-PSS", "rsa_keygen_bits:2048"];
const ED448: &[&str] = &["ED448"];
const P_521: &[&str] = &["EC", "ec_paramgen_curve:secp521r1"];
const BRAINPOOL: &[&str] = &["EC", "ec_paramgen_curve:brainpoolP384r1"];

/// A key, further options of the server, and what https and tls-hello find.
type Row = (
    &'static [&'static str],
    &'static [&'static str],
    [Reason; 2],
);

/// Servers and results; user/health-checks.rst names what https cannot do.
const ROWS: &[Row] = &[
    (PSS, &["-tls1_3"], [UP, UP]),
    (PSS, &["-tls1_2"], [NO_TLS, UP]),
    (ED448, &["-tls1_3"], [UP, UP]),
    (ED448, &["-tls1_2"], [NO_TLS, UP]),
    (P_521, &["-tls1_3"], [UP, UP]),
    (P_521, &["-tls1_2"], [ALERT, UP]),
    // OpenSSL before 3.2 has these in TLS 1.2 alone.
    (BRAINPOOL, &["-tls1_2"], [ALERT, UP]),
    (RSA, &["-tls1_3", "-groups", "P-384"], [UP, UP]),
    (RSA, &["-tls1_3", "-groups", "P-521"], [ALERT, UP]),
    (RSA, &["-tls1_2", "-groups", "P-521"], [ALERT, UP]),
    (RSA, &["-tls1_3", "-groups", "X448"], [ALERT, UP]),
    (
        RSA,
        &["-tls1_2", "-groups", "ffdhe2048", "-cipher", "DHE"],
        [ALERT, UP],
    ),
    (RSA, &["-tls1_2", "-groups", "brainpoolP256r1"], [ALERT, UP]),
];

fn openssl(folder: &Path, arguments: &[&str]) {
    let output = Command::new("openssl")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Make a key and a certificate with it; returns the name of their file.
fn make(folder: &Path, key: &[&str]) -> String {
    let name = format!("{}.pem", key.join("_").replace(':', "_"));
    if !folder.join(&name).exists() {
        let mut words = vec!["genpkey", "-out", &name, "-algorithm", key[0]];
        words.extend(key[1..].iter().flat_map(|option| ["-pkeyopt", option]));
        openssl(folder, &words);
        let certificate = format!("{name}.crt");
        openssl(
            folder,
            &[
                "req",
                "-x509",
                "-new",
                "-subj",
                "/CN=member",
                "-days",
                "9",
                "-key",
                &name,
                "-out",
                &certificate,
            ],
        );
    }
    name
}

/// Returns the results of a check of each type for a server.
async fn probe(folder: &Path, (key, options, _): &Row) -> [Reason; 2] {
    let key = make(folder, key);
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-key", &key])
        .args(["-cert", &format!("{key}.crt")])
        .args(*options)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    // ACCEPT 127.0.0.1:34567
    let address: SocketAddr = lines
        .by_ref()
        .find_map(|line| line.unwrap().strip_prefix("ACCEPT ")?.parse().ok())
        .unwrap();
    let (request, codes) = get(200);
    let https = HttpsSpec::new(address, &request, codes, None);
    let mut reasons = [Reason::NONE; 2];
    let probes = [
        ProbeSpec::Https(Arc::new(https)),
        ProbeSpec::TlsHello(Arc::new(TlsHelloSpec::new(None))),
    ];
    for (reason, probe) in reasons.iter_mut().zip(probes) {
        let check = single(probe, address, PATIENCE);
        *reason = run(&check, &Source::default()).await.reason();
    }
    server.kill().unwrap();
    server.wait().unwrap();
    reasons
}

#[tokio::test]
async fn keys_and_groups_that_are_not_verified_are_not_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for row in ROWS {
        let reasons = probe(folder.path(), row).await;
        if reasons != row.2 {
            wrong.push(format!("{row:?}: {reasons:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

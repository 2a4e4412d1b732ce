// SPDX-License-Identifier: Apache-2.0
//! `probe`

use std::io::{self, Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::{Failed, SourceArguments};
use crate::config::{
    Check, CodeRange, HttpSpec, HttpsSpec, Method, ProbeSpec, ProxyProtocol, Request,
    TlsHelloSpec, Version, is_host, is_path, is_server_name,
};
use crate::key::Key;
use crate::probe::{self, Failure, ProbeOutcome, Step};

/// Hint for a user without permission.
const NEEDS: &str = "needs CAP_NET_RAW, as root has it; a ping without a mark also works \
                     with the group in net.ipv4.ping_group_range";

/// What is probed.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    probe: Probe,
}

#[derive(Debug, clap::Subcommand)]
enum Probe {
    /// Send an ICMP echo request, wait for the reply
    Ping(Host),
    /// Connect
    Tcp(Connection),
    /// Connect, send a request, judge the status line
    Http(Http),
    /// The same inside TLS; certificates are not verified
    Https(Https),
    /// Connect, start a TLS handshake, wait for the server's hello
    TlsHello(TlsHello),
    /// Send a datagram; an ICMP error is a failure, silence a success
    UdpConnect(Target),
    /// Send INIT, wait for INIT ACK
    Sctp(Target),
}

#[derive(Debug, clap::Args)]
struct Host {
    /// Address of the target
    address: IpAddr,
    /// Seconds after which the probe has failed
    #[arg(
        long = "timeout",
        value_name = "TIMEOUT",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    timeout_s: u32,
    /// Mark of the packets (`SO_MARK`), such as 7 or 0x7
    #[arg(long, value_parser = mark)]
    mark: Option<NonZeroU32>,
    #[command(flatten)]
    source: SourceArguments,
}

#[derive(Debug, clap::Args)]
struct Target {
    #[command(flatten)]
    host: Host,
    /// Port of the target
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

impl Target {
    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host.address, self.port)
    }
}

#[derive(Debug, clap::Args)]
struct Connection {
    #[command(flatten)]
    target: Target,
    /// Version of the PROXY protocol whose header is sent first
    #[arg(long)]
    proxy_protocol: Option<ProxyProtocol>,
}

#[derive(Debug, clap::Args)]
struct TlsHello {
    #[command(flatten)]
    connection: Connection,
    /// Name for SNI; without it no SNI is sent
    #[arg(long, value_parser = server_name)]
    server_name: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Https {
    #[command(flatten)]
    http: Http,
    /// Name for SNI; by default the host, if that is a name
    #[arg(long, value_parser = server_name)]
    server_name: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Http {
    #[command(flatten)]
    connection: Connection,
    /// Method of the request
    #[arg(long, default_value = "GET")]
    method: Method,
    /// Path of the request
    #[arg(long, default_value = "/", value_parser = path)]
    path: String,
    /// HTTP version
    #[arg(long = "http-version", default_value = "1.0")]
    version: Version,
    /// Host header; without it, HTTP/1.1 sends the address
    #[arg(long, value_parser = host)]
    host: Option<String>,
    /// Accepted status codes, such as 200,204,300-399
    #[arg(long, default_value = "200", value_delimiter = ',', value_parser = codes)]
    expected_codes: Vec<CodeRange>,
}

fn path(text: &str) -> Result<String, &'static str> {
    let text = is_path(text).then(|| text.to_owned());
    text.ok_or("a slash and printable ASCII without spaces")
}

impl Http {
    fn request(&self) -> Request<'_> {
        Request {
            method: self.method,
            path: &self.path,
            version: self.version,
            host: self.host.as_deref(),
        }
    }
}

fn mark(text: &str) -> Result<NonZeroU32, &'static str> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number.ok().and_then(NonZeroU32::new);
    number.ok_or("a mark is between 1 and 4294967295")
}

fn server_name(text: &str) -> Result<String, &'static str> {
    let text = is_server_name(text).then(|| text.to_owned());
    text.ok_or("not a name for SNI")
}

fn host(text: &str) -> Result<String, &'static str> {
    let text = is_host(text).then(|| text.to_owned());
    text.ok_or("not a host name")
}

fn codes(text: &str) -> Result<CodeRange, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let number = text.trim().parse::<u16>();
        number.map_err(|_| format!("{text:?} is no status code"))
    };
    CodeRange::try_from((number(first)?, number(last)?))
}

impl Probe {
    fn host(&self) -> &Host {
        match self {
            Self::Ping(host) => host,
            Self::UdpConnect(target) | Self::Sctp(target) => &target.host,
            Self::Tcp(connection) => &connection.target.host,
            Self::Http(http) => &http.connection.target.host,
            Self::Https(https) => &https.http.connection.target.host,
            Self::TlsHello(hello) => &hello.connection.target.host,
        }
    }

    /// The arguments of types that connect.
    fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Ping(_) | Self::UdpConnect(_) | Self::Sctp(_) => None,
            Self::Tcp(connection) => Some(connection),
            Self::Http(http) => Some(&http.connection),
            Self::Https(https) => Some(&https.http.connection),
            Self::TlsHello(hello) => Some(&hello.connection),
        }
    }

    fn spec(&self) -> (SocketAddr, ProbeSpec) {
        match self {
            Self::Ping(host) => (SocketAddr::new(host.address, 0), ProbeSpec::Ping),
            Self::Tcp(connection) => (connection.target.address(), ProbeSpec::Tcp),
            Self::UdpConnect(target) => (target.address(), ProbeSpec::UdpConnect),
            Self::Sctp(target) => (target.address(), ProbeSpec::Sctp),
            Self::Http(http) => {
                let target = http.connection.target.address();
                let codes = http.expected_codes.clone();
                let check = HttpSpec::with(target, &http.request(), codes);
                (target, ProbeSpec::Http(Arc::new(check)))
            }
            Self::Https(Https { http, server_name }) => {
                let target = http.connection.target.address();
                let codes = http.expected_codes.clone();
                let host = http.host.as_deref().filter(|host| is_server_name(host));
                let name = server_name.as_deref().or(host);
                let check = HttpsSpec::new(target, &http.request(), codes, name);
                (target, ProbeSpec::Https(Arc::new(check)))
            }
            Self::TlsHello(hello) => {
                let check = TlsHelloSpec::new(hello.server_name.as_deref());
                let target = hello.connection.target.address();
                (target, ProbeSpec::TlsHello(Arc::new(check)))
            }
        }
    }
}

/// Probe and explain the result; the exit status tells whether the probe succeeded.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let host = arguments.probe.host();
    let (target, probe) = arguments.probe.spec();
    let check = Check {
        key: const { Key::new(1).expect("1 is not 0") },
        target,
        mark: host.mark,
        proxy_protocol: arguments.probe.connection().and_then(|c| c.proxy_protocol),
        delay: Duration::from_secs(1),
        timeout: Duration::from_secs(host.timeout_s.into()),
        rise: 1,
        fall: 1,
        probe,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failed::because("cannot start", e))?;
    let source = host.source.source();
    let (outcome, steps) = runtime.block_on(probe::explain(&check, &source));
    Ok(print(&check, &outcome, &steps))
}

fn print(check: &Check, outcome: &ProbeOutcome, steps: &[Step]) -> ExitCode {
    let mut out = stdout().lock();
    let name = check.probe.name();
    let mark = check
        .mark
        .map_or_else(String::new, |m| format!(" mark {m}"));
    let _ = match check.target.port() {
        0 => writeln!(out, "target   {name} {}{mark}", check.target.ip()),
        _ => writeln!(out, "target   {name} {}{mark}", check.target),
    };
    let request = match &check.probe {
        ProbeSpec::Http(http) => Some(&http.request),
        ProbeSpec::Https(https) => Some(&https.http.request),
        _ => None,
    };
    let request = String::from_utf8_lossy(request.map_or(&[], |r| r));
    for line in request.lines().take_while(|line| !line.is_empty()) {
        let _ = writeln!(out, "request  {line}");
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    for step in steps {
        let _ = writeln!(out, "{:>9.3} ms  {}", milliseconds(step.at), step.text);
    }
    let (word, code) = match &outcome.result {
        Ok(()) => ("success".to_owned(), ExitCode::SUCCESS),
        Err(failure) => {
            let reason = failure.reason().name();
            (format!("failure ({reason}): {failure}"), ExitCode::FAILURE)
        }
    };
    let _ = writeln!(out, "{:>9.3} ms  {word}", milliseconds(outcome.took));
    if let Err(Failure::Local(error)) = &outcome.result
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        let _ = writeln!(out, "{NEEDS}");
    }
    code
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;

    use super::*;

    #[test]
    fn each_type_of_the_checks_file_can_be_probed() {
        let command = Probe::augment_subcommands(clap::Command::new("probe"));
        let names: Vec<_> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(names, ProbeSpec::NAMES);
    }

    #[test]
    fn marks_are_decimal_or_hexadecimal_and_not_zero() {
        assert_eq!(mark("7").map(u32::from), Ok(7));
        assert_eq!(mark("0xffffffff").map(u32::from), Ok(u32::MAX));
        for text in ["", "0", "0x0", "-1", "4294967296", "0x", "seven"] {
            assert!(mark(text).is_err(), "{text}");
        }
    }

    #[test]
    fn code_ranges_are_one_code_or_two_in_order() {
        let range = |first, last| CodeRange { first, last };
        assert_eq!(codes("200"), Ok(range(200, 200)));
        assert_eq!(codes(" 300-399"), Ok(range(300, 399)));
        for text in ["", "-", "20", "300-200", "1000", "200-", "a"] {
            assert!(codes(text).is_err(), "{text}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `probe`

use std::io::{Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use super::{Failed, SourceArguments};
use crate::config::{
    Check, CodeRange, HttpCheck, Kind, Method, Version, is_host, is_path,
};
use crate::key::Key;
use crate::probe;

/// What is probed.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    kind: Probe,
}

#[derive(Debug, clap::Subcommand)]
enum Probe {
    /// Connect
    Tcp(Target),
    /// Connect, send a request, judge the status line
    Http(Http),
}

#[derive(Debug, clap::Args)]
struct Target {
    /// Address of the target
    address: IpAddr,
    /// Port of the target
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Seconds after which the probe has failed
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    #[command(flatten)]
    source: SourceArguments,
}

#[derive(Debug, clap::Args)]
struct Http {
    #[command(flatten)]
    target: Target,
    /// Method of the request
    #[arg(long, default_value = "GET")]
    method: Method,
    /// Path of the request
    #[arg(long, default_value = "/", value_parser = path)]
    path: String,
    /// Version of HTTP
    #[arg(long = "http-version", default_value = "1.0")]
    version: Version,
    /// Host header; 1.1 sends the address without it
    #[arg(long, value_parser = host)]
    host: Option<String>,
    /// Accepted status codes, as 200,204,300-399
    #[arg(long, default_value = "200", value_delimiter = ',', value_parser = codes)]
    expected_codes: Vec<CodeRange>,
}

fn path(text: &str) -> Result<String, &'static str> {
    let text = is_path(text).then(|| text.to_owned());
    text.ok_or("a slash and printable ASCII without spaces")
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

impl Arguments {
    fn check(&self) -> (Check, probe::Source) {
        let (target, http) = match &self.kind {
            Probe::Tcp(target) => (target, None),
            Probe::Http(http) => (&http.target, Some(http)),
        };
        let address = SocketAddr::new(target.address, target.port);
        let kind = http.map_or(Kind::Tcp, |http| {
            Kind::Http(HttpCheck::new(
                address,
                http.method,
                &http.path,
                http.version,
                http.host.as_deref(),
                http.expected_codes.clone(),
            ))
        });
        let check = Check {
            key: const { Key::new(1).expect("1 is not 0") },
            target: address,
            delay: Duration::from_secs(1),
            timeout: Duration::from_secs(target.timeout.into()),
            rise: 1,
            fall: 1,
            kind,
        };
        (check, target.source.source())
    }
}

/// Probe and explain. The exit status tells success from failure.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let (check, source) = arguments.check();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failed::because("cannot start", e))?;
    let outcome = runtime.block_on(probe::run(&check, &source));

    let mut out = stdout().lock();
    let _ = writeln!(out, "target   {} {}", check.kind.name(), check.target);
    if let Kind::Http(http) = &check.kind {
        let request = String::from_utf8_lossy(&http.request);
        for line in request.lines().take_while(|line| !line.is_empty()) {
            let _ = writeln!(out, "sent     {line}");
        }
        if outcome.status != 0 {
            let _ = writeln!(out, "status   {}", outcome.status);
        }
    }
    let _ = writeln!(
        out,
        "took     {:.1} ms",
        outcome.took.as_secs_f64() * 1000.0
    );
    let (word, code) = match &outcome.result {
        Ok(()) => ("success".to_owned(), ExitCode::SUCCESS),
        Err(failure) => {
            let reason = failure.reason().name();
            (format!("failure ({reason}): {failure}"), ExitCode::FAILURE)
        }
    };
    let _ = writeln!(out, "result   {word}");
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_ranges() {
        let range = |first, last| CodeRange { first, last };
        assert_eq!(codes("200"), Ok(range(200, 200)));
        assert_eq!(codes(" 300-399"), Ok(range(300, 399)));
        for text in ["", "-", "20", "300-200", "1000", "200-", "a"] {
            assert!(codes(text).is_err(), "{text}");
        }
    }
}

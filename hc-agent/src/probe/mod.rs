// SPDX-License-Identifier: Apache-2.0
//! Runs one probe and returns its outcome.

mod error_limits;
mod failure;
mod filter;
pub mod fuzz_entry;
mod http;
mod https;
mod icmp_errors;
mod icmp_packet;
mod incoming;
mod now;
mod open_socket;
mod outcome;
mod parting;
mod ping;
mod progress;
mod proxy_header;
mod raw_socket;
mod sctp;
mod sctp_packet;
mod source;
mod source_address;
mod tcp;
mod tls_hello;
mod udp;

use tokio::time::{Instant, timeout_at};

pub use self::failure::Failure;
pub use self::outcome::ProbeOutcome;
pub use self::parting::Parting;
use self::progress::Progress;
pub use self::progress::{Stage, Step};
pub use self::source::Source;
use crate::config::{Check, ProbeSpec};
use crate::state::State;

/// Probe once, and let the server finish its answer. The outcome comes by the check's
/// timeout at the latest; if silence is success (UDP-CONNECT), not before it.
pub async fn run(check: &Check, source: &Source) -> ProbeOutcome {
    let (outcome, parting) = run_again(check, source, State::Unknown).await;
    part(parting).await;
    outcome
}

/// Probe a target whose state is known. The caller decides whether the server may
/// finish its answer.
pub async fn run_again(
    check: &Check,
    source: &Source,
    state: State,
) -> (ProbeOutcome, Option<Parting>) {
    let mut progress = Progress::new(false);
    let outcome = judge(check, source, state, &mut progress).await;
    (outcome, progress.parting)
}

/// Probe once and record each step; let the server finish its answer.
pub async fn explain(check: &Check, source: &Source) -> (ProbeOutcome, Vec<Step>) {
    let mut progress = Progress::new(true);
    let outcome = judge(check, source, State::Unknown, &mut progress).await;
    part(progress.parting).await;
    (outcome, progress.steps.unwrap_or_default())
}

async fn part(parting: Option<Parting>) {
    if let Some(parting) = parting {
        parting.read_on().await;
    }
}

async fn judge(
    check: &Check,
    source: &Source,
    state: State,
    progress: &mut Progress,
) -> ProbeOutcome {
    let deadline = progress.start + check.timeout;
    let result = if matches!(check.probe, ProbeSpec::UdpConnect) {
        // The only check for which a timeout is success.
        udp::ask(check, source, state, deadline, progress).await
    } else {
        timeout_at(deadline, attempt(check, source, progress))
            .await
            .unwrap_or(Err(Failure::Timeout(progress.stage)))
    };
    let now = Instant::now();
    ProbeOutcome {
        result,
        status: progress.detail,
        took: now - progress.start,
        overrun: now.saturating_duration_since(deadline),
    }
}

async fn attempt(
    check: &Check,
    source: &Source,
    progress: &mut Progress,
) -> Result<(), Failure> {
    match &check.probe {
        // Boxed: its future would enlarge those of all other probes.
        ProbeSpec::Ping => {
            return Box::pin(ping::ask(check, source, progress)).await;
        }
        ProbeSpec::Sctp => return Box::pin(sctp::ask(check, source, progress)).await,
        _ => {}
    }
    let mut stream = tcp::connect(check, source, progress).await?;
    if let Some(version) = check.proxy_protocol {
        proxy_header::send(&mut stream, version, progress).await?;
    }
    match &check.probe {
        ProbeSpec::Http(http) => http::talk(stream, http, progress).await,
        ProbeSpec::Https(https) => {
            let target = check.target.ip();
            Box::pin(https::talk(stream, target, https, progress)).await
        }
        ProbeSpec::TlsHello(hello) => tls_hello::talk(stream, hello, progress).await,
        // The connection alone is the result; the other types do not get here.
        ProbeSpec::Tcp | ProbeSpec::Ping | ProbeSpec::Sctp | ProbeSpec::UdpConnect => {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::key::Key;

    #[test]
    fn a_waiting_probe_is_small() {
        let check = Check {
            key: Key::new(1).unwrap(),
            target: "127.0.0.1:1".parse().unwrap(),
            mark: None,
            proxy_protocol: None,
            delay: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            rise: 1,
            fall: 1,
            probe: ProbeSpec::Tcp,
        };
        let source = Source::default();
        // Tens of thousands of futures may wait at a time. The rarer types are boxed.
        let size = size_of_val(&run(&check, &source));
        assert!(size <= 1024, "{size} bytes");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! One probe: what it does and what comes of it.

mod failure;
mod filter;
mod hello;
mod http;
mod ping;
mod progress;
mod sctp;
mod shared;
mod source;
mod tcp;
mod tls;
mod udp;
pub mod untrusted;

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

pub use self::failure::Failure;
use self::progress::Progress;
pub use self::progress::{Stage, Step};
pub use self::source::Source;
use crate::config::{Check, Kind};
use crate::queue::format::Reason;

/// What a probe has found out.
#[derive(Debug)]
pub struct Outcome {
    /// Success, or what failed.
    pub result: Result<(), Failure>,
    /// A number beside the result: HTTP status, TLS alert or SCTP cause, else 0.
    pub status: u16,
    /// Time from the start of the probe to its end.
    pub took: Duration,
    /// Time from the timeout to the moment that the probe noticed it.
    pub overrun: Duration,
}

impl Outcome {
    /// The reason for the result queue.
    pub fn reason(&self) -> Reason {
        match &self.result {
            Ok(()) => Reason::NONE,
            Err(failure) => failure.reason(),
        }
    }
}

/// Probe once.
pub async fn run(check: &Check, source: &Source) -> Outcome {
    judge(check, source, &mut Progress::new(false)).await
}

/// Probe once and tell each step.
pub async fn explain(check: &Check, source: &Source) -> (Outcome, Vec<Step>) {
    let mut progress = Progress::new(true);
    let outcome = judge(check, source, &mut progress).await;
    (outcome, progress.steps.unwrap_or_default())
}

async fn judge(check: &Check, source: &Source, progress: &mut Progress) -> Outcome {
    let deadline = progress.start + check.timeout;
    let result = if matches!(check.kind, Kind::UdpConnect) {
        // The one check for which a timeout is success.
        udp::ask(check, source, deadline, progress).await
    } else {
        timeout_at(deadline, attempt(check, source, progress))
            .await
            .unwrap_or(Err(Failure::Timeout(progress.stage)))
    };
    let now = Instant::now();
    Outcome {
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
    match &check.kind {
        // The future of such a probe would blow up those of all others.
        Kind::Ping => {
            return Box::pin(ping::ask(check, source, progress)).await;
        }
        Kind::Sctp => return Box::pin(sctp::ask(check, source, progress)).await,
        _ => {}
    }
    let stream = tcp::connect(check, source, progress).await?;
    match &check.kind {
        Kind::Http(http) => http::talk(stream, http, progress).await,
        Kind::Https(https) => {
            let target = check.target.ip();
            Box::pin(tls::talk(stream, target, https, progress)).await
        }
        Kind::TlsHello(hello) => hello::talk(stream, hello, progress).await,
        // A connection that stands is all.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn a_waiting_probe_is_small() {
        let check = Check {
            key: Key::new(1).unwrap(),
            target: "127.0.0.1:1".parse().unwrap(),
            mark: None,
            delay: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            rise: 1,
            fall: 1,
            kind: Kind::Tcp,
        };
        let source = Source::default();
        // Tens of thousands may wait at a time. The rarer types are boxed.
        let size = size_of_val(&run(&check, &source));
        assert!(size <= 1024, "{size} bytes");
    }
}

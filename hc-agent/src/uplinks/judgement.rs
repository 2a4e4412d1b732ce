// SPDX-License-Identifier: Apache-2.0
//! Decides whether a probe without an answer says something about its target.

/// Time limit for the agent's answer, in milliseconds; after it, failures count.
pub const ANSWER_MAX_MS: u64 = 2500;
/// For how long a report that no uplink works is valid, in milliseconds.
pub const TRUST_MS: u64 = 2000;

/// Known state of the uplinks of one family, in ticks of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// When this was observed.
    pub as_of_ms: u64,
    /// Since when some uplink worked without a break.
    pub since: Option<Since>,
}

/// The moment since which uplinks work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// As the agent reports it, to recognise the same moment.
    pub ns: u64,
    /// In ticks of a shard.
    pub ms: u64,
}

/// What to do with the outcome of a probe without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It says something about the target.
    Count,
    /// No uplink worked during some part of the probe.
    Discard,
    /// Not known yet: ask the agent.
    Wait,
}

/// Judge a probe by its start and end.
pub fn judge(known: Option<Outlook>, started_ms: u64, ended_ms: u64) -> Judgement {
    let Some(known) = known else {
        return Judgement::Count;
    };
    match known.since {
        Some(since) if since.ms > started_ms => Judgement::Discard,
        Some(_) if known.as_of_ms > ended_ms => Judgement::Count,
        None if known.as_of_ms + TRUST_MS > ended_ms => Judgement::Discard,
        _ => Judgement::Wait,
    }
}

/// Whether uplinks worked when a probe started, as far as is known.
pub fn had_uplink(known: Option<Outlook>, started_ms: u64) -> bool {
    known.is_none_or(|known| known.since.is_some_and(|since| since.ms <= started_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook(as_of_ms: u64, since_ms: Option<u64>) -> Outlook {
        let ns = |ms| ms * 1_000_000;
        Outlook {
            as_of_ms,
            since: since_ms.map(|ms| Since { ns: ns(ms), ms }),
        }
    }

    #[test]
    fn a_failure_counts_if_an_uplink_is_known_to_have_worked_all_the_time() {
        for (known, wanted) in [
            (outlook(2001, Some(1000)), Judgement::Count),
            (outlook(9000, Some(1)), Judgement::Count),
            // The uplink may have failed since.
            (outlook(2000, Some(1000)), Judgement::Wait),
            (outlook(500, Some(1)), Judgement::Wait),
            // No uplink worked at the beginning, or at the end.
            (outlook(2500, Some(1001)), Judgement::Discard),
            (outlook(2500, Some(2400)), Judgement::Discard),
            (outlook(1500, None), Judgement::Discard),
            (outlook(2500, None), Judgement::Discard),
            (outlook(1, None), Judgement::Discard),
        ] {
            assert_eq!(judge(Some(known), 1000, 2000), wanted, "{known:?}");
        }
        // An old report must be renewed.
        let ended = 10_000 + TRUST_MS;
        assert_eq!(
            judge(Some(outlook(10_000, None)), ended - 100, ended),
            Judgement::Wait
        );
        // There is no report.
        assert_eq!(judge(None, 1000, 2000), Judgement::Count);
    }
}

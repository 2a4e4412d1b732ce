// SPDX-License-Identifier: Apache-2.0
//! Whether a probe that heard nothing says something about its target.

/// For how long the agent may take to answer, in milliseconds; then failures count.
pub const ANSWER_MAX_MS: u64 = 2500;
/// For how long it holds that no uplink works, without being said again.
pub const TRUST_MS: u64 = 2000;

/// What is known about the uplinks of one family, in ticks of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Up to when this is known.
    pub as_of_ms: u64,
    /// Since when some uplink worked without a break.
    pub since: Option<Since>,
}

/// A moment since which uplinks work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// As the agent says it: the same moment has the same number.
    pub ns: u64,
    /// In ticks of a shard.
    pub ms: u64,
}

/// What to do with the outcome of a probe that heard nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It says something about its target.
    Count,
    /// No uplink worked during some part of the probe.
    Discard,
    /// Not known yet: the agent has to look.
    Wait,
}

/// Judge a probe from its first moment to its last.
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

/// Whether a probe that started then had an uplink, as far as anybody says.
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
            // It may have failed since.
            (outlook(2000, Some(1000)), Judgement::Wait),
            (outlook(500, Some(1)), Judgement::Wait),
            // There was none at the beginning, or at the end.
            (outlook(2500, Some(1001)), Judgement::Discard),
            (outlook(2500, Some(2400)), Judgement::Discard),
            (outlook(1500, None), Judgement::Discard),
            (outlook(2500, None), Judgement::Discard),
            (outlook(1, None), Judgement::Discard),
        ] {
            assert_eq!(judge(Some(known), 1000, 2000), wanted, "{known:?}");
        }
        // What was said long ago is asked for again.
        let ended = 10_000 + TRUST_MS;
        assert_eq!(
            judge(Some(outlook(10_000, None)), ended - 100, ended),
            Judgement::Wait
        );
        // Nobody says anything.
        assert_eq!(judge(None, 1000, 2000), Judgement::Count);
    }
}

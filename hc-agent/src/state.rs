// SPDX-License-Identifier: Apache-2.0
//! Turns results of probes into the state of a check, with Octavia's thresholds.

/// Known state of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Not enough results yet.
    Unknown = 0,
    /// It answers.
    Up = 1,
    /// It does not answer.
    Down = 2,
}

impl State {
    /// The state of a number in a queue file.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Unknown),
            1 => Some(Self::Up),
            2 => Some(Self::Down),
            _ => None,
        }
    }

    /// For logs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Effect of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing to report.
    Nothing,
    /// The state from an earlier run is confirmed.
    Verified,
    /// The state has changed.
    Changed,
}

/// The state machine of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    state: State,
    /// Consecutive results that contradict the state; below `rise` and `fall`.
    against: u8,
    verified: bool,
}

impl Machine {
    /// A check that has never been probed.
    pub const fn new() -> Self {
        Self {
            state: State::Unknown,
            against: 0,
            verified: false,
        }
    }

    /// A check with a state from an earlier run.
    pub const fn restored(state: State) -> Self {
        Self {
            state,
            against: 0,
            verified: false,
        }
    }

    /// The current state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether a probe of this run agrees with the state.
    pub const fn verified(&self) -> bool {
        self.verified
    }

    /// Whether it is up and the last result agrees.
    pub const fn is_steadily_up(&self) -> bool {
        matches!(self.state, State::Up) && self.against == 0
    }

    /// Whether the state is known and the last result agrees.
    pub const fn is_settled(&self) -> bool {
        !matches!(self.state, State::Unknown) && self.against == 0
    }

    /// Whether a result contradicts the state.
    pub const fn doubts(&self, success: bool) -> bool {
        !matches!(
            (self.state, success),
            (State::Up, true) | (State::Down, false)
        )
    }

    /// Process one result.
    ///
    /// - unknown: up with the first success, down after `fall` failures in a row;
    /// - up: down after `fall` failures in a row;
    /// - down: up after `rise` successes in a row.
    pub fn observe(&mut self, success: bool, rise: u8, fall: u8) -> Change {
        let (agrees, next, threshold) = match (self.state, success) {
            (State::Up, true) | (State::Down, false) => (true, self.state, 0),
            (State::Unknown, true) => (false, State::Up, 1),
            (State::Unknown | State::Up, false) => (false, State::Down, fall),
            (State::Down, true) => (false, State::Up, rise),
        };
        if agrees {
            self.against = 0;
            if self.verified {
                return Change::Nothing;
            }
            self.verified = true;
            return Change::Verified;
        }
        self.against = self.against.saturating_add(1);
        if self.against < threshold {
            return Change::Nothing;
        }
        *self = Self {
            state: next,
            against: 0,
            verified: true,
        };
        Change::Changed
    }
}

impl Machine {
    /// Process a failure that must not bring the check down; it still counts.
    pub fn bear(&mut self) {
        self.against = self.against.saturating_add(1);
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(machine: &mut Machine, results: &str, rise: u8, fall: u8) -> Vec<Change> {
        results
            .chars()
            .map(|c| machine.observe(c == '+', rise, fall))
            .collect()
    }

    #[test]
    fn an_unknown_check_is_up_with_its_first_success() {
        let mut machine = Machine::new();
        run(&mut machine, "--+", 3, 3);
        assert_eq!(machine.state(), State::Up);
        assert!(machine.verified());
    }

    #[test]
    fn an_unknown_check_is_down_after_fall_failures() {
        let mut machine = Machine::new();
        let changes = run(&mut machine, "---", 1, 3);
        assert_eq!(changes, [Change::Nothing, Change::Nothing, Change::Changed]);
        assert_eq!(machine.state(), State::Down);
    }

    #[test]
    fn a_success_between_starts_the_count_anew() {
        let mut machine = Machine::new();
        run(&mut machine, "+--+--", 3, 3);
        assert_eq!(machine.state(), State::Up);
        run(&mut machine, "-", 3, 3);
        assert_eq!(machine.state(), State::Down);
        run(&mut machine, "++-++", 3, 3);
        assert_eq!(machine.state(), State::Down);
        run(&mut machine, "+", 3, 3);
        assert_eq!(machine.state(), State::Up);
    }

    #[test]
    fn a_restored_state_is_verified_once() {
        let mut machine = Machine::restored(State::Up);
        assert!(!machine.verified());
        assert_eq!(
            run(&mut machine, "-++", 3, 3),
            [Change::Nothing, Change::Verified, Change::Nothing]
        );
        let mut machine = Machine::restored(State::Down);
        assert_eq!(
            run(&mut machine, "+++", 3, 3),
            [Change::Nothing, Change::Nothing, Change::Changed]
        );
        assert_eq!(machine.state(), State::Up);
    }

    /// Compute the state from the whole history, without counters: search every window
    /// of results since the previous change.
    fn model(start: State, history: &[bool], rise: usize, fall: usize) -> State {
        let mut state = start;
        let mut since = 0;
        for end in 1..=history.len() {
            let window = &history[since..end];
            let last = |n: usize, value: bool| {
                window.len() >= n
                    && window[window.len() - n..].iter().all(|r| *r == value)
            };
            let next = match state {
                State::Unknown if last(1, true) => State::Up,
                State::Unknown | State::Up if last(fall, false) => State::Down,
                State::Down if last(rise, true) => State::Up,
                same => same,
            };
            if next != state {
                state = next;
                since = end;
            }
        }
        state
    }

    proptest! {
        #[test]
        fn states_agree_with_a_model_that_sees_the_whole_history(
            start in prop_oneof![
                Just(State::Unknown), Just(State::Up), Just(State::Down)
            ],
            history in prop::collection::vec(any::<bool>(), 0..60),
            rise in 1u8..=10,
            fall in 1u8..=10,
        ) {
            let mut machine = Machine::restored(start);
            let mut reported = (start, false);
            for end in 0..history.len() {
                let change = machine.observe(history[end], rise, fall);
                let wanted = model(start, &history[..=end], rise.into(), fall.into());
                prop_assert_eq!(machine.state(), wanted);
                let now = (machine.state(), machine.verified());
                prop_assert_eq!(change != Change::Nothing, now != reported);
                prop_assert_eq!(change == Change::Changed, now.0 != reported.0);
                // Verified is never taken back.
                prop_assert!(now.1 || !reported.1);
                reported = now;
            }
        }
    }
}

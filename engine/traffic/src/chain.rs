//! Streams that begin when others have ended.

use dutlab_units::Nanos;

/// Streams one after another, for a number of rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    steps: Vec<Step>,
    rounds: u32,
    /// Index of the step that is being sent.
    at: usize,
    /// Number of rounds that have ended.
    done: u32,
}

/// One stream of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Index of the stream in the plan.
    pub stream: usize,
    /// Pause before the stream.
    pub gap: Nanos,
}

impl Chain {
    /// Makes a chain. `steps` is not empty and has no stream twice; `rounds` is at least 1.
    #[must_use]
    pub const fn new(steps: Vec<Step>, rounds: u32) -> Self {
        Self { steps, rounds, at: 0, done: 0 }
    }

    /// Returns the step that begins the first round.
    #[must_use]
    pub fn first(&self) -> Step {
        self.steps[0]
    }

    /// Returns true if this stream is in the chain.
    #[must_use]
    pub fn has(&self, stream: usize) -> bool {
        self.steps.iter().any(|s| s.stream == stream)
    }

    /// Returns how often each stream is sent.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the step that begins after `stream`, which has ended. `None` when it is not its turn, or the last round
    /// is over.
    pub fn after(&mut self, stream: usize) -> Option<Step> {
        if self.done == self.rounds || self.steps[self.at].stream != stream {
            return None;
        }
        self.at += 1;
        if self.at == self.steps.len() {
            self.at = 0;
            self.done += 1;
            if self.done == self.rounds {
                return None;
            }
        }
        Some(self.steps[self.at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_follow_each_other_for_as_many_rounds_as_were_asked_for() {
        let steps = [(4, 5), (2, 7)].map(|(stream, gap)| Step { stream, gap: Nanos(gap) });
        let mut chain = Chain::new(steps.to_vec(), 2);
        assert_eq!((chain.first(), chain.has(2), chain.has(3)), (steps[0], true, false));
        assert_eq!(chain.after(2), None, "not its turn");
        let order: Vec<_> = [4, 2, 4, 2, 4].into_iter().map(|stream| chain.after(stream)).collect();
        assert_eq!(order, [Some(steps[1]), Some(steps[0]), Some(steps[1]), None, None]);
    }

    #[test]
    fn one_stream_alone_goes_round_too() {
        let step = Step { stream: 0, gap: Nanos(1) };
        let mut chain = Chain::new(vec![step], 3);
        assert_eq!([0; 4].map(|s| chain.after(s)), [Some(step), Some(step), None, None]);
    }
}

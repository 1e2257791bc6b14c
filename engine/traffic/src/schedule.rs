//! Scheduler of several streams of a port.

use crate::pacer::Pacer;
use dutlab_units::Nanos;

/// The streams of a port.
#[derive(Debug, Clone)]
pub struct Schedule {
    pacers: Vec<Pacer>,
    /// Index at which the search for the next stream begins, so that each gets its turn.
    turn: usize,
}

/// Next action of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send `frames` of stream number `index`.
    Send {
        /// Index of the stream in the plan.
        index: usize,
        /// Number of frames.
        frames: u64,
    },
    /// Nothing is due before this instant.
    Wait(Nanos),
    /// Nothing will ever be due.
    Done,
}

impl Schedule {
    /// Makes a schedule of all streams of a port.
    #[must_use]
    pub const fn new(pacers: Vec<Pacer>) -> Self {
        Self { pacers, turn: 0 }
    }

    /// Returns the action at `now`, for at most `cap` frames. Streams with a rate have priority over those at the
    /// maximum rate, which take turns.
    #[must_use]
    pub fn next(&mut self, now: Nanos, cap: u64) -> Next {
        let count = self.pacers.len();
        let (mut max, mut soonest) = (None, Nanos::NEVER);
        for i in 0..count {
            let index = (self.turn + i) % count;
            let pacer = &self.pacers[index];
            let frames = pacer.due(now, cap);
            if frames == 0 {
                soonest = soonest.min(pacer.next(now));
            } else if pacer.is_max() {
                max = max.or(Some((index, frames)));
            } else {
                self.turn = index + 1;
                return Next::Send { index, frames };
            }
        }
        match max {
            Some((index, frames)) => {
                self.turn = index + 1;
                Next::Send { index, frames }
            }
            None if soonest == Nanos::NEVER => Next::Done,
            None => Next::Wait(soonest),
        }
    }

    /// The streams' pacers, in the order of the plan.
    pub fn pacers(&mut self) -> &mut [Pacer] {
        &mut self.pacers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn pacer(profile: Profile) -> Pacer {
        Pacer::new(profile, Nanos(0), Nanos(1_000_000), u64::MAX)
    }

    #[test]
    fn streams_at_the_maximum_take_turns() {
        let mut s = Schedule::new(vec![pacer(Profile::Max), pacer(Profile::Max)]);
        assert_eq!(s.next(Nanos(0), 8), Next::Send { index: 0, frames: 8 });
        assert_eq!(s.next(Nanos(0), 8), Next::Send { index: 1, frames: 8 });
        assert_eq!(s.next(Nanos(0), 8), Next::Send { index: 0, frames: 8 });
    }

    #[test]
    fn the_end_of_the_trial_ends_streams_at_the_maximum_too() {
        let mut s = Schedule::new(vec![pacer(Profile::Max)]);
        assert_eq!(s.next(Nanos(999_999), 8), Next::Send { index: 0, frames: 8 });
        assert_eq!(s.next(Nanos(1_000_000), 8), Next::Done);
    }

    #[test]
    fn a_paced_stream_goes_before_one_at_the_maximum() {
        let mut s = Schedule::new(vec![pacer(Profile::Max), pacer(Profile::constant(1e4))]);
        assert_eq!(s.next(Nanos(0), 8), Next::Send { index: 1, frames: 1 });
        s.pacers()[1].take(1);
        assert_eq!(s.next(Nanos(1), 8), Next::Send { index: 0, frames: 8 });
    }

    #[test]
    fn the_wait_is_until_the_soonest_and_the_end_is_known() {
        let mut s = Schedule::new(vec![pacer(Profile::constant(1e4)), pacer(Profile::constant(1e5))]);
        s.pacers()[0].take(1);
        s.pacers()[1].take(1);
        assert_eq!(s.next(Nanos(1), 8), Next::Wait(Nanos(10_000)));
        s.pacers()[0].take(9);
        s.pacers()[1].take(99);
        assert_eq!(s.next(Nanos(1), 8), Next::Done);
    }
}

//! How many frames of one stream are due now.

use crate::profile::Profile;
use dutlab_units::Nanos;

/// Keeps a stream's pace. Time is an argument; it may jump forward by any amount, and what fell due meanwhile stays due.
#[derive(Debug, Clone)]
pub struct Pacer {
    profile: Profile,
    /// When the profile began.
    origin: Nanos,
    /// Frames that earlier profiles had asked for by then.
    before: u64,
    /// No frame is due at or after this.
    end: Nanos,
    /// The most frames that are ever due.
    limit: u64,
    /// Frames taken so far.
    taken: u64,
}

impl Pacer {
    /// A stream that begins at `start` and ends before `end`, or after `limit` frames.
    #[must_use]
    pub const fn new(profile: Profile, start: Nanos, end: Nanos, limit: u64) -> Self {
        Self { profile, origin: start, before: 0, end, limit, taken: 0 }
    }

    /// How many frames may be taken at `now`, at most `cap`; what exceeds `cap` stays due.
    #[must_use]
    pub fn due(&self, now: Nanos, cap: u64) -> u64 {
        if now < self.origin {
            return 0;
        }
        match self.asked_by(now) {
            Some(asked) => (asked - self.taken.min(asked)).min(cap),
            None if now < self.end => (self.limit - self.taken).min(cap),
            None => 0,
        }
    }

    /// Takes `n` frames that were due.
    pub fn take(&mut self, n: u64) {
        self.taken += n;
    }

    /// Frames taken so far.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// When the next frame is or was due, seen from `now`; `NEVER` when none will be.
    #[must_use]
    pub fn next(&self, now: Nanos) -> Nanos {
        if self.taken >= self.limit || self.is_max() && now >= self.end {
            return Nanos::NEVER;
        }
        let when = self.origin + self.profile.when(self.taken.saturating_sub(self.before));
        if when < self.end { when } else { Nanos::NEVER }
    }

    /// Frames that the plan has asked for at `now`, taken or not; `None` at the maximum rate.
    #[must_use]
    pub fn asked_by(&self, now: Nanos) -> Option<u64> {
        let here = if now >= self.end {
            self.profile.asked(self.end.since(self.origin))
        } else {
            self.profile.due(now.since(self.origin))
        };
        here.map(|n| (self.before + n).min(self.limit))
    }

    /// Goes on with another profile from `now`. What was due before stays due.
    pub fn change(&mut self, profile: Profile, now: Nanos) {
        self.before = self.asked_by(now).unwrap_or(self.taken);
        self.origin = now;
        self.profile = profile;
    }

    /// Whether frames are due at once, always.
    #[must_use]
    pub const fn is_max(&self) -> bool {
        matches!(self.profile, Profile::Max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_simulated_hour_at_any_step_sends_every_frame_exactly_once() {
        let mut pacer = Pacer::new(Profile::constant(1234.5), Nanos(S), Nanos(3601 * S), u64::MAX);
        let (mut now, mut sent, mut step) = (0, 0, 1_u64);
        while now < 3602 * S {
            let n = pacer.due(Nanos(now), 64);
            pacer.take(n);
            sent += n;
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += step % 20_000_000; // up to 20 ms: 25 frames fall due meanwhile
        }
        assert_eq!(sent, 4_444_200); // 1234.5 * 3600
        assert_eq!(pacer.next(Nanos(now)), Nanos::NEVER);
    }

    #[test]
    fn nothing_is_due_before_the_start_and_nothing_new_after_the_end() {
        let mut pacer = Pacer::new(Profile::constant(10.0), Nanos(100), Nanos(100 + S), u64::MAX);
        assert_eq!(pacer.due(Nanos(99), 9), 0);
        assert_eq!(pacer.next(Nanos(99)), Nanos(100));
        assert_eq!(pacer.due(Nanos(50 * S), 99), 10);
        pacer.take(10);
        assert_eq!(pacer.due(Nanos(50 * S), 99), 0);
    }

    #[test]
    fn a_frame_limit_ends_the_stream() {
        let mut pacer = Pacer::new(Profile::Max, Nanos(0), Nanos::NEVER, 100);
        assert_eq!(pacer.due(Nanos(1), 64), 64);
        pacer.take(64);
        assert_eq!(pacer.due(Nanos(1), 64), 36);
        pacer.take(36);
        assert_eq!((pacer.due(Nanos(1), 64), pacer.next(Nanos(1))), (0, Nanos::NEVER));
    }

    #[test]
    fn a_new_rate_holds_from_its_instant_on_and_forgets_no_frame() {
        let mut pacer = Pacer::new(Profile::constant(1000.0), Nanos(0), Nanos(2 * S), u64::MAX);
        pacer.take(990); // the sender is ten frames behind after one second
        pacer.change(Profile::constant(10.0), Nanos(S));
        assert_eq!(pacer.due(Nanos(S), 99), 12); // ten, the 1001st that was due at 1 s, and the first at the new rate
        assert_eq!(pacer.asked_by(Nanos(2 * S)), Some(1011));
    }
}

//! Pacer: number of frames of one stream that are due now.

use crate::profile::Profile;
use dutlab_units::Nanos;

/// Keeps a stream's pace. Time is an argument; it may jump forward by any amount, and frames that fell due meanwhile
/// stay due.
#[derive(Debug, Clone)]
pub struct Pacer {
    profile: Profile,
    /// Start of the profile.
    origin: Nanos,
    /// Integral of earlier profiles up to then: whole frames …
    before: u64,
    /// … and the remaining part of a frame.
    phase: f64,
    /// Frames that were due by then; a new rate does not change them.
    floor: u64,
    /// No frame is due at or after this.
    end: Nanos,
    /// Maximum number of frames.
    limit: u64,
    /// Frames taken so far.
    taken: u64,
}

impl Pacer {
    /// Makes the pacer of a stream that begins at `start` and ends before `end`, or after `limit` frames.
    #[must_use]
    pub const fn new(profile: Profile, start: Nanos, end: Nanos, limit: u64) -> Self {
        Self { profile, origin: start, before: 0, phase: 0.0, floor: 0, end, limit, taken: 0 }
    }

    /// Returns how many frames may be taken at `now`, at most `cap`; frames above `cap` stay due.
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

    /// Makes the pacer of a stream that waits for [`begin`](Self::begin).
    #[must_use]
    pub const fn idle(profile: Profile, end: Nanos) -> Self {
        Self::new(profile, Nanos::NEVER, end, 0)
    }

    /// Begins, or begins again, at `at`, with `frames` more than were taken so far.
    pub const fn begin(&mut self, at: Nanos, frames: u64) {
        self.origin = at;
        (self.before, self.phase, self.floor) = (self.taken, 0.0, self.taken);
        self.limit = self.taken.saturating_add(frames);
    }

    /// Returns true if all of its frames were taken.
    #[must_use]
    pub const fn is_through(&self) -> bool {
        self.taken >= self.limit
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

    /// Returns the time at which the next frame is or was due, seen from `now`; `NEVER` when none will be.
    #[must_use]
    pub fn next(&self, now: Nanos) -> Nanos {
        if self.taken >= self.limit || self.is_max() && now >= self.end {
            return Nanos::NEVER;
        }
        if self.taken < self.floor.max(self.before) {
            return self.origin.min(self.end);
        }
        let when = self.origin + self.profile.when_from(self.taken - self.before, self.phase);
        // For a rate that falls to 0, rounding loses the instant of the last frame, but not whether it is due.
        if (when > now || when >= self.end) && self.due(now, 1) > 0 {
            return now.min(self.end);
        }
        if when < self.end { when } else { Nanos::NEVER }
    }

    /// Returns the number of frames that the plan has asked for at `now`, taken or not; `None` at the maximum rate.
    #[must_use]
    pub fn asked_by(&self, now: Nanos) -> Option<u64> {
        let here = if now < self.origin.min(self.end) && !self.is_max() {
            Some(0)
        } else if now >= self.end {
            self.profile.asked_from(self.end.since(self.origin), self.phase)
        } else {
            self.profile.due_from(now.since(self.origin), self.phase)
        };
        here.map(|n| (self.before + n).max(self.floor).min(self.limit))
    }

    /// Continues with another profile from `now`, or from the start if that is later. Frames that were due before stay
    /// due, and the part of a frame that the old rate had reached counts towards the next one. So however often the
    /// rate changes, the frames are those of its integral.
    pub fn change(&mut self, profile: Profile, now: Nanos) {
        if now > self.origin {
            self.floor = self.asked_by(now).unwrap_or(self.taken);
            if let Some(frames) = self.profile.integral(now.since(self.origin)) {
                let sum = self.phase + frames;
                self.before += whole(sum);
                self.phase = sum.fract();
            } else {
                (self.before, self.phase) = (self.taken, 0.0);
            }
            self.origin = now;
        }
        self.profile = profile;
    }

    /// Returns true if frames are always due at once.
    #[must_use]
    pub const fn is_max(&self) -> bool {
        matches!(self.profile, Profile::Max)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is what is wanted")]
fn whole(frames: f64) -> u64 {
    frames as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Piece, Spaced};
    use proptest::prelude::*;

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
    fn a_stream_that_waits_asks_for_nothing_until_it_begins_and_can_begin_again() {
        let mut pacer = Pacer::idle(Profile::constant(1000.0), Nanos(10 * S));
        assert_eq!(
            (pacer.due(Nanos(S), 9), pacer.next(Nanos(S)), pacer.asked_by(Nanos(S))),
            (0, Nanos::NEVER, Some(0))
        );
        pacer.begin(Nanos(2 * S), 5);
        assert_eq!((pacer.asked_by(Nanos(S)), pacer.next(Nanos(S))), (Some(0), Nanos(2 * S)));
        assert_eq!(pacer.due(Nanos(3 * S), 9), 5);
        pacer.take(5);
        assert!(pacer.is_through() && pacer.next(Nanos(3 * S)) == Nanos::NEVER);
        pacer.begin(Nanos(4 * S), 5);
        assert_eq!((pacer.asked_by(Nanos(3 * S)), pacer.due(Nanos(4 * S), 9)), (Some(5), 1));
        assert_eq!(pacer.asked_by(Nanos(5 * S)), Some(10));
    }

    #[test]
    fn a_new_rate_holds_from_its_instant_on_and_forgets_no_frame() {
        let mut pacer = Pacer::new(Profile::constant(1000.0), Nanos(0), Nanos(2 * S), u64::MAX);
        pacer.take(990); // the sender is ten frames behind after one second
        pacer.change(Profile::constant(10.0), Nanos(S));
        assert_eq!(pacer.due(Nanos(S), 99), 11); // ten, and the 1001st that is due at 1 s, whatever the rate
        assert_eq!(pacer.asked_by(Nanos(2 * S)), Some(1010)); // 1000 * 1 + 10 * 1
    }

    #[test]
    fn a_rate_that_changes_a_thousand_times_in_a_gap_sends_no_frame_more() {
        let mut pacer = Pacer::new(Profile::constant(1.0), Nanos(0), Nanos(10 * S), u64::MAX);
        for ms in 1..=5000 {
            pacer.change(Profile::constant(1.0), Nanos(ms * 1_000_000));
        }
        assert_eq!(pacer.asked_by(Nanos(4_999_999_999)), Some(6), "due at 0, 1, 2, 3, 4 and, promised already, at 5 s");
        assert_eq!(pacer.asked_by(Nanos(10 * S)), Some(10));
    }

    #[test]
    fn a_rate_changed_before_the_start_does_not_begin_earlier() {
        let mut pacer = Pacer::new(Profile::constant(1000.0), Nanos(S), Nanos(2 * S), u64::MAX);
        pacer.change(Profile::constant(10.0), Nanos(S / 2));
        assert_eq!((pacer.due(Nanos(S - 1), 9), pacer.next(Nanos(0))), (0, Nanos(S)));
        assert_eq!(pacer.asked_by(Nanos(2 * S)), Some(10));
    }

    #[test]
    fn bursts_keep_their_mean_rate_when_it_changes() {
        // 10 at once every 10 ms for a second: 1000; then 500 a second for another.
        let mut pacer =
            Pacer::new(Profile::Bursts { frames: 10, period: Nanos(10_000_000) }, Nanos(0), Nanos(2 * S), u64::MAX);
        assert_eq!(pacer.asked_by(Nanos(S - 1)), Some(1000));
        pacer.change(Profile::constant(500.0), Nanos(S));
        assert_eq!(pacer.asked_by(Nanos(S)), Some(1010), "the burst of that instant came already");
        assert_eq!(pacer.asked_by(Nanos(2 * S)), Some(1500));
    }

    /// A profile of pieces with rates from 0 to 10 Mpps, or bursts.
    fn profile() -> impl Strategy<Value = Profile> {
        let pps = || prop_oneof![Just(0.0), 0.5_f64..2000.0, 0.5_f64..1e7];
        let piece =
            (pps(), pps(), 1_u64..S).prop_map(|(from_pps, to_pps, s)| Piece { from_pps, to_pps, span: Nanos(s) });
        prop_oneof![
            4 => proptest::collection::vec(piece, 1..4).prop_map(Profile::Linear),
            1 => (1_u32..50, 1_000_u64..S).prop_map(|(frames, period)| Profile::Bursts { frames, period: Nanos(period) }),
            1 => (1_u32..50, 0.5_f64..1e6, 1_000_u64..S)
                .prop_map(|(frames, pps, gap)| Profile::Spaced(Spaced { frames, pps, gap: Nanos(gap) })),
        ]
    }

    /// Largest error of a change: one frame, or one burst.
    fn grain(p: &Profile) -> f64 {
        match p {
            Profile::Bursts { frames, .. } | Profile::Spaced(Spaced { frames, .. }) => f64::from(*frames) + 1.0,
            _ => 1.0,
        }
    }

    proptest! {
        #[test]
        fn frames_asked_for_are_the_integral_of_the_rate_however_often_it_changes(
            first in profile(), changes in proptest::collection::vec((profile(), 1_u64..2 * S), 0..30), last in 1_u64..2 * S,
        ) {
            let total: u64 = changes.iter().map(|(_, after)| after).sum::<u64>() + last;
            let end = Nanos(5 + total);
            let mut pacer = Pacer::new(first.clone(), Nanos(5), end, u64::MAX);
            let (mut now, mut current, mut integral) = (5, first, 0.0);
            let mut ahead = 0.0_f64;
            for (next, after) in changes {
                now += after;
                integral += current.integral(Nanos(after)).unwrap();
                let before = pacer.asked_by(Nanos(now)).unwrap();
                pacer.change(next.clone(), Nanos(now));
                let then = pacer.asked_by(Nanos(now)).unwrap();
                prop_assert!(then >= before, "a change took {} frames back", before - then);
                // A burst is due as a whole at its start, so it may be ahead of the integral until that has caught up.
                ahead = ahead.max(grain(&current)).max(grain(&next));
                prop_assert!(then as f64 - integral >= -0.01 && then as f64 - integral <= ahead + 0.01, "{} for {}", then, integral);
                current = next;
            }
            integral += current.integral(Nanos(last)).unwrap();
            let asked = pacer.asked_by(end).unwrap() as f64;
            let ahead = ahead.max(grain(&current));
            prop_assert!(asked - integral > -0.01 && asked - integral < ahead + 0.01, "{} for {}", asked, integral);
        }

        #[test]
        fn a_sender_that_looks_now_and_then_takes_every_frame_once_and_no_frame_before_it_is_due(
            first in profile(), changes in proptest::collection::vec((profile(), 1_u64..S / 2), 0..10),
            looks in proptest::collection::vec(1_u64..S / 4, 1..60),
        ) {
            let end = Nanos(8 * S);
            let mut pacer = Pacer::new(first, Nanos(0), end, u64::MAX);
            let mut at: Vec<_> = changes.into_iter().scan(0, |t, (p, after)| { *t += after; Some((*t, p)) }).collect();
            at.reverse();
            let (mut now, mut sent) = (0, 0);
            for look in looks.iter().chain(&[16 * S]) {
                now += look;
                while let Some((_, p)) = at.pop_if(|(t, _)| *t <= now) {
                    pacer.change(p, Nanos(now));
                }
                let next = pacer.next(Nanos(now));
                let n = pacer.due(Nanos(now), u64::MAX);
                // Instants are whole nanoseconds, so a frame may be due one before or after.
                prop_assert!(n == 0 || next <= Nanos(now + 1), "{} due now, the next at {:?}", n, next);
                prop_assert!(n > 0 || next + Nanos(1) >= Nanos(now), "none due now, the next at {:?}", next);
                pacer.take(n);
                sent += n;
            }
            prop_assert_eq!(Some(sent), pacer.asked_by(end));
            prop_assert_eq!(pacer.next(Nanos(now)), Nanos::NEVER);
        }
    }
}

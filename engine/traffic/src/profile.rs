//! Rate over time, which gives the time at which each frame is due.
//!
//! A profile may begin in the middle of a gap: `phase` is the part of a frame (0 to 1) that an earlier profile had
//! already asked for. So rates can be changed any number of times without a frame too many or too few.

use dutlab_units::Nanos;

/// Frame counts are compared with this tolerance, so that rounding of `f64` neither adds nor loses one.
const TINY: f64 = 1e-6;

/// A rate over time.
#[derive(Debug, Clone, PartialEq)]
pub enum Profile {
    /// As fast as possible: any number of frames is always due.
    Max,
    /// Consecutive linear pieces. After the last one, the stream continues at its `to_pps`.
    Linear(Vec<Piece>),
    /// `frames` at once every `period` (RFC 2544 section 21).
    Bursts {
        /// Frames in a burst.
        frames: u32,
        /// Time from the start of one burst to the start of the next.
        period: Nanos,
    },
    /// Bursts of `frames` with a rate within the burst and a pause between bursts.
    Spaced(Spaced),
}

/// Bursts whose frames are spaced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spaced {
    /// Frames in a burst; at least 1.
    pub frames: u32,
    /// Frames per second within a burst; above 0.
    pub pps: f64,
    /// Time from the last frame of a burst to the first of the next; above 0.
    pub gap: Nanos,
}

impl Spaced {
    /// Time from the start of one burst to the start of the next.
    fn period(&self) -> u64 {
        self.within(self.frames - 1).0.saturating_add(self.gap.0)
    }

    /// Time from a burst's start at which its frame `n` is due.
    fn within(&self, n: u32) -> Nanos {
        nanos(f64::from(n) / self.pps)
    }

    /// Frames due in `elapsed`; with `now`, also the one that is due at its end.
    fn frames_by(&self, elapsed: Nanos, now: bool) -> u64 {
        let (bursts, rest) = (elapsed.0 / self.period(), Nanos(elapsed.0 % self.period()));
        let counts = |n: u32| self.within(n) < rest || now && self.within(n) == rest;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        let mut here = ((rest.seconds() * self.pps) as u32).min(self.frames);
        // Correct except for rounding.
        while here < self.frames && counts(here) {
            here += 1;
        }
        while here > 0 && !counts(here - 1) {
            here -= 1;
        }
        bursts * u64::from(self.frames) + u64::from(here)
    }
}

/// A period of linearly changing rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Frames per second at its start.
    pub from_pps: f64,
    /// Frames per second at its end.
    pub to_pps: f64,
    /// Duration of the piece.
    pub span: Nanos,
}

impl Piece {
    /// Returns the number of frames in the first `t` seconds.
    fn frames(&self, t: f64) -> f64 {
        let slope = if self.span == Nanos::ZERO { 0.0 } else { (self.to_pps - self.from_pps) / self.span.seconds() };
        t * (self.from_pps + slope * t / 2.0)
    }

    /// Returns the seconds until `frames` are due; the inverse of [`frames`](Self::frames).
    fn until(&self, frames: f64) -> f64 {
        if frames <= 0.0 {
            return 0.0;
        }
        let slope = (self.to_pps - self.from_pps) / self.span.seconds();
        // The root of the quadratic in the form that stays exact when the slope is small.
        2.0 * frames / (self.from_pps + (self.from_pps * self.from_pps + 2.0 * slope * frames).max(0.0).sqrt())
    }
}

impl Profile {
    /// Makes a profile of constant rate.
    #[must_use]
    pub fn constant(pps: f64) -> Self {
        Self::Linear(vec![Piece { from_pps: pps, to_pps: pps, span: Nanos::ZERO }])
    }

    /// Returns the rate, if it never changes.
    #[must_use]
    pub fn constant_pps(&self) -> Option<f64> {
        match self {
            Self::Linear(pieces) => match pieces[..] {
                [Piece { from_pps, to_pps, .. }] if from_pps.to_bits() == to_pps.to_bits() && from_pps > 0.0 => {
                    Some(from_pps)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the frames due before `span` has passed, that is, in a trial of that length. `None` at the maximum rate.
    #[must_use]
    pub fn asked(&self, span: Nanos) -> Option<u64> {
        self.asked_from(span, 0.0)
    }

    /// As [`asked`](Self::asked), for a profile that begins with `phase` of a frame.
    #[must_use]
    pub fn asked_from(&self, span: Nanos, phase: f64) -> Option<u64> {
        match self {
            Self::Max => None,
            Self::Linear(pieces) => Some(whole((phase + integral(pieces, span).0 - TINY).ceil())),
            Self::Bursts { frames, period } => Some(part(phase) + span.0.div_ceil(period.0) * u64::from(*frames)),
            Self::Spaced(bursts) => Some(part(phase) + bursts.frames_by(span, false)),
        }
    }

    /// Returns the frames due when `elapsed` has passed, that instant included. `None` at the maximum rate.
    #[must_use]
    pub fn due(&self, elapsed: Nanos) -> Option<u64> {
        self.due_from(elapsed, 0.0)
    }

    /// As [`due`](Self::due), for a profile that begins with `phase` of a frame.
    #[must_use]
    pub fn due_from(&self, elapsed: Nanos, phase: f64) -> Option<u64> {
        match self {
            Self::Max => None,
            Self::Linear(pieces) => {
                let (frames, rate) = integral(pieces, elapsed);
                let frames = phase + frames;
                // In a pause, a frame that would be due exactly now waits for the end of the pause.
                Some(if rate > 0.0 { whole((frames + TINY).floor()) + 1 } else { whole((frames - TINY).ceil()) })
            }
            Self::Bursts { frames, period } => Some(part(phase) + (elapsed.0 / period.0 + 1) * u64::from(*frames)),
            Self::Spaced(bursts) => Some(part(phase) + bursts.frames_by(elapsed, true)),
        }
    }

    /// Returns the time at which frame `n`, counted from 0, is due; `NEVER` if the rate ends at 0 before.
    #[must_use]
    pub fn when(&self, n: u64) -> Nanos {
        self.when_from(n, 0.0)
    }

    /// As [`when`](Self::when), for a profile that begins with `phase` of a frame.
    #[must_use]
    pub fn when_from(&self, n: u64, phase: f64) -> Nanos {
        match self {
            Self::Max => Nanos::ZERO,
            Self::Linear(pieces) => when_linear(pieces, n as f64 - phase),
            Self::Bursts { frames, period } => Nanos(n.saturating_sub(part(phase)) / u64::from(*frames) * period.0),
            #[expect(clippy::cast_possible_truncation, reason = "a remainder of 32 bits")]
            Self::Spaced(bursts) => {
                let n = n.saturating_sub(part(phase));
                let (burst, place) = (n / u64::from(bursts.frames), (n % u64::from(bursts.frames)) as u32);
                Nanos(burst.saturating_mul(bursts.period())) + bursts.within(place)
            }
        }
    }

    /// Returns the integral of the rate over `elapsed`, in frames and parts of them: what a sender without whole frames
    /// would have sent. `None` at the maximum rate.
    #[must_use]
    pub fn integral(&self, elapsed: Nanos) -> Option<f64> {
        match self {
            Self::Max => None,
            Self::Linear(pieces) => Some(integral(pieces, elapsed).0),
            Self::Bursts { frames, period } => Some(elapsed.0 as f64 / period.0 as f64 * f64::from(*frames)),
            Self::Spaced(bursts) => Some(elapsed.0 as f64 / bursts.period() as f64 * f64::from(bursts.frames)),
        }
    }
}

/// Returns the frame that `phase` is a part of: with bursts, it belongs to the first.
fn part(phase: f64) -> u64 {
    u64::from(phase > TINY)
}

/// Returns the frames up to `elapsed`, and the rate there.
fn integral(pieces: &[Piece], elapsed: Nanos) -> (f64, f64) {
    let (mut frames, mut start) = (0.0, Nanos::ZERO);
    for piece in pieces {
        if elapsed < start + piece.span {
            let t = (elapsed - start).seconds();
            let part = t / piece.span.seconds();
            return (frames + piece.frames(t), piece.from_pps + (piece.to_pps - piece.from_pps) * part);
        }
        frames += piece.frames(piece.span.seconds());
        start = start + piece.span;
    }
    let rate = pieces.last().map_or(0.0, |p| p.to_pps);
    (frames + rate * (elapsed - start).seconds(), rate)
}

fn when_linear(pieces: &[Piece], n: f64) -> Nanos {
    let (mut frames, mut start) = (0.0, 0.0);
    for piece in pieces {
        let span = piece.span.seconds();
        let here = piece.frames(span);
        // Frame n is due inside a piece if the piece extends beyond it; exactly at its end, the next piece begins with
        // it.
        if n < frames + here - TINY {
            return nanos(start + piece.until(n - frames));
        }
        frames += here;
        start += span;
    }
    match pieces.last() {
        Some(last) if last.to_pps > 0.0 => nanos(start + ((n - frames) / last.to_pps).max(0.0)),
        _ => Nanos::NEVER,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is what is wanted")]
fn whole(frames: f64) -> u64 {
    frames as u64
}

/// Returns the first whole nanosecond at or after `seconds`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is what is wanted")]
fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9 - TINY).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_constant_rate_asks_for_rate_times_duration() {
        let p = Profile::constant(1000.0);
        assert_eq!(p.asked(Nanos(2 * S)), Some(2000));
        assert_eq!(p.due(Nanos(0)), Some(1), "the first frame is due at once");
        assert_eq!(p.due(Nanos(999_999)), Some(1));
        assert_eq!(p.due(Nanos(1_000_000)), Some(2));
        assert_eq!(p.when(1999), Nanos(1_999_000_000));
    }

    #[test]
    fn a_ramp_asks_for_its_mean_rate() {
        let p = Profile::Linear(vec![Piece { from_pps: 0.0, to_pps: 1000.0, span: Nanos(10 * S) }]);
        assert_eq!(p.asked(Nanos(10 * S)), Some(5000)); // (0 + 1000) / 2 * 10
        assert_eq!(p.asked(Nanos(12 * S)), Some(7000)); // and 1000 frames in each second after
        assert_eq!(p.when(1250), Nanos(5 * S)); // half of the time: a quarter of the frames
    }

    #[test]
    fn a_pause_holds_its_frame_back() {
        let p = Profile::Linear(vec![
            Piece { from_pps: 10.0, to_pps: 10.0, span: Nanos(S) },
            Piece { from_pps: 0.0, to_pps: 0.0, span: Nanos(S) },
            Piece { from_pps: 5.0, to_pps: 5.0, span: Nanos(S) },
        ]);
        assert_eq!(p.due(Nanos(S + S / 2)), Some(10));
        assert_eq!(p.when(10), Nanos(2 * S));
        assert_eq!(p.due(Nanos(2 * S)), Some(11));
        assert_eq!(p.asked(Nanos(3 * S)), Some(15));
    }

    #[test]
    fn a_rate_that_ends_at_zero_never_asks_again() {
        let p = Profile::Linear(vec![Piece { from_pps: 10.0, to_pps: 0.0, span: Nanos(2 * S) }]);
        assert_eq!(p.asked(Nanos(100 * S)), Some(10));
        assert_eq!(p.when(10), Nanos::NEVER);
    }

    #[test]
    fn bursts_come_whole_at_their_period() {
        let p = Profile::Bursts { frames: 16, period: Nanos(1000) };
        assert_eq!((p.due(Nanos(0)), p.due(Nanos(999)), p.due(Nanos(1000))), (Some(16), Some(16), Some(32)));
        assert_eq!((p.when(15), p.when(16)), (Nanos(0), Nanos(1000)));
        assert_eq!(p.asked(Nanos(1001)), Some(32));
    }

    #[test]
    fn spaced_bursts_keep_their_rate_inside_and_their_pause_between() {
        // 3 frames at 1 kpps take 2 ms from first to last, then 8 ms of pause: a burst every 10 ms.
        let p = Profile::Spaced(Spaced { frames: 3, pps: 1000.0, gap: Nanos(8_000_000) });
        let due: Vec<_> = (0..7).map(|n| p.when(n).0 / 1_000_000).collect();
        assert_eq!(due, [0, 1, 2, 10, 11, 12, 20]);
        assert_eq!(
            (p.due(Nanos(1_999_999)), p.due(Nanos(2_000_000)), p.due(Nanos(9_999_999))),
            (Some(2), Some(3), Some(3))
        );
        assert_eq!((p.asked(Nanos(S)), p.asked(Nanos(10_000_001)), p.asked(Nanos(0))), (Some(300), Some(4), Some(0)));
    }

    fn pieces() -> impl Strategy<Value = Vec<Piece>> {
        let pps = prop_oneof![Just(0.0), 0.5_f64..1e7];
        let piece = (pps.clone(), pps, 1_u64..5 * S);
        proptest::collection::vec(
            piece.prop_map(|(from_pps, to_pps, s)| Piece { from_pps, to_pps, span: Nanos(s) }),
            1..4,
        )
    }

    proptest! {
        #[test]
        fn constant_rates_hold_for_an_hour(pps in 0.1_f64..1e8) {
            let asked = Profile::constant(pps).asked(Nanos(3600 * S)).unwrap();
            prop_assert!((asked as f64 - pps * 3600.0).abs() <= 1.0);
        }

        #[test]
        fn a_frame_is_due_when_it_is_due_and_not_before(pieces in pieces(), part in 0.0_f64..1.0) {
            let p = Profile::Linear(pieces);
            let total = p.asked(Nanos(20 * S)).unwrap();
            prop_assume!(total > 0);
            let n = whole(total as f64 * part).min(total - 1);
            let when = p.when(n);
            prop_assert!(when < Nanos(20 * S + 1));
            // A nanosecond of tolerance each way: instants are whole.
            prop_assert!(p.due(when + Nanos(2)).unwrap() > n, "frame {} at {:?}", n, when);
            if when.0 > 2 {
                let before = p.due(when - Nanos(2)).unwrap();
                prop_assert!(before <= n + 1 + whole(4e-9 * 1e7), "frame {} at {:?}: {} due before", n, when, before);
            }
        }

        #[test]
        fn a_frame_of_spaced_bursts_is_due_when_it_is_due_and_not_before(
            frames in 1_u32..200, pps in 0.5_f64..1e8, gap in 1_u64..S, n in 0_u64..1_000_000,
        ) {
            let p = Profile::Spaced(Spaced { frames, pps, gap: Nanos(gap) });
            let when = p.when(n);
            prop_assert!(p.due(when).unwrap() > n && p.asked(when + Nanos(1)).unwrap() > n);
            prop_assert!(p.asked(when).unwrap() <= n);
            prop_assert!(p.when(n + 1) >= when);
        }

        #[test]
        fn due_never_falls(pieces in pieces(), a in 0..20 * S, b in 0..20 * S) {
            let p = Profile::Linear(pieces);
            prop_assert!(p.due(Nanos(a.min(b))).unwrap() <= p.due(Nanos(a.max(b))).unwrap() + 1);
        }
    }
}

//! Keeps a lane on a changing rate: the gap is adjusted every few milliseconds, so that each frame is due at the time
//! of the profile, in any case.

use dutlab_port::PortError;
use dutlab_port::plan::Pace;
use dutlab_traffic::Profile;
use dutlab_units::Nanos;

use crate::error::{Why, XdpError};
use crate::lanes::Standing;
use crate::offer::{constant, profile};
use crate::plan;
use crate::rows::Part;
use crate::sender::XdpSender;

/// Time for which the gap stays right without adjustment.
const AHEAD: Nanos = Nanos(8_000_000);
/// A lane that is further than this from its profile jumps instead of catching up: its rate has just changed.
const JUMP_NS: u64 = 4_000_000;

/// Pace of a lane.
pub(crate) struct Drive {
    /// Profile of the whole stream.
    profile: Profile,
    part: Part,
    /// Start of the profile.
    since: Nanos,
    /// Number of frames taken before that.
    before: u64,
    /// True if a constant gap does not suffice.
    steered: bool,
    /// Number of frames after which the lane ends.
    frames: u64,
}

/// A new gap for a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gap {
    /// Gap in nanoseconds; `None`: a pause.
    pub(crate) gap_ns: Option<f64>,
    /// New due time of the last frame; `None`: unchanged.
    pub(crate) last_due_ns: Option<u64>,
}

impl Drive {
    /// Makes the drive of a part of a stream that ends after `frames`.
    pub(crate) fn new(pace: &Pace, part: Part, start: Nanos, frames: u64) -> Self {
        let steered = matches!(pace, Pace::Linear(pieces) if constant(pieces).is_none());
        let mut drive = Self { profile: profile(pace), part, since: start, before: 0, steered, frames };
        if frames != u64::MAX {
            drive.frames = drive.share(frames);
        }
        drive
    }

    /// Returns how many of the first `frames` belong to this part.
    fn share(&self, frames: u64) -> u64 {
        let burst = if let Profile::Bursts { frames, .. } = self.profile { u64::from(frames.max(1)) } else { 1 };
        self.part.share(frames, burst)
    }

    /// Returns true if the gap must be adjusted repeatedly.
    pub(crate) fn is_steered(&self) -> bool {
        self.steered
    }

    /// Returns the number of frames after which the lane ends.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the frames asked for by `at`; `None`: no limit.
    pub(crate) fn asked(&self, at: Nanos) -> Option<u64> {
        let asked = self.profile.asked(at.since(self.since))?;
        Some((self.before + self.share(asked)).min(self.frames))
    }

    /// Changes the pace from `now` on.
    pub(crate) fn change(&mut self, sender: &XdpSender, lane: usize, pace: &Pace, now: Nanos) -> Result<(), PortError> {
        let refuse = |what: &str| {
            let why = Why::Plan(format!("a stream that is being sent cannot be changed {what}"));
            Err(PortError::from(XdpError::new(sender.iface(), "set_pace", why)))
        };
        match (&self.profile, pace) {
            (Profile::Max, Pace::Max) => return Ok(()),
            (Profile::Bursts { frames: old, .. }, Pace::Bursts { frames, period }) if old == frames => {
                let pace = plan::Pace::Bursts { frames: *frames, period_ns: period.0 as f64 };
                sender.set_pace(lane, pace.slowed(self.part.of))?;
            }
            (Profile::Linear(_), Pace::Linear(_)) => self.steered = true,
            (Profile::Bursts { .. } | Profile::Spaced(_), _) | (_, Pace::Bursts { .. } | Pace::Spaced(_)) => {
                return refuse("to or from bursts of another size");
            }
            (Profile::Max, _) | (_, Pace::Max) => return refuse("between the maximum and a set rate"),
        }
        self.before = self.asked(now).unwrap_or(0).max(sender.lanes().standing(lane).taken);
        self.since = now;
        self.profile = profile(pace);
        self.steer(sender, lane, now);
        Ok(())
    }

    /// Sets the lane's gap for the next few milliseconds, if it must be adjusted.
    pub(crate) fn steer(&self, sender: &XdpSender, lane: usize, now: Nanos) {
        if self.steered {
            let gap = self.gap(sender.lanes().standing(lane), now);
            sender.lanes().steer(lane, gap.gap_ns, gap.last_due_ns);
        }
    }

    /// Returns the gap with which the next frames are due at the times of the profile.
    fn gap(&self, at: Standing, now: Nanos) -> Gap {
        let next = at.taken.saturating_sub(self.before);
        let when = |n: u64| match self.profile.when(self.part.in_stream(n)) {
            Nanos::NEVER => None,
            t => Some((self.since + t).0),
        };
        let Some(due) = when(next) else { return Gap { gap_ns: None, last_due_ns: Some(now.0) } };
        let ahead = self.profile.asked((now + AHEAD).since(self.since)).unwrap_or(0);
        let frames = self.share(ahead).saturating_sub(next).max(1);
        // If a profile ends at 0, a pause follows its last frame, before this gap is over.
        let mean = when(next + frames).map_or(1e9, |end| (end - due) as f64 / frames as f64).max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1, far below 2^64")]
        let should_be = due.saturating_sub(mean as u64);
        if at.last_due_ns.abs_diff(should_be) > JUMP_NS {
            return Gap { gap_ns: Some(mean), last_due_ns: Some(should_be) };
        }
        let end = when(next + frames - 1).unwrap_or(due);
        Gap { gap_ns: Some((end.saturating_sub(at.last_due_ns) as f64 / frames as f64).max(1.0)), last_due_ns: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_port::plan::Piece;
    use proptest::prelude::*;

    /// Look-ahead of the drive, plus twice the 2 ms between two adjustments.
    const AROUND_NS: u64 = AHEAD.0 + JUMP_NS + 4_000_000;

    fn drive(pieces: &[(f64, f64, u64)]) -> Drive {
        let piece = |(from_pps, to_pps, span): &(f64, f64, u64)| Piece {
            from_pps: *from_pps,
            to_pps: *to_pps,
            span: Nanos(*span),
        };
        Drive::new(&Pace::Linear(pieces.iter().map(piece).collect()), Part::whole(0), Nanos(1_000_000_000), u64::MAX)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "instants of a few seconds")]
    /// Simulates the program in the kernel with an adjustment every 2 ms; returns the due times of all frames.
    fn simulate(d: &Drive, until: u64) -> Vec<u64> {
        let mut sent = Vec::new();
        let (mut last, mut gap) = (0_f64, 5e11_f64);
        for step in (990_000_000..until).step_by(2_000_000) {
            let at = Standing { taken: sent.len() as u64, last_due_ns: last as u64 };
            let new = d.gap(at, Nanos(step));
            if let Some(l) = new.last_due_ns {
                last = l as f64;
            }
            gap = new.gap_ns.unwrap_or(gap.max(1e15));
            while last + gap < (step + 2_000_000).min(until) as f64 {
                last += gap;
                sent.push(last as u64);
            }
        }
        sent
    }

    #[test]
    fn a_pause_sends_nothing_and_ends_on_time() {
        let d = drive(&[(1000.0, 1000.0, 100_000_000), (0.0, 0.0, 300_000_000), (1000.0, 1000.0, 100_000_000)]);
        let sent = simulate(&d, 1_500_000_000);
        assert_eq!(sent.len(), 200);
        assert_eq!(sent[99], 1_099_000_000);
        assert_eq!(sent[100], 1_400_000_000);
    }

    #[test]
    fn a_rate_that_rises_two_hundredfold_does_not_burst() {
        let mut d = drive(&[(10.0, 10.0, 0)]);
        let before = simulate(&d, 1_250_000_000);
        assert_eq!(before.len(), 3);
        (d.before, d.since, d.profile) = (3, Nanos(1_250_000_000), Profile::constant(2000.0));
        let at = Standing { taken: 3, last_due_ns: *before.last().unwrap() };
        let gap = d.gap(at, Nanos(1_250_000_000));
        assert_eq!(gap, Gap { gap_ns: Some(500_000.0), last_due_ns: Some(1_249_500_000) });
    }

    proptest! {
        #[test]
        fn every_frame_of_a_changing_rate_is_due_within_a_step_of_its_time(
            pieces in prop::collection::vec((0_u32..200_000, 0_u32..200_000, 1_u64..60), 1..5),
        ) {
            let pieces: Vec<_> = pieces.iter().map(|(a, b, ms)| (f64::from(*a), f64::from(*b), ms * 1_000_000)).collect();
            let d = drive(&pieces);
            let span: u64 = pieces.iter().map(|p| p.2).sum();
            let sent = simulate(&d, 1_000_000_000 + span);
            let asked = d.asked(Nanos(1_000_000_000 + span)).unwrap();
            // One step at 200 kpps has 400 frames; the corners of a profile are rounded off within AHEAD.
            prop_assert!(sent.len() as u64 <= asked + 1600 && asked <= sent.len() as u64 + 1600, "{} of {asked}", sent.len());
            for (n, at) in sent.iter().enumerate() {
                // As many frames have left as were asked for, except those in the time within which a corner is rounded
                // off.
                let of = |ns: u64| d.asked(Nanos(ns)).unwrap();
                let (due, around) = (of(*at), of(at + AROUND_NS) - of(at - AROUND_NS) + 2);
                prop_assert!((n as u64).abs_diff(due) <= around, "frame {n} at {at}: {due} were due, give or take {around}");
            }
        }
    }
}

//! Distinguishes frames that were not sent because the port took none from those that were not made in time.

use dutlab_traffic::Pacer;
use dutlab_units::Nanos;

/// Counts, stream by stream, the frames that fell due while the port held the sender back: from a call that took fewer
/// frames than it was given until one that took all. Any other overdue frame is due to a slow sender.
#[derive(Debug)]
pub struct Held {
    /// Frames that fell due in earlier periods of this kind.
    before: Vec<u64>,
    /// Frames that had been asked for when the current period began.
    since: Option<Vec<u64>>,
}

impl Held {
    /// Starts without held-back frames, for `streams` streams.
    #[must_use]
    pub fn new(streams: usize) -> Self {
        Self { before: vec![0; streams], since: None }
    }

    /// Records whether the port took all frames of a call at `now`.
    #[inline]
    pub fn note(&mut self, all: bool, pacers: &[Pacer], now: Nanos) {
        match (all, &self.since) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(_)) => {
                self.before = self.until(pacers, now);
                self.since = None;
            }
            (false, None) => self.since = Some(pacers.iter().map(|p| asked(p, now)).collect()),
        }
    }

    /// Returns the frames of each stream that fell due by `now` while the port held the sender back.
    #[must_use]
    pub fn until(&self, pacers: &[Pacer], now: Nanos) -> Vec<u64> {
        let Some(since) = &self.since else { return self.before.clone() };
        let streams = self.before.iter().zip(since).zip(pacers);
        streams.map(|((before, since), pacer)| before + asked(pacer, now).saturating_sub(*since)).collect()
    }
}

/// Returns the frames asked for by `now`. At the maximum rate none falls due: frames that are not taken are tried
/// again.
fn asked(pacer: &Pacer, now: Nanos) -> u64 {
    pacer.asked_by(now).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_traffic::Profile;

    #[test]
    fn only_what_fell_due_while_the_port_took_less_than_it_was_given_counts() {
        let ms = |n: u64| Nanos(n * 1_000_000);
        let pacers = [(1000.0), (500.0)].map(|pps| Pacer::new(Profile::constant(pps), ms(0), ms(1000), u64::MAX));
        let mut held = Held::new(2);
        held.note(true, &pacers, ms(100));
        held.note(false, &pacers, ms(200));
        held.note(false, &pacers, ms(250));
        assert_eq!(held.until(&pacers, ms(260)), [60, 30]);
        held.note(true, &pacers, ms(300));
        assert_eq!(held.until(&pacers, ms(900)), [100, 50]);
        held.note(false, &pacers, ms(950));
        assert_eq!(
            held.until(&pacers, ms(5000)),
            [149, 74],
            "no frame falls due after the end, and one does at 950 ms"
        );
        let max = [Pacer::new(Profile::Max, ms(0), ms(1000), u64::MAX)];
        let mut held = Held::new(1);
        held.note(false, &max, ms(1));
        assert_eq!(held.until(&max, ms(900)), [0]);
    }
}

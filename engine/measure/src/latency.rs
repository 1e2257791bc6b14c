//! One-way latency: an HDR histogram, exact extremes and an exact mean.

use dutlab_units::Nanos;
use hdrhistogram::Histogram;

/// Longer latencies are recorded as this value; a frame that is later than this is lost in any trial.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits: buckets are at most a thousandth of their value wide.
const DIGITS: u8 = 3;

/// The latencies of one stream.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    negative: u64,
    min: u64,
    max: u64,
    recent_max: u64,
    sum: u128,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Makes an empty record.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("constants that are valid bounds");
        Self { histogram, negative: 0, min: u64::MAX, max: 0, recent_max: 0, sum: 0 }
    }

    /// Records a frame that was sent and arrived at these instants of one clock. The clock's origin may be between
    /// them.
    #[inline]
    pub fn record(&mut self, sent: Nanos, arrived: Nanos) {
        let ns = arrived.0.wrapping_sub(sent.0);
        if ns.cast_signed() < 0 {
            self.negative += 1;
            return;
        }
        self.min = self.min.min(ns);
        self.recent_max = self.recent_max.max(ns);
        self.max = self.max.max(self.recent_max);
        self.sum += u128::from(ns);
        self.histogram.saturating_record(ns);
    }

    /// Frames measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Frames that arrived before they were sent: the clocks differ.
    #[must_use]
    pub const fn negative(&self) -> u64 {
        self.negative
    }

    /// The least, exactly; `None` when nothing was measured.
    #[must_use]
    pub fn min(&self) -> Option<Nanos> {
        (self.count() > 0).then_some(Nanos(self.min))
    }

    /// The greatest, exactly.
    #[must_use]
    pub const fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// The sum of all.
    #[must_use]
    pub const fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// The greatest since the last call; 0 when nothing was measured.
    pub fn take_recent_max(&mut self) -> Nanos {
        Nanos(std::mem::take(&mut self.recent_max))
    }

    /// The mean, exactly; 0 when nothing was measured.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// Returns the latency that `share` (0 to 1) of the frames did not exceed, to three digits, and never above the
    /// greatest.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        Nanos(self.histogram.value_at_quantile(share).min(self.max))
    }

    /// Returns the upper end of each bucket in nanoseconds and the frames in it, ascending, without empty buckets.
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.histogram
            .iter_recorded()
            .map(|b| (b.value_iterated_to(), b.count_since_last_iteration()))
            .filter(|(_, n)| *n > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_measured_has_no_minimum() {
        let l = Latency::new();
        assert_eq!((l.min(), l.max(), l.count(), l.buckets().len()), (None, Nanos(0), 0, 0));
    }

    #[test]
    fn a_frame_from_the_future_is_counted_apart() {
        let mut l = Latency::new();
        l.record(Nanos(10), Nanos(9));
        assert_eq!((l.negative(), l.count()), (1, 0));
    }

    proptest! {
        #[test]
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank from 1 to 500")]
        fn quantiles_are_those_of_the_sorted_list_to_a_thousandth(
            mut ns in proptest::collection::vec(1_u64..10_000_000_000, 1..500), share in 0.0_f64..=1.0,
        ) {
            let mut l = Latency::new();
            for n in &ns {
                l.record(Nanos(7), Nanos(7 + n));
            }
            ns.sort_unstable();
            // Smallest value that at least `share` of all do not exceed.
            let rank = ((share * ns.len() as f64 - 1e-9).ceil().max(1.0) as usize).min(ns.len()) - 1;
            let (got, want) = (l.quantile(share).0 as f64, ns[rank] as f64);
            prop_assert!((got - want).abs() <= want / 1000.0 + 1.0, "{} instead of {}", got, want);
            prop_assert_eq!((l.min().unwrap().0, l.max().0), (ns[0], *ns.last().unwrap()));
            prop_assert_eq!(l.buckets().iter().map(|(_, n)| n).sum::<u64>(), ns.len() as u64);
        }
    }
}

//! A log-linear histogram of nanoseconds: 128 steps to each power of two, so a bucket is at most 1/128 of its value
//! wide. Minimum, maximum and sum are exact. Recording a value takes a shift and an addition.

use dutlab_units::Nanos;

/// Steps to a power of two, as a power of two.
const STEPS_LOG2: u32 = 7;
/// Values from 2^40 ns (18 minutes) on share the last bucket.
const LONGEST_LOG2: u32 = 40;
const BUCKETS: usize = ((LONGEST_LOG2 - STEPS_LOG2 + 1) << STEPS_LOG2) as usize;

/// Number of occurrences of each value, in 35 kB.
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into_boxed_slice(), count: 0, min: u64::MAX, max: 0, sum: 0 }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below BUCKETS")]
fn bucket_of(ns: u64) -> usize {
    if ns < 1 << STEPS_LOG2 {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEPS_LOG2;
    let bucket = (u64::from(shift) << STEPS_LOG2) + (ns >> shift);
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the greatest value of a bucket.
const fn end_of(bucket: usize) -> u64 {
    let (power, step) = (bucket >> STEPS_LOG2, (bucket & ((1 << STEPS_LOG2) - 1)) as u64);
    if power == 0 { step } else { (((1 << STEPS_LOG2) + step + 1) << (power - 1)) - 1 }
}

impl Histogram {
    /// Records a value.
    #[inline]
    pub fn record(&mut self, ns: Nanos) {
        self.record_many(ns, 1);
    }

    /// Records a value that occurred `n` times.
    #[inline]
    pub fn record_many(&mut self, ns: Nanos, n: u64) {
        if n == 0 {
            return;
        }
        self.buckets[bucket_of(ns.0)] += n;
        self.count += n;
        self.min = self.min.min(ns.0);
        self.max = self.max.max(ns.0);
        self.sum += u128::from(ns.0) * u128::from(n);
    }

    /// Number of recorded values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The least, exactly; `None` when no value was recorded.
    #[must_use]
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.min))
    }

    /// The greatest, exactly; 0 when no value was recorded.
    #[must_use]
    pub const fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// Sum of all values.
    #[must_use]
    pub const fn sum_ns(&self) -> u128 {
        self.sum
    }

    /// The mean, exactly; 0 when no value was recorded.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the smallest value that `share` (0 to 1) of the values do not exceed, to 1/128, and never above the
    /// greatest.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to the count")]
    pub fn quantile(&self, share: f64) -> Nanos {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.buckets.iter().position(|n| {
            below += n;
            below >= rank
        });
        Nanos(reached.map_or(self.max, |bucket| end_of(bucket).min(self.max)))
    }

    /// Returns the upper end of each bucket in nanoseconds and the values in it, ascending, without empty buckets. The
    /// last one ends with the greatest value.
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let filled = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(i, n)| (if i == BUCKETS - 1 { self.max } else { end_of(i).min(self.max) }, *n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_entered_has_no_minimum() {
        let h = Histogram::default();
        assert_eq!((h.min(), h.max(), h.count(), h.quantile(0.5), h.buckets().len()), (None, Nanos(0), 0, Nanos(0), 0));
    }

    #[test]
    fn a_value_beyond_the_last_bucket_is_kept_as_the_maximum() {
        let mut h = Histogram::default();
        h.record(Nanos(u64::MAX));
        assert_eq!((h.max(), h.buckets()), (Nanos(u64::MAX), vec![(u64::MAX, 1)]));
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_and_is_a_hundred_and_twenty_eighth_wide(ns in 0_u64..1 << LONGEST_LOG2) {
            let bucket = bucket_of(ns);
            prop_assert!(ns <= end_of(bucket) && end_of(bucket) - ns <= ns / 128);
            prop_assert!(bucket == 0 || end_of(bucket - 1) < ns);
        }

        #[test]
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank from 1 to 300")]
        fn quantiles_are_those_of_the_sorted_list(
            mut ns in proptest::collection::vec(0_u64..10_000_000_000, 1..300), share in 0.0_f64..=1.0,
        ) {
            let mut h = Histogram::default();
            for n in &ns {
                h.record(Nanos(*n));
            }
            ns.sort_unstable();
            let want = ns[((share * ns.len() as f64).ceil().max(1.0) as usize) - 1];
            let got = h.quantile(share).0;
            prop_assert!(want <= got && got - want <= want / 128, "{} instead of {}", got, want);
            prop_assert_eq!(h.buckets().iter().map(|(_, n)| n).sum::<u64>(), ns.len() as u64);
            prop_assert_eq!((h.min().unwrap().0, h.max().0), (ns[0], *ns.last().unwrap()));
        }
    }
}

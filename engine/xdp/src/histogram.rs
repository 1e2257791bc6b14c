//! Reader of the programs' histograms.

/// Counts of nanosecond values, 2^`steps_log2` steps an octave: a value is known to 1 / 2^`steps_log2` of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Histogram {
    steps_log2: u32,
    counts: Vec<u64>,
}

impl Histogram {
    pub(crate) fn new(steps_log2: u32, counts: Vec<u64>) -> Self {
        Self { steps_log2, counts }
    }

    /// Returns the smallest value of bucket `i`, in ns.
    fn low(&self, i: usize) -> u64 {
        let steps = 1 << self.steps_log2;
        let i = i as u64;
        if i < 2 * steps {
            return i;
        }
        let shift = i / steps - 1;
        (i - shift * steps) << shift
    }

    /// Returns `(smallest, largest)` value in ns and count of each non-empty bucket, ascending.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (self.low(i), self.low(i + 1) - 1, *n))
    }

    /// Adds another histogram of the same resolution.
    ///
    /// # Panics
    /// When the resolutions differ.
    pub(crate) fn add(&mut self, other: &Self) {
        assert_eq!(self.steps_log2, other.steps_log2, "histograms of different resolution");
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_begins_where_the_one_before_ends_and_is_no_wider_than_its_resolution() {
        let h = Histogram::new(7, vec![1; crate::contract::buckets(7)]);
        let mut next = 0;
        for (low, high, _) in h.filled() {
            assert_eq!(low, next);
            assert!((high - low) as f64 <= low as f64 / 128.0);
            next = high + 1;
        }
        assert_eq!(next, 1 << 36);
    }
}

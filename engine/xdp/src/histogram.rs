//! Reading the programs' histograms.

/// Counts of nanosecond values, 2^`steps_log2` steps an octave: a value is known to 1 / 2^`steps_log2` of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    steps_log2: u32,
    counts: Vec<u64>,
}

impl Histogram {
    pub(crate) fn new(steps_log2: u32, counts: Vec<u64>) -> Self {
        Self { steps_log2, counts }
    }

    /// The least value of bucket `i`, in ns.
    fn low(&self, i: usize) -> u64 {
        let steps = 1 << self.steps_log2;
        let i = i as u64;
        if i < 2 * steps {
            return i;
        }
        let shift = i / steps - 1;
        (i - shift * steps) << shift
    }

    /// `(least, greatest)` value in ns and count of each bucket that holds any, rising.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (self.low(i), self.low(i + 1) - 1, *n))
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The least value that a share `q` (0 to 1) of all values does not exceed, as its bucket's greatest, in ns.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        self.filled().find_map(|(_, high, n)| {
            seen += n;
            (seen >= rank).then_some(high)
        })
    }

    /// Adds another of the same resolution.
    ///
    /// # Panics
    /// When the resolutions differ.
    pub fn add(&mut self, other: &Self) {
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

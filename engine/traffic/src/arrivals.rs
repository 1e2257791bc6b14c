//! Arrivals of an open loop: instants at which something is due, independent of earlier ones.

use crate::permutation::mix;
use dutlab_units::Nanos;

/// Steps of a random number in (0, 1], as a power of two: the digits of an `f64`.
const DIGITS: u32 = 53;

/// A Poisson process: its gaps are independent and exponentially distributed. The same seed gives the same instants.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gap_ns: f64,
    seed: u64,
    number: u64,
    at_ns: f64,
}

impl Arrivals {
    /// Makes a process of `rate` arrivals per second (above 0), which begins at 0.
    #[must_use]
    pub fn new(rate: f64, seed: u64) -> Self {
        Self { gap_ns: 1e9 / rate, seed, number: 0, at_ns: 0.0 }
    }

    /// Returns number and instant of the next arrival.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a run ends long before 2^53 ns")]
    pub fn advance(&mut self) -> (u64, Nanos) {
        let random = ((mix(self.number, self.seed) >> (64 - DIGITS)) + 1) as f64 / (1_u64 << DIGITS) as f64;
        self.at_ns -= self.gap_ns * random.ln();
        self.number += 1;
        (self.number - 1, Nanos(self.at_ns as u64))
    }
}

/// Returns a pseudo-random number below `members`, which depends on `index` and `seed` only.
#[must_use]
pub fn place(index: u64, members: u64, seed: u64) -> u64 {
    ((u128::from(mix(index, seed)) * u128::from(members)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        let mut arrivals = Arrivals::new(1000.0, 7);
        let mut last = 0;
        let mut gaps: Vec<f64> = (0..100_000)
            .map(|_| {
                let (_, at) = arrivals.advance();
                let gap = at.0 - last;
                last = at.0;
                gap as f64
            })
            .collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        assert!((mean / 1e6 - 1.0).abs() < 0.013, "{mean}: four standard errors of the mean of 100,000 gaps");
        gaps.sort_by(f64::total_cmp);
        // Kolmogorov and Smirnov: the distance of 100,000 exponential gaps is below 1.95 / sqrt(n) in 999 of 1000 seeds.
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, gap)| ((i as f64 + 0.5) / 1e5 - (1.0 - (-gap / 1e6).exp())).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / 1e5_f64.sqrt(), "{distance}");
    }

    #[test]
    fn counts_in_windows_vary_as_their_mean() {
        let mut arrivals = Arrivals::new(1000.0, 11);
        let mut counts = vec![0_f64; 1000];
        while let (_, at) = arrivals.advance()
            && let Some(count) = usize::try_from(at.0 / 100_000_000).ok().and_then(|window| counts.get_mut(window))
        {
            *count += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 1000.0;
        let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 999.0;
        assert!((variance / mean - 1.0).abs() < 0.18, "{}: four standard errors, sqrt(2 / 999) each", variance / mean);
    }

    #[test]
    fn the_seed_decides_and_places_fill_their_range() {
        let times = |seed| {
            let mut arrivals = Arrivals::new(10.0, seed);
            (0..5).map(|_| arrivals.advance()).collect::<Vec<_>>()
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|i| counts[usize::try_from(place(i, 10, 3)).unwrap()] += 1);
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}

//! Values of a field in the n-th frame of a stream: a function of n, so that no frame depends on another.

use crate::permutation::mix;
use std::fmt;
use std::sync::Arc;

/// Maximum number of values in a list.
pub const LONGEST_LIST: usize = 1 << 16;

/// A series of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    values: Values,
    /// Index in the series of frame 0.
    phase: u64,
    /// Number of consecutive frames that have one value.
    every: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Values {
    Step {
        from: u128,
        step: u128,
        down: bool,
        members: u64,
    },
    Random {
        from: u128,
        last: u64,
        seed: u64,
    },
    /// Shared, because every frame size of a stream has the series.
    List(Arc<[u128]>),
}

/// A series that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesError {
    /// A step of 0, or 0 frames with one value.
    Zero,
    /// No values, or more than a list may have.
    List(usize),
    /// A range of random values longer than 2^64.
    TooWide,
    /// A random series begins before the end of its range.
    Backwards,
    /// A phase beyond the end of the series.
    Phase {
        /// Phase that was asked for.
        phase: u64,
        /// Values in the series.
        members: u64,
    },
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => write!(f, "`by` and `every` are at least 1"),
            Self::List(n) => write!(f, "a list of {n} values: 1 to {LONGEST_LIST} are possible"),
            Self::TooWide => write!(f, "a random range is at most 2^64 values long"),
            Self::Backwards => write!(f, "a random range goes from its lowest to its highest value"),
            Self::Phase { phase, members } => {
                write!(f, "phase {phase}: the series has {members} values, counted from 0")
            }
        }
    }
}

impl std::error::Error for SeriesError {}

impl Series {
    /// Makes a series from `from` to `to`, in steps of `by`, then again from the start. Counts down when `from` is
    /// above `to`.
    pub fn step(from: u128, to: u128, by: u128) -> Result<Self, SeriesError> {
        if by == 0 {
            return Err(SeriesError::Zero);
        }
        // No stream has 2^63 frames, so a longer series never reaches its end.
        let members = u64::try_from(from.abs_diff(to) / by).map_or(1 << 63, |last| last.min((1 << 63) - 1) + 1);
        Ok(Self { values: Values::Step { from, step: by, down: from > to, members }, phase: 0, every: 1 })
    }

    /// Makes a series of pseudo-random values from `from` to `to`, both included, with repetitions. The same seed gives
    /// the same values.
    pub fn random(from: u128, to: u128, seed: u64) -> Result<Self, SeriesError> {
        let last = to.checked_sub(from).ok_or(SeriesError::Backwards)?;
        let last = u64::try_from(last).map_err(|_| SeriesError::TooWide)?;
        Ok(Self { values: Values::Random { from, last, seed }, phase: 0, every: 1 })
    }

    /// Makes a series of these values, repeatedly.
    pub fn list(values: Vec<u128>) -> Result<Self, SeriesError> {
        if values.is_empty() || values.len() > LONGEST_LIST {
            return Err(SeriesError::List(values.len()));
        }
        Ok(Self { values: Values::List(values.into()), phase: 0, every: 1 })
    }

    /// Returns this series shifted: it begins at its value number `phase` and keeps each for `every` frames.
    pub fn shifted(self, phase: u64, every: u64) -> Result<Self, SeriesError> {
        if every == 0 {
            return Err(SeriesError::Zero);
        }
        match self.members() {
            Some(members) if phase >= members => Err(SeriesError::Phase { phase, members }),
            _ => Ok(Self { phase, every, ..self }),
        }
    }

    /// Returns the value in frame `n`.
    #[must_use]
    #[inline]
    pub fn at(&self, n: u64) -> u128 {
        let place = if self.every == 1 { n } else { n / self.every }.wrapping_add(self.phase);
        match &self.values {
            Values::Step { from, step, down, members } => {
                let way = u128::from(place % members) * step;
                if *down { from - way } else { from + way }
            }
            Values::Random { from, last, seed } => {
                // The upper half of a product is uniform over the range (Lemire, ACM TOMACS 29, 2019), to within range / 2^64.
                let drawn = u128::from(mix(place, *seed));
                from + ((drawn * (u128::from(*last) + 1)) >> 64)
            }
            #[expect(clippy::cast_possible_truncation, reason = "below the list's length")]
            Values::List(list) => list[(place % list.len() as u64) as usize],
        }
    }

    /// Returns the smallest and the largest possible value.
    #[must_use]
    pub fn bounds(&self) -> (u128, u128) {
        match &self.values {
            Values::Step { from, step, members, down } => {
                let way = u128::from(members - 1) * step;
                if *down { (from - way, *from) } else { (*from, from + way) }
            }
            Values::Random { from, last, .. } => (*from, from + u128::from(*last)),
            Values::List(list) => {
                list.iter().fold((u128::MAX, 0), |(least, most), value| (least.min(*value), most.max(*value)))
            }
        }
    }

    /// Returns the number of frames after which it repeats; `None` for random values.
    #[must_use]
    pub fn period(&self) -> Option<u64> {
        self.members().and_then(|n| n.checked_mul(self.every))
    }

    fn members(&self) -> Option<u64> {
        match &self.values {
            Values::Step { members, .. } => Some(*members),
            Values::Random { .. } => None,
            Values::List(list) => Some(list.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(series: &Series, n: u64) -> Vec<u128> {
        (0..n).map(|i| series.at(i)).collect()
    }

    #[test]
    fn steps_go_up_or_down_and_begin_again_after_the_last_that_fits() {
        assert_eq!(first(&Series::step(10, 15, 2).unwrap(), 5), [10, 12, 14, 10, 12]);
        assert_eq!(first(&Series::step(15, 10, 2).unwrap(), 5), [15, 13, 11, 15, 13]);
        assert_eq!(first(&Series::step(7, 7, 1).unwrap(), 2), [7, 7]);
        let whole = Series::step(0, u128::MAX, 1).unwrap();
        assert_eq!((whole.at((1 << 48) - 1), whole.bounds().0), ((1 << 48) - 1, 0));
    }

    #[test]
    fn phase_and_every_shift_and_stretch_a_series() {
        let series = Series::list(vec![5, 6, 7]).unwrap().shifted(2, 2).unwrap();
        assert_eq!(first(&series, 7), [7, 7, 5, 5, 6, 6, 7]);
        assert_eq!(series.period(), Some(6));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Series::step(1, 2, 0), Err(SeriesError::Zero));
        assert_eq!(Series::step(1, 2, 1).unwrap().shifted(0, 0), Err(SeriesError::Zero));
        assert_eq!(Series::step(1, 2, 1).unwrap().shifted(2, 1), Err(SeriesError::Phase { phase: 2, members: 2 }));
        assert_eq!(Series::random(0, 1 << 64, 1), Err(SeriesError::TooWide));
        assert_eq!(Series::random(2, 1, 1), Err(SeriesError::Backwards));
        assert_eq!(Series::list(Vec::new()), Err(SeriesError::List(0)));
    }

    #[test]
    fn random_values_fill_their_range_evenly_and_depend_on_the_seed() {
        let series = Series::random(100, 163, 9).unwrap();
        let mut counts = [0_u32; 64];
        (0..64_000).for_each(|n| counts[usize::try_from(series.at(n)).unwrap() - 100] += 1);
        let chi: f64 = counts.iter().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 103.4, "{chi}: the 99.9 % quantile of chi-squared with 63 degrees of freedom");
        assert_eq!(first(&series, 50), first(&Series::random(100, 163, 9).unwrap(), 50));
        assert_ne!(first(&series, 50), first(&Series::random(100, 163, 10).unwrap(), 50));
        assert_eq!(Series::random(0, u128::from(u64::MAX), 1).unwrap().bounds().1, u128::from(u64::MAX));
    }

    proptest! {
        #[test]
        fn a_stepped_series_is_what_counting_gives(
            from in 0_u32..1000, to in 0_u32..1000, by in 1_u32..50, phase in 0_u64..1000, every in 1_u64..5,
        ) {
            let mut counted: Vec<u128> = Vec::new();
            let mut value = i64::from(from);
            while (value - i64::from(to)).signum() * (i64::from(to) - i64::from(from)).signum() <= 0
                && (counted.is_empty() || from != to) {
                counted.push(u128::try_from(value).unwrap());
                value += i64::from(by) * (i64::from(to) - i64::from(from)).signum();
            }
            let series = Series::step(from.into(), to.into(), by.into()).unwrap();
            let phase = phase % counted.len() as u64;
            let series = series.shifted(phase, every).unwrap();
            for n in 0..200 {
                let place = (n / every + phase) % counted.len() as u64;
                prop_assert_eq!(series.at(n), counted[usize::try_from(place).unwrap()]);
            }
            let ends = (*counted.iter().min().unwrap(), *counted.iter().max().unwrap());
            prop_assert_eq!(series.bounds(), ends);
        }

        #[test]
        fn no_value_leaves_the_bounds(from: u64, wide: u64, seed: u64, n in 0_u64..1 << 48) {
            let series = Series::random(from.into(), u128::from(from) + u128::from(wide), seed).unwrap();
            let (least, most) = series.bounds();
            prop_assert!((least..=most).contains(&series.at(n)));
        }
    }
}

//! Frame sizes: one, a mix by weight, or a given order.

use dutlab_units::FrameSize;
use std::fmt;

/// The longest round of a mix, in frames.
const LONGEST: u64 = 1 << 16;

/// Sizes of the frames of a stream. The order is a round that repeats; it is the same in every trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    distinct: Vec<FrameSize>,
    order: Vec<u16>,
}

/// A mix that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeError {
    /// There is no size, or all weights are 0.
    Empty,
    /// A round would be this many frames long.
    TooLong(u64),
    /// A sweep that does not go up from its first size to its last.
    NoWay {
        /// First size, in bytes with FCS.
        from: u32,
        /// Last size.
        to: u32,
        /// Difference between consecutive sizes.
        step: u32,
    },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the mix has no frames: give at least one size with a weight above 0"),
            Self::TooLong(n) => {
                write!(f, "a round of this mix is {n} frames long; make the weights' sum {LONGEST} or less")
            }
            Self::NoWay { from, to, step } => {
                write!(f, "no sweep leads from {from} to {to} in steps of {step}; go upwards, by at least 1 byte")
            }
        }
    }
}

impl std::error::Error for SizeError {}

impl Sizes {
    /// All frames of one size.
    #[must_use]
    pub fn fixed(size: FrameSize) -> Self {
        Self { distinct: vec![size], order: vec![0] }
    }

    /// Sizes in the given order, repeatedly.
    pub fn sequence(sizes: &[FrameSize]) -> Result<Self, SizeError> {
        if sizes.is_empty() {
            return Err(SizeError::Empty);
        }
        if sizes.len() as u64 > LONGEST {
            return Err(SizeError::TooLong(sizes.len() as u64));
        }
        let mut distinct = Vec::new();
        let order = sizes.iter().map(|s| index_of(&mut distinct, *s)).collect();
        Ok(Self { distinct, order })
    }

    /// Sizes from `from` up to `to` by `step` bytes, one frame of each, repeatedly. `to` is among them only if a step
    /// meets it.
    pub fn swept(from: FrameSize, to: FrameSize, step: u32) -> Result<Self, SizeError> {
        let (from, to) = (from.with_fcs(), to.with_fcs());
        if step == 0 || from > to {
            return Err(SizeError::NoWay { from, to, step });
        }
        let sizes: Vec<_> = (from..=to).step_by(step as usize).filter_map(|s| FrameSize::new(s).ok()).collect();
        Self::sequence(&sizes)
    }

    /// Sizes by weight: each round contains every size exactly as often as its weight (divided by the weights' greatest
    /// common divisor), spread as evenly as whole frames allow.
    pub fn weighted(parts: &[(FrameSize, u32)]) -> Result<Self, SizeError> {
        let divisor = parts.iter().fold(0, |d, (_, w)| gcd(d, *w));
        if divisor == 0 {
            return Err(SizeError::Empty);
        }
        let weights: Vec<i64> = parts.iter().map(|(_, w)| i64::from(w / divisor)).collect();
        let round: i64 = weights.iter().sum();
        if round.unsigned_abs() > LONGEST {
            return Err(SizeError::TooLong(round.unsigned_abs()));
        }
        let mut distinct = Vec::new();
        let of_part: Vec<u16> = parts.iter().map(|(s, _)| index_of(&mut distinct, *s)).collect();
        // Weighted round robin: before each frame, every size gains its weight as credit. The size with the most
        // credit is sent, and loses the sum of all weights.
        let mut credit = vec![0_i64; parts.len()];
        let mut order = Vec::new();
        for _ in 0..round {
            let mut richest = 0;
            for i in 0..credit.len() {
                credit[i] += weights[i];
                if credit[i] > credit[richest] {
                    richest = i;
                }
            }
            credit[richest] -= round;
            order.push(of_part[richest]);
        }
        Ok(Self { distinct, order })
    }

    /// The different sizes.
    #[must_use]
    pub fn distinct(&self) -> &[FrameSize] {
        &self.distinct
    }

    /// One round, as indices into [`distinct`](Self::distinct).
    #[must_use]
    pub fn order(&self) -> &[u16] {
        &self.order
    }

    /// Returns each different size and how often it occurs in a round.
    #[must_use]
    pub fn counts(&self) -> Vec<(FrameSize, u64)> {
        let mut counts: Vec<_> = self.distinct.iter().map(|s| (*s, 0)).collect();
        for i in &self.order {
            counts[usize::from(*i)].1 += 1;
        }
        counts
    }

    /// Mean size in bytes with FCS.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.order.iter().map(|i| f64::from(self.distinct[usize::from(*i)].with_fcs())).sum::<f64>()
            / self.order.len() as f64
    }

    /// Bytes with FCS of frames 0 to `n` - 1.
    #[must_use]
    pub fn bytes_of(&self, n: u64) -> u64 {
        let size = |i: &u16| u64::from(self.distinct[usize::from(*i)].with_fcs());
        let round = self.order.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "below the length of a Vec")]
        let rest = (n % round) as usize;
        self.order.iter().map(size).sum::<u64>() * (n / round) + self.order[..rest].iter().map(size).sum::<u64>()
    }
}

fn index_of(distinct: &mut Vec<FrameSize>, size: FrameSize) -> u16 {
    let at = distinct.iter().position(|s| *s == size).unwrap_or_else(|| {
        distinct.push(size);
        distinct.len() - 1
    });
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 65536 frame sizes")]
    {
        at as u16
    }
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn size(n: u32) -> FrameSize {
        FrameSize::new(n).unwrap()
    }

    fn imix() -> Sizes {
        Sizes::weighted(&[(size(64), 7), (size(594), 4), (size(1518), 1)]).unwrap()
    }

    #[test]
    fn imix_is_seven_to_four_to_one_and_evenly_spread() {
        let names: String = imix().order().iter().map(|i| ['s', 'm', 'l'][usize::from(*i)]).collect();
        assert_eq!(['s', 'm', 'l'].map(|c| names.matches(c).count()), [7, 4, 1]);
        // 7 of 12 small ones fit between the others with at most two in a row, also where the round repeats.
        let twice = names.repeat(2);
        assert!(!twice.contains("sss") && !twice.contains("mm"), "{names}");
        // (64 * 7 + 594 * 4 + 1518) / 12
        assert!((imix().mean() - 361.833).abs() < 0.001);
    }

    #[test]
    fn weights_are_reduced_to_the_shortest_round() {
        assert_eq!(Sizes::weighted(&[(size(64), 700), (size(594), 400), (size(1518), 100)]).unwrap(), imix());
    }

    #[test]
    fn a_sequence_keeps_its_order() {
        let s = Sizes::sequence(&[size(64), size(64), size(594)]).unwrap();
        assert_eq!((s.distinct(), s.order()), (&[size(64), size(594)][..], &[0, 0, 1][..]));
        assert_eq!(s.bytes_of(5), 64 + 64 + 594 + 64 + 64);
    }

    #[test]
    fn a_sweep_has_one_frame_of_each_size_upwards() {
        let s = Sizes::swept(size(64), size(100), 10).unwrap();
        assert_eq!(s.distinct(), [64, 74, 84, 94].map(size));
        assert_eq!(s.order(), [0, 1, 2, 3]);
        assert_eq!(Sizes::swept(size(64), size(1518), 1).unwrap().order().len(), 1455);
        assert_eq!(Sizes::swept(size(64), size(64), 9).unwrap(), Sizes::fixed(size(64)));
        assert_eq!(Sizes::swept(size(64), size(65), 0), Err(SizeError::NoWay { from: 64, to: 65, step: 0 }));
        assert_eq!(Sizes::swept(size(65), size(64), 1), Err(SizeError::NoWay { from: 65, to: 64, step: 1 }));
    }

    #[test]
    fn an_empty_mix_is_refused() {
        assert_eq!(Sizes::sequence(&[]), Err(SizeError::Empty));
        assert_eq!(Sizes::weighted(&[(size(64), 0)]), Err(SizeError::Empty));
        assert_eq!(Sizes::weighted(&[(size(64), 65_536), (size(65), 1)]), Err(SizeError::TooLong(65_537)));
    }

    proptest! {
        #[test]
        fn a_round_holds_each_size_by_its_weight(weights in proptest::collection::vec(0_u32..50, 1..8)) {
            let parts: Vec<_> = weights.iter().enumerate().map(|(i, w)| (size(64 + u32::try_from(i).unwrap()), *w)).collect();
            let Ok(sizes) = Sizes::weighted(&parts) else {
                prop_assert!(weights.iter().all(|w| *w == 0));
                return Ok(());
            };
            let divisor = weights.iter().fold(0, |d, w| gcd(d, *w));
            for (i, w) in weights.iter().enumerate() {
                let times = sizes.order().iter().filter(|o| usize::from(**o) == i).count();
                prop_assert_eq!(times as u64, u64::from(*w / divisor));
            }
        }
    }
}

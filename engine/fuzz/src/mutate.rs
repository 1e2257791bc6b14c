//! Seeded changes to inputs. The same seed gives the same inputs in the same order.

/// Longest input.
const LONGEST: usize = 4096;
/// Number of changed inputs that are kept for further changes.
const KEPT: usize = 256;
/// Numbers at which code often fails.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, u64::MAX];

/// `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Makes a generator from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`; 0 if that is 0.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % (end as u64).max(1)) as usize
    }
}

/// Generator of inputs.
pub struct Mutator {
    corpus: Vec<Vec<u8>>,
    kept: Vec<Vec<u8>>,
    input: Vec<u8>,
    random: Random,
}

impl Mutator {
    /// Starts with `corpus`, which is not empty.
    #[must_use]
    pub const fn new(corpus: Vec<Vec<u8>>, seed: u64) -> Self {
        Self { corpus, kept: Vec::new(), input: Vec::new(), random: Random::new(seed) }
    }

    /// Returns the next input.
    pub fn mutate(&mut self) -> &[u8] {
        let r = &mut self.random;
        // Mostly from the corpus: after many changes an input is noise that every parser refuses at once.
        let from = if r.below(4) == 0 && !self.kept.is_empty() { &self.kept } else { &self.corpus };
        self.input.clone_from(&from[r.below(from.len())]);
        for _ in 0..=r.below(6) {
            let other = &self.corpus[r.below(self.corpus.len())];
            change(&mut self.input, other, r);
        }
        self.input.truncate(LONGEST);
        if r.below(16) == 0 {
            if self.kept.len() < KEPT {
                self.kept.push(self.input.clone());
            } else {
                let at = r.below(KEPT);
                self.kept[at].clone_from(&self.input);
            }
        }
        &self.input
    }
}

/// Makes one change.
fn change(b: &mut Vec<u8>, other: &[u8], r: &mut Random) {
    let at = r.below(b.len());
    let to = (at + 1 + r.below(16)).min(b.len());
    match r.below(8) {
        0 if !b.is_empty() => b[at] ^= 1 << r.below(8),
        1 if !b.is_empty() => b[at] = r.number().to_le_bytes()[0],
        2 => {
            // A whole number of 1, 2, 4 or 8 bytes, in network order.
            let edge = EDGES[r.below(EDGES.len())].to_be_bytes();
            let width = 1 << r.below(4);
            b.iter_mut().skip(at).take(width).zip(&edge[8 - width..]).for_each(|(b, e)| *b = *e);
        }
        3 => b.truncate(at),
        4 => drop(b.drain(at.min(to)..to)),
        5 => {
            let piece = b[at.min(to)..to].to_vec();
            b.splice(at..at, piece);
        }
        6 => {
            // The end of another input.
            let cut = r.below(other.len());
            b.truncate(at);
            b.extend_from_slice(&other[cut..]);
        }
        _ => {
            let piece = &other[r.below(other.len())..];
            let piece = &piece[..piece.len().min(1 + r.below(24))];
            b.splice(at..at, piece.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_seed_others() {
        let run = |seed| {
            let mut m = Mutator::new(vec![b"hello".to_vec(), b"world!".to_vec()], seed);
            (0..500).map(|_| m.mutate().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn an_empty_input_can_be_changed() {
        let mut m = Mutator::new(vec![Vec::new()], 3);
        for _ in 0..1000 {
            assert!(m.mutate().len() <= LONGEST);
        }
    }
}

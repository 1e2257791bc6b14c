//! A pseudo-random order of numbers that needs no table.

/// A permutation of 0 … `members` - 1: a Feistel network over the next even power of two, walked until it falls inside.
pub(crate) fn shuffled(index: u128, members: u128, seed: u64) -> u128 {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of 128 bits are folded into 64")]
    let fold = |n: u128| n as u64 ^ (n >> 64) as u64;
    let bits = (128 - (members - 1).leading_zeros()).max(2);
    let half = bits.div_ceil(2);
    let mask = (1_u128 << half) - 1;
    let mut at = index;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 0..4 {
            let mixed = u128::from(mix(fold(right), seed.wrapping_add(round))) & mask;
            (left, right) = (right, left ^ mixed);
        }
        at = left << half | right;
        if at < members {
            return at;
        }
    }
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014), over value and key.
pub(crate) const fn mix(value: u64, key: u64) -> u64 {
    let mut z = value.wrapping_add(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

//! Pseudo-random MACs of the pattern of RFC 4814 section 4.2: `(RR & 0xfc):PP:PP:RR:RR:RR`, R random, P the number of the
//! tester's port, counted from 1. The mask keeps them unicast and globally administered.
//!
//! MACs that count up are unsuitable: switches and link aggregates choose by a few low bits, often the exclusive or of
//! both MACs. If both count in step, n and n + 1 differ in the low three bits by 1, 3 or 7 only, so three of eight
//! links carry everything.

use crate::permutation::shuffled;

/// Number of MACs in the pattern: 30 bits are random.
pub const MOST: u32 = 1 << 30;

/// MAC number `index` (below [`MOST`]) of tester port `port`. Different indices are different MACs.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the permutation stays below 2^30")]
pub fn rfc_4814(port: u16, index: u32, seed: u64) -> [u8; 6] {
    let random = shuffled(u128::from(index), u128::from(MOST), seed ^ u64::from(port)) as u32;
    let [high, low] = port.to_be_bytes();
    // Six bits for the first byte, whose two lowest bits stay zero; the other 24 bits unchanged.
    let [first, a, b, c] = random.to_be_bytes();
    [first << 2, high, low, a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The link that an aggregate of eight chooses by the low three bits of both MACs.
    fn link(source: [u8; 6], destination: [u8; 6]) -> usize {
        usize::from((source[5] ^ destination[5]) & 7)
    }

    fn counted(n: u32) -> [u8; 6] {
        let mut mac = [2; 6];
        mac[2..].copy_from_slice(&n.to_be_bytes());
        mac
    }

    #[test]
    fn macs_that_are_counted_up_reach_three_of_eight_links_and_random_ones_all_evenly() {
        let reached: HashSet<_> = (1..=1000).map(|n| link(counted(n), counted(n + 1))).collect();
        assert_eq!(reached, HashSet::from([1, 3, 7]));
        let mut frames = [0_u32; 8];
        for n in 0..8000 {
            frames[link(rfc_4814(1, n, 42), rfc_4814(2, n, 42))] += 1;
        }
        // 1000 each is expected; five standard deviations are 148.
        assert!(frames.iter().all(|n| (852..1148).contains(n)), "{frames:?}");
    }

    #[test]
    fn the_pattern_is_that_of_rfc_4814() {
        for n in 0..1000 {
            let mac = rfc_4814(0x0102, n, 9);
            assert_eq!((mac[0] & 3, mac[1], mac[2]), (0, 1, 2), "{mac:02x?}");
        }
    }

    #[test]
    fn macs_differ_and_are_the_same_in_every_trial() {
        let all = |seed| (0..100_000).map(|n| rfc_4814(1, n, seed)).collect::<Vec<_>>();
        assert_eq!(all(1).iter().collect::<HashSet<_>>().len(), 100_000);
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }
}

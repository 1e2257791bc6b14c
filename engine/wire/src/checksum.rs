//! The Internet checksum (RFC 1071), and its incremental update (RFC 1624).

use std::net::IpAddr;

/// Ones' complement sum of big-endian 16-bit words, not yet folded: any number of parts can be added up.
///
/// Sums can be taken in any byte order (RFC 1071 section 2 (B)); ours are of big-endian words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Sum of no bytes.
    pub const ZERO: Self = Self(0);

    /// Returns the sum of `bytes`, which are at an even offset of the summed data; an odd last byte counts as the high
    /// half of a word.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut wide = 0_u64;
        let chunks = bytes.chunks_exact(4);
        let rest = chunks.remainder();
        for c in chunks {
            // 2^32 of such words fit before the sum can overflow: 16 GiB, more than any slice that is a frame.
            wide += u64::from(u32::from_be_bytes([c[0], c[1], c[2], c[3]]));
        }
        let mut last = [0_u8; 4];
        last[..rest.len()].copy_from_slice(rest);
        Self(wide).plus(Self(u64::from(u32::from_be_bytes(last))))
    }

    /// Adds another part.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        // Folded to 33 bits first, so that no chain of additions can overflow.
        Self((self.0 & 0xffff_ffff) + (self.0 >> 32) + (other.0 & 0xffff_ffff) + (other.0 >> 32))
    }

    /// Adds a number of any length at an even offset: all words of a number have the same weight.
    #[must_use]
    pub const fn number(self, number: u64) -> Self {
        self.plus(Self(number))
    }

    /// Adds one word.
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        self.plus(Self(word as u64))
    }

    /// Subtracts one word (RFC 1624 section 3: adds its complement).
    #[must_use]
    pub const fn without(self, word: u16) -> Self {
        self.plus(Self((!word) as u64))
    }

    /// The sum in 16 bits.
    #[must_use]
    pub const fn folded(self) -> u16 {
        // A fixed number of steps, enough for the largest sum: a branch that depends on random bits costs more than all
        // of this. Bounds: 2^33 - 2, 0x2fffe, 0x10001, 0xffff.
        let s = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let s = (s & 0xffff) + (s >> 16);
        let s = (s & 0xffff) + (s >> 16);
        let s = (s & 0xffff) + (s >> 16);
        #[expect(clippy::cast_possible_truncation, reason = "at most 0xffff, by the bounds above")]
        {
            s as u16
        }
    }

    /// Checksum to write: the complement of the sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The checksum of UDP, which writes 0xffff for 0, because 0 means "none" (RFC 768).
    #[must_use]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            c => c,
        }
    }

    /// Returns true if the summed bytes, checksum included, are intact.
    #[must_use]
    pub const fn intact(self) -> bool {
        self.folded() == 0xffff
    }
}

/// The pseudo-header in front of UDP, TCP and `ICMPv6` (RFC 768, RFC 8200 section 8.1). `length` is of header and payload.
#[must_use]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> Sum {
    let addresses = match (source, destination) {
        (IpAddr::V4(s), IpAddr::V4(d)) => Sum::of(&s.octets()).plus(Sum::of(&d.octets())),
        (s, d) => Sum::of(&six(s)).plus(Sum::of(&six(d))),
    };
    addresses.word(u16::from(protocol)).plus(Sum(u64::from(length)))
}

fn six(a: IpAddr) -> [u8; 16] {
    match a {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}

/// A checksum after a word under it changed from `old` to `new` (RFC 1624, equation 3).
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.word(!checksum).without(old).word(new).checksum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 1, word by word.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for w in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([w[0], *w.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    #[test]
    fn the_example_of_rfc_1071_sums_to_ddf2() {
        // RFC 1071 section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2
        assert_eq!(Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).folded(), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_updates_to_zero() {
        // RFC 1624 section 4: checksum DD2F, a word goes from 5555 to 3285, the new checksum is 0000
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn fast_and_naive_sums_agree(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(Sum::of(&bytes).folded(), naive(&bytes));
        }

        #[test]
        fn every_sum_folds_to_what_a_loop_would_leave(n: u64) {
            for n in [n, u64::MAX, u64::MAX - 1, 0xffff_0000_ffff, n | 0xffff_ffff_0000_0000] {
                let mut s = n;
                while s > 0xffff {
                    s = (s & 0xffff) + (s >> 16);
                }
                prop_assert_eq!(u64::from(Sum(n).folded()), s);
            }
        }

        #[test]
        fn parts_add_up_to_the_whole(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0_usize..150) {
            let cut = (cut * 2).min(bytes.len() & !1);
            let (a, b) = bytes.split_at(cut);
            prop_assert_eq!(Sum::of(a).plus(Sum::of(b)).folded(), Sum::of(&bytes).folded());
        }

        #[test]
        fn a_number_adds_up_like_its_bytes(n: u64, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let sum = Sum::of(&bytes);
            prop_assert_eq!(sum.number(n).folded(), sum.plus(Sum::of(&n.to_be_bytes())).folded());
        }

        #[test]
        fn an_updated_checksum_still_verifies(
            mut bytes in proptest::collection::vec(any::<u8>(), 4..64), new in any::<u16>(), at in 0_usize..30,
        ) {
            bytes.truncate(bytes.len() & !1);
            let at = (at * 2) % bytes.len();
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let checksum = update(Sum::of(&bytes).checksum(), old, new);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert!(Sum::of(&bytes).word(checksum).intact());
        }
    }
}

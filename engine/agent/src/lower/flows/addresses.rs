//! Equally spaced addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const WORD_BITS: u32 = 32;

/// The n-th address is the first plus n prefixes of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    v6: bool,
    first: u128,
    last: u128,
    /// Step between addresses, as a power of two.
    step_log2: u32,
}

impl Addresses {
    /// Makes `count` addresses from `first` on, one in each prefix of `length` bits; `None`: consecutive addresses.
    ///
    /// # Errors
    /// The reason why there are not enough, in words.
    pub fn new(first: IpAddr, count: u32, length: Option<u8>) -> Result<Self, String> {
        let (bits, width) = match first {
            IpAddr::V4(a) => (u128::from(a.to_bits()), 32),
            IpAddr::V6(a) => (a.to_bits(), 128),
        };
        let length = length.map_or(width, u32::from);
        if !(1..=width).contains(&length) {
            return Err(format!("a prefix of {length} bits: 1 to {width} are possible"));
        }
        let step_log2 = width - length;
        let most = u128::MAX >> (128 - width);
        // At most 2^32 steps of 2^127.
        let way = u128::from(count - 1).checked_mul(1 << step_log2);
        let last = way.and_then(|way| bits.checked_add(way)).filter(|last| *last <= most);
        let last = last.ok_or("the addresses reach past the end of their range; begin lower")?;
        Ok(Self { v6: first.is_ipv6(), first: bits, last, step_log2 })
    }

    /// The first and the last one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address was widened")]
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        let address = |bits: u128| {
            if self.v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
        };
        (address(self.first), address(self.last))
    }

    /// Four bytes of address number `n`; word 0 is the lowest.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "one word is meant")]
    pub const fn word(&self, n: u32, word: usize) -> u32 {
        ((self.first + ((n as u128) << self.step_log2)) >> (WORD_BITS as usize * word)) as u32
    }

    /// Returns the number of words, from the lowest on, that are not the same in all addresses; at least 1.
    #[must_use]
    pub const fn changing_words(&self) -> usize {
        let differ = self.first ^ self.last;
        let bits = 128 - differ.leading_zeros();
        let words = bits.div_ceil(WORD_BITS) as usize;
        if words == 0 { 1 } else { words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_address_in_each_prefix() {
        let of = Addresses::new("10.0.0.1".parse().unwrap(), 3, Some(24)).unwrap();
        let all: Vec<_> = (0..3).map(|n| Ipv4Addr::from_bits(of.word(n, 0)).to_string()).collect();
        assert_eq!((all, of.changing_words()), (["10.0.0.1", "10.0.1.1", "10.0.2.1"].map(String::from).to_vec(), 1));
        assert_eq!(of.ends(), ("10.0.0.1".parse().unwrap(), "10.0.2.1".parse().unwrap()));
        let of = Addresses::new("2001:2::1".parse().unwrap(), 3, Some(64)).unwrap();
        let second = (0..4).map(|word| u128::from(of.word(1, word)) << (32 * word)).sum();
        assert_eq!((Ipv6Addr::from_bits(second).to_string(), of.changing_words()), ("2001:2:0:1::1".into(), 3));
    }

    #[test]
    fn addresses_past_the_end_are_refused() {
        for (first, count, length) in [("255.255.255.0", 257, None), ("255.0.0.0", 2, Some(8)), ("ff00::", 2, Some(8))]
        {
            let why = Addresses::new(first.parse().unwrap(), count, length).unwrap_err();
            assert!(why.contains("past the end"), "{first}: {why}");
        }
        assert!(Addresses::new("255.255.255.0".parse().unwrap(), 256, None).is_ok());
        assert!(Addresses::new("10.0.0.0".parse().unwrap(), 2, Some(33)).unwrap_err().contains("1 to 32"));
        assert!(Addresses::new("::".parse().unwrap(), u32::MAX, Some(1)).unwrap_err().contains("past the end"));
    }

    proptest! {
        #[test]
        fn words_that_do_not_change_are_those_of_the_first(bits: u128, count in 1_u32..1 << 21, length in 1_u8..=128, n: u32) {
            let Ok(of) = Addresses::new(Ipv6Addr::from_bits(bits).into(), count, Some(length)) else { return Ok(()) };
            for word in of.changing_words()..4 {
                prop_assert_eq!(of.word(n % count, word), of.word(0, word));
            }
        }
    }
}

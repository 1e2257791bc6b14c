//! Addresses and ports of a frame, and the partial sums of its checksums.

use crate::contract::{Flow4, Flow6};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Addresses and ports of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// IPv4.
    V4 {
        /// Source address.
        source: Ipv4Addr,
        /// Destination address.
        destination: Ipv4Addr,
        /// Source port, or ICMP identifier.
        source_port: u16,
        /// Destination port, or ICMP sequence number.
        destination_port: u16,
    },
    /// IPv6.
    V6 {
        /// Source address.
        source: Ipv6Addr,
        /// Destination address.
        destination: Ipv6Addr,
        /// Source port, or ICMP identifier.
        source_port: u16,
        /// Destination port, or ICMP sequence number.
        destination_port: u16,
    },
}

pub(crate) fn ports_bytes(source: u16, destination: u16) -> [u8; 4] {
    let (s, d) = (source.to_be_bytes(), destination.to_be_bytes());
    [s[0], s[1], d[0], d[1]]
}

/// Makes an IPv4 flow as the program reads it; `pseudo` is set if the transport checksum covers the addresses.
pub(crate) fn flow4(source: Ipv4Addr, destination: Ipv4Addr, ports: [u8; 4], pseudo: bool) -> Flow4 {
    let (s, d) = (source.octets(), destination.octets());
    let addresses = fold(u64::from(words_sum(&s)) + u64::from(words_sum(&d)));
    let sum = fold(u64::from(words_sum(&ports)) + if pseudo { u64::from(addresses) } else { 0 });
    Flow4 { source: s, destination: d, ports, ip_sum: addresses, sum }
}

/// Makes an IPv6 flow as the program reads it.
pub(crate) fn flow6(source: Ipv6Addr, destination: Ipv6Addr, ports: [u8; 4]) -> Flow6 {
    let halves = |b: [u8; 16]| {
        let (a, c) = b.split_at(8);
        [u64::from_ne_bytes(a.try_into().expect("eight")), u64::from_ne_bytes(c.try_into().expect("eight"))]
    };
    let (s, d) = (source.octets(), destination.octets());
    let sum = fold(u64::from(words_sum(&s)) + u64::from(words_sum(&d)) + u64::from(words_sum(&ports)));
    Flow6 { source: halves(s), destination: halves(d), ports, sum, unused: 0 }
}

pub(crate) fn sum_of(bytes: &[u8]) -> u64 {
    // RFC 1071 allows any byte order; the program adds words in its CPU's order, so this does too.
    bytes.chunks(2).map(|c| u64::from(u16::from_ne_bytes([c[0], *c.get(1).unwrap_or(&0)]))).sum()
}

/// Folds a sum of 16-bit words to 16 bits (RFC 1071).
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the loop ends at 16 bits")]
    let folded = sum as u16;
    folded
}

pub(crate) fn words_sum(bytes: &[u8]) -> u16 {
    fold(sum_of(bytes))
}

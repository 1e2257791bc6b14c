//! IPv6 extension headers (RFC 8200 section 4), a chain between the IPv6 header and the transport.
//!
//! The headers that we send have no effect on the way: options of padding, a routing header at its end, a fragment that
//! is the whole packet. Lengths are the defaults of RFC 5180 section 5.3.

use std::net::Ipv6Addr;

/// Maximum number of headers in a chain that is parsed or sent.
pub const MOST: usize = 4;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// The home address of a mobile node (RFC 6275 section 6.4): the only type of routing header that hosts still accept.
const ROUTING_TYPE: u8 = 2;
/// Option that pads with as many bytes as its second byte gives (RFC 8200 section 4.2).
const PAD_N: u8 = 1;

/// An extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// Options that each router on the way examines; one option of padding. First in its chain.
    HopByHop,
    /// Routing header with one address and no segments left.
    Routing,
    /// A fragment that is the whole packet (RFC 6946).
    Fragment,
    /// Options that the destination examines; one option of padding.
    DestinationOptions,
}

impl Extension {
    /// IANA protocol number, which the header before contains.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::HopByHop => HOP_BY_HOP,
            Self::Routing => ROUTING,
            Self::Fragment => FRAGMENT,
            Self::DestinationOptions => DESTINATION_OPTIONS,
        }
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    #[must_use]
    pub const fn len(self) -> usize {
        match self {
            Self::Routing => 24,
            Self::HopByHop | Self::Fragment | Self::DestinationOptions => 8,
        }
    }

    /// Writes the header to the start of `b`, which has at least [`len`](Self::len) bytes. `destination` is the packet's.
    pub fn emit(self, next_header: u8, destination: Ipv6Addr, b: &mut [u8]) {
        let b = &mut b[..self.len()];
        b.fill(0);
        b[0] = next_header;
        match self {
            Self::HopByHop | Self::DestinationOptions => (b[2], b[3]) = (PAD_N, 4),
            Self::Routing => {
                // In units of 8 bytes, the first not counted; segments left: 0.
                (b[1], b[2]) = (2, ROUTING_TYPE);
                b[8..].copy_from_slice(&destination.octets());
            }
            // Offset 0, and no more fragments: the packet is whole.
            Self::Fragment => b[7] = 1,
        }
    }
}

/// Returns the length of a whole chain in bytes.
#[must_use]
pub fn length(chain: &[Extension]) -> usize {
    chain.iter().map(|e| e.len()).sum()
}

/// Writes `chain` to the start of `b`, in front of `protocol`. Returns the next-header number for the IPv6 header.
pub fn emit(chain: &[Extension], protocol: u8, destination: Ipv6Addr, b: &mut [u8]) -> u8 {
    let mut at = 0;
    for (i, header) in chain.iter().enumerate() {
        header.emit(chain.get(i + 1).map_or(protocol, |next| next.number()), destination, &mut b[at..]);
        at += header.len();
    }
    chain.first().map_or(protocol, |first| first.number())
}

/// Skips the chain that the IPv6 header in front of `b` begins with `next_header`. Returns the transport's protocol and
/// the number of bytes before it. `None` for a chain that is truncated, has more than [`MOST`] headers, or belongs to a
/// fragment, which need not have a transport header.
#[must_use]
pub fn skip(next_header: u8, b: &[u8]) -> Option<(u8, usize)> {
    let (mut protocol, mut at) = (next_header, 0);
    for _ in 0..MOST {
        let header: &[u8; 8] = match protocol {
            HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => b.get(at..)?.first_chunk()?,
            _ => break,
        };
        let length = if protocol == FRAGMENT {
            if crate::u16_at(header, 2) & 0xfff9 != 0 {
                return None;
            }
            8
        } else {
            (usize::from(header[1]) + 1) * 8
        };
        (protocol, at) = (header[0], at + length);
    }
    match protocol {
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => None,
        _ => (at <= b.len()).then_some((protocol, at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UDP: u8 = 17;
    const TO: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0xff00, 0, 0, 0, 1);
    /// RFC 5180 section 5.3: routing header, destination options, fragment header.
    const CHAIN: [Extension; 3] = [Extension::Routing, Extension::DestinationOptions, Extension::Fragment];

    #[rustfmt::skip]
    const BYTES: [u8; 40] = [
        60, 2, 2, 0, 0, 0, 0, 0, 0x20, 0x01, 0, 2, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        44, 0, 1, 4, 0, 0, 0, 0,
        17, 0, 0, 0, 0, 0, 0, 1,
    ];

    #[test]
    fn a_chain_is_written_as_its_bytes_and_passed_over_again() {
        let mut b = [0xff; 60];
        assert_eq!(emit(&CHAIN, UDP, TO, &mut b), 43);
        assert_eq!(b[..40], BYTES);
        assert_eq!(length(&CHAIN), 40, "above 32 bytes, as RFC 5180 wants it");
        assert_eq!(skip(43, &b), Some((UDP, 40)));
        assert_eq!(skip(UDP, &b), Some((UDP, 0)));
    }

    #[test]
    fn options_of_every_hop_are_eight_bytes_of_padding() {
        let mut b = [0xff; 8];
        assert_eq!(emit(&[Extension::HopByHop], UDP, TO, &mut b), 0);
        assert_eq!(b, [17, 0, 1, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn what_need_not_have_a_transport_header_is_not_passed_over() {
        assert_eq!(skip(44, &[17, 0, 0, 1, 0, 0, 0, 1]), None, "more fragments follow");
        assert_eq!(skip(44, &[17, 0, 0, 8, 0, 0, 0, 1]), None, "a later fragment");
        assert_eq!(skip(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(5)), None, "more headers than anybody sends");
        assert_eq!(skip(60, &[17, 0, 1, 4, 0, 0, 0]), None, "cut short");
        assert_eq!(skip(60, &[60, 0, 1, 4, 0, 0, 0, 0, 60, 0, 1, 4, 0, 0, 0, 0, 60, 0, 1, 4, 0, 0, 0, 0, 17, 3]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_lead_behind_their_end(first: u8, b in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some((_, at)) = skip(first, &b) {
                prop_assert!(at <= b.len());
            }
        }
    }
}

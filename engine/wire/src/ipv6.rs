//! IPv6 headers (RFC 8200 section 3). Extension headers are in [`extension`](crate::extension).

use crate::u16_at;
use std::net::Ipv6Addr;

/// Length of the header in bytes.
pub const LEN: usize = 40;
/// Offset of the source address.
pub const SOURCE_AT: usize = 8;
/// Offset of the destination address.
pub const DESTINATION_AT: usize = 24;

/// A view on a packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// `None` when `b` does not begin with a whole IPv6 header, or ends before the packet does.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Option<Self> {
        if b.len() < LEN || b[0] >> 4 != 6 {
            return None;
        }
        b.get(..LEN + usize::from(u16_at(b, 4))).map(Self)
    }

    /// Type of the next header (IANA protocol number).
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Remaining hops.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(*self.0[SOURCE_AT..].first_chunk().unwrap_or(&[0; 16]))
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(*self.0[DESTINATION_AT..].first_chunk().unwrap_or(&[0; 16]))
    }

    /// Bytes behind the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[LEN..]
    }
}

/// The meaning of a header. Traffic class and flow label are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Type of the next header (IANA protocol number).
    pub next_header: u8,
    /// Remaining hops.
    pub hop_limit: u8,
    /// Bytes after the header.
    pub payload_length: u16,
}

impl Repr {
    /// The meaning of a view.
    #[must_use]
    pub fn parse(p: &Packet<'_>) -> Self {
        Self {
            source: p.source(),
            destination: p.destination(),
            next_header: p.next_header(),
            hop_limit: p.hop_limit(),
            payload_length: u16_at(p.0, 4),
        }
    }

    /// Writes the header to the start of `b`, which has at least [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        b[..4].copy_from_slice(&[0x60, 0, 0, 0]);
        b[4..6].copy_from_slice(&self.payload_length.to_be_bytes());
        b[6] = self.next_header;
        b[7] = self.hop_limit;
        b[SOURCE_AT..SOURCE_AT + 16].copy_from_slice(&self.source.octets());
        b[DESTINATION_AT..DESTINATION_AT + 16].copy_from_slice(&self.destination.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const HEADER: [u8; 40] = [
        0x60, 0, 0, 0, 0, 26, 17, 64,
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    ];

    fn repr() -> Repr {
        Repr {
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8:1::2".parse().unwrap(),
            next_header: 17,
            hop_limit: 64,
            payload_length: 26,
        }
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0xff; LEN];
        repr().emit(&mut b);
        assert_eq!(b, HEADER);
    }

    #[test]
    fn bytes_are_read_as_their_meaning() {
        let mut b = [0; 80];
        b[..40].copy_from_slice(&HEADER);
        let p = Packet::new(&b).unwrap();
        assert_eq!(Repr::parse(&p), repr());
        assert_eq!(p.payload().len(), 26);
    }

    #[test]
    fn what_is_cut_short_is_no_packet() {
        assert!(Packet::new(&HEADER).is_none(), "26 bytes are missing");
        assert!(Packet::new(&HEADER[..39]).is_none());
    }
}

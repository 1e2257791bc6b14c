//! IPv4 headers (RFC 791). Options are skipped when read and never written.

use crate::checksum::Sum;
use crate::u16_at;
use std::net::Ipv4Addr;

/// Length of a header without options, in bytes.
pub const LEN: usize = 20;
/// Offset of the header checksum.
pub const CHECKSUM_AT: usize = 10;
/// Offset of the source address.
pub const SOURCE_AT: usize = 12;
/// Offset of the destination address.
pub const DESTINATION_AT: usize = 16;

/// A view on a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// `None` when `b` does not begin with a whole IPv4 header, or ends before the datagram does.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Option<Self> {
        let header = usize::from(b.first()? & 0x0f) * 4;
        if b[0] >> 4 != 4 || header < LEN || b.len() < header {
            return None;
        }
        let total = usize::from(u16_at(b, 2));
        // Bytes behind the datagram are Ethernet padding.
        (header..=b.len()).contains(&total).then(|| Self(&b[..total]))
    }

    fn header(&self) -> &'a [u8] {
        &self.0[..usize::from(self.0[0] & 0x0f) * 4]
    }

    /// Length of the datagram in bytes, header included.
    #[must_use]
    pub fn total_length(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// Remaining hops.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// Protocol of the payload (IANA protocol number).
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Returns true for a fragment that is not the first.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        u16_at(self.0, 6) & 0x1fff != 0
    }

    /// Returns true for a fragment of a datagram.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        u16_at(self.0, 6) & 0x3fff != 0
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[12], self.0[13], self.0[14], self.0[15])
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[16], self.0[17], self.0[18], self.0[19])
    }

    /// Returns true if the header checksum is right.
    #[must_use]
    pub fn intact(&self) -> bool {
        Sum::of(self.header()).intact()
    }

    /// Bytes behind the header and its options.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header().len()..]
    }
}

/// The meaning of a header without options. Never fragmented: DF is set and the identification is 0 (RFC 6864 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Protocol of the payload (IANA protocol number).
    pub protocol: u8,
    /// Remaining hops.
    pub ttl: u8,
    /// Bytes after the header.
    pub payload_length: u16,
}

impl Repr {
    /// The meaning of a view.
    #[must_use]
    pub fn parse(p: &Packet<'_>) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "part of a datagram of at most 65535 bytes")]
        Self {
            source: p.source(),
            destination: p.destination(),
            protocol: p.protocol(),
            ttl: p.ttl(),
            payload_length: p.payload().len() as u16,
        }
    }

    /// Writes the header with its checksum to the start of `b`, which has at least [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        #[expect(clippy::cast_possible_truncation, reason = "20")]
        let total = self.payload_length + LEN as u16;
        b[..LEN].fill(0);
        b[0] = 0x45;
        b[2..4].copy_from_slice(&total.to_be_bytes());
        b[6] = 0x40; // don't fragment
        b[8] = self.ttl;
        b[9] = self.protocol;
        b[SOURCE_AT..SOURCE_AT + 4].copy_from_slice(&self.source.octets());
        b[DESTINATION_AT..DESTINATION_AT + 4].copy_from_slice(&self.destination.octets());
        let checksum = Sum::of(&b[..LEN]).checksum();
        b[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 172.16.0.2 → 172.16.10.2, UDP, ttl 64, 26 bytes of payload. The checksum by hand (RFC 1071 section 1):
    // 4500+002e+4000+4011+ac10+0002+ac10+0a02 = 2_2763; 2763+2 = 2765; its complement is d89a.
    const HEADER: [u8; 20] = [0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0xd8, 0x9a, 172, 16, 0, 2, 172, 16, 10, 2];

    fn repr() -> Repr {
        Repr {
            source: Ipv4Addr::new(172, 16, 0, 2),
            destination: Ipv4Addr::new(172, 16, 10, 2),
            protocol: 17,
            ttl: 64,
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
    fn bytes_are_read_as_their_meaning_and_padding_is_not_payload() {
        let mut b = [0; 60];
        b[..20].copy_from_slice(&HEADER);
        let p = Packet::new(&b).unwrap();
        assert_eq!(Repr::parse(&p), repr());
        assert!(p.intact());
        assert_eq!(p.payload().len(), 26);
    }

    #[test]
    fn a_header_with_a_flipped_bit_is_not_intact() {
        let mut b = [0; 46];
        b[..20].copy_from_slice(&HEADER);
        b[15] ^= 4;
        assert!(!Packet::new(&b).unwrap().intact());
    }

    #[test]
    fn wrong_versions_and_lengths_are_no_datagram() {
        let mut b = [0; 46];
        b[..20].copy_from_slice(&HEADER);
        assert!(Packet::new(&b[..45]).is_none(), "cut short");
        b[0] = 0x44;
        assert!(Packet::new(&b).is_none(), "header shorter than 20 bytes");
        b[0] = 0x65;
        assert!(Packet::new(&b).is_none(), "version 6");
        assert!(Packet::new(&[]).is_none());
    }
}

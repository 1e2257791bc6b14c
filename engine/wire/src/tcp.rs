//! TCP headers (RFC 9293 section 3.1), as needed by a tester that keeps no connection.

use crate::u16_at;

/// Length of a header without options, in bytes.
pub const LEN: usize = 20;
/// IANA protocol number.
pub const PROTOCOL: u8 = 6;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 16;
/// Offset of the sequence number, which has 4 bytes.
pub const SEQUENCE_AT: usize = 4;
/// Flag of a connection request.
pub const SYN: u8 = 0x02;
/// Flag of a valid acknowledgement number.
pub const ACK: u8 = 0x10;

/// A view on a segment.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// `None` when `b` does not begin with a whole header.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Option<Self> {
        if b.len() < LEN {
            return None;
        }
        (LEN..=b.len()).contains(&(usize::from(b[12] >> 4) * 4)).then_some(Self(b))
    }

    /// Source port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        u16_at(self.0, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// The lower eight flags: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.0[13]
    }

    /// Bytes behind the header and its options.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[usize::from(self.0[12] >> 4) * 4..]
    }
}

/// The meaning of a header without options. Numbers are 1 and the window is as large as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// The lower eight flags.
    pub flags: u8,
}

impl Repr {
    /// The meaning of a view.
    #[must_use]
    pub fn parse(p: &Packet<'_>) -> Self {
        Self { source_port: p.source_port(), destination_port: p.destination_port(), flags: p.flags() }
    }

    /// Writes the header, with a checksum of 0, to the start of `b`, which has at least [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        b[..LEN].fill(0);
        b[..2].copy_from_slice(&self.source_port.to_be_bytes());
        b[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        b[7] = 1;
        b[11] = u8::from(self.flags & ACK != 0);
        b[12] = 0x50;
        b[13] = self.flags;
        b[14..16].fill(0xff);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const SYN_BYTES: [u8; 20] = [0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0];

    #[test]
    fn bytes_are_read_as_their_meaning() {
        let p = Packet::new(&SYN_BYTES).unwrap();
        assert_eq!(Repr::parse(&p), Repr { source_port: 40000, destination_port: 80, flags: SYN });
        assert!(p.payload().is_empty());
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0xff; LEN];
        Repr { source_port: 40000, destination_port: 80, flags: SYN }.emit(&mut b);
        assert_eq!(b, SYN_BYTES);
    }

    #[test]
    fn a_header_longer_than_the_segment_is_refused() {
        let mut b = SYN_BYTES;
        b[12] = 0x60;
        assert!(Packet::new(&b).is_none());
    }
}

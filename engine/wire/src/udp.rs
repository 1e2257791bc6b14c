//! UDP headers (RFC 768).

use crate::u16_at;

/// Length of the header in bytes.
pub const LEN: usize = 8;
/// IANA protocol number.
pub const PROTOCOL: u8 = 17;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 6;

/// A view on a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// `None` when `b` is shorter than the header, or than the length in it.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Option<Self> {
        if b.len() < LEN {
            return None;
        }
        let length = usize::from(u16_at(b, 4));
        (LEN..=b.len()).contains(&length).then(|| Self(&b[..length]))
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

    /// The checksum; 0 means that the sender computed none.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.0, CHECKSUM_AT)
    }

    /// Bytes behind the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[LEN..]
    }

    /// Header and payload.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// The meaning of a header. The checksum covers addresses and payload; [`crate::frame`] fills it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Bytes after the header.
    pub payload_length: u16,
}

impl Repr {
    /// The meaning of a view.
    #[must_use]
    pub fn parse(p: &Packet<'_>) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the view is as long as a 16-bit field says")]
        let payload_length = p.payload().len() as u16;
        Self { source_port: p.source_port(), destination_port: p.destination_port(), payload_length }
    }

    /// Writes the header, with a checksum of 0, to the start of `b`, which has at least [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        #[expect(clippy::cast_possible_truncation, reason = "8")]
        let length = self.payload_length + LEN as u16;
        b[..2].copy_from_slice(&self.source_port.to_be_bytes());
        b[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        b[4..6].copy_from_slice(&length.to_be_bytes());
        b[6..8].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 10] = [0x9c, 0x40, 0x13, 0x89, 0, 10, 0, 0, 0xaa, 0xbb];

    #[test]
    fn bytes_are_read_as_their_meaning() {
        let p = Packet::new(&BYTES).unwrap();
        assert_eq!(Repr::parse(&p), Repr { source_port: 40000, destination_port: 5001, payload_length: 2 });
        assert_eq!(p.payload(), [0xaa, 0xbb]);
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0xff; LEN];
        Repr { source_port: 40000, destination_port: 5001, payload_length: 2 }.emit(&mut b);
        assert_eq!(b, BYTES[..8]);
    }

    #[test]
    fn a_length_that_cannot_be_is_refused() {
        assert!(Packet::new(&BYTES[..9]).is_none());
        assert!(Packet::new(&[0, 1, 0, 2, 0, 7, 0, 0]).is_none());
    }
}

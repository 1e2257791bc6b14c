//! ICMP and `ICMPv6` echo requests and replies (RFC 792, RFC 4443 section 4): one layout, different types.

use crate::u16_at;

/// Length of the header in bytes.
pub const LEN: usize = 8;
/// IANA protocol number of ICMP.
pub const PROTOCOL: u8 = 1;
/// IANA protocol number of `ICMPv6`.
pub const PROTOCOL_6: u8 = 58;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 2;
/// Offset of the sequence number, which has 2 bytes.
pub const SEQUENCE_AT: usize = 6;
/// Type of an ICMP echo request.
pub const REQUEST: u8 = 8;
/// Type of an ICMP echo reply.
pub const REPLY: u8 = 0;
/// Type of an `ICMPv6` echo request.
pub const REQUEST_6: u8 = 128;
/// Type of an `ICMPv6` echo reply.
pub const REPLY_6: u8 = 129;

/// A view on an echo message.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a>(&'a [u8]);

impl<'a> Packet<'a> {
    /// `None` when `b` is too short or not an echo message.
    #[must_use]
    pub fn new(b: &'a [u8]) -> Option<Self> {
        (b.len() >= LEN && matches!(b[0], REQUEST | REPLY | REQUEST_6 | REPLY_6)).then_some(Self(b))
    }

    /// The type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    /// Identifier.
    #[must_use]
    pub fn identifier(&self) -> u16 {
        u16_at(self.0, 4)
    }

    /// Bytes behind the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[LEN..]
    }
}

/// The meaning of a header. The message's own sequence number is written as 0; the sender of many messages increments
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The type.
    pub kind: u8,
    /// Identifier.
    pub identifier: u16,
}

impl Repr {
    /// The meaning of a view.
    #[must_use]
    pub fn parse(p: &Packet<'_>) -> Self {
        Self { kind: p.kind(), identifier: p.identifier() }
    }

    /// Writes the header, with a checksum of 0, to the start of `b`, which has at least [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        b[..LEN].fill(0);
        b[0] = self.kind;
        b[4..6].copy_from_slice(&self.identifier.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 8] = [8, 0, 0, 0, 0x12, 0x34, 0, 0];

    #[test]
    fn bytes_are_read_as_their_meaning() {
        assert_eq!(Repr::parse(&Packet::new(&BYTES).unwrap()), Repr { kind: REQUEST, identifier: 0x1234 });
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0xff; LEN];
        Repr { kind: REQUEST, identifier: 0x1234 }.emit(&mut b);
        assert_eq!(b, BYTES);
    }

    #[test]
    fn other_messages_are_no_echo() {
        assert!(Packet::new(&[3, 3, 0, 0, 0, 0, 0, 0]).is_none());
    }
}

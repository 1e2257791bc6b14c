//! Our mark in each frame: which stream, which number, sent when. It survives translation of addresses and ports.

use crate::u16_at;
use dutlab_units::Nanos;

/// Length in bytes. With Ethernet, IPv4 and UDP in front, it fills the shortest frame exactly: 14 + 20 + 8 + 18 + 4 = 64.
pub const LEN: usize = 18;
/// The first two bytes.
pub const MAGIC: u16 = 0xd17a;
/// Where the stream's number stands.
pub const STREAM_AT: usize = 2;
/// Where the sequence number stands, in 6 bytes.
pub const SEQUENCE_AT: usize = 4;
/// Where the send time stands, in 8 bytes.
pub const TIME_AT: usize = 10;
/// Sequence numbers are below this; at 100 million frames a second it lasts a month.
pub const SEQUENCE_END: u64 = 1 << 48;

/// What a probe says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The stream.
    pub stream: u16,
    /// The frame's number in its stream, from 0, below [`SEQUENCE_END`].
    pub sequence: u64,
    /// When the frame was handed to the kernel.
    pub sent: Nanos,
}

impl Probe {
    /// Reads a probe from the start of `b`; `None` when there is none.
    #[must_use]
    pub fn parse(b: &[u8]) -> Option<Self> {
        let b: &[u8; LEN] = b.first_chunk()?;
        if u16_at(b, 0) != MAGIC {
            return None;
        }
        let sequence = u64::from_be_bytes([0, 0, b[4], b[5], b[6], b[7], b[8], b[9]]);
        let sent = u64::from_be_bytes([b[10], b[11], b[12], b[13], b[14], b[15], b[16], b[17]]);
        Some(Self { stream: u16_at(b, STREAM_AT), sequence, sent: Nanos(sent) })
    }

    /// Writes the probe to the start of `b`, which has room for [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        b[..2].copy_from_slice(&MAGIC.to_be_bytes());
        b[2..4].copy_from_slice(&self.stream.to_be_bytes());
        b[4..10].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        b[10..18].copy_from_slice(&self.sent.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: [u8; 18] = [0xd1, 0x7a, 0, 7, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9];

    #[test]
    fn bytes_are_read_as_their_meaning() {
        assert_eq!(Probe::parse(&BYTES), Some(Probe { stream: 7, sequence: (1 << 32) + 2, sent: Nanos(9) }));
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0xff; LEN];
        Probe { stream: 7, sequence: (1 << 32) + 2, sent: Nanos(9) }.emit(&mut b);
        assert_eq!(b, BYTES);
    }

    #[test]
    fn another_magic_or_a_short_payload_is_no_probe() {
        let mut b = BYTES;
        b[0] = 0;
        assert_eq!(Probe::parse(&b), None);
        assert_eq!(Probe::parse(&BYTES[..17]), None);
    }

    proptest! {
        #[test]
        fn every_probe_comes_back_as_it_was(stream: u16, sequence in 0..SEQUENCE_END, sent: u64) {
            let probe = Probe { stream, sequence, sent: Nanos(sent) };
            let mut b = [0; LEN];
            probe.emit(&mut b);
            prop_assert_eq!(Probe::parse(&b), Some(probe));
        }
    }
}

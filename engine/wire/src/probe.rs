//! Probe in each frame: its stream, its number and its send time. It survives translation of addresses and ports.

use crate::u16_at;
use dutlab_units::Nanos;

/// Length in bytes. With Ethernet, IPv4 and UDP in front, it fills the shortest frame exactly: 14 + 20 + 8 + 18 + 4 = 64.
pub const LEN: usize = 18;
/// The first two bytes.
pub const MAGIC: u16 = 0xd17a;
/// Offset of the stream's number.
pub const STREAM_AT: usize = 2;
/// Offset of the sequence number, which has 6 bytes.
pub const SEQUENCE_AT: usize = 4;
/// Offset of the stamp, which has 8 bytes.
pub const STAMP_AT: usize = 10;
/// Bits of the stamp that are the send time; the trial's number is above them.
pub const TIME_BITS: u32 = 48;
/// Sequence numbers are below this; at 100 million frames a second it lasts a month.
pub const SEQUENCE_END: u64 = 1 << 48;

/// Content of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The stream.
    pub stream: u16,
    /// The frame's number in its stream, from 0, below [`SEQUENCE_END`].
    pub sequence: u64,
    /// Number of the trial that the frame was sent for.
    pub trial: u16,
    /// Time at which the frame was handed to the kernel: the low [`TIME_BITS`] of the sender's clock, which repeat
    /// every 78 hours. [`sent_at`] makes an instant of it.
    pub sent: Nanos,
}

/// Returns the stamp of a frame that is sent at `sent` for a trial.
#[must_use]
#[inline]
pub const fn stamp(trial: u16, sent: Nanos) -> u64 {
    (trial as u64) << TIME_BITS | sent.0 & ((1 << TIME_BITS) - 1)
}

/// Returns the instant within 39 hours of `near` that a send time denotes; both are of one clock. In two's complement:
/// an instant before that clock's zero is a very large number; only a wrong estimate of the clocks' difference gives
/// one.
#[must_use]
#[inline]
pub const fn sent_at(sent: Nanos, near: Nanos) -> Nanos {
    let elapsed = (near.0.wrapping_sub(sent.0) << (64 - TIME_BITS)).cast_signed() >> (64 - TIME_BITS);
    Nanos(near.0.wrapping_sub(elapsed.cast_unsigned()))
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
        let sent = u64::from_be_bytes([0, 0, b[12], b[13], b[14], b[15], b[16], b[17]]);
        Some(Self { stream: u16_at(b, STREAM_AT), sequence, trial: u16_at(b, STAMP_AT), sent: Nanos(sent) })
    }

    /// Writes the probe to the start of `b`, which has at least [`LEN`] bytes.
    pub fn emit(&self, b: &mut [u8]) {
        b[..2].copy_from_slice(&MAGIC.to_be_bytes());
        b[2..4].copy_from_slice(&self.stream.to_be_bytes());
        b[4..10].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        b[10..18].copy_from_slice(&stamp(self.trial, self.sent).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: [u8; 18] = [0xd1, 0x7a, 0, 7, 0, 1, 0, 0, 0, 2, 0xbe, 0xef, 0, 0, 0, 0, 0, 9];

    #[test]
    fn bytes_are_read_as_their_meaning() {
        assert_eq!(
            Probe::parse(&BYTES),
            Some(Probe { stream: 7, sequence: (1 << 32) + 2, trial: 0xbeef, sent: Nanos(9) })
        );
    }

    #[test]
    fn the_meaning_is_written_as_its_bytes() {
        let mut b = [0xff; LEN];
        Probe { stream: 7, sequence: (1 << 32) + 2, trial: 0xbeef, sent: Nanos(9) }.emit(&mut b);
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
        fn a_send_time_is_the_instant_it_was_made_of_wherever_the_clock_stands(sent: u64, after in -1_i64 << 46..1 << 46) {
            let near = Nanos(sent.wrapping_add_signed(after));
            let probe = Probe { stream: 1, sequence: 0, trial: 7, sent: Nanos(sent) };
            let mut b = [0; LEN];
            probe.emit(&mut b);
            let back = Probe::parse(&b).unwrap();
            prop_assert_eq!((back.trial, sent_at(back.sent, near)), (7, Nanos(sent)));
        }

        #[test]
        fn every_probe_comes_back_as_it_was(stream: u16, sequence in 0..SEQUENCE_END, trial: u16, sent in 0_u64..1 << TIME_BITS) {
            let probe = Probe { stream, sequence, trial, sent: Nanos(sent) };
            let mut b = [0; LEN];
            probe.emit(&mut b);
            prop_assert_eq!(Probe::parse(&b), Some(probe));
        }
    }
}

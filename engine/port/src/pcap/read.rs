//! Parser from bytes to frames. Never panics and never allocates, for any bytes.

use super::{ETHERNET, HEADER, MAGIC_MICROSECONDS, MAGIC_NANOSECONDS, RECORD};
use dutlab_units::{FrameSize, Nanos};
use std::fmt;

/// The first bytes of the other format, pcapng.
const PCAPNG: u32 = 0x0a0d_0d0a;
/// Length of an Ethernet header.
const SHORTEST: u32 = 14;

/// The frames of a capture, one after another. Ends after the first fault.
#[derive(Debug, Clone)]
pub struct Capture<'a> {
    bytes: &'a [u8],
    /// Offset of the next record.
    at: usize,
    number: u64,
    big_endian: bool,
    /// Nanoseconds per unit of the second part of a stamp.
    unit: u32,
}

/// A frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of capture, since 1970.
    pub at: Nanos,
    /// The frame without FCS.
    pub bytes: &'a [u8],
    /// Offset of the frame in the file.
    pub offset: usize,
}

/// A fault of a capture, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadCapture {
    /// Offset in bytes from the start of the file.
    pub offset: usize,
    /// Number of the frame, counted from 1; 0: none.
    pub frame: u64,
    /// Kind of fault.
    pub fault: Fault,
}

/// Kinds of faults of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The file does not begin like a capture.
    Magic(u32),
    /// The file is in the other format, pcapng.
    Pcapng,
    /// The file ends too early.
    Truncated {
        /// Bytes that should follow.
        need: usize,
        /// Bytes that follow.
        have: usize,
    },
    /// The frames are not Ethernet frames; with their link type.
    LinkType(u32),
    /// A frame is longer than any that can be sent, in bytes without FCS.
    TooLong(u32),
    /// A frame is shorter than an Ethernet header.
    TooShort(u32),
    /// Only the first bytes of a frame were kept.
    Cut {
        /// Bytes that were kept.
        kept: u32,
        /// Original length in bytes.
        length: u32,
    },
    /// The second part of a stamp is a second or more.
    Stamp(u32),
    /// The file contains no frame.
    Empty,
}

impl fmt::Display for BadCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.offset)?;
        if self.frame > 0 {
            write!(f, " (frame {})", self.frame)?;
        }
        let most = FrameSize::MAX.without_fcs();
        match self.fault {
            Fault::Magic(n) => write!(f, ": {n:#010x} is not how a pcap file begins"),
            Fault::Pcapng => write!(f, ": this is a pcapng file; convert it: editcap -F nsecpcap IN OUT"),
            Fault::Truncated { need, have } => {
                write!(f, ": the file ends too early: {need} bytes should follow, {have} do")
            }
            Fault::LinkType(n) => write!(f, ": link type {n} is not Ethernet (1)"),
            Fault::TooLong(n) => write!(f, ": a frame of {n} bytes; {most} are the most that can be sent"),
            Fault::TooShort(n) => write!(f, ": a frame of {n} bytes is shorter than an Ethernet header"),
            Fault::Cut { kept, length } => write!(
                f,
                ": only {kept} of the frame's {length} bytes were captured; capture anew without a limit (tcpdump -s 0)"
            ),
            Fault::Stamp(n) => write!(f, ": {n} is not a fraction of a second"),
            Fault::Empty => write!(f, ": there is no frame in this file"),
        }
    }
}

impl std::error::Error for BadCapture {}

impl<'a> Capture<'a> {
    /// Reads the header of a file.
    pub fn new(bytes: &'a [u8]) -> Result<Self, BadCapture> {
        let bad = |offset, fault| BadCapture { offset, frame: 0, fault };
        let truncated = Fault::Truncated { need: HEADER, have: bytes.len() };
        let magic = word(bytes, 0, false).ok_or_else(|| bad(0, truncated))?;
        let (big_endian, unit) = match (magic, magic.swap_bytes()) {
            (MAGIC_MICROSECONDS, _) => (false, 1000),
            (MAGIC_NANOSECONDS, _) => (false, 1),
            (_, MAGIC_MICROSECONDS) => (true, 1000),
            (_, MAGIC_NANOSECONDS) => (true, 1),
            (PCAPNG, _) => return Err(bad(0, Fault::Pcapng)),
            (_, shown) => return Err(bad(0, Fault::Magic(shown))),
        };
        if bytes.len() < HEADER {
            return Err(bad(0, truncated));
        }
        // The upper half may describe an FCS; the format reserves it, and writers leave it 0.
        let link = word(bytes, 20, big_endian).unwrap_or(0) & 0xffff;
        if link != ETHERNET {
            return Err(bad(20, Fault::LinkType(link)));
        }
        Ok(Self { bytes, at: HEADER, number: 0, big_endian, unit })
    }

    fn record(&self) -> Result<Record<'a>, BadCapture> {
        let bad = |behind: usize, fault| Err(BadCapture { offset: self.at + behind, frame: self.number, fault });
        let rest = &self.bytes[self.at..];
        if rest.len() < RECORD {
            return bad(0, Fault::Truncated { need: RECORD, have: rest.len() });
        }
        let field = |at| word(rest, at, self.big_endian).unwrap_or(0);
        let (seconds, fraction, kept, length) = (field(0), field(4), field(8), field(12));
        if fraction >= 1_000_000_000 / self.unit {
            return bad(4, Fault::Stamp(fraction));
        }
        if kept as usize > FrameSize::MAX.without_fcs() {
            return bad(8, Fault::TooLong(kept));
        }
        if kept < length {
            return bad(8, Fault::Cut { kept, length });
        }
        if kept < SHORTEST {
            return bad(8, Fault::TooShort(kept));
        }
        let frame = &rest[RECORD..];
        let Some(bytes) = frame.get(..kept as usize) else {
            return bad(RECORD, Fault::Truncated { need: kept as usize, have: frame.len() });
        };
        let at = Nanos(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * u64::from(self.unit));
        Ok(Record { at, bytes, offset: self.at + RECORD })
    }
}

impl<'a> Iterator for Capture<'a> {
    type Item = Result<Record<'a>, BadCapture>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        self.number += 1;
        let record = self.record();
        self.at = record.map_or(self.bytes.len(), |r| r.offset + r.bytes.len());
        Some(record)
    }
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let four = *bytes.get(at..)?.first_chunk()?;
    Some(if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One frame of 14 bytes, captured 1 s and 5 units after 1970.
    #[rustfmt::skip]
    const LITTLE_NANOSECONDS: [u8; 54] = [
        0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
        1, 0, 0, 0, 5, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0,
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0,
    ];
    #[rustfmt::skip]
    const BIG_MICROSECONDS: [u8; 54] = [
        0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1,
        0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 14, 0, 0, 0, 14,
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0,
    ];

    #[test]
    fn both_byte_orders_and_both_units_of_time_are_read() {
        for (bytes, at) in [(LITTLE_NANOSECONDS, 1_000_000_005), (BIG_MICROSECONDS, 1_000_005_000)] {
            let all: Vec<_> = Capture::new(&bytes).unwrap().collect();
            assert_eq!(all, [Ok(Record { at: Nanos(at), bytes: &bytes[40..], offset: 40 })]);
        }
    }

    #[test]
    fn every_fault_is_named_with_its_place() {
        let changed = |at: usize, byte: u8| {
            let mut b = LITTLE_NANOSECONDS;
            b[at] = byte;
            Capture::new(&b).map_or_else(|e| e, |mut c| c.next().unwrap().unwrap_err())
        };
        let bad = |offset, frame, fault| BadCapture { offset, frame, fault };
        assert_eq!(changed(0, 0), bad(0, 0, Fault::Magic(0x003c_b2a1)));
        assert_eq!(changed(20, 101), bad(20, 0, Fault::LinkType(101)));
        assert_eq!(changed(31, 0x7f), bad(28, 1, Fault::Stamp(0x7f00_0005)));
        assert_eq!(changed(35, 0xff), bad(32, 1, Fault::TooLong(0xff00_000e)));
        assert_eq!(changed(36, 15), bad(32, 1, Fault::Cut { kept: 14, length: 15 }));
        assert_eq!(changed(32, 13), bad(32, 1, Fault::Cut { kept: 13, length: 14 }));
        assert_eq!(changed(32, 15), bad(40, 1, Fault::Truncated { need: 15, have: 14 }));
        assert_eq!(Capture::new(&[]).unwrap_err(), bad(0, 0, Fault::Truncated { need: 24, have: 0 }));
        assert_eq!(Capture::new(&[0x0a, 0x0d, 0x0d, 0x0a]).unwrap_err().fault, Fault::Pcapng);
        let text = changed(32, 15).to_string();
        assert!(text.contains("byte 40 (frame 1)") && text.contains("15 bytes should follow"), "{text}");
    }

    proptest! {
        #[test]
        fn a_file_cut_anywhere_gives_an_error_at_the_cut_or_no_frame(cut in 0_usize..54) {
            let result: Result<Vec<_>, _> = Capture::new(&BIG_MICROSECONDS[..cut]).and_then(Iterator::collect);
            match result {
                Ok(frames) => prop_assert!(cut == 24 && frames.is_empty()),
                Err(e) => {
                    let truncated = matches!(e.fault, Fault::Truncated { .. });
                    prop_assert!(e.offset <= cut && truncated, "{}", e);
                }
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_go_on_for_ever(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400), good: bool,
        ) {
            if good && bytes.len() >= 24 {
                bytes[..24].copy_from_slice(&LITTLE_NANOSECONDS[..24]);
            }
            if let Ok(capture) = Capture::new(&bytes) {
                prop_assert!(capture.count() <= bytes.len() / 16 + 1);
            }
        }
    }
}

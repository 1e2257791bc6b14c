//! The size of an Ethernet frame, always counted with its FCS.

use crate::FCS;
use std::fmt;

/// Bytes of a frame from destination address to FCS, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameSize(u16);

/// A number that is not a frame size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSizeError {
    /// The size that was asked for, in bytes with FCS.
    pub asked: u32,
}

impl fmt::Display for FrameSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a frame size: from {} to {} bytes with FCS are possible",
            self.asked,
            FrameSize::MIN.with_fcs(),
            FrameSize::MAX.with_fcs()
        )
    }
}

impl std::error::Error for FrameSizeError {}

impl FrameSize {
    /// The shortest legal frame (IEEE 802.3 clause 4.4.2).
    pub const MIN: Self = Self(64);
    /// The longest frame that any of our back ends takes: 9216 bytes of IP and an Ethernet header with two tags.
    pub const MAX: Self = Self(9216 + 14 + 8 + FCS);

    /// Bytes of an untagged Ethernet frame around its IP datagram: header and FCS.
    pub const IP_OVERHEAD: u32 = 14 + FCS as u32;

    /// A frame of `bytes` with FCS.
    pub const fn new(bytes: u32) -> Result<Self, FrameSizeError> {
        if bytes < Self::MIN.0 as u32 || bytes > Self::MAX.0 as u32 {
            return Err(FrameSizeError { asked: bytes });
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX, checked above")]
        Ok(Self(bytes as u16))
    }

    /// Bytes with FCS.
    #[must_use]
    pub const fn with_fcs(self) -> u32 {
        self.0 as u32
    }

    /// Bytes without FCS: the length of the buffer that holds the frame.
    #[must_use]
    pub const fn without_fcs(self) -> usize {
        (self.0 - FCS) as usize
    }

    /// Bytes of the IP datagram that fills the frame behind `tags` VLAN tags of 4 bytes.
    #[must_use]
    pub const fn ip_length(self, tags: u32) -> u32 {
        self.0 as u32 - Self::IP_OVERHEAD - 4 * tags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_frame_is_sixty_bytes_of_buffer() {
        assert_eq!(FrameSize::new(64).unwrap().without_fcs(), 60);
    }

    #[test]
    fn the_three_ways_to_state_a_size_differ_by_what_they_leave_out() {
        // An Ethernet header is 14 bytes, a tag 4, the FCS 4 (IEEE 802.3 clause 3.2, 802.1Q clause 9).
        let full = FrameSize::new(1518).unwrap();
        assert_eq!((full.without_fcs(), full.ip_length(0), full.ip_length(2)), (1514, 1500, 1492));
    }

    #[test]
    fn sizes_outside_the_limits_are_refused_with_the_number() {
        assert_eq!(FrameSize::new(63), Err(FrameSizeError { asked: 63 }));
        assert_eq!(FrameSize::new(70_000), Err(FrameSizeError { asked: 70_000 }));
        assert!(FrameSize::new(63).unwrap_err().to_string().contains("63 is not a frame size"));
    }
}

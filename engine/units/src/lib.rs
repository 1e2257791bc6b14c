//! Quantities with their unit in the type. No I/O and no clock: time is always an argument.
//!
//! Rates say their layer: L1 counts preamble and gap, L2 does not. Frame sizes include the FCS, so 64 is the shortest
//! legal Ethernet frame; [`FrameSize::without_fcs`] is what is handed to a kernel.
#![forbid(unsafe_code)]

mod frame;
mod rate;
mod time;

pub use frame::{FrameSize, FrameSizeError};
pub use rate::{L1Bits, L2Bits, Pps};
pub use time::Nanos;

/// Preamble, start delimiter and gap around a frame, in bytes (IEEE 802.3 clauses 4.2.7 and 4.4.2).
pub const ETH_L1_OVERHEAD: u32 = 7 + 1 + 12;
/// Length of the frame check sequence, in bytes (IEEE 802.3 clause 3.2.9).
pub const FCS: u16 = 4;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

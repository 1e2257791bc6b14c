//! Frames and the probe inside them.
//!
//! Each protocol has one file, and all use the same words: `Packet` is a view on bytes, whose constructor `new` is the
//! only check (after `Some`, no accessor can panic); `Repr` is the meaning, with `parse` and `emit`. Nothing here
//! allocates. Addresses are `std::net` ones, MACs are [`Mac`]. Lengths never include the FCS unless a name says so.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod ethernet;
pub mod extension;
pub mod frame;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod probe;
pub mod raw;
pub mod reach;
pub mod seen;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use ethernet::Mac;
pub use extension::Extension;
pub use frame::{FrameRepr, Layout};
pub use probe::Probe;
pub use seen::{Found, FourTuple, Seen};

/// Reads two bytes, big-endian.
fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

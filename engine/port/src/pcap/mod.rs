//! Files in the format of libpcap ("Libpcap File Format", `pcap-savefile(5)`).
//!
//! - `read`: from bytes to frames; every fault has its offset
//! - `write`: a port that writes sent frames into a file, with stamps in nanoseconds
//! - `replay`: a capture to send again, with its own timing or another

mod read;
mod replay;
mod write;

pub use read::{BadCapture, Capture, Fault, Record};
pub use replay::{LoadError, Replay, Timing};
pub use write::File;

/// The first four bytes of a file whose stamps count microseconds, in the byte order of its writer.
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// The first four bytes of a file whose stamps count nanoseconds.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Bytes of the header of a file.
const HEADER: usize = 24;
/// Bytes in front of each frame.
const RECORD: usize = 16;
/// Frames begin with an Ethernet header (`LINKTYPE_ETHERNET`).
const ETHERNET: u32 = 1;

//! Back end inside the kernel: eBPF programs send and receive, and the card stays a normal kernel interface.
//!
//! `sender` makes one long live-frame call (`BPF_PROG_TEST_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18) in which
//! a program writes, paces and redirects each frame. `receiver` attaches a program that accounts for our frames, drops
//! them, and passes everything else to the kernel. Both are read and controlled through mapped memory; both end with
//! the process, however it ends. The programs are in `engine/xdp/bpf`.

mod accounting;
pub mod af_xdp;
mod attach;
mod call;
#[cfg(test)]
mod compiled;
mod contract;
mod count;
mod drive;
mod error;
mod flow;
mod histogram;
mod lanes;
mod live;
#[cfg(test)]
mod numbers;
mod objects;
mod offer;
#[cfg(test)]
mod pacing;
mod plan;
mod probe;
mod quiescence;
mod receiver;
pub mod reference;
mod rows;
mod sender;
mod sent;
mod setup;
mod shared;
#[cfg(test)]
mod sums;
mod system;
mod template;
mod transmit;

pub use attach::{AttachMode, Place};
pub use count::XdpCounter;
pub use error::{Why, XdpError};
pub use probe::{XdpProbe, down_note, probe};
pub use transmit::XdpTransmitter;

//! `AF_PACKET`: works on every interface, takes every frame that the interface takes.
//!
//! Sending: bursts through `sendmmsg`, past the queueing discipline. Receiving: a `TPACKET_V3` ring that the kernel
//! writes whole blocks of frames into; frames are stamped by the kernel when they arrive, not when we look.
//! Needs `CAP_NET_RAW`.

mod absorb;
mod receive;
mod send;

pub use absorb::Absorb;
pub use receive::Ring;
pub use send::Bursts;

//! `AF_PACKET`: works on every interface, takes every frame that the interface takes.
//!
//! Sending: bursts through `sendmmsg`, past the queueing discipline. Receiving: a `TPACKET_V3` ring that the kernel
//! writes whole blocks of frames into; frames are stamped by the kernel when they arrive, not when we look. A filter keeps
//! frames without a probe out of the ring. Needs `CAP_NET_RAW`.

mod absorb;
mod fanout;
mod filter;
mod receive;
mod send;
mod strangers;
mod tx_ring;

pub use absorb::Absorb;
pub use receive::{Ring, Rings};
pub use send::Bursts;
pub use tx_ring::TxRing;

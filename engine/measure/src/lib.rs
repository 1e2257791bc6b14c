//! Accounting of received frames: which arrived, how often, in which order, and how late. Uses no socket and no clock.
//!
//! - [`ledger`]: the sequence numbers of one stream
//! - [`ways`]: the order that is certain where frames came on several receive queues
//! - [`settlement`]: the frames lost, and whether the frames are conserved
//! - [`latency`]: one-way latency
//! - [`ipdv`]: its change from a frame to the next
//! - [`histogram`]: a log-linear histogram
//! - [`account`]: all streams of a port, frame by frame
//! - [`in_order`]: the arrivals of several queues, in one order
#![forbid(unsafe_code)]

pub mod account;
pub mod histogram;
pub mod in_order;
pub mod ipdv;
pub mod latency;
pub mod ledger;
pub mod settlement;
pub mod ways;

pub use account::{Account, Arrival, StreamAccount};
pub use histogram::Histogram;
pub use in_order::InOrder;
pub use ipdv::Ipdv;
pub use latency::Latency;
pub use ledger::{Ledger, Settled};
pub use settlement::Settlement;
pub use ways::Ways;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

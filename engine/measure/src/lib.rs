//! What became of the frames: who arrived, how often, in which order, and how late. Never sees a socket or a clock.
//!
//! - [`ledger`]: the sequence numbers of one stream
//! - [`latency`]: their one-way latency
//! - [`account`]: all streams of a port, frame by frame
#![forbid(unsafe_code)]

pub mod account;
pub mod latency;
pub mod ledger;

pub use account::{Account, StreamAccount};
pub use latency::Latency;
pub use ledger::{Ledger, Settled};

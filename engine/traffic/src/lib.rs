//! Frames to send, and when: functions of plan and time that never sleep and never send.
//!
//! - [`sizes`]: size of the n-th frame; [`mixes`] by name, [`genome`]s by letters
//! - [`flows`]: its addresses and ports, with [`macs`]
//! - [`series`]: values of its other fields
//! - [`profile`]: time at which it is due
//! - [`arrivals`]: instants of a Poisson process, for an open loop
//! - [`pacer`]: number of frames of a stream that are due now
//! - [`schedule`]: choice of the next stream among several; [`chain`]: streams that begin when others have ended
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod chain;
pub mod flows;
pub mod genome;
pub mod macs;
pub mod mixes;
pub mod pacer;
mod permutation;
pub mod profile;
pub mod schedule;
pub mod series;
pub mod sizes;

pub use chain::{Chain, Step};
pub use flows::{Flow, FlowError, Flows};
pub use genome::GenomeError;
pub use mixes::{NamedMix, NoSuchMix};
pub use pacer::Pacer;
pub use profile::{Piece, Profile, Spaced};
pub use schedule::{Next, Schedule};
pub use series::{Series, SeriesError};
pub use sizes::{SizeError, Sizes};

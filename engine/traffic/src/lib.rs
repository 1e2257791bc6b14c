//! What is to be sent, and when: functions of plan and time that never sleep and never send.
//!
//! - [`sizes`]: which size the n-th frame has; [`mixes`] by name, [`genome`]s by letters
//! - [`flows`]: which addresses and ports it has, and which [`macs`]
//! - [`profile`]: when it is due
//! - [`pacer`]: how many frames of a stream are due now
//! - [`schedule`]: which of several streams is next
#![forbid(unsafe_code)]

pub mod flows;
pub mod genome;
pub mod macs;
pub mod mixes;
pub mod pacer;
mod permutation;
pub mod profile;
pub mod schedule;
pub mod sizes;

pub use flows::{Flow, FlowError, Flows};
pub use genome::GenomeError;
pub use mixes::{NamedMix, NoSuchMix};
pub use pacer::Pacer;
pub use profile::{Piece, Profile};
pub use schedule::{Next, Schedule};
pub use sizes::{SizeError, Sizes};

//! What is to be sent, and when: functions of plan and time that never sleep and never send.
//!
//! - [`sizes`]: which size the n-th frame has; [`mixes`] by name, [`genome`]s by letters
//! - [`flows`]: which addresses and ports it has, and which [`macs`]
//! - [`series`]: which value any other field has
//! - [`profile`]: when it is due
//! - [`pacer`]: how many frames of a stream are due now
//! - [`schedule`]: which of several streams is next; [`chain`]: which begins when another has ended
#![forbid(unsafe_code)]

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

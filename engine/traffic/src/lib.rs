//! What is to be sent, and when: functions of plan and time that never sleep and never send.
//!
//! - [`sizes`]: which size the n-th frame has
//! - [`flows`]: which addresses and ports it has
//! - [`profile`]: when it is due
//! - [`pacer`]: how many frames of a stream are due now
//! - [`schedule`]: which of several streams is next
#![forbid(unsafe_code)]

pub mod flows;
pub mod pacer;
pub mod profile;
pub mod schedule;
pub mod sizes;

pub use flows::{Flow, FlowError, Flows};
pub use pacer::Pacer;
pub use profile::{Piece, Profile};
pub use schedule::{Next, Schedule};
pub use sizes::{SizeError, Sizes};

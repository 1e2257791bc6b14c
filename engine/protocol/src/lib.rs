//! What a controller and `dutlab-engine agent` say to each other: one JSON object a line, on stdin and stdout.
//!
//! - [`request`]: what the controller asks, `{"id": 1, "op": "open", …}`
//! - [`plan`]: what is to be sent and received, inside `arm`
//! - [`reply`]: exactly one for each request, `{"id": 1, "ok": {…}}` or `{"id": 1, "err": {…}}`
//! - [`event`]: what the agent says on its own, `{"event": "second", …}`
//! - [`status`]: what became of the frames so far
//! - [`totals`]: what became of them in the end
//! - [`doubt`]: why to distrust that; the commands say it, the agent leaves it to the controller
//!
//! Every field carries its unit in its name. Frame sizes are bytes with FCS. Instants are nanoseconds of
//! `CLOCK_MONOTONIC` of the agent's machine. Unknown keys are refused, so that a mistyped one never runs another trial.
#![forbid(unsafe_code)]

pub mod doubt;
pub mod event;
mod fault;
pub mod plan;
pub mod reply;
pub mod request;
mod schema;
pub mod status;
pub mod totals;

pub use doubt::{Doubt, DoubtKind};
pub use event::Event;
pub use fault::{ErrorKind, Fault};
pub use reply::Reply;
pub use request::{Op, Request};
pub use schema::schema;

/// Raised whenever a message changes in a way that an older controller or agent cannot read.
pub const PROTOCOL: u32 = 3;

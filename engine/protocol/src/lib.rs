//! Messages between a controller and `dutlab-engine agent`: one JSON object a line, on stdin and stdout.
//!
//! - [`request`]: requests of the controller, `{"id": 1, "op": "open", …}`
//! - [`plan`]: frames to send and to receive, inside `arm`
//! - [`reply`]: exactly one for each request, `{"id": 1, "ok": {…}}` or `{"id": 1, "err": {…}}`
//! - [`event`]: lines of the agent that answer no request, `{"event": "second", …}`
//! - [`status`]: counters in the middle of a trial
//! - [`totals`]: counters at the end of a trial
//! - [`doubt`]: reasons to distrust a result; the commands raise them, the agent leaves that to the controller
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

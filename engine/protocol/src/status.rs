//! Counters in the middle of a trial, stream by stream.
//!
//! Frames are in flight while these are read, and each half of a port is read at an instant of its own; what certainly got
//! lost by then follows from two readings, as docs/reference/engine-protocol.md says under "Before the end".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reply to `status`: what a port has counted since its trial began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The port.
    pub port: String,
    /// Absent where it sends nothing, or nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<SendingSoFar>,
    /// Absent where it receives nothing, or nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<ReceivingSoFar>,
}

/// What was sent so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendingSoFar {
    /// When the counters were read.
    pub monotonic_ns: u64,
    /// Time from then to this reply.
    pub age_ns: u64,
    /// Each stream's share.
    pub streams: Vec<StreamSendingSoFar>,
}

/// What was sent so far of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSendingSoFar {
    /// The stream.
    pub stream: u16,
    /// Frames that the kernel took.
    pub sent: u64,
    /// Below this are all sequence numbers that were used; the frames of `numbered` - `sent` of them were refused.
    pub numbered: u64,
    /// As `backpressure` of what `wait` says of a stream, so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backpressure: Option<u64>,
}

/// What was received so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivingSoFar {
    /// When the counters were read.
    pub monotonic_ns: u64,
    /// Time from then to this reply.
    pub age_ns: u64,
    /// Each stream's share.
    pub streams: Vec<StreamReceivingSoFar>,
}

/// What was received so far of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamReceivingSoFar {
    /// The stream.
    pub stream: u16,
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Of these, arrivals of a frame that had arrived before.
    pub duplicated: u64,
    /// Of these, first arrivals after a frame with a higher number.
    pub reordered: u64,
    /// One above the highest number that arrived; never later than `received`.
    pub next_sequence: u64,
    /// Frames whose latency is known.
    pub latency_count: u64,
    /// The sum of their latencies.
    pub latency_sum_ns: u64,
}

//! Counters in the middle of a trial, stream by stream.
//!
//! Frames are in flight while these are read, and each half of a port is read at its own instant. Two readings give the
//! frames that were certainly lost between them: see "Before the end" in docs/reference/engine-protocol.md.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reply to `status`: counters of a port since its trial began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The port.
    pub port: String,
    /// Counters of sending; absent where the port sends nothing, or nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<SendingSoFar>,
    /// Counters of receiving; absent where the port receives nothing, or nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<ReceivingSoFar>,
}

/// Frames sent so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendingSoFar {
    /// Time at which the counters were read.
    pub monotonic_ns: u64,
    /// Time from the reading to this reply.
    pub age_ns: u64,
    /// Counters of each stream.
    pub streams: Vec<StreamSendingSoFar>,
}

/// Frames of a stream that were sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSendingSoFar {
    /// The stream.
    pub stream: u16,
    /// Frames that the kernel took.
    pub sent: u64,
    /// Exclusive upper bound of the sequence numbers used. Of these frames, `numbered` - `sent` were refused.
    pub numbered: u64,
    /// `backpressure` so far, as in the reply to `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backpressure: Option<u64>,
}

/// Frames received so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivingSoFar {
    /// Time at which the counters were read.
    pub monotonic_ns: u64,
    /// Time from the reading to this reply.
    pub age_ns: u64,
    /// Counters of each stream.
    pub streams: Vec<StreamReceivingSoFar>,
}

/// Frames of a stream that were received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamReceivingSoFar {
    /// The stream.
    pub stream: u16,
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Arrivals among these of a frame that had arrived before.
    pub duplicated: u64,
    /// First arrivals among these after a frame with a higher number.
    pub reordered: u64,
    /// One above the highest number that arrived; never later than `received`.
    pub next_sequence: u64,
    /// Frames whose latency is known.
    pub latency_count: u64,
    /// The sum of their latencies.
    pub latency_sum_ns: u64,
}

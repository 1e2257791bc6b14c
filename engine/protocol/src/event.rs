//! Events: lines of the agent that answer no request.

use crate::fault::Fault;
use crate::status::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line from the agent that answers no request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Once a second for each port whose plan asked for it.
    Second(Second),
    /// Counters stream by stream, once a second. The agent sends them only on request; commands write them to the file
    /// of `--events`.
    Status(Status),
    /// A port failed; `wait` and `settle` still reply with what was counted before.
    Failed(Failed),
}

/// Counters of a port since the trial began. For live views only: frames are in flight while these are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// The port.
    pub port: String,
    /// Time at which the counters were read.
    pub monotonic_ns: u64,
    /// Frames sent.
    pub sent: u64,
    /// Bytes sent, with FCS.
    pub sent_bytes: u64,
    /// Frames received, duplicates included.
    pub received: u64,
    /// Bytes received, with FCS.
    pub received_bytes: u64,
    /// Frames that arrived once too often.
    pub duplicated: u64,
    /// Frames that arrived after a later one.
    pub reordered: u64,
    /// Frames that the receiver's kernel dropped for lack of room.
    pub kernel_dropped: u64,
    /// Mean one-way latency of the frames since the last event; absent when none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_mean_ns: Option<f64>,
    /// The greatest one-way latency since the last event; absent when no frame came, or the kernel counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_max_ns: Option<u64>,
}

/// A port failed in mid-trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// The port.
    pub port: String,
    /// Reason for the failure.
    pub err: Fault,
}

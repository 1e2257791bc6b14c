//! Frames of a capture.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frames of a capture (pcap, of Ethernet). Without `probe` they are sent as they are, and no receiver accounts for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The file, on the agent's host.
    pub path: String,
    /// Stream number under which the frames are counted.
    #[serde(default)]
    pub stream: u16,
    /// Times at which the frames are due.
    #[serde(default)]
    pub timing: ReplayTiming,
    /// Number of rounds in which the capture is sent.
    #[serde(default = "one_round")]
    pub rounds: u32,
    /// Write the probe over the start of each payload of UDP, TCP or ICMP that has room for it, and correct the
    /// checksum, so that a receiver accounts for these frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub probe: bool,
    /// With `probe`: stream number of the frames that have no room for it. They are sent unchanged. Absent: a capture
    /// with such frames is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprobed_stream: Option<u16>,
}

const fn one_round() -> u32 {
    1
}

/// Times at which the frames of a capture are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayTiming {
    /// Times of the capture, faster by this factor: 2 is twice as fast, 0.5 half as fast.
    Speed(f64),
    /// `true`: as fast as possible.
    Max(bool),
}

impl Default for ReplayTiming {
    fn default() -> Self {
        Self::Speed(1.0)
    }
}

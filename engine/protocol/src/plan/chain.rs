//! Streams that are sent one after another.

use super::default::{is_no_time, one};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Streams that are sent one after another. Each has `frames`, which it sends once a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The streams in their order; a stream is in one chain at most, and once.
    pub steps: Vec<ChainStep>,
    /// Number of rounds.
    #[serde(default = "one")]
    pub rounds: u32,
}

/// One stream of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainStep {
    /// Number of the stream.
    pub stream: u16,
    /// Time from the last frame of the previous stream (first step: from the start) to the first frame of this one.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub gap_ns: u64,
}

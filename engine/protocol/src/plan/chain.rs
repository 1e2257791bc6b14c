//! Streams one after another.

use super::default::{is_no_time, one};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Streams one after another. Each has `frames`, which it sends once a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The streams in their order; a stream is in one chain at most, and once.
    pub steps: Vec<ChainStep>,
    /// How often they are sent, one round after another.
    #[serde(default = "one")]
    pub rounds: u32,
}

/// One stream of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainStep {
    /// Its number.
    pub stream: u16,
    /// From the last frame of the one before (first: from the start) to its first frame.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub gap_ns: u64,
}

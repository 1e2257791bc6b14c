//! Frame sizes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Frame sizes, in bytes with FCS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// One size for all frames.
    FixedBytes(u32),
    /// Mixed by weight, interleaved as evenly as whole frames allow, the same way in every trial.
    Weighted(Vec<WeightedSize>),
    /// Sizes in this order, repeatedly.
    SequenceBytes(Vec<u32>),
    /// One frame of each size from the first to the last, repeatedly.
    SweptBytes(Swept),
    /// A named mix, such as `imix`. An unknown name is refused with a list of the known ones.
    Mix(String),
    /// An IMIX genome (RFC 6985).
    Genome(Genome),
}

/// Equally spaced sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Swept {
    /// The first size.
    pub from: u32,
    /// The last size, if a step meets it.
    pub to: u32,
    /// Difference between consecutive sizes.
    pub step: u32,
}

/// A sequence of sizes as letters (RFC 6985): a=64 b=128 c=256 d=512 e=1024 f=1280 g=1518 h=2112 i=9000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Genome {
    /// Letters, such as `aaafg`. A number repeats the letter behind it, as in `40a20fg`.
    pub letters: String,
    /// Sizes with FCS of the upper-case letters, and of `z`, the MTU, if they are used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub table: BTreeMap<char, u32>,
}

/// One size of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedSize {
    /// Bytes with FCS.
    pub bytes: u32,
    /// Number of frames of this size in one round of the mix.
    pub weight: u32,
}

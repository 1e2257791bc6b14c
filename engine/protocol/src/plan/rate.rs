//! How fast a stream is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How fast a stream is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// As fast as the port takes frames; the value is always `true`.
    Max(bool),
    /// Frames per second.
    Pps(f64),
    /// Bits per second with preamble and gap.
    BpsL1(f64),
    /// Bits per second of frames with FCS.
    BpsL2(f64),
    /// A share of the link's speed, preamble and gap counted.
    Percent(Percent),
    /// A rate over time: stretches one after another; the last goes on at its `to_pps`.
    Profile(Vec<Stretch>),
    /// Bursts as fast as the port takes them, at a constant distance (RFC 2544 section 21).
    Bursts(Bursts),
    /// Bursts at a mean rate.
    BurstsAt(BurstsAt),
    /// Bursts at a rate of their own, with a pause between them.
    MultiBurst(MultiBurst),
}

/// A share of the link's speed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Percent {
    /// Of the speed, above 0; 100 fills the link.
    pub percent: f64,
    /// The link's speed in bit/s; absent: what the card says. Refused where neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_bps: Option<f64>,
}

/// A while of linearly changing rate; of constant rate, if it begins as it ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// Frames per second at its start; 0 at both ends is a pause.
    pub from_pps: f64,
    /// Frames per second at its end.
    pub to_pps: f64,
    /// How long it lasts.
    pub duration_ns: u64,
}

/// Frames in bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Frames in a burst.
    pub frames: u32,
    /// From the start of one burst to the start of the next.
    pub period_ns: u64,
}

/// Frames in bursts whose frames follow each other at a rate. The stream's `frames` says how many bursts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultiBurst {
    /// Frames in a burst.
    pub frames: u32,
    /// Frames per second within a burst.
    pub pps: f64,
    /// From the last frame of a burst to the first of the next, above 0.
    pub gap_ns: u64,
}

/// Frames in bursts, at a mean rate. Refused where the period, in whole nanoseconds, would miss the rate by more than
/// 0.1 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstsAt {
    /// Frames in a burst.
    pub frames: u32,
    /// Frames per second in the mean.
    pub pps: f64,
}

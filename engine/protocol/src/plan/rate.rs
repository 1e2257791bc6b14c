//! Rate of a stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rate of a stream.
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
    /// Share of the link's speed, with preamble and gap.
    Percent(Percent),
    /// A rate over time: consecutive stretches. After the last one, the stream continues at its `to_pps`.
    Profile(Vec<Stretch>),
    /// Bursts at a constant period, each as fast as the port takes frames (RFC 2544 section 21).
    Bursts(Bursts),
    /// Bursts at a mean rate.
    BurstsAt(BurstsAt),
    /// Bursts with a rate within the burst and a pause between bursts.
    MultiBurst(MultiBurst),
}

/// A share of the link's speed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Percent {
    /// Percentage of the speed, above 0; 100 fills the link.
    pub percent: f64,
    /// Speed of the link in bit/s; absent: as the card reports it. Refused where neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_bps: Option<f64>,
}

/// A period of linearly changing rate. The rate is constant if start and end are equal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// Frames per second at its start; 0 at both ends is a pause.
    pub from_pps: f64,
    /// Frames per second at its end.
    pub to_pps: f64,
    /// Duration of the stretch.
    pub duration_ns: u64,
}

/// Frames in bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Frames in a burst.
    pub frames: u32,
    /// Time from the start of one burst to the start of the next.
    pub period_ns: u64,
}

/// Bursts whose frames follow each other at a given rate. The stream's `frames` is the number of bursts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultiBurst {
    /// Frames in a burst.
    pub frames: u32,
    /// Frames per second within a burst.
    pub pps: f64,
    /// Time from the last frame of a burst to the first frame of the next, above 0.
    pub gap_ns: u64,
}

/// Frames in bursts, at a mean rate. Refused where the period, in whole nanoseconds, would miss the rate by more than
/// 0.1 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstsAt {
    /// Frames in a burst.
    pub frames: u32,
    /// Mean rate in frames per second.
    pub pps: f64,
}

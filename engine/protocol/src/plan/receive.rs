//! What a port receives.

use super::default::is_zero;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a port receives in one trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivePlan {
    /// The streams that are accounted for; probes of others are foreign.
    pub streams: Vec<u16>,
    /// The number that probes of this trial carry; those with another one are stale.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trial: u16,
    /// UDP ports on which the receiving host's own stack shall take our frames silently, so that it does not answer
    /// them with ICMP "port unreachable". Needed where frames are addressed to the host itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absorb_udp_ports: Vec<u16>,
    /// Checksums are taken on trust: `corrupted` stays 0, and the `xdp` back end takes half as many frames again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// What the send times in the probes are read by.
    #[serde(default, skip_serializing_if = "SenderClock::is_same")]
    pub sender_clock: SenderClock,
    /// A stream of `streams` whose addresses and ports are kept as its frames arrive, in their order, so that a later plan of the port can
    /// answer them (`learned` of a stream). Not with `xdp`, which hands no frames over. They are kept under the name of the port, also
    /// while it is closed, until others are learned there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learn: Option<u16>,
    /// The same of single streams, where several hosts send to the port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sender_clocks: Vec<StreamClock>,
}

impl ReceivePlan {
    /// What the send times of a stream are read by.
    #[must_use]
    pub fn clock_of(&self, stream: u16) -> SenderClock {
        self.sender_clocks.iter().find(|of| of.stream == stream).map_or(self.sender_clock, |of| of.clock)
    }
}

/// The clock of one stream's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamClock {
    /// The stream.
    pub stream: u16,
    /// How its sender's clock is to the receiver's.
    pub clock: SenderClock,
}

/// How a sender's `CLOCK_MONOTONIC` is to the receiver's. Unless it is the same, no probe is stale by its send
/// time, but by the number of its trial alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderClock {
    /// It is the same: both run on one kernel.
    #[default]
    Same,
    /// Nobody knows: latencies mean nothing but by their differences.
    Unknown,
    /// It shows so much more than the receiver's; latencies are as true as this number.
    AheadNs(i64),
}

impl SenderClock {
    /// Whether it is the receiver's own.
    #[must_use]
    pub fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

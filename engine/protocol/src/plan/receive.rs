//! Receive plan of a port.

use super::default::is_zero;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Receive plan of a port for one trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivePlan {
    /// The streams that are accounted for; probes of others are foreign.
    pub streams: Vec<u16>,
    /// Number in the probes of this trial; probes with another number are stale.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trial: u16,
    /// UDP ports on which the receiving host's own stack silently takes our frames, so that it does not answer them
    /// with ICMP "port unreachable". Needed where frames are addressed to the host itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absorb_udp_ports: Vec<u16>,
    /// Do not verify checksums: `corrupted` stays 0, and the `xdp` back end takes 1.5 times as many frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// Clock of the send times in the probes.
    #[serde(default, skip_serializing_if = "SenderClock::is_same")]
    pub sender_clock: SenderClock,
    /// A stream of `streams` whose addresses and ports are kept in order of arrival, so that a later plan of the port
    /// can answer its frames (`learned` of a stream). Not with `xdp`, which delivers no frames. They are kept under the
    /// name of the port, also while it is closed, until others are learned there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learn: Option<u16>,
    /// Clocks of single streams, where several hosts send to the port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sender_clocks: Vec<StreamClock>,
}

impl ReceivePlan {
    /// Returns the clock of the send times of a stream.
    #[must_use]
    pub fn clock_of(&self, stream: u16) -> SenderClock {
        self.sender_clocks.iter().find(|of| of.stream == stream).map_or(self.sender_clock, |of| of.clock)
    }
}

/// Clock of one stream's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamClock {
    /// The stream.
    pub stream: u16,
    /// Relation of the sender's clock to the receiver's.
    pub clock: SenderClock,
}

/// Relation of a sender's `CLOCK_MONOTONIC` to the receiver's. Unless they are the same clock, only the number of its
/// trial makes a probe stale, not its send time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderClock {
    /// Same clock: both run on one kernel.
    #[default]
    Same,
    /// Unknown relation: only the differences of latencies mean something.
    Unknown,
    /// The sender's clock is this far ahead of the receiver's. Latencies are as accurate as this number.
    AheadNs(i64),
}

impl SenderClock {
    /// Returns true if it is the receiver's own clock.
    #[must_use]
    pub fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

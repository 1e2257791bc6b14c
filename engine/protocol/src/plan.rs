//! Plan of a trial: frames to send and to receive.

mod chain;
mod default;
mod flows;
mod rate;
mod raw;
mod receive;
mod replay;
mod sizes;
mod vary;

pub use chain::{Chain, ChainStep};
pub use flows::Flows;
pub use rate::{Bursts, BurstsAt, MultiBurst, Percent, Rate, Stretch};
pub use raw::{RawFrame, RawStream};
pub use receive::{ReceivePlan, SenderClock, StreamClock};
pub use replay::{Replay, ReplayTiming};
pub use sizes::{Genome, Sizes, Swept, WeightedSize};
pub use vary::{Bits, FieldValue, RandomValues, StepValues, Values, VariedField, Vary};

use default::is_zero;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Send plan of a port for one trial: `streams`, `raw_streams` or both; or `replay` alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendPlan {
    /// Number in the probes of this trial, the same as at the receiver. It tells them from the probes of any other
    /// sender, whatever its clock. Each trial should have another number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trial: u16,
    /// The streams, each with its own rate. Their numbers differ.
    #[serde(default)]
    pub streams: Vec<Stream>,
    /// Streams of frames that are given byte by byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw_streams: Vec<RawStream>,
    /// Chains of streams: each stream begins when the previous one has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// Frames of a capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Duration of sending; absent: sending ends when each stream has sent its `frames`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// Keep sending while the link has no carrier: frames that fall due meanwhile are refused, and the others leave
    /// when they are due. For a load during which the device at the other end is reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub through_link_loss: bool,
}

/// A sequence of numbered frames that the receiver accounts for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Stream number in every probe. One receiver must not see two streams with the same number.
    pub stream: u16,
    /// Source MAC; absent: the port's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_mac: Option<String>,
    /// Destination MAC, as in `02:00:00:00:00:01`: the DUT's port, or the sink's where nothing routes between.
    pub destination_mac: String,
    /// Tags, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
    /// Source address, IPv4 or IPv6.
    pub source: IpAddr,
    /// Destination address, of the same kind.
    pub destination: IpAddr,
    /// Reverse the direction: each frame answers a frame of the stream that these addresses and ports describe, so
    /// source and destination are swapped. Not for ICMP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers: bool,
    /// Answer learned frames: frame n answers the n-th of the frames that this port learned, repeatedly. It goes to the
    /// address and port that this frame had as its source on arrival. Addresses and ports of the stream have the same
    /// version of IP and are not used. UDP only; not with `answers`, `flows` or `vary`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub learned: bool,
    /// Transport header in front of the probe.
    #[serde(default)]
    pub transport: Transport,
    /// Headers between the IPv6 header and the transport, at most 4, in this order; IPv4 has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_headers: Vec<ExtensionHeader>,
    /// Source port (ICMP echo: the identifier).
    pub source_port: u16,
    /// Destination port (unused by ICMP echo).
    pub destination_port: u16,
    /// Time to live, or hop limit.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// Flows of the stream; absent: one flow, with the addresses and ports above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// Fields that vary from frame to frame, each by its own rule. No two may have a bit in common.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Vary>,
    /// Frame sizes.
    pub sizes: Sizes,
    /// Rate of the stream.
    pub rate: Rate,
    /// The stream ends after this many frames; absent: only the plan's `duration_ns` ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
}

const fn default_ttl() -> u8 {
    64
}

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// VLAN identifier, 0 to 4095.
    pub id: u16,
    /// Priority, 0 to 7.
    #[serde(default)]
    pub priority: u8,
    /// Tag protocol identifier; absent: 0x8100, and 0x88a8 for the outer of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpid: Option<u16>,
}

/// The header in front of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Transport {
    /// UDP datagrams.
    #[default]
    Udp,
    /// TCP segments with ACK set. Each flow's sequence number goes up by its payload; in a mix of sizes by the longest.
    Tcp,
    /// TCP connection requests, each with another initial sequence number. The probe is their payload.
    TcpSyn,
    /// ICMP or `ICMPv6` echo requests. Each flow is an identifier, whose sequence number counts its frames.
    IcmpEcho,
}

/// An IPv6 extension header that has no effect on the way, of the length that RFC 5180 section 5.3 gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExtensionHeader {
    /// Hop-by-hop options, which each router on the way examines: 8 bytes of padding. First in its chain.
    HopByHop,
    /// A routing header of type 2, 24 bytes, with no segments left.
    Routing,
    /// A fragment header, 8 bytes; the packet is whole.
    Fragment,
    /// Destination options, which the destination examines: 8 bytes of padding.
    DestinationOptions,
}

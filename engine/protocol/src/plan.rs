//! What is to be sent and received.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What a port sends in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendPlan {
    /// The streams, each with its own rate. Their numbers differ.
    pub streams: Vec<Stream>,
    /// Sending ends after this time; absent: only `frames` of each stream end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
}

/// A sequence of numbered frames that the receiver accounts for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its number in every probe. One receiver must not see two streams of the same number.
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
    /// What the probe travels in.
    #[serde(default)]
    pub transport: Transport,
    /// Source port (ICMP echo: the identifier).
    pub source_port: u16,
    /// Destination port (unused by ICMP echo).
    pub destination_port: u16,
    /// Time to live, or hop limit.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// How many flows, and which; absent: one, of the addresses and ports above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// Frame sizes.
    pub sizes: Sizes,
    /// How fast.
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
pub enum Transport {
    /// UDP datagrams.
    #[default]
    Udp,
    /// TCP segments with ACK set.
    Tcp,
    /// TCP connection requests.
    TcpSyn,
    /// ICMP or `ICMPv6` echo requests.
    IcmpEcho,
}

/// Many flows in one stream, the same set in every trial with the same plan. Frame n belongs to flow n mod `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// How many flows.
    pub count: u32,
    /// Source addresses, from the stream's `source` upwards.
    #[serde(default = "one")]
    pub source_addresses: u32,
    /// Destination addresses, from the stream's `destination` upwards.
    #[serde(default = "one")]
    pub destination_addresses: u32,
    /// Source ports, from `source_port` upwards.
    #[serde(default = "one")]
    pub source_ports: u32,
    /// Destination ports, from `destination_port` upwards.
    #[serde(default = "one")]
    pub destination_ports: u32,
    /// Present: members are drawn pseudo-randomly from the ranges (RFC 4814 section 4); absent: counted through, source
    /// port fastest, then destination port, source address, destination address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

const fn one() -> u32 {
    1
}

/// Frame sizes, in bytes with FCS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// All the same.
    FixedBytes(u32),
    /// Mixed by weight, interleaved as evenly as whole frames allow, the same way in every trial.
    Weighted(Vec<WeightedSize>),
    /// Sent in this order, over and over.
    SequenceBytes(Vec<u32>),
}

/// One size of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedSize {
    /// Bytes with FCS.
    pub bytes: u32,
    /// How many of these in one round of the mix.
    pub weight: u32,
}

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
    /// One constant rate after another; the last goes on.
    Steps(Vec<Step>),
    /// Linear change, then constant at `to_pps`.
    Ramp(Ramp),
    /// Bursts as fast as the port takes them, at a constant distance (RFC 2544 section 21).
    Bursts(Bursts),
}

/// A constant rate for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Frames per second; 0 is a pause.
    pub pps: f64,
    /// How long.
    pub duration_ns: u64,
}

/// A linear change of rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// Frames per second at the start.
    pub from_pps: f64,
    /// Frames per second at the end, and from then on.
    pub to_pps: f64,
    /// How long the change takes.
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

/// What a port receives in one trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivePlan {
    /// The streams that are accounted for; probes of others are foreign.
    pub streams: Vec<u16>,
    /// UDP ports on which the receiving host's own stack shall take our frames silently, so that it does not answer
    /// them with ICMP "port unreachable". Needed where frames are addressed to the host itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absorb_udp_ports: Vec<u16>,
    /// Checksums are taken on trust: `corrupted` stays 0, and the `xdp` back end takes half as many frames again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

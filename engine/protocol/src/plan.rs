//! What is to be sent and received.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a port sends in one trial: `streams`, `raw_streams` or both; or `replay` alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendPlan {
    /// The number that probes of this trial carry, the same as at the receiver: it tells them from those of any other
    /// sender, whatever its clock. Each trial should have another.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trial: u16,
    /// The streams, each with its own rate. Their numbers differ.
    #[serde(default)]
    pub streams: Vec<Stream>,
    /// Streams of frames that are given byte by byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw_streams: Vec<RawStream>,
    /// Streams of which each begins when the one before it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// Frames of a capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Sending ends after this time; absent: only `frames` of each stream end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// A link without a carrier does not end sending: frames that fall due meanwhile are refused, and the others leave when they
    /// are due. For a load during which the device at the other end is reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub through_link_loss: bool,
}

/// Frames of a capture (pcap, of Ethernet). Without `probe` they are sent as they are, and no receiver accounts for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The file, on the agent's host.
    pub path: String,
    /// The number under which the frames are counted.
    #[serde(default)]
    pub stream: u16,
    /// When they are due.
    #[serde(default)]
    pub timing: ReplayTiming,
    /// How often the capture is sent, one round after another.
    #[serde(default = "one_round")]
    pub rounds: u32,
    /// The probe is written over the start of each payload of UDP, TCP or ICMP that has room for it, and the checksum made right, so
    /// that a receiver accounts for these frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub probe: bool,
    /// With `probe`: the number of the frames that have no room for it. They are sent as they are. Absent: a capture with such frames
    /// is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprobed_stream: Option<u16>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(number: &u16) -> bool {
    *number == 0
}

const fn one_round() -> u32 {
    1
}

/// When the frames of a capture are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayTiming {
    /// As they were captured, this many times as fast: 2 is twice as fast, 0.5 half as fast.
    Speed(f64),
    /// `true`: as fast as possible.
    Max(bool),
}

impl Default for ReplayTiming {
    fn default() -> Self {
        Self::Speed(1.0)
    }
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
    /// The frames go the other way: each is the answer to a frame of the stream that these addresses and ports describe,
    /// which change places in it. Not for ICMP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers: bool,
    /// What the probe travels in.
    #[serde(default)]
    pub transport: Transport,
    /// Headers between that of IPv6 and the transport, at most 4 in this order; IPv4 has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_headers: Vec<ExtensionHeader>,
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
    /// Fields that vary from frame to frame, each by a rule of its own. No two may have a bit in common.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Vary>,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_no_time(ns: &u64) -> bool {
    *ns == 0
}

/// A field whose value is another in each frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// Which field.
    pub field: VariedField,
    /// Its values.
    pub values: Values,
    /// The place in the values, counted from 0, that frame 0 has.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub phase: u64,
    /// So many frames have one value before the next follows.
    #[serde(default = "one_frame", skip_serializing_if = "is_one_frame")]
    pub every: u64,
}

const fn one_frame() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_one_frame(n: &u64) -> bool {
    *n == 1
}

/// A field of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariedField {
    /// Source MAC.
    SourceMac,
    /// Destination MAC.
    DestinationMac,
    /// VLAN identifier of the outermost tag.
    VlanId,
    /// Priority of the outermost tag.
    VlanPriority,
    /// VLAN identifier of the inner of two tags.
    InnerVlanId,
    /// Priority of the inner of two tags.
    InnerVlanPriority,
    /// Source address, IPv4 or IPv6.
    SourceAddress,
    /// Destination address. The guard looks at all of its values.
    DestinationAddress,
    /// Differentiated services code point (RFC 2474), 6 bits.
    Dscp,
    /// Time to live, or hop limit.
    Ttl,
    /// Identification of IPv4.
    Identification,
    /// Flow label of IPv6, 20 bits.
    FlowLabel,
    /// Source port (ICMP echo: the identifier).
    SourcePort,
    /// Destination port.
    DestinationPort,
    /// Bits at a place in the frame. Those that say where headers and probe are, checksums and the probe are refused.
    Bits(Bits),
}

/// Some bits of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bits {
    /// The byte with the first of them, counted from the destination MAC.
    pub byte: u16,
    /// Bits of this byte in front of the first, from the most significant one.
    #[serde(default)]
    pub bit: u8,
    /// How many, 1 to 64.
    pub width: u8,
}

/// Values of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// From one to another in equal steps, then again from the first; downwards where `from` is above `to`.
    Step(StepValues),
    /// Pseudo-random, with repetitions; the same in every trial.
    Random(RandomValues),
    /// These in this order, over and over.
    List(Vec<FieldValue>),
}

/// Values in equal steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepValues {
    /// The first.
    pub from: FieldValue,
    /// The last, if a step meets it.
    pub to: FieldValue,
    /// From one to the next, at least 1.
    #[serde(default = "one_frame")]
    pub by: u64,
}

/// Pseudo-random values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomValues {
    /// The lowest.
    pub from: FieldValue,
    /// The highest.
    pub to: FieldValue,
    /// Which values they are.
    #[serde(default)]
    pub seed: u64,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// An address, a MAC, or a number as in `0x1f`.
    Text(String),
}

/// A stream whose frames are given byte by byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawStream {
    /// Its number in every probe.
    pub stream: u16,
    /// The frames, sent in this order, over and over.
    pub templates: Vec<RawFrame>,
    /// How fast.
    pub rate: Rate,
    /// The stream ends after this many frames; absent: only the plan's `duration_ns` ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
}

/// A frame without FCS. The probe is written over 18 of its bytes. Where it is IPv4 or IPv6 with UDP, TCP or ICMP in
/// front of the probe, the checksums of these headers are made right; of headers inside of them, none is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawFrame {
    /// The bytes from destination MAC on, in hexadecimal; blanks and colons are ignored.
    pub hex: String,
    /// Where the probe is: an even number of bytes from the start. Receivers look for it where the payload of UDP,
    /// TCP or ICMP begins.
    pub probe_at: u16,
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
    /// TCP segments with ACK set. Each flow's sequence number goes up by its payload; in a mix of sizes by the longest.
    Tcp,
    /// TCP connection requests, each with another initial sequence number. The probe is their payload.
    TcpSyn,
    /// ICMP or `ICMPv6` echo requests. Each flow is an identifier, whose sequence number counts its frames.
    IcmpEcho,
}

/// An IPv6 extension header that means nothing to anybody on the way, as long as RFC 5180 section 5.3 has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExtensionHeader {
    /// Options that each router on the way looks at: 8 bytes of padding. First in its chain.
    HopByHop,
    /// A routing header of type 2, 24 bytes, with no segments left.
    Routing,
    /// A fragment header, 8 bytes; the packet is whole.
    Fragment,
    /// Options that the destination looks at: 8 bytes of padding.
    DestinationOptions,
}

/// Many flows in one stream, the same set in every trial with the same plan. Frame n belongs to flow n mod `count`: as
/// long as `frames` is not above `count`, every frame is a new flow.
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
    /// Length of the prefix that each source address stands for: each is in the prefix after that of the one before. 24:
    /// one in each /24. Absent: each address is the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_prefix_length: Option<u8>,
    /// The same of destination addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_prefix_length: Option<u8>,
    /// Source ports, from `source_port` upwards.
    #[serde(default = "one")]
    pub source_ports: u32,
    /// Destination ports, from `destination_port` upwards.
    #[serde(default = "one")]
    pub destination_ports: u32,
    /// Source MACs; more than one: of the pattern of RFC 4814 section 4.2 instead of the stream's own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub source_macs: u32,
    /// Destination MACs, likewise. Only what is not addressed to a router can have more than one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub destination_macs: u32,
    /// Numbers of the tester's sending and receiving port, counted from 1, which are in these MACs.
    #[serde(default = "tester_ports", skip_serializing_if = "is_tester_ports")]
    pub mac_ports: (u16, u16),
    /// Present: members are drawn pseudo-randomly from the ranges (RFC 4814 section 4); absent: counted through, source
    /// port fastest, then destination port, source address, destination address, source MAC, destination MAC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Default for Flows {
    /// One flow.
    fn default() -> Self {
        Self {
            count: 1,
            source_addresses: 1,
            destination_addresses: 1,
            source_prefix_length: None,
            destination_prefix_length: None,
            source_ports: 1,
            destination_ports: 1,
            source_macs: 1,
            destination_macs: 1,
            mac_ports: tester_ports(),
            seed: None,
        }
    }
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_one(n: &u32) -> bool {
    *n == 1
}

const fn tester_ports() -> (u16, u16) {
    (1, 2)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_tester_ports(ports: &(u16, u16)) -> bool {
    ports.0 == 1 && ports.1 == 2
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
    /// One frame of each size from the first to the last, over and over.
    SweptBytes(Swept),
    /// A mix with a name, as in `imix`. An unknown name is refused with the known ones.
    Mix(String),
    /// An IMIX genome (RFC 6985).
    Genome(Genome),
}

/// Sizes at a constant distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Swept {
    /// The first size.
    pub from: u32,
    /// The last size, if a step meets it.
    pub to: u32,
    /// From one size to the next.
    pub step: u32,
}

/// A sequence of sizes as letters (RFC 6985): a=64 b=128 c=256 d=512 e=1024 f=1280 g=1518 h=2112 i=9000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Genome {
    /// As in `aaafg`; a number repeats the letter behind it, as in `40a20fg`.
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

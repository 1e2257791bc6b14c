//! What became of the frames of a trial.

use crate::fault::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Whether to leave a word out that says nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
pub(crate) const fn is_false(b: &bool) -> bool {
    !*b
}

/// Reply to `wait`: what a port sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// The port.
    pub port: String,
    /// Why sending ended.
    pub ended: Ended,
    /// Present when `ended` is `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<Fault>,
    /// What the user should know: a slower back end that had to send this plan, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Who read the clock for the send time in each frame; absent where nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_by: Option<TimedBy>,
    /// Present when the port's link went down while it was in the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_lost: Option<LinkLost>,
    /// Each stream's share.
    pub streams: Vec<SentStream>,
}

/// A link that went down: what was lost meanwhile says nothing of a DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkLost {
    /// How often it lost its carrier; at least once if it had none when the trial began.
    pub times: u32,
    /// The port itself was set down on this host. False: it was up, and nobody knows whose end or what cable it was.
    pub set_down: bool,
}

/// Who read the clock for a frame's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimedBy {
    /// The network card, by its own clock, which is brought to the host's.
    Card,
    /// The host's kernel: its stack, or a program in it.
    Kernel,
    /// The engine: before it hands a frame over, or as it takes one.
    Engine,
}

/// Frames of a port by who read the clock as they arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrivalTimes {
    /// The network card.
    pub card: u64,
    /// The host's kernel.
    pub kernel: u64,
    /// The engine, as it took the frame.
    pub engine: u64,
    /// The card's times are true to within this by the host's clock; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_error_ns: Option<u64>,
}

/// Why sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All frames asked for, or the duration.
    Finished,
    /// `stop` came first.
    Stopped,
    /// The port failed.
    Failed,
}

/// What was sent of a stream. `intended` = `sent` + `refused`, always.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentStream {
    /// The stream.
    pub stream: u16,
    /// Frames that were due until the end of sending (RFC 2285: intended load); at the maximum rate, those that were tried.
    pub intended: u64,
    /// Frames that the kernel took; numbered from 0 without a gap, unless `numbered` says otherwise.
    pub sent: u64,
    /// Below this are all sequence numbers that were used; absent: below `sent`. Present where a refused frame uses up its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbered: Option<u64>,
    /// Several CPUs wrote the numbers of this stream at the same time, so its frames have no order. Tell `settle`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unordered: bool,
    /// Frames that the kernel or card refused, or that were due and could not be sent in time.
    pub refused: u64,
    /// Of these, frames that the generator could have sent and that were not taken: a veth's peer had no room in its ring, a
    /// card none in its queue, because what comes behind it is slower. The rest of `refused` was not made in time.
    /// Absent: the kernel does not report what a driver refused; such frames are among `sent`, and will seem lost on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backpressure: Option<u64>,
    /// Bytes sent, with FCS. Where a driver refused frames of a mix, nobody knows which: theirs are taken off at the mean.
    pub sent_bytes: u64,
    /// Send time of the first frame; absent when none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_monotonic_ns: Option<u64>,
    /// Send time of the last frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_monotonic_ns: Option<u64>,
    /// Time over which the stream was sent: the plan's duration, or from first to last frame plus one mean gap.
    pub seconds: f64,
    /// `sent` / `seconds`.
    pub achieved_pps: f64,
    /// The same in bits per second with preamble and gap.
    pub achieved_bps_l1: f64,
    /// The same in bits per second of frames with FCS.
    pub achieved_bps_l2: f64,
    /// The most that a frame was sent after it was due; 0 at the maximum rate.
    pub late_max_ns: u64,
    /// Time from each frame to the next, as it was sent; absent where the back end does not keep it, or fewer than two
    /// frames left. Frames that left in one call share a send time, so the gaps between them are 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
}

/// Gaps between the send times of consecutive frames of a stream: what was sent, as it was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gaps {
    /// Gaps measured: one fewer than frames.
    pub count: u64,
    /// Least.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Greatest.
    pub max_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// The whole histogram: `[upper end of the bucket in ns, gaps in it]`, empty ones left out, rising. Buckets are at
    /// most 1/128 of their value wide.
    pub histogram: Vec<(u64, u64)>,
}

/// Reply to `settle`: what a port received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// The port.
    pub port: String,
    /// Each stream's share.
    pub streams: Vec<ReceivedStream>,
    /// Frames without our probe, or with one of a stream that is not in the plan.
    pub foreign: u64,
    /// Probes sent before this trial began.
    pub stale: u64,
    /// Frames that reached the host and were dropped there for want of room, before they could be counted. They are
    /// among `lost`, but it was not the DUT that lost them. Absent: nobody knows; then any loss may be the receiver's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_dropped: Option<u64>,
    /// Who read the clock as frames arrived; absent where the back end keeps no count, or none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_by: Option<ArrivalTimes>,
    /// Present when the port's link went down while it was in the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_lost: Option<LinkLost>,
    /// Present when the port failed during the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<Fault>,
}

/// What was received of a stream. `sent` + `duplicated` = `received` + `lost`, or `balances` is false.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivedStream {
    /// The stream.
    pub stream: u16,
    /// Frames that were sent, as `settle` said.
    pub sent: u64,
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Bytes that arrived, with FCS.
    pub received_bytes: u64,
    /// Frames that never arrived.
    pub lost: u64,
    /// Arrivals of a frame that had arrived before.
    pub duplicated: u64,
    /// Arrivals after a frame with a higher number (RFC 4737 section 3: Type-P-Reordered). Null: not known, because the frames came on
    /// several receive queues, whose frames change places inside of the receiving host, or because several CPUs sent them.
    pub reordered: Option<u64>,
    /// Arrivals after a frame with a higher number that had come on the same receive queue, or of the same flow where the back end is
    /// not told the queue. So many were reordered before they came here. The same as `reordered` where that is known.
    pub reordered_at_least: u64,
    /// The largest reordering extent (RFC 4737 section 4.2.1) that is known: frames between the first later one and this one. Null with `reordered`.
    pub reorder_extent_max: Option<u64>,
    /// Reordered frames in all first arrivals (RFC 4737 section 4.1), from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered_ratio: Option<f64>,
    /// Reordered frames whose extent is not known, because more gaps opened since theirs than the back end remembers (`xdp`: 64).
    /// The extents of the others are exact; above 0, the largest of all may be larger than `reorder_extent_max`.
    #[serde(default)]
    pub reorder_extents_unknown: u64,
    /// Mean of the reordering extents that are known; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_extent_mean: Option<f64>,
    /// Frames that are 3-reordered (RFC 4737 section 5): TCP would take them for lost. Absent where the back end does
    /// not keep it, or `reordered` is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered_by_three: Option<u64>,
    /// Frames that arrived after `settle` was asked, within its drain: the residual frames of RFC 2544 section 23.
    /// They are among `received`. What comes later than that is `lost`: the drain is the waiting time of RFC 7680.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// One above the highest number that arrived; absent where the back end does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_sequence: Option<u64>,
    /// Arrivals more than 131,040 numbers behind the highest: nobody knows whether they came twice. They count as duplicates, so
    /// that no loss is hidden; 0 means every count is exact.
    pub guessed: u64,
    /// Frames of this stream whose checksum is wrong; they are not among `received`.
    pub corrupted: u64,
    /// Whether the frames are conserved, and nothing arrived that was not sent: no number at or above `numbered`, and no more
    /// different frames than `sent`.
    pub balances: bool,
    /// Arrival of the first frame; absent when none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_monotonic_ns: Option<u64>,
    /// Arrival of the last frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_monotonic_ns: Option<u64>,
    /// One-way latency of the frames that arrived, duplicates left out; absent when none came. True only where sender
    /// and receiver share a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The different senders of the first 1024 frames, as the receiver saw them: 16 at most. Shows translation.
    pub sources: Vec<Source>,
    /// What was learned of the frames; present where `learn` asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
}

/// Addresses and ports that a port keeps of the frames of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Learned {
    /// Frames whose addresses and ports are kept, duplicates left out.
    pub frames: u64,
    /// How many of these differ from one another.
    pub different: u64,
}

/// One-way latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Frames measured.
    pub count: u64,
    /// Frames whose latency came out negative: the clocks differ. They are not in the figures below.
    pub negative: u64,
    /// Least.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Greatest.
    pub max_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Packet delay variation (RFC 5481 section 4.2): 99th percentile less the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdv_p99_ns: Option<u64>,
    /// The same for the 99.9th percentile, which ITU-T Y.1540 and Y.1541 use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdv_p999_ns: Option<u64>,
    /// Inter-packet delay variation (RFC 5481 section 4.1); absent where the back end does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipdv: Option<Ipdv>,
    /// The whole histogram: `[upper end of the bucket in ns, frames in it]`, empty ones left out, rising. Buckets are
    /// at most 1/1000 of their value wide.
    pub histogram: Vec<(u64, u64)>,
}

/// Absolute difference between the latencies of frame i - 1 and frame i, in the order of sending. Pairs of which one frame
/// was lost or reordered have no value. The clocks' difference falls out: true between machines too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ipdv {
    /// Pairs measured.
    pub count: u64,
    /// Median; absent where the back end keeps no distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99th percentile; absent where the back end keeps no distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Greatest.
    pub max_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
}

/// Where a frame claimed to come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Source address.
    pub address: IpAddr,
    /// Source port (ICMP echo: the identifier).
    pub port: u16,
}

//! Counters at the end of a trial.

use crate::fault::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Returns true for a flag that the message leaves out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
pub(crate) const fn is_false(b: &bool) -> bool {
    !*b
}

/// Reply to `wait`: frames that a port sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// The port.
    pub port: String,
    /// Reason why sending ended.
    pub ended: Ended,
    /// Present when `ended` is `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<Fault>,
    /// Notes for the user, such as the reason why a slower back end had to send this plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Source of the send time in each frame; absent where frames have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_by: Option<TimedBy>,
    /// Present when the port's link went down while it was in the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_lost: Option<LinkLost>,
    /// Counters of each stream.
    pub streams: Vec<SentStream>,
}

/// Loss of a port's link. Frames that were lost meanwhile say nothing about a DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkLost {
    /// Number of carrier losses; at least 1 if the link had no carrier when the trial began.
    pub times: u32,
    /// The port itself was set down on this host. False: it was up, and it is unknown which end or cable failed.
    pub set_down: bool,
}

/// Source of a frame's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimedBy {
    /// The network card, by its own clock, converted to the host's.
    Card,
    /// The host's kernel: its stack, or a program in it.
    Kernel,
    /// The engine: before it hands a frame over, or as it takes one.
    Engine,
}

/// Frames of a port, by the source of their arrival times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrivalTimes {
    /// The network card.
    pub card: u64,
    /// The host's kernel.
    pub kernel: u64,
    /// The engine, as it took the frame.
    pub engine: u64,
    /// Error bound of the card's times by the host's clock; absent without such times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_error_ns: Option<u64>,
}

/// Reason why sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All frames were sent, or the duration is over.
    Finished,
    /// `stop` came first.
    Stopped,
    /// The port failed.
    Failed,
}

/// Frames of a stream that were sent. `intended` = `sent` + `refused`, always.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentStream {
    /// The stream.
    pub stream: u16,
    /// Frames that were due until the end of sending (RFC 2285: intended load); at the maximum rate, those that were
    /// tried.
    pub intended: u64,
    /// Frames that the kernel took; numbered from 0 without a gap, unless `numbered` says otherwise.
    pub sent: u64,
    /// Exclusive upper bound of the sequence numbers used; absent: `sent`. Present if a refused frame uses up its
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbered: Option<u64>,
    /// Several CPUs numbered the frames of this stream at the same time, so they have no order. Pass this on to
    /// `settle`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unordered: bool,
    /// Frames that the kernel or card refused, or that were due and could not be sent in time.
    pub refused: u64,
    /// Refused frames that the generator could have sent and that were not taken. A veth's peer had no room in its
    /// ring, or a card had none in its queue, because the next device is slower. The rest of `refused` was not made in
    /// time. Absent: the kernel does not report frames that a driver refused; they are among `sent`, and will seem lost
    /// on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backpressure: Option<u64>,
    /// Bytes sent, with FCS. Where a driver refused frames of a mix, their sizes are unknown; they are subtracted at
    /// the mean size.
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
    /// Achieved rate in bits per second with preamble and gap.
    pub achieved_bps_l1: f64,
    /// Achieved rate in bits per second of frames with FCS.
    pub achieved_bps_l2: f64,
    /// Longest delay of a frame after it was due; 0 at the maximum rate.
    pub late_max_ns: u64,
    /// Gaps between consecutive send times; absent where the back end does not keep them, or fewer than two frames
    /// left. Frames that left in one call share a send time, so the gaps between them are 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
}

/// Gaps between the send times of consecutive frames of a stream.
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
    /// Histogram: `[upper end of the bucket in ns, gaps in it]`, ascending, without empty buckets. Buckets are at most
    /// 1/128 of their value wide.
    pub histogram: Vec<(u64, u64)>,
}

/// Reply to `settle`: frames that a port received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// The port.
    pub port: String,
    /// Counters of each stream.
    pub streams: Vec<ReceivedStream>,
    /// Frames without our probe, or with one of a stream that is not in the plan.
    pub foreign: u64,
    /// Probes sent before this trial began.
    pub stale: u64,
    /// Frames that reached the host and were dropped there for lack of room before they could be counted. They are
    /// among `lost`, but the DUT did not lose them. Absent: unknown; any loss may then be the receiver's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_dropped: Option<u64>,
    /// Sources of the arrival times; absent where the back end keeps no count, or no frame came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_by: Option<ArrivalTimes>,
    /// Present when the port's link went down while it was in the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_lost: Option<LinkLost>,
    /// Present when the port failed during the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<Fault>,
}

/// Frames of a stream that were received. `sent` + `duplicated` = `received` + `lost`, or `balances` is false.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivedStream {
    /// The stream.
    pub stream: u16,
    /// Frames that were sent, as `settle` was given.
    pub sent: u64,
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Bytes that arrived, with FCS.
    pub received_bytes: u64,
    /// Frames that never arrived.
    pub lost: u64,
    /// Arrivals of a frame that had arrived before.
    pub duplicated: u64,
    /// Arrivals after a frame with a higher number (RFC 4737 section 3: Type-P-Reordered). Null: unknown, because the
    /// frames came on several receive queues, whose frames change places inside of the receiving host, or because
    /// several CPUs sent them.
    pub reordered: Option<u64>,
    /// Lower bound of `reordered`. It counts arrivals after a frame with a higher number on the same receive queue, or
    /// of the same flow where the back end does not know the queue. These were reordered before they reached the host.
    /// Equal to `reordered` where that is known.
    pub reordered_at_least: u64,
    /// Largest known reordering extent (RFC 4737 section 4.2.1): frames between the first later one and this one. Null
    /// with `reordered`.
    pub reorder_extent_max: Option<u64>,
    /// Share of reordered frames in all first arrivals (RFC 4737 section 4.1), from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered_ratio: Option<f64>,
    /// Reordered frames of unknown extent: more gaps opened since theirs than the back end remembers (`xdp`: 64). The
    /// extents of the others are exact. Above 0, the largest of all may be larger than `reorder_extent_max`.
    #[serde(default)]
    pub reorder_extents_unknown: u64,
    /// Mean of the known reordering extents; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_extent_mean: Option<f64>,
    /// Frames that are 3-reordered (RFC 4737 section 5): TCP would consider them lost. Absent where the back end does
    /// not count them, or `reordered` is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordered_by_three: Option<u64>,
    /// Frames that arrived after the request `settle`, within its drain: the residual frames of RFC 2544 section 23.
    /// They are among `received`. Later frames are `lost`: the drain is the waiting time of RFC 7680.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// One above the highest number that arrived; absent where the back end does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_sequence: Option<u64>,
    /// Arrivals more than 131,040 numbers behind the highest: it is unknown whether they are duplicates. They count as
    /// duplicates, so that no loss is hidden. 0 means that every count is exact.
    pub guessed: u64,
    /// Frames of this stream whose checksum is wrong; they are not among `received`.
    pub corrupted: u64,
    /// True if the frames are conserved and nothing arrived that was not sent. No number is at or above `numbered`, and
    /// there are no more different frames than `sent`.
    pub balances: bool,
    /// Arrival of the first frame; absent when none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_monotonic_ns: Option<u64>,
    /// Arrival of the last frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_monotonic_ns: Option<u64>,
    /// One-way latency of the frames that arrived, without duplicates; absent when none came. Valid only where sender
    /// and receiver share a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Source addresses and ports of the first 1024 frames, each once, as the receiver saw them: at most 16. They show
    /// translation.
    pub sources: Vec<Source>,
    /// Learned addresses and ports; present where `learn` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
}

/// Addresses and ports that a port keeps of the frames of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Learned {
    /// Frames whose addresses and ports are kept, duplicates left out.
    pub frames: u64,
    /// Number of different ones among these.
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
    /// Packet delay variation at the 99.9th percentile, which ITU-T Y.1540 and Y.1541 use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdv_p999_ns: Option<u64>,
    /// Inter-packet delay variation (RFC 5481 section 4.1); absent where the back end does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipdv: Option<Ipdv>,
    /// Histogram: `[upper end of the bucket in ns, frames in it]`, ascending, without empty buckets. Buckets are at
    /// most 1/1000 of their value wide.
    pub histogram: Vec<(u64, u64)>,
}

/// Absolute difference between the latencies of frame i - 1 and frame i, in the order of sending. Pairs of which one
/// frame was lost or reordered have no value. The clocks' difference cancels out, so this is valid between machines
/// too.
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

/// Source address and port of a frame as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Source address.
    pub address: IpAddr,
    /// Source port (ICMP echo: the identifier).
    pub port: u16,
}

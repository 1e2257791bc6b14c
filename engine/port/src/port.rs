//! Traits of the back ends.
//!
//! Halves are handed to threads of the agent, which return them when a trial ends. All instants are of
//! `CLOCK_MONOTONIC`; all lengths are without FCS unless a name says so.

use crate::batch::Fill;
use crate::error::PortError;
use crate::plan::{Pace, SendPlan};
use dutlab_units::Nanos;
use std::net::IpAddr;
use std::sync::Arc;

/// The sending half of a port.
pub enum Sender {
    /// Senders of bursts; the agent paces. At least one; each may be served by a separate thread.
    Burst(Vec<Box<dyn BurstSender>>),
    /// Sender of a whole plan; the back end paces.
    Plan(Box<dyn PlanSender>),
}

/// The receiving half of a port.
pub enum Receiver {
    /// Receivers of frames, one for each queue; the agent counts the frames. Each may have its own thread.
    Burst(Vec<Box<dyn BurstReceiver>>),
    /// Receiver that accounts for the frames itself.
    Counting(Box<dyn CountingReceiver>),
}

/// Result of a burst. The first `sent` filled frames left, the next `refused` were refused for good. Frames filled
/// after them were not tried, and their sequence numbers are free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handed {
    /// Frames that the kernel took.
    pub sent: usize,
    /// Frames that the kernel refused for good.
    pub refused: usize,
}

/// A frame that was handed over and did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsent {
    /// Number of frames that were handed over after it.
    pub ago: u64,
    /// Its length without FCS.
    pub length: u32,
}

/// Sends bursts of frames.
pub trait BurstSender: Send {
    /// Returns the largest number of frames for one call.
    fn burst_max(&self) -> usize;

    /// Makes `fill` write up to `want` frames, hands them over and returns the result. Does not wait for room: without
    /// room, nothing is sent.
    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError>;

    /// With `yes`, a link without a carrier is no longer an error: it just takes no frames.
    fn go_through_link_loss(&mut self, yes: bool) {
        let _ = yes;
    }

    /// Waits until the frames handed over have left, as long as there is progress and for at most a second.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Passes to `each`, once and oldest first, the frames that calls had counted as `sent` and that did not leave: the
    /// driver dropped them, or [`flush`](Self::flush) gave them up. Their numbers are used up.
    fn take_unsent(&mut self, each: &mut dyn FnMut(Unsent)) {
        let _ = each;
    }
}

/// A frame that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The frame without FCS, whole or truncated to what the back end keeps.
    pub bytes: &'a [u8],
    /// Its whole length without FCS.
    pub length: u32,
    /// Time of arrival.
    pub at: Nanos,
}

/// Sources of the times of arriving frames, with the number of frames of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamped {
    /// Frames with the card's time, by its own clock, converted to ours.
    pub card: u64,
    /// Frames with the kernel's time: of its stack, or of a program in it.
    pub kernel: u64,
    /// Frames with our time, read when the frame was taken.
    pub engine: u64,
    /// Error bound of the card's times by our clock.
    pub card_error: Nanos,
}

impl Stamped {
    /// Returns the sum of the counts of two queues.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            card: self.card + other.card,
            kernel: self.kernel + other.kernel,
            engine: self.engine + other.engine,
            card_error: self.card_error.max(other.card_error),
        }
    }

    /// Counts a frame.
    pub const fn enter(&mut self, by: By) {
        match by {
            By::Card => self.card += 1,
            By::Kernel => self.kernel += 1,
            By::Engine => self.engine += 1,
        }
    }
}

/// Source of a frame's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The card.
    Card,
    /// The kernel.
    Kernel,
    /// The engine.
    Engine,
}

/// Relation between the order in which a receiver gives frames and their order on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Frames are in the order of the link.
    #[default]
    Link,
    /// Frames of the queue with this number are in order; the times of two queues cannot be compared.
    Queue(u32),
    /// Frames of one flow are in order: a card puts them all into one queue.
    Flow,
    /// No relation: frames of several queues come in the order of polling.
    Nothing,
}

/// Receives frames of one queue, oldest first.
pub trait BurstReceiver: Send {
    /// Discards waiting frames and sets the drop counter to 0.
    fn begin(&mut self) -> Result<(), PortError>;

    /// Waits up to `wait` for frames, calls `take` for each that is there, and returns how many there were.
    fn receive(&mut self, wait: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> Result<usize, PortError>;

    /// Returns true if the kernel timestamps frames when they arrive. Otherwise a frame's time is the time at which we
    /// take it, so frames must be taken at once.
    fn stamps(&self) -> bool {
        true
    }

    /// Returns the order of its frames.
    fn order(&self) -> Order {
        Order::Link
    }

    /// Returns the sources of the times since [`begin`](Self::begin); zeroes if they are not counted.
    fn stamped(&self) -> Stamped {
        Stamped::default()
    }

    /// Returns the number of frames that arrived since [`begin`](Self::begin) and were dropped for lack of room.
    fn dropped(&mut self) -> Result<u64, PortError>;

    /// Returns true if frames are waiting anywhere that [`receive`](Self::receive) has not returned yet.
    fn holds_frames(&mut self) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Returns the number of frames since [`begin`](Self::begin) that carry no probe and were left to the host.
    fn passed(&mut self) -> Result<u64, PortError> {
        Ok(0)
    }
}

/// Sends a whole plan without the agent's help.
pub trait PlanSender: Send {
    /// Takes a plan and checks it; sends nothing yet. The control works from any thread, before, during and after
    /// [`run`](Self::run).
    fn load(&mut self, plan: &SendPlan) -> Result<Arc<dyn PlanControl>, PortError>;

    /// Sends on the calling thread, which is pinned already, until all is sent or the control stops it.
    fn run(&mut self) -> Result<(), PortError>;
}

/// Watches and steers a plan while it is sent.
pub trait PlanControl: Send + Sync {
    /// Ends sending soon.
    fn stop(&self);

    /// Changes the pace of the plan's stream number `index` from now on.
    fn set_pace(&self, index: usize, pace: &Pace) -> Result<(), PortError>;

    /// Returns the counters so far, in the order of the plan's streams. Final after `run` has returned.
    fn totals(&self) -> Vec<StreamTotals>;

    /// Returns the gaps between the frames of stream number `index`, if the back end keeps them.
    fn gaps(&self, index: usize) -> Option<Gaps> {
        let _ = index;
        None
    }
}

/// Send counters of a stream. `asked` = `sent` + `refused`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamTotals {
    /// Frames that were due by the end of sending; at the maximum rate, frames that were tried.
    pub asked: u64,
    /// Frames that left.
    pub sent: u64,
    /// Frames that were refused, or due and not sent in time.
    pub refused: u64,
    /// The part of `refused` that the device did not take: its queue was full, or, for veth, the peer's ring was full.
    /// If no other frames were refused, the sender was fast enough.
    pub backpressure: u64,
    /// True if refused frames cannot be detected: they are then counted in `sent`, and `backpressure` is 0.
    pub refusals_unknown: bool,
    /// Numbers used up by frames that left and by frames that were refused after they got one.
    pub numbered: u64,
    /// True if several CPUs numbered frames at the same time, so the stream has no order.
    pub unordered: bool,
    /// Bytes that left, with FCS.
    pub bytes: u64,
    /// Send time of the first frame; meaningless when `sent` is 0.
    pub first: Nanos,
    /// Send time of the last frame; meaningless when `sent` is 0.
    pub last: Nanos,
    /// Longest delay of a frame after it was due.
    pub late_max: Nanos,
}

/// Gaps between the send times of consecutive frames of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gaps {
    /// Smallest gap.
    pub min: Nanos,
    /// Largest gap.
    pub max: Nanos,
    /// Sum of all gaps, in nanoseconds.
    pub sum: u128,
    /// Upper end of each bucket in nanoseconds and the gaps in it, ascending, without empty buckets.
    pub buckets: Vec<(u64, u64)>,
}

/// Streams that a [`CountingReceiver`] counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// The streams; probes of others are foreign.
    pub streams: Vec<WatchedStream>,
    /// Number in the probes of this trial; others are stale.
    pub trial: u16,
    /// True if checksums are not verified.
    pub unverified: bool,
}

/// A stream that a receiver counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedStream {
    /// Its number.
    pub id: u16,
    /// Probes that were sent before this time, by our clock, are stale.
    pub begin: Nanos,
    /// Sender's clock minus our clock, in nanoseconds.
    pub sender_ahead: i64,
}

impl Watch {
    /// Returns the numbers of the streams.
    #[must_use]
    pub fn ids(&self) -> Vec<u16> {
        self.streams.iter().map(|stream| stream.id).collect()
    }
}

/// Receives and accounts for frames without the agent.
pub trait CountingReceiver: Send {
    /// Sets all counters to 0 and begins to count.
    fn begin(&mut self, watch: &Watch) -> Result<(), PortError>;

    /// Reads the counters, at any time.
    fn read(&mut self) -> Result<Counted, PortError>;

    /// Stops counting and reads the counters for the last time.
    fn end(&mut self) -> Result<Counted, PortError>;
}

/// Counters of a [`CountingReceiver`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counted {
    /// Counters of each stream, in the order of [`Watch::streams`].
    pub streams: Vec<CountedStream>,
    /// Frames without a probe of these streams.
    pub foreign: u64,
    /// Probes from before the trial.
    pub stale: u64,
    /// Frames that were dropped for lack of room before they could be counted; `None`: unknown.
    pub dropped: Option<u64>,
    /// Sources of the times of all frames.
    pub stamped: Stamped,
}

/// Inter-packet delay variation (RFC 5481 section 4.1), as absolute values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Variation {
    /// Pairs of frames that are consecutive in number and in arrival.
    pub count: u64,
    /// Sum of the variations, in nanoseconds.
    pub sum: u128,
    /// Largest variation.
    pub max: Nanos,
}

/// Counters of a [`CountingReceiver`] for one stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountedStream {
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Bytes that arrived, with FCS.
    pub bytes: u64,
    /// Arrivals of a frame that had arrived before.
    pub duplicated: u64,
    /// Arrivals after a frame with a higher number (RFC 4737 section 3).
    pub reordered: u64,
    /// The part of `reordered` where the frame with the higher number came from the same receive queue.
    pub reordered_in_queue: u64,
    /// True if the frames came on several queues, whose relative order is unknown. Then only `reordered_in_queue`
    /// happened on the link for certain.
    pub several_queues: bool,
    /// Largest known reordering extent (RFC 4737 section 4.2.1).
    pub reorder_extent_max: u64,
    /// Sum of all known extents.
    pub reorder_extent_sum: u64,
    /// Number of frames among `reordered` with a known extent.
    pub reorder_extents: u64,
    /// Frames that are 3-reordered (RFC 4737 section 5.3); `None` where the arrivals of several CPUs have no common order.
    pub reordered_by_three: Option<u64>,
    /// Change of latency from each frame to the next.
    pub ipdv: Variation,
    /// One above the highest number that arrived.
    pub next: u64,
    /// Arrivals so late that it is unknown whether they are duplicates; they are among `duplicated`.
    pub guessed: u64,
    /// Frames with a wrong checksum; not among `received`.
    pub corrupted: u64,
    /// First arrival; meaningless when `received` is 0.
    pub first: Nanos,
    /// Last arrival; meaningless when `received` is 0.
    pub last: Nanos,
    /// Frames that arrived before they were sent: the clocks differ.
    pub negative: u64,
    /// Least latency.
    pub latency_min: Nanos,
    /// Greatest latency.
    pub latency_max: Nanos,
    /// Sum of all latencies, in nanoseconds.
    pub latency_sum: u128,
    /// Upper end of each bucket in nanoseconds and the frames in it, ascending, without empty buckets.
    pub latency: Vec<(u64, u64)>,
    /// Source addresses and ports of the first frames, each once.
    pub sources: Vec<(IpAddr, u16)>,
}

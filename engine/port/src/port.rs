//! What every back end offers.
//!
//! Halves are handed to threads of the agent and come back from them when a trial ends. All instants are of
//! `CLOCK_MONOTONIC`; all lengths are without FCS unless a name says so.

use crate::batch::Fill;
use crate::error::PortError;
use crate::plan::{Pace, SendPlan};
use dutlab_units::Nanos;
use std::net::IpAddr;
use std::sync::Arc;

/// The sending half of a port.
pub enum Sender {
    /// Take bursts; the agent paces. At least one, and each may be served by a thread of its own.
    Burst(Vec<Box<dyn BurstSender>>),
    /// Takes a whole plan; the back end paces.
    Plan(Box<dyn PlanSender>),
}

/// The receiving half of a port.
pub enum Receiver {
    /// Give frames; the agent accounts for them. One for each queue, and each may be served by a thread of its own.
    Burst(Vec<Box<dyn BurstReceiver>>),
    /// Accounts for the frames itself.
    Counting(Box<dyn CountingReceiver>),
}

/// What became of a burst. The first `sent` frames that were filled left, then `refused` were refused for good; what was
/// filled behind them was not tried, and its sequence numbers are free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handed {
    /// Frames that the kernel took.
    pub sent: usize,
    /// Frames that it refused for good.
    pub refused: usize,
}

/// A frame that was handed over and did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsent {
    /// How many frames were handed over after it.
    pub ago: u64,
    /// Its length without FCS.
    pub length: u32,
}

/// Sends bursts of frames.
pub trait BurstSender: Send {
    /// The most frames that one call takes.
    fn burst_max(&self) -> usize;

    /// Has `fill` write up to `want` frames, hands them over and says what became of them. Does not wait for room: with
    /// none, nothing is sent.
    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError>;

    /// Whether a link without a carrier is not an error from now on: it takes no frames, and that is all.
    fn go_through_link_loss(&mut self, yes: bool) {
        let _ = yes;
    }

    /// Waits until what was handed over has left, as long as it still moves and no longer than a second.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Gives `each`, once and oldest first, the frames that calls had counted as `sent` and that did not leave after all: the
    /// driver threw them away, or [`flush`](Self::flush) gave them up. Their numbers are used up.
    fn take_unsent(&mut self, each: &mut dyn FnMut(Unsent)) {
        let _ = each;
    }
}

/// A frame that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The frame without FCS, whole or cut to what the back end keeps.
    pub bytes: &'a [u8],
    /// Its whole length without FCS.
    pub length: u32,
    /// When it arrived.
    pub at: Nanos,
}

/// Whose times frames got as they arrived, and how many each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamped {
    /// The card's, by its own clock, brought to ours.
    pub card: u64,
    /// The kernel's: its stack's, or those of a program in it.
    pub kernel: u64,
    /// Ours, when a frame was taken.
    pub engine: u64,
    /// The card's times are true to within this by our clock.
    pub card_error: Nanos,
}

impl Stamped {
    /// Those of two queues.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            card: self.card + other.card,
            kernel: self.kernel + other.kernel,
            engine: self.engine + other.engine,
            card_error: self.card_error.max(other.card_error),
        }
    }

    /// Enters a frame.
    pub const fn enter(&mut self, by: By) {
        match by {
            By::Card => self.card += 1,
            By::Kernel => self.kernel += 1,
            By::Engine => self.engine += 1,
        }
    }
}

/// Whose time a frame got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The card's.
    Card,
    /// The kernel's.
    Kernel,
    /// Ours.
    Engine,
}

/// What the order in which a receiver gives frames says of their order on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// It is that of the link.
    #[default]
    Link,
    /// It is among frames of the queue of this number; the times of two queues cannot be compared.
    Queue(u32),
    /// It is among frames of one flow: a card puts them all into one queue.
    Flow,
    /// Nothing: frames of several queues come in the order in which these are polled.
    Nothing,
}

/// Receives frames of one queue, oldest first.
pub trait BurstReceiver: Send {
    /// Throws away what is waiting and sets the drop counter to 0.
    fn begin(&mut self) -> Result<(), PortError>;

    /// Waits up to `wait` for frames, calls `take` for each that is there, and returns how many there were.
    fn receive(&mut self, wait: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> Result<usize, PortError>;

    /// Whether the kernel stamps frames when they arrive. Without that they have the time at which they were taken, and
    /// must not be left lying.
    fn stamps(&self) -> bool {
        true
    }

    /// Which of its frames are in the order of the link.
    fn order(&self) -> Order {
        Order::Link
    }

    /// Whose times the frames since [`begin`](Self::begin) got; none where nobody keeps count.
    fn stamped(&self) -> Stamped {
        Stamped::default()
    }

    /// Frames that had arrived since [`begin`](Self::begin) and were dropped for want of room.
    fn dropped(&mut self) -> Result<u64, PortError>;

    /// Whether frames have arrived that [`receive`](Self::receive) has not been given yet, whatever keeps them.
    fn holds_frames(&mut self) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Frames since [`begin`](Self::begin) that carry no probe and were left to the host without being handed to us.
    fn passed(&mut self) -> Result<u64, PortError> {
        Ok(0)
    }
}

/// Sends a whole plan without the agent's help.
pub trait PlanSender: Send {
    /// Takes a plan and checks it; sends nothing yet. The control works from any thread, before, during and after
    /// [`run`](Self::run).
    fn load(&mut self, plan: &SendPlan) -> Result<Arc<dyn PlanControl>, PortError>;

    /// Sends, on the calling thread (which is pinned already), until all is sent or the control says stop.
    fn run(&mut self) -> Result<(), PortError>;
}

/// Watches and steers a plan while it is sent.
pub trait PlanControl: Send + Sync {
    /// Ends sending soon.
    fn stop(&self);

    /// Changes the pace of the plan's stream number `index` from now on.
    fn set_pace(&self, index: usize, pace: &Pace) -> Result<(), PortError>;

    /// What was sent so far, in the order of the plan's streams. Final after `run` has returned.
    fn totals(&self) -> Vec<StreamTotals>;

    /// Time from each frame of stream number `index` to the next, if the back end keeps it.
    fn gaps(&self, index: usize) -> Option<Gaps> {
        let _ = index;
        None
    }
}

/// What was sent of a stream. `asked` = `sent` + `refused`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamTotals {
    /// Frames that were due by the end of sending; at the maximum rate, those that were tried.
    pub asked: u64,
    /// Frames that left.
    pub sent: u64,
    /// Frames that were refused, or due and not sent in time.
    pub refused: u64,
    /// Of these, frames that could have been sent and were not taken: the device's queue was full, or, where two devices share a
    /// memory (veth), the peer's ring. Below `asked` only by these, and the sender was fast enough.
    pub backpressure: u64,
    /// Nobody knows which frames the device did not take: they are among `sent`, and `backpressure` is 0.
    pub refusals_unknown: bool,
    /// Numbers used up: by the frames that left, and by those that were refused after they had got one.
    pub numbered: u64,
    /// Several CPUs wrote numbers at the same time: the stream has no order.
    pub unordered: bool,
    /// Bytes that left, with FCS.
    pub bytes: u64,
    /// Send time of the first frame; meaningless when `sent` is 0.
    pub first: Nanos,
    /// Send time of the last frame; meaningless when `sent` is 0.
    pub last: Nanos,
    /// The most that a frame was sent after it was due.
    pub late_max: Nanos,
}

/// Gaps between the send times of consecutive frames of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gaps {
    /// The least.
    pub min: Nanos,
    /// The greatest.
    pub max: Nanos,
    /// The sum of all, in nanoseconds.
    pub sum: u128,
    /// Upper end of a bucket in nanoseconds and gaps in it, rising, empty ones left out.
    pub buckets: Vec<(u64, u64)>,
}

/// What a [`CountingReceiver`] shall look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// The streams; probes of others are foreign.
    pub streams: Vec<WatchedStream>,
    /// The number that probes of this trial carry; others are stale.
    pub trial: u16,
    /// Checksums are not looked at.
    pub unverified: bool,
}

/// A stream that a receiver shall look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedStream {
    /// Its number.
    pub id: u16,
    /// Its probes that were sent before this, by our clock, are stale.
    pub begin: Nanos,
    /// Its sender's clock minus ours, in nanoseconds.
    pub sender_ahead: i64,
}

impl Watch {
    /// The numbers of the streams.
    #[must_use]
    pub fn ids(&self) -> Vec<u16> {
        self.streams.iter().map(|stream| stream.id).collect()
    }
}

/// Accounts for frames by itself.
pub trait CountingReceiver: Send {
    /// Sets all counters to 0 and begins to count.
    fn begin(&mut self, watch: &Watch) -> Result<(), PortError>;

    /// Reads the counters, at any time.
    fn read(&mut self) -> Result<Counted, PortError>;

    /// Stops counting and reads the counters for the last time.
    fn end(&mut self) -> Result<Counted, PortError>;
}

/// What a [`CountingReceiver`] counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counted {
    /// In the order of [`Watch::streams`].
    pub streams: Vec<CountedStream>,
    /// Frames without a probe of these streams.
    pub foreign: u64,
    /// Probes from before the trial.
    pub stale: u64,
    /// Frames that were dropped for want of room before they could be counted; `None`: nobody knows.
    pub dropped: Option<u64>,
    /// Whose times the frames of all streams got.
    pub stamped: Stamped,
}

/// Inter-packet delay variation (RFC 5481 section 4.1), as absolute values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Variation {
    /// Pairs of frames that follow each other in number and arrived so.
    pub count: u64,
    /// The sum, in nanoseconds.
    pub sum: u128,
    /// The greatest.
    pub max: Nanos,
}

/// What a [`CountingReceiver`] counted of one stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountedStream {
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Their bytes, with FCS.
    pub bytes: u64,
    /// Arrivals of a frame that had arrived before.
    pub duplicated: u64,
    /// Arrivals after a frame with a higher number (RFC 4737 section 3).
    pub reordered: u64,
    /// Of these, arrivals after such a frame of the same receive queue.
    pub reordered_in_queue: u64,
    /// Whether the frames came on several queues, of which nobody knows the order: then only `reordered_in_queue` is of the link.
    pub several_queues: bool,
    /// The largest reordering extent (RFC 4737 section 4.2.1) that is known.
    pub reorder_extent_max: u64,
    /// The sum of all extents that are known.
    pub reorder_extent_sum: u64,
    /// How many of `reordered` have a known extent.
    pub reorder_extents: u64,
    /// Frames that are 3-reordered (RFC 4737 section 5.3); `None` where the arrivals of several CPUs have no common order.
    pub reordered_by_three: Option<u64>,
    /// How latency changed from each frame to the next.
    pub ipdv: Variation,
    /// One above the highest number that arrived.
    pub next: u64,
    /// Arrivals so late that nobody knows whether they were duplicates; they are among `duplicated`.
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
    /// Upper end of a bucket in nanoseconds and frames in it, rising, empty ones left out.
    pub latency: Vec<(u64, u64)>,
    /// Source addresses and ports of the first frames, each once.
    pub sources: Vec<(IpAddr, u16)>,
}

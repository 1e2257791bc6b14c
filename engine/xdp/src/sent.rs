//! What a sender says of itself.

use crate::contract::Control;
use crate::histogram::Histogram;

/// Why sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendEnd {
    /// It has not.
    Running,
    /// The plan's duration is over.
    TimeUp,
    /// Every lane has sent its frames.
    AllSent,
    /// `stop` was called.
    Stopped,
}

/// What a sender has done so far, or in all.
#[derive(Debug, Clone)]
pub struct SendReport {
    /// Whether and why it ended.
    pub end: SendEnd,
    /// When the first frame was written, in ns of `CLOCK_MONOTONIC`; `None`: not yet.
    pub begun_ns: Option<u64>,
    /// When the program saw that it must end.
    pub ended_ns: Option<u64>,
    /// Each stream, in the order of the plan.
    pub streams: Vec<SentStream>,
    /// Each lane, in the order of the plan.
    pub lanes: Vec<SentLane>,
    /// Whether `refused` comes from the kernel's own record of what the driver took (needs kernel BTF). Where it is
    /// false, `refused` is 0, and frames that a driver does not take count as offered.
    pub refusals_known: bool,
    /// The errno of the last refusal; 0: none, or the driver's queue was full.
    pub last_refusal_errno: i32,
}

/// A stream's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentStream {
    /// Its number.
    pub id: u16,
    /// Frames written, handed to the kernel and not taken back to be offered again; their sequence numbers are 0 to
    /// `offered - 1`.
    pub offered: u64,
    /// Of these, frames that the driver refused for good: only a lane at full speed has any.
    pub refused: u64,
    /// Bytes of the offered frames, without FCS.
    pub offered_bytes: u64,
}

/// A lane's share.
#[derive(Debug, Clone)]
pub struct SentLane {
    /// Frames that were due but skipped, because the sender was too late (`max_lag_ns`), or not yet sent when it ended.
    /// Asked for = the streams' `offered` + this.
    pub missed: u64,
    /// Of these, frames that fell due while the device had no room.
    pub kept_out: u64,
    /// The most that a frame was written after it was due; 0 at full speed.
    pub late_max_ns: u64,
    /// When the last frame was written.
    pub last_ns: u64,
    /// Times between successive frames of the lane, as they were written. Known to 1/128.
    pub gaps: Histogram,
}

/// Frames of a lane that were due before the end and are not sent yet.
pub(crate) fn backlog(c: &Control, lane: usize, end_ns: u64) -> u64 {
    let l = &c.lanes[lane];
    let until = if c.ended_ns == 0 { return 0 } else { c.ended_ns.min(end_ns) };
    if l.gap_q24 == 0 || l.frames_left == 0 {
        return 0;
    }
    let since = (u128::from(until.saturating_sub(l.last_ns)) << 24).saturating_sub(u128::from(l.last_frac));
    // A frame that would be due exactly at the end is not asked for.
    let due = u64::try_from(since.saturating_sub(1) / u128::from(l.gap_q24)).unwrap_or(u64::MAX);
    due.saturating_mul(u64::from(l.burst)).saturating_add(u64::from(l.burst_left)).min(l.frames_left)
}

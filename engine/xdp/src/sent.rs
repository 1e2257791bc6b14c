//! Report of a sender.

use crate::contract::Control;
use crate::histogram::Histogram;
use crate::rows::Part;

/// Reason why sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendEnd {
    /// Sending has not ended.
    Running,
    /// The plan's duration is over.
    TimeUp,
    /// Every lane has sent its frames.
    AllSent,
    /// `stop` was called.
    Stopped,
}

/// Counters of a sender, so far or final.
#[derive(Debug, Clone)]
pub(crate) struct SendReport {
    /// Time at which the first frame was written, in ns of `CLOCK_MONOTONIC`; `None`: not yet.
    pub(crate) begun_ns: Option<u64>,
    /// Time at which the program found that it must end.
    pub(crate) ended_ns: Option<u64>,
    /// Counters of each part of a stream, CPU by CPU.
    pub(crate) lanes: Vec<SentLane>,
    /// True if `refused` comes from the kernel's record of the frames that the driver took (needs kernel BTF). If
    /// false, `refused` is 0, and frames that a driver does not take count as offered.
    pub(crate) refusals_known: bool,
}

/// Counters of a part of a stream.
#[derive(Debug, Clone)]
pub(crate) struct SentLane {
    /// The part.
    pub(crate) part: Part,
    /// One above the highest number used in the stream, on any CPU.
    pub(crate) numbered: u64,
    /// Frames written, handed to the kernel and not taken back to be offered again.
    pub(crate) offered: u64,
    /// Offered frames that the driver refused for good: only a stream at full speed has any.
    pub(crate) refused: u64,
    /// Bytes of the offered frames, without FCS.
    pub(crate) offered_bytes: u64,
    /// Frames that were due but skipped, because the sender was too late (`MAX_LAG_NS` of `pace.h`), or not yet sent
    /// when it ended. Frames asked for = `offered` + `missed`.
    pub(crate) missed: u64,
    /// Missed frames that fell due while the device had no room.
    pub(crate) kept_out: u64,
    /// Longest delay between due time and writing of a frame; 0 at full speed.
    pub(crate) late_max_ns: u64,
    /// Time at which the last frame was written.
    pub(crate) last_ns: u64,
    /// Gaps between successive frames, as they were written. Accurate to 1/128.
    pub(crate) gaps: Histogram,
}

/// Returns the number of frames of a lane that were due before the end and are not sent yet.
pub(crate) fn backlog(c: &Control, lane: usize, end_ns: u64) -> u64 {
    let l = &c.lanes[lane];
    let until = if c.ended_ns == 0 { return 0 } else { c.ended_ns.min(end_ns) };
    if l.gap_q24 == 0 || l.frames_left == 0 {
        return 0;
    }
    let since = (u128::from(until.saturating_sub(l.at.last_ns)) << 24).saturating_sub(u128::from(l.at.last_frac));
    // A frame that would be due exactly at the end is not asked for.
    let due = u64::try_from(since.saturating_sub(1) / u128::from(l.gap_q24)).unwrap_or(u64::MAX);
    due.saturating_mul(u64::from(l.burst)).saturating_add(u64::from(l.at.burst_left)).min(l.frames_left)
}

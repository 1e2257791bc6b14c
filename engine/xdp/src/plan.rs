//! Plan of a sender, and its check.

use crate::contract::{HEAD_MAX, MAX_LANES};
use crate::error::Why;
use crate::flow::Flow;
use crate::rows::Row;
use crate::template::Template;

/// Plan of one sender for one trial.
#[derive(Debug, Clone, Default)]
pub(crate) struct XdpPlan {
    /// Number in the probes of this trial.
    pub(crate) trial: u16,
    /// Streams, each with its own pace.
    pub(crate) lanes: Vec<LanePlan>,
    /// Lanes of each sending CPU; at most 32 each.
    pub(crate) rows: Vec<Row>,
    /// Time at which the first frame is due, in ns of `CLOCK_MONOTONIC`. Setting up the kernel's side takes about 25 ms
    /// after loading, so a plan that would begin earlier is shifted as a whole.
    pub(crate) start_ns: u64,
    /// Duration of sending; `None`: until stopped, or until all frames are sent.
    pub(crate) duration_ns: Option<u64>,
    /// Keep sending while the device takes no frames.
    pub(crate) through_link_loss: bool,
}

/// One numbered sequence of frames with its own pace.
#[derive(Debug, Clone)]
pub(crate) struct LanePlan {
    /// Pace of the lane.
    pub(crate) pace: Pace,
    /// Delay after the plan's start.
    pub(crate) after_ns: u64,
    /// Number of frames after which it ends; `None`: no limit.
    pub(crate) frames: Option<u64>,
    /// Stream number, which each template's probe already contains.
    pub(crate) id: u16,
    /// Different frames of the lane.
    pub(crate) templates: Vec<Template>,
    /// Order of the templates, as indices, repeatedly; empty: all in turn.
    pub(crate) order: Vec<u32>,
    /// Addresses and ports of successive frames, repeatedly; empty: those of the templates.
    pub(crate) flows: Vec<Flow>,
}

/// Pace of a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// As fast as possible.
    Full,
    /// One frame every `gap_ns` nanoseconds.
    Every {
        /// Time between frames.
        gap_ns: f64,
    },
    /// The agent sets the gap before the first frame is due, and changes it later.
    Steered,
    /// Bursts of `frames` back to back (RFC 2544 section 21).
    Bursts {
        /// Frames in each burst, at least 1.
        frames: u32,
        /// Time from the start of one burst to the start of the next.
        period_ns: f64,
    },
}

/// Gap before the first frame of a steered lane; it is replaced before it ends.
const UNTIL_STEERED_NS: f64 = 5e11;

impl Pace {
    /// Returns the pace of a part that has each `of`-th frame, or burst.
    pub(crate) fn slowed(self, of: u64) -> Self {
        match self {
            Self::Full | Self::Steered => self,
            Self::Every { gap_ns } => Self::Every { gap_ns: gap_ns * of as f64 },
            Self::Bursts { frames, period_ns } => Self::Bursts { frames, period_ns: period_ns * of as f64 },
        }
    }

    /// Returns the number of frames that leave together.
    pub(crate) fn burst(self) -> u64 {
        if let Self::Bursts { frames, .. } = self { u64::from(frames.max(1)) } else { 1 }
    }

    /// Returns the gap in the program's unit, and the number of frames at each due time.
    pub(crate) fn gap_and_burst(self) -> Result<(u64, u32), Why> {
        let (gap, burst) = match self {
            Self::Full => return Ok((0, 1)),
            Self::Every { gap_ns } => (gap_ns, 1),
            Self::Steered => (UNTIL_STEERED_NS, 1),
            Self::Bursts { frames, period_ns } => (period_ns, frames),
        };
        // 2^39 ns is nine minutes: one frame in nine minutes is not a load.
        if !(1.0..549_755_813_888.0).contains(&gap) || burst == 0 {
            return Err(Why::Plan(format!("a gap of {gap} ns or a burst of {burst} frames is not a pace")));
        }
        // Rounded up: no frame is due too early, so no extra frame is due before the end of the trial.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: 1 to 2^39, times 2^24")]
        let gap_q24 = (gap * f64::from(1 << 24)).ceil() as u64;
        Ok((gap_q24, burst))
    }
}

impl XdpPlan {
    /// Checks the streams of the plan together.
    pub(crate) fn check(&self) -> Result<(), Why> {
        let most = self.width();
        if self.lanes.is_empty() || most == 0 || most > MAX_LANES {
            return Err(Why::Plan(format!("{most} streams on one CPU; the xdp back end paces 1 to {MAX_LANES}")));
        }
        let copied = self.copied_head();
        let mut longest: &[u8] = &[];
        for template in self.templates() {
            if template.payload().len() + template.head_len() > longest.len() {
                longest = template.bytes();
            }
        }
        let mut versions = [false; 2];
        for stream in &self.lanes {
            if stream.templates.is_empty() {
                return Err(Why::Plan(format!("stream {} has no frames", stream.id)));
            }
            if stream.order.iter().any(|&i| i as usize >= stream.templates.len()) {
                return Err(Why::Plan(format!("stream {} orders a frame that it does not have", stream.id)));
            }
            for t in &stream.templates {
                if t.bytes()[t.head_len() - 16..t.head_len() - 14] != stream.id.to_be_bytes() {
                    return Err(Why::Plan(format!("a frame of stream {} carries another stream's number", stream.id)));
                }
                // The pages are shared by all frames, so the bytes behind the copied head are the same in all.
                if t.len() > copied && t.bytes()[copied..] != longest[copied..t.len()] {
                    return Err(Why::Plan("frames with different payloads cannot share one sender".into()));
                }
                if !stream.flows.is_empty() {
                    versions[usize::from(t.ip_version() == 6)] = true;
                }
            }
            let v6 = stream.templates[0].ip_version() == 6;
            if stream.templates.iter().any(|t| {
                (t.ip_version() == 6) != v6 || t.has_pseudo_header() != stream.templates[0].has_pseudo_header()
            }) && !stream.flows.is_empty()
            {
                return Err(Why::Plan(format!("stream {} mixes protocols and has flows", stream.id)));
            }
            if stream.flows.iter().any(|f| matches!(f, Flow::V6 { .. }) != v6) {
                return Err(Why::Plan(format!("stream {} has flows of another IP version than its frames", stream.id)));
            }
        }
        Ok(())
    }

    /// Returns the number of bytes that the program copies for each frame: the shortest supported length that holds
    /// every head.
    pub(crate) fn copied_head(&self) -> usize {
        let longest = self.templates().map(Template::head_len).max().unwrap_or(0);
        [60, 64, 72, 80, 92].into_iter().find(|n| *n >= longest).unwrap_or(HEAD_MAX)
    }

    /// Returns the largest number of streams of one CPU.
    pub(crate) fn width(&self) -> usize {
        self.rows.iter().map(|r| r.parts.len()).max().unwrap_or(0)
    }

    /// Returns true if CPUs share a stream.
    pub(crate) fn is_split(&self) -> bool {
        self.rows.iter().flat_map(|r| &r.parts).any(|p| p.of > 1)
    }

    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.lanes.iter().flat_map(|l| &l.templates)
    }
}

//! Sending half of a kernel-speed port.

use crate::attach::Place;
use crate::drive::Drive;
use crate::error::XdpError;
use crate::offer::offer;
use crate::rows::Part;
use crate::sender::XdpSender;
use crate::sent::{SendEnd, SendReport, SentLane};
use dutlab_port::PortError;
use dutlab_port::plan::{Pace, SendPlan};
use dutlab_port::port::{Gaps, PlanControl, PlanSender, StreamTotals};
use dutlab_port::{clock, cpu};
use dutlab_units::{FCS, Nanos};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which changing rates are steered.
const STEP: Duration = Duration::from_millis(2);
/// Interval of the checks on the thread if there is nothing to steer: each check costs a wake-up and two system calls.
/// Less than the look-ahead of [`Drive`], so that a rate that begins to change is steered in time.
const LOOK: Duration = Duration::from_millis(6);

/// Sender of plans on one interface.
pub struct XdpTransmitter {
    iface: String,
    /// Place with a program: some drivers send only while one is attached.
    _kept: Option<Arc<Place>>,
    cpus: Vec<u32>,
    loaded: Option<Arc<Trial>>,
}

impl XdpTransmitter {
    /// Makes a sender for an interface of this network namespace, with its reserved place. With two CPUs or more, a
    /// thread on each of them sends; otherwise one thread sends on the CPU that runs the plan. No program is loaded
    /// before there is a plan.
    #[must_use]
    pub fn new(iface: &str, kept: Option<Arc<Place>>, cpus: &[u32]) -> Self {
        Self { iface: iface.to_owned(), _kept: kept, cpus: cpus.to_vec(), loaded: None }
    }
}

/// A plan that is loaded, being sent, or sent.
struct Trial {
    /// Number of streams of the plan.
    streams: usize,
    sender: Mutex<XdpSender>,
    /// One drive for each part of a stream.
    drives: Mutex<Vec<Drive>>,
    /// No frame is asked for at or after this time.
    end: Nanos,
    stop: AtomicBool,
}

impl PlanSender for XdpTransmitter {
    fn load(&mut self, plan: &SendPlan) -> Result<Arc<dyn PlanControl>, PortError> {
        // Free the previous trial first: two would need twice the memory.
        self.loaded = None;
        let ours = offer(plan, &self.cpus).map_err(|why| XdpError::new(&self.iface, "plan", why))?;
        let sender = XdpSender::prepare(&self.iface, &ours)?;
        let (start, end) = sender.span_ns();
        let drive = |part: Part| {
            let stream = &plan.streams[part.stream];
            Drive::new(&stream.pace, part, Nanos(start) + stream.after, stream.frames)
        };
        let drives = sender.parts().map(drive).collect();
        let trial = Arc::new(Trial {
            streams: plan.streams.len(),
            sender: Mutex::new(sender),
            drives: Mutex::new(drives),
            end: Nanos(end),
            stop: AtomicBool::new(false),
        });
        trial.steer(clock::monotonic());
        self.loaded = Some(Arc::clone(&trial));
        Ok(trial)
    }

    fn run(&mut self) -> Result<(), PortError> {
        let Some(trial) = &self.loaded else { return Ok(()) };
        // The sending thread starts on the CPU where this one is pinned; this one watches it from elsewhere.
        trial.sender().launch()?;
        cpu::unpin();
        loop {
            if trial.stop.load(Ordering::Relaxed) {
                trial.sender().stop()?;
            }
            if trial.sender().poll()? != SendEnd::Running {
                return Ok(());
            }
            trial.steer(clock::monotonic());
            std::thread::sleep(trial.pause(clock::monotonic()));
        }
    }
}

impl Trial {
    fn sender(&self) -> MutexGuard<'_, XdpSender> {
        // A thread that panicked while it held the lock left numbers behind, which stay valid.
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drives(&self) -> MutexGuard<'_, Vec<Drive>> {
        self.drives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until the next action.
    fn pause(&self, now: Nanos) -> Duration {
        let left = Duration::from_nanos(self.end.since(now).0);
        let look = if self.drives().iter().any(Drive::is_steered) { STEP } else { LOOK };
        look.min(left.max(STEP))
    }

    fn steer(&self, now: Nanos) {
        let (sender, drives) = (self.sender(), self.drives());
        drives.iter().enumerate().for_each(|(lane, d)| d.steer(&sender, lane, now));
    }
}

impl PlanControl for Trial {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn set_pace(&self, index: usize, pace: &Pace) -> Result<(), PortError> {
        let (sender, mut drives) = (self.sender(), self.drives());
        let now = clock::monotonic();
        let parts = sender.parts().enumerate().zip(drives.iter_mut()).filter(|((_, part), _)| part.stream == index);
        parts.map(|((lane, _), drive)| drive.change(&sender, lane, pace, now)).fold(Ok(()), Result::and)
    }

    fn totals(&self) -> Vec<StreamTotals> {
        let report = self.sender().report();
        let until = report.ended_ns.map_or_else(clock::monotonic, Nanos).min(self.end);
        let mut all = vec![StreamTotals::default(); self.streams];
        for (lane, drive) in report.lanes.iter().zip(self.drives().iter()) {
            let part = totals(&report, lane, drive.asked(until), drive.frames());
            let whole = &mut all[lane.part.stream];
            *whole = if lane.part.nth == 0 { part } else { together(whole, &part) };
        }
        all
    }

    fn gaps(&self, index: usize) -> Option<Gaps> {
        let report = self.sender().report();
        let lane = report.lanes.iter().find(|l| l.part.stream == index)?;
        if lane.part.of > 1 {
            return None; // the frames of all CPUs have no common order
        }
        let histogram = &lane.gaps;
        let buckets: Vec<_> = histogram.filled().map(|(_, high, n)| (high, n)).collect();
        let between = || histogram.filled().map(|(low, high, n)| u128::from(low.midpoint(high)) * u128::from(n)).sum();
        let (first, last) = (report.begun_ns?, lane.last_ns);
        Some(Gaps {
            min: Nanos(histogram.filled().next()?.0),
            max: Nanos(buckets.last()?.0),
            // All gaps of the only lane lie between its first frame and its last.
            sum: if report.lanes.len() == 1 { u128::from(last.saturating_sub(first)) } else { between() },
            buckets,
        })
    }
}

/// Adds the counters of several CPUs for one stream.
fn together(a: &StreamTotals, b: &StreamTotals) -> StreamTotals {
    StreamTotals {
        asked: a.asked + b.asked,
        sent: a.sent + b.sent,
        refused: a.refused + b.refused,
        backpressure: a.backpressure + b.backpressure,
        refusals_unknown: a.refusals_unknown || b.refusals_unknown,
        numbered: a.numbered.max(b.numbered),
        unordered: a.unordered || b.unordered,
        bytes: a.bytes + b.bytes,
        first: a.first.min(b.first),
        last: a.last.max(b.last),
        late_max: a.late_max.max(b.late_max),
    }
}

fn totals(report: &SendReport, lane: &SentLane, asked: Option<u64>, most: u64) -> StreamTotals {
    let sent = lane.offered.saturating_sub(lane.refused);
    // If a number of frames was asked for, skipped frames only delay its end.
    let asked = asked.unwrap_or(0).max(lane.offered + lane.missed).min(most);
    // Only the number of refused frames is known, not their sizes: the sent ones get the mean length of all.
    let bytes = share(lane.offered_bytes, sent, lane.offered);
    StreamTotals {
        asked,
        sent,
        refused: asked - sent,
        backpressure: (lane.refused + lane.kept_out).min(asked - sent),
        refusals_unknown: !report.refusals_known,
        numbered: lane.numbered,
        unordered: lane.part.of > 1,
        bytes: bytes + sent * u64::from(FCS),
        first: Nanos(report.begun_ns.unwrap_or(0)),
        last: Nanos(lane.last_ns),
        late_max: Nanos(lane.late_max_ns),
    }
}

/// Returns `part` of `whole` of the bytes, rounded down.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let scaled = (u128::from(bytes) * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    /// Uses a round of 7 × 60, 4 × 590 and 1 × 1514 bytes without FCS, repeatedly; of 15 frames the device took one.
    #[test]
    fn what_is_sent_of_a_mix_has_its_mean_length_however_much_is_refused() {
        let rounds = 100_000;
        let offered = 12 * rounds;
        let lane = SentLane {
            part: Part::whole(0),
            numbered: offered,
            offered,
            refused: offered / 15 * 14,
            offered_bytes: (7 * 60 + 4 * 590 + 1514) * rounds,
            missed: 0,
            kept_out: 0,
            late_max_ns: 0,
            last_ns: 0,
            gaps: Histogram::new(0, vec![]),
        };
        let report = SendReport { begun_ns: None, ended_ns: None, lanes: vec![lane], refusals_known: true };
        let t = totals(&report, &report.lanes[0], None, u64::MAX);
        assert_eq!((t.sent, t.bytes), (80_000, 28_626_666 + 80_000 * 4), "357.83 bytes and the FCS each");
    }

    #[test]
    fn nothing_offered_is_nothing_sent() {
        assert_eq!(share(0, 0, 0), 0);
    }
}

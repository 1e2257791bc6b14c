//! Sends the frames of a capture with their own timing or another: unchanged, or with a probe in those that have room
//! for it.

use super::bursts::{Closing, rest};
use super::{Job, LOOK};
use crate::handed::Handed;
use crate::lower::Capture;
use dutlab_port::{BurstSender, PortError, StreamTotals, clock};
use dutlab_units::{FCS, Nanos};
use dutlab_wire::probe::stamp;
use std::sync::atomic::Ordering;

/// Counters so far: of the plan's only stream; or of frames with a probe, then of those without.
struct Account {
    totals: Vec<StreamTotals>,
    handed: Handed,
}

impl Account {
    /// Returns the stream of a frame.
    fn stream(&self, is_probed: bool) -> usize {
        usize::from(self.totals.len() > 1 && !is_probed)
    }

    /// Counts a frame of `length` bytes that left and was due at `due`.
    fn sent(&mut self, stream: usize, length: usize, due: Nanos, now: Nanos) {
        let totals = &mut self.totals[stream];
        if totals.sent == 0 {
            totals.first = now;
        }
        totals.last = now;
        totals.late_max = totals.late_max.max(now.since(due));
        totals.sent += 1;
        totals.numbered += 1;
        totals.bytes += length as u64 + u64::from(FCS);
        self.handed.note(stream, 1);
    }

    /// Subtracts frames of this replay that the port dropped after it had taken them.
    fn take_unsent(&mut self, tx: &mut dyn BurstSender) {
        let (totals, handed) = (&mut self.totals, &self.handed);
        tx.take_unsent(&mut |frame| {
            if let Some(stream) = handed.stream(frame.ago) {
                totals[stream].sent -= 1;
                totals[stream].bytes -= u64::from(frame.length) + u64::from(FCS);
            }
        });
    }
}

/// Sends `capture` to its end, the plan's end, or a stop.
pub fn run(tx: &mut dyn BurstSender, capture: &Capture, job: &Job) -> (Vec<StreamTotals>, Option<PortError>) {
    let (start, end) = (job.plan.plan.start, job.plan.plan.end);
    let streams = job.plan.plan.streams.len();
    let mut account = Account { totals: vec![StreamTotals::default(); streams], handed: Handed::default() };
    let (mut next, mut looked) = (0, Nanos::ZERO);
    let (replay, mut closing) = (&capture.replay, Closing::default());
    let error = loop {
        let now = clock::monotonic();
        if now.since(looked) >= LOOK {
            looked = now;
            job.live.sent(now, job.share, &account.totals);
            if job.stop.load(Ordering::Relaxed) {
                break None;
            }
        }
        if next == replay.count() {
            break None;
        }
        let due = start + replay.when(next);
        if due >= end || closing.is_over(now, end) {
            break None;
        }
        if now < due {
            rest(now, due);
            continue;
        }
        let most = (tx.burst_max() as u64).min(replay.count() - next);
        let want = (1..most).find(|i| start + replay.when(next + i) > now.min(end)).unwrap_or(most);
        // Numbers of refused frames are free again: they count the frames that left.
        let (number, stamp) = (account.totals[0].numbered, stamp(job.plan.plan.trial, now));
        let probed = capture.probed_before(next);
        let mut copy = |i: usize, b: &mut [u8]| {
            let n = next + i as u64;
            capture.write(n, number + capture.probed_before(n) - probed, stamp, b)
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most burst_max, which is a usize")]
        let handed = match tx.send(want as usize, &mut copy) {
            Ok(handed) => handed,
            Err(e) => {
                next += want;
                break Some(e);
            }
        };
        for n in next..next + handed.sent as u64 {
            account.sent(account.stream(capture.is_probed(n)), replay.frame(n).len(), due, now);
        }
        if handed.sent == 0 && handed.refused == 0 {
            std::thread::yield_now();
        }
        next += (handed.sent + handed.refused) as u64;
        account.take_unsent(tx);
    };
    let error = error.or_else(|| tx.flush().err());
    account.take_unsent(tx);
    // Frames that were due by now and were not tried were refused too.
    let now = clock::monotonic().min(end);
    while next < replay.count() && start + replay.when(next) < now && !job.stop.load(Ordering::Relaxed) {
        next += 1;
    }
    let probed = capture.probed_before(next);
    for (i, totals) in account.totals.iter_mut().enumerate() {
        totals.asked = match (streams, i) {
            (1, _) => next,
            (_, 0) => probed,
            _ => next - probed,
        };
        totals.refused = totals.asked - totals.sent;
        totals.backpressure = totals.numbered - totals.sent;
    }
    job.live.sent(clock::monotonic(), job.share, &account.totals);
    (account.totals, error)
}

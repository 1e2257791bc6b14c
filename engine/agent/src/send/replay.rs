//! Sends the frames of a capture as they are, in their own time or another. They carry no probe.

use super::{Closing, Job, LOOK, rest};
use dutlab_port::pcap::Replay;
use dutlab_port::{BurstSender, PortError, StreamTotals, clock};
use dutlab_units::{FCS, Nanos};
use std::sync::atomic::Ordering;

/// Sends `replay` to its end, the plan's end, or a stop.
pub fn run(tx: &mut dyn BurstSender, replay: &Replay, job: &Job) -> (StreamTotals, Option<PortError>) {
    let (start, end) = (job.plan.plan.start, job.plan.plan.end);
    let (mut totals, mut next, mut looked) = (StreamTotals::default(), 0, Nanos::ZERO);
    let mut closing = Closing::default();
    let error = loop {
        let now = clock::monotonic();
        if now.since(looked) >= LOOK {
            looked = now;
            job.live.sent(now, job.share, &[totals]);
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
        let mut copy = |i: usize, b: &mut [u8]| {
            let frame = replay.frame(next + i as u64);
            b[..frame.len()].copy_from_slice(frame);
            frame.len()
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most burst_max, which is a usize")]
        let handed = match tx.send(want as usize, &mut copy) {
            Ok(handed) => handed,
            Err(e) => {
                next += want;
                break Some(e);
            }
        };
        if handed.sent > 0 {
            if totals.sent == 0 {
                totals.first = now;
            }
            totals.last = now;
            totals.late_max = totals.late_max.max(now.since(due));
            totals.sent += handed.sent as u64;
            totals.numbered += handed.sent as u64;
            let frames = next..next + handed.sent as u64;
            totals.bytes += frames.map(|n| replay.frame(n).len() as u64 + u64::from(FCS)).sum::<u64>();
        } else if handed.refused == 0 {
            std::thread::yield_now();
        }
        next += (handed.sent + handed.refused) as u64;
        take_unsent(tx, &mut totals);
    };
    let error = error.or_else(|| tx.flush().err());
    take_unsent(tx, &mut totals);
    // What was due by now and was not tried was refused too.
    let now = clock::monotonic().min(end);
    while next < replay.count() && start + replay.when(next) < now && !job.stop.load(Ordering::Relaxed) {
        next += 1;
    }
    totals.asked = next;
    totals.refused = next - totals.sent;
    totals.backpressure = totals.numbered - totals.sent;
    job.live.sent(clock::monotonic(), job.share, &[totals]);
    (totals, error)
}

/// Takes frames of this replay that the port threw away after all off what was sent.
fn take_unsent(tx: &mut dyn BurstSender, totals: &mut StreamTotals) {
    let numbered = totals.numbered;
    tx.take_unsent(&mut |frame| {
        if frame.ago < numbered {
            totals.sent -= 1;
            totals.bytes -= u64::from(frame.length) + u64::from(FCS);
        }
    });
}

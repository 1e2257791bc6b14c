//! Sends a plan in bursts through a port that takes frames, and keeps the pace.

use super::{Account, Job, LOOK};
use crate::handed::Handed;
use crate::held::Held;
use crate::lower::Lowered;
use crate::write::Writer;
use dutlab_measure::Histogram;
use dutlab_port::{BurstSender, Gaps, PortError, StreamTotals, clock};
use dutlab_traffic::{Chain, Next, Pacer, Schedule};
use dutlab_units::{FCS, Nanos};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time for which frames that were due by the end of a trial may still be sent.
const GRACE: Nanos = Nanos(10_000_000);
/// Distance to a due time below which the thread spins, because a sleep may end late.
const SPIN: Nanos = Nanos(150_000);
/// Longest sleep, so that a stop is noticed.
const NAP: Nanos = Nanos(20_000_000);
/// Delay after which a held-back frame counts as refused in the middle of a trial; it may still be sent.
const LAG: Nanos = Nanos(100_000_000);

/// Decides when a sender drops frames that are still due. A thread that lost its CPU at the end of the trial has
/// GRACE from when it runs again; one that is merely too slow reads the clock continuously, and has GRACE from the end.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Time at which the sender first found that the trial was over.
    seen: Option<Nanos>,
}

impl Closing {
    /// Returns true if due frames are no longer sent.
    pub(super) fn is_over(&mut self, now: Nanos, end: Nanos) -> bool {
        now >= end && now > *self.seen.get_or_insert(now) + GRACE
    }
}

/// Sender that works in bursts, and keeps the pace.
pub(super) struct Loop {
    schedule: Schedule,
    chains: Vec<Chain>,
    writers: Vec<Writer>,
    totals: Vec<StreamTotals>,
    gaps: Vec<Histogram>,
    held: Held,
    handed: Handed,
    /// Frames of each stream that were handed over and did not leave, and their bytes with FCS.
    unsent: Vec<(u64, u64)>,
    end: Nanos,
    closing: Closing,
    looked: Nanos,
    job: Job,
}

impl Loop {
    pub(super) fn new(job: Job) -> Self {
        let plan = &job.plan.plan;
        let chains = job.plan.chains.clone();
        let pacers = plan.streams.iter().zip(&job.plan.profiles).enumerate().map(|(i, (s, p))| {
            match chains.iter().find(|c| c.has(i)).map(Chain::first) {
                None => Pacer::new(p.clone(), plan.start + s.after, plan.end, s.frames),
                Some(first) if first.stream == i => Pacer::new(p.clone(), plan.start + first.gap, plan.end, s.frames),
                Some(_) => Pacer::idle(p.clone(), plan.end),
            }
        });
        Self {
            schedule: Schedule::new(pacers.collect()),
            chains,
            writers: plan.streams.iter().map(|s| Writer::new(plan.trial, s)).collect(),
            totals: vec![StreamTotals::default(); plan.streams.len()],
            gaps: vec![Histogram::default(); plan.streams.len()],
            held: Held::new(plan.streams.len()),
            handed: Handed::default(),
            unsent: vec![(0, 0); plan.streams.len()],
            end: plan.end,
            closing: Closing::default(),
            looked: Nanos::ZERO,
            job,
        }
    }

    pub(super) fn run(mut self, tx: &mut dyn BurstSender) -> Account {
        let cap = tx.burst_max() as u64;
        let error = loop {
            let now = clock::monotonic();
            if now.since(self.looked) >= LOOK && self.look(now) {
                break None;
            }
            match self.schedule.next(now, cap) {
                Next::Done => break None,
                Next::Wait(until) => rest(now, until),
                Next::Send { .. } if self.closing.is_over(now, self.end) => break None,
                Next::Send { index, frames } => {
                    if let Err(e) = self.send(tx, index, frames, now) {
                        break Some(e);
                    }
                }
            }
        };
        let error = error.or_else(|| tx.flush().err());
        self.take_unsent(tx);
        self.settle(clock::monotonic());
        let gaps = self.gaps.iter().map(|h| h.min().map(|min| gaps(h, min))).collect();
        (self.totals, gaps, error)
    }

    fn send(&mut self, tx: &mut dyn BurstSender, index: usize, frames: u64, now: Nanos) -> Result<(), PortError> {
        let (writer, totals) = (&mut self.writers[index], &mut self.totals[index]);
        let pacer = &mut self.schedule.pacers()[index];
        let late = if pacer.is_max() { Nanos::ZERO } else { now.since(pacer.next(now).min(now)) };
        if late > LAG && self.job.plan.plan.through_link_loss {
            pacer.take(overdue(pacer, now)); // refused: a link that is back must not carry frames due before
            if pacer.is_through() {
                follow(&mut self.chains, &mut self.schedule, &self.job.plan, index, now);
            }
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most burst_max, which is a usize")]
        let handed = match tx.send(frames as usize, &mut writer.burst(now)) {
            Ok(handed) => handed,
            Err(e) => {
                // These frames were tried, and refused.
                pacer.take(frames);
                return Err(e);
            }
        };
        let taken = (handed.sent + handed.refused) as u64;
        pacer.take(taken);
        if pacer.is_through() {
            follow(&mut self.chains, &mut self.schedule, &self.job.plan, index, now);
        }
        self.held.note(taken == frames, self.schedule.pacers(), now);
        if handed.sent > 0 {
            if totals.sent == 0 {
                totals.first = now;
            } else {
                self.gaps[index].record(now.since(totals.last));
            }
            self.gaps[index].record_many(Nanos::ZERO, handed.sent as u64 - 1);
            totals.last = now;
            totals.late_max = totals.late_max.max(late);
            writer.accept(handed.sent);
            totals.numbered = writer.frames();
            self.handed.note(index, handed.sent as u64);
            self.count_sent(index);
            self.take_unsent(tx);
        } else if handed.refused == 0 {
            // No room: give the CPU to the thread that makes room.
            std::thread::yield_now();
        }
        Ok(())
    }

    fn count_sent(&mut self, index: usize) {
        let ((unsent, bytes), writer) = (self.unsent[index], &self.writers[index]);
        self.totals[index].sent = writer.frames() - unsent;
        self.totals[index].bytes = writer.bytes() - bytes;
    }

    /// Subtracts frames that the port dropped after it had taken them.
    fn take_unsent(&mut self, tx: &mut dyn BurstSender) {
        let (handed, unsent) = (&self.handed, &mut self.unsent);
        let mut any = false;
        tx.take_unsent(&mut |frame| {
            if let Some(stream) = handed.stream(frame.ago) {
                unsent[stream].0 += 1;
                unsent[stream].1 += u64::from(frame.length) + u64::from(FCS);
                any = true;
            }
        });
        if any {
            (0..self.totals.len()).for_each(|i| self.count_sent(i));
        }
    }

    /// Publishes counters and handles commands; returns true to stop.
    fn look(&mut self, now: Nanos) -> bool {
        self.looked = now;
        let so_far = self.so_far(now);
        self.job.live.sent(now, self.job.share, &so_far);
        for change in self.job.changes.try_iter() {
            self.schedule.pacers()[change.index].change(change.profile, now);
        }
        self.job.stop.load(Ordering::Relaxed)
    }

    /// Closes the counters: frames that were asked for by now and not sent were refused.
    fn settle(&mut self, now: Nanos) {
        let held = self.held.until(self.schedule.pacers(), now);
        let streams = self.schedule.pacers().iter().zip(&mut self.totals).zip(held.iter().zip(&self.unsent));
        for ((pacer, totals), (held, (unsent, _))) in streams {
            totals.asked = pacer.asked_by(now).unwrap_or(0).max(pacer.taken());
            totals.refused = totals.asked - totals.sent;
            totals.backpressure = totals.refused.min(held + unsent);
        }
        self.job.live.sent(now, self.job.share, &self.totals);
    }

    /// Returns frames that were sent, and refused if they cannot catch up any more.
    fn so_far(&mut self, now: Nanos) -> Vec<StreamTotals> {
        let held = self.held.until(self.schedule.pacers(), now);
        let streams = self.totals.iter().zip(self.schedule.pacers()).zip(held.iter().zip(&self.unsent));
        let backpressure = |p: &Pacer, held: u64, unsent: u64| overdue(p, now).min(held) + unsent;
        streams
            .map(|((t, p), (held, (unsent, _)))| StreamTotals { backpressure: backpressure(p, *held, *unsent), ..*t })
            .collect()
    }
}

/// Begins the stream that follows stream `index`, whose last frame left or was refused at `now`.
fn follow(chains: &mut [Chain], schedule: &mut Schedule, plan: &Lowered, index: usize, now: Nanos) {
    if let Some(next) = chains.iter_mut().find_map(|chain| chain.after(index)) {
        schedule.pacers()[next.stream].begin(now + next.gap, plan.plan.streams[next.stream].frames);
    }
}

/// Returns the number of frames that were due longer than `LAG` ago.
fn overdue(pacer: &Pacer, now: Nanos) -> u64 {
    pacer.asked_by(Nanos(now.0.saturating_sub(LAG.0))).unwrap_or(0).saturating_sub(pacer.taken())
}

fn gaps(h: &Histogram, min: Nanos) -> Gaps {
    Gaps { min, max: h.max(), sum: h.sum_ns(), buckets: h.buckets() }
}

/// Waits until `until`: asleep when it is far away, spinning when it is near.
pub(super) fn rest(now: Nanos, until: Nanos) {
    let left = until.since(now);
    if left > SPIN {
        std::thread::sleep(Duration::from_nanos((left - SPIN).min(NAP).0));
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower;
    use crate::share::Share;
    use dutlab_port::Handed;
    use dutlab_port::batch::Fill;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    const END: Nanos = Nanos(20_000_000);

    /// A port whose first call returns long after the trial is over.
    struct Stalls(Option<Duration>);

    impl BurstSender for Stalls {
        fn burst_max(&self) -> usize {
            100_000
        }

        fn send(&mut self, want: usize, _: &mut dyn Fill) -> Result<Handed, PortError> {
            std::thread::sleep(self.0.take().unwrap_or_default());
            Ok(Handed { sent: want, refused: 0 })
        }
    }

    #[test]
    fn a_thread_that_lost_its_cpu_over_the_end_still_sends_what_was_due() {
        let plan = serde_json::json!({"duration_ns": END.0, "streams": [{"stream": 7, "destination_mac": "02:00:00:00:00:01",
            "source": "198.18.0.1", "destination": "198.19.0.1", "source_port": 1024, "destination_port": 1,
            "sizes": {"fixed_bytes": 128}, "rate": {"pps": 10_000.0}}]});
        let mut plan = lower::lower(&serde_json::from_value(plan).unwrap(), &lower::tests::iface(), &[]).unwrap();
        plan.plan.start = clock::monotonic();
        plan.plan.end = plan.plan.start + END;
        let job = Job {
            plan,
            share: Share::WHOLE,
            cpus: Vec::new(),
            stop: Arc::default(),
            changes: channel().1,
            live: Arc::default(),
            spare: None,
        };
        let (totals, _, error) = Loop::new(job).run(&mut Stalls(Some(Duration::from_millis(100))));
        assert!(error.is_none());
        assert_eq!((totals[0].asked, totals[0].sent), (200, 200));
    }

    #[test]
    fn a_thread_that_is_too_slow_has_the_grace_from_the_end() {
        let (mut slow, late) = (Closing::default(), END + Nanos(90_000_000));
        assert!(
            !slow.is_over(END, END) && !slow.is_over(END + GRACE, END) && slow.is_over(END + GRACE + Nanos(1), END)
        );
        let mut stalled = Closing::default();
        assert!(!stalled.is_over(late, END) && !stalled.is_over(late + GRACE, END));
        assert!(stalled.is_over(late + GRACE + Nanos(1), END));
    }
}

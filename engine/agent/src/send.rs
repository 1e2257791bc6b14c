//! The sending thread of a port.

mod replay;
mod threads;

use crate::handed::Handed;
use crate::held::Held;
use crate::live::Live;
use crate::lower::{self, Lowered};
use crate::share::Share;
use crate::write::Writer;
use dutlab_measure::Histogram;
use dutlab_port::af_packet::Bursts;
use dutlab_port::iface::Interface;
use dutlab_port::{BurstSender, Gaps, PlanControl, PlanSender, PortError, Sender, StreamTotals, clock, cpu};
use dutlab_protocol::totals::TimedBy;
use dutlab_traffic::{Chain, Next, Pacer, Profile, Schedule};
use dutlab_units::{FCS, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// What is due at the end of a trial may still be sent this long.
const GRACE: Nanos = Nanos(10_000_000);
/// Nearer than this the thread spins, for a sleep may end later.
const SPIN: Nanos = Nanos(150_000);
/// No sleep is longer, so that a stop is heard.
const NAP: Nanos = Nanos(20_000_000);
/// How often counters for live views and commands are looked at.
const LOOK: Nanos = Nanos(10_000_000);

/// A frame that the port has held back for longer counts as refused in the middle of a trial; it may still be sent.
const LAG: Nanos = Nanos(100_000_000);

/// A new rate for stream number `index` of the plan.
pub struct Change {
    /// The stream's place in the plan.
    pub index: usize,
    /// Its profile from now on.
    pub profile: Profile,
}

/// What a sending thread is given.
pub struct Job {
    /// What to send.
    pub plan: Lowered,
    /// Which part of the plan of the port that is.
    pub share: Share,
    /// CPUs to run on: one for each thread, in turn. Empty: on any.
    pub cpus: Vec<u32>,
    /// When to end early.
    pub stop: Arc<AtomicBool>,
    /// New rates.
    pub changes: Receiver<Change>,
    /// Counters for live views.
    pub live: Arc<Live>,
    /// Where another back end may send the plan, if this one cannot.
    pub spare: Option<Interface>,
}

/// What a sending thread leaves behind.
pub struct Done {
    /// The sending half, for the next trial.
    pub sender: Sender,
    /// What was sent, in the order of the plan's streams.
    pub totals: Vec<StreamTotals>,
    /// Time from each frame to the next, likewise; `None` where the back end does not keep it.
    pub gaps: Vec<Option<Gaps>>,
    /// What the user should know of how it was sent.
    pub notes: Vec<String>,
    /// Who read the clock for the time in each frame; `None`: a capture's frames keep what they had.
    pub timed_by: Option<TimedBy>,
    /// Whether it was told to stop.
    pub stopped: bool,
    /// Why it ended, if the port failed.
    pub error: Option<PortError>,
}

/// What was sent, the gaps between frames, and why sending failed.
type Account = (Vec<StreamTotals>, Vec<Option<Gaps>>, Option<PortError>);

/// Sends a plan to its end.
pub fn run(mut sender: Sender, job: Job) -> Done {
    cpu::pin_to_nth(&job.cpus, 0);
    clock::precise_timers();
    let stop = Arc::clone(&job.stop);
    let mut notes = Vec::new();
    let mut timed_by = job.plan.replay.is_none().then_some(TimedBy::Engine);
    let (totals, gaps, error) = match &mut sender {
        Sender::Burst(queues) => run_bursts(queues, job),
        Sender::Plan(tx) => match load(tx.as_mut(), &job) {
            Ok(control) => {
                timed_by = Some(TimedBy::Kernel);
                run_plan(tx.as_mut(), &control, job)
            }
            Err(e) => {
                if let Some(Ok(bursts)) = job.spare.as_ref().map(Bursts::open) {
                    notes.push(format!("sent with af_packet: {e}"));
                    run_bursts(&mut [Box::new(bursts)], job)
                } else {
                    let streams = job.plan.plan.streams.len();
                    (vec![StreamTotals::default(); streams], vec![None; streams], Some(e))
                }
            }
        },
    };
    Done { sender, totals, gaps, notes, timed_by, stopped: stop.load(Ordering::Relaxed), error }
}

/// Sends what the plan makes, or a capture that it replays.
fn run_bursts(queues: &mut [Box<dyn BurstSender>], job: Job) -> Account {
    // What follows what is known to one thread only.
    let together = job.plan.replay.is_some() || !job.plan.chains.is_empty();
    let most = if together { 1 } else { job.plan.plan.streams.len() };
    let used = queues.len().min(most);
    for tx in queues.iter_mut() {
        tx.go_through_link_loss(job.plan.plan.through_link_loss);
    }
    if used > 1 {
        return threads::run(&mut queues[..used], &job);
    }
    let tx = queues[0].as_mut();
    match job.plan.replay.clone() {
        Some(replay) => {
            let (totals, error) = replay::run(tx, &replay, &job);
            let gaps = vec![None; totals.len()];
            (totals, gaps, error)
        }
        None => Loop::new(job).run(tx),
    }
}

/// Hands the plan to a back end that makes the frames by itself.
fn load(tx: &mut dyn PlanSender, job: &Job) -> Result<Arc<dyn PlanControl>, PortError> {
    if job.plan.replay.is_some() {
        return Err(PortError::Unsupported {
            iface: "this port".into(),
            what: "its back end makes frames by itself and cannot send a capture".into(),
            remedy: "open the port with af_xdp or af_packet".into(),
        });
    }
    let refuse = |what: String| PortError::Unsupported {
        iface: "this port".into(),
        what,
        remedy: "open the port with af_xdp or af_packet".into(),
    };
    if !job.plan.chains.is_empty() {
        return Err(refuse("its back end begins all streams at once and cannot send chains".into()));
    }
    tx.load(&*lower::tabled(&job.plan.plan).map_err(refuse)?)
}

/// Lets the back end send; a second thread carries commands to it and counters from it.
fn run_plan(tx: &mut dyn PlanSender, control: &Arc<dyn PlanControl>, job: Job) -> Account {
    let Job { plan, share, stop, changes, live, .. } = job;
    let publish = Arc::clone(&live);
    let over = Arc::new(AtomicBool::new(false));
    let (over_there, control_there) = (Arc::clone(&over), Arc::clone(control));
    let helper = std::thread::spawn(move || {
        // Born pinned to the sender's CPU, where it would never get a turn.
        cpu::unpin();
        let mut refused = None;
        while !over_there.load(Ordering::Relaxed) {
            if stop.load(Ordering::Relaxed) {
                control_there.stop();
            }
            for change in changes.try_iter() {
                refused = control_there.set_pace(change.index, &lower::pace(&change.profile)).err().or(refused);
            }
            let now = clock::monotonic();
            live.sent(now, share, &control_there.totals());
            std::thread::sleep(Duration::from_nanos(LOOK.0));
        }
        refused
    });
    let result = tx.run();
    over.store(true, Ordering::Relaxed);
    let refused = helper.join().ok().flatten();
    let totals = control.totals();
    publish.sent(clock::monotonic(), share, &totals);
    let gaps = (0..plan.plan.streams.len()).map(|i| control.gaps(i)).collect();
    (totals, gaps, result.err().or(refused))
}

/// When a sender gives up what is still due. A thread that lost its CPU over the end of the trial has GRACE from when it runs again; one that
/// is merely too slow looks at the clock all the time, and has GRACE from the end.
#[derive(Debug, Default)]
struct Closing {
    /// When the sender first saw that the trial was over.
    seen: Option<Nanos>,
}

impl Closing {
    /// Whether what is due is sent no more.
    fn is_over(&mut self, now: Nanos, end: Nanos) -> bool {
        now >= end && now > *self.seen.get_or_insert(now) + GRACE
    }
}

/// Sends in bursts, and keeps the pace.
struct Loop {
    schedule: Schedule,
    chains: Vec<Chain>,
    writers: Vec<Writer>,
    totals: Vec<StreamTotals>,
    gaps: Vec<Histogram>,
    held: Held,
    handed: Handed,
    /// Of each stream: frames that were handed over and did not leave, and their bytes with FCS.
    unsent: Vec<(u64, u64)>,
    end: Nanos,
    closing: Closing,
    looked: Nanos,
    job: Job,
}

impl Loop {
    fn new(job: Job) -> Self {
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

    fn run(mut self, tx: &mut dyn BurstSender) -> Account {
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
            pacer.take(overdue(pacer, now)); // refused: a link that is back is not to carry what fell due without it
            if pacer.is_through() {
                follow(&mut self.chains, &mut self.schedule, &self.job.plan, index, now);
            }
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most burst_max, which is a usize")]
        let handed = match tx.send(frames as usize, &mut writer.burst(now)) {
            Ok(handed) => handed,
            Err(e) => {
                // These were tried, and refused.
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
            // No room: let whoever makes room have the CPU.
            std::thread::yield_now();
        }
        Ok(())
    }

    fn count_sent(&mut self, index: usize) {
        let ((unsent, bytes), writer) = (self.unsent[index], &self.writers[index]);
        self.totals[index].sent = writer.frames() - unsent;
        self.totals[index].bytes = writer.bytes() - bytes;
    }

    /// Takes frames that the port threw away after all off what was sent.
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

    /// Publishes counters and hears commands; says whether to stop.
    fn look(&mut self, now: Nanos) -> bool {
        self.looked = now;
        let so_far = self.so_far(now);
        self.job.live.sent(now, self.job.share, &so_far);
        for change in self.job.changes.try_iter() {
            self.schedule.pacers()[change.index].change(change.profile, now);
        }
        self.job.stop.load(Ordering::Relaxed)
    }

    /// Closes the books: what was asked for by now and not sent was refused.
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

    /// What was sent; and refused, if it does not catch up any more.
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

/// Frames that were due longer than `LAG` ago.
fn overdue(pacer: &Pacer, now: Nanos) -> u64 {
    pacer.asked_by(Nanos(now.0.saturating_sub(LAG.0))).unwrap_or(0).saturating_sub(pacer.taken())
}

fn gaps(h: &Histogram, min: Nanos) -> Gaps {
    Gaps { min, max: h.max(), sum: h.sum_ns(), buckets: h.buckets() }
}

/// Passes the time until `until`: asleep when it is far away, spinning when it is near.
fn rest(now: Nanos, until: Nanos) {
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
    use dutlab_port::Handed;
    use dutlab_port::batch::Fill;
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
        let mut plan = lower::lower(&serde_json::from_value(plan).unwrap(), &lower::tests::iface()).unwrap();
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

//! Sending thread of a port.

mod bursts;
mod replay;
mod threads;

use crate::live::Live;
use crate::lower::{self, Lowered};
use crate::share::Share;
use bursts::Loop;
use dutlab_port::af_packet::Bursts;
use dutlab_port::iface::Interface;
use dutlab_port::{BurstSender, Gaps, PlanControl, PlanSender, PortError, Sender, StreamTotals, clock, cpu};
use dutlab_protocol::totals::TimedBy;
use dutlab_traffic::Profile;
use dutlab_units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Interval at which counters are published and commands are handled.
const LOOK: Nanos = Nanos(10_000_000);

/// A new rate for stream number `index` of the plan.
pub struct Change {
    /// Index of the stream in the plan.
    pub index: usize,
    /// Its profile from now on.
    pub profile: Profile,
}

/// Job of a sending thread.
pub struct Job {
    /// Plan to send.
    pub plan: Lowered,
    /// Part of the port's plan.
    pub share: Share,
    /// CPUs to run on: one for each thread, in turn. Empty: on any.
    pub cpus: Vec<u32>,
    /// Flag that ends sending early.
    pub stop: Arc<AtomicBool>,
    /// New rates.
    pub changes: Receiver<Change>,
    /// Counters for live views.
    pub live: Arc<Live>,
    /// Interface on which another back end may send the plan, if this one cannot.
    pub spare: Option<Interface>,
}

/// Result of a sending thread.
pub struct Done {
    /// The sending half, for the next trial.
    pub sender: Sender,
    /// Counters, in the order of the plan's streams.
    pub totals: Vec<StreamTotals>,
    /// Gaps between frames, in the order of the plan's streams; `None` if the back end does not keep them.
    pub gaps: Vec<Option<Gaps>>,
    /// Notes for the user on how it was sent.
    pub notes: Vec<String>,
    /// Source of the time in each frame; `None`: a capture's frames keep their content.
    pub timed_by: Option<TimedBy>,
    /// True if it was stopped.
    pub stopped: bool,
    /// Reason of the end, if the port failed.
    pub error: Option<PortError>,
}

/// Counters, gaps between frames, and the error if sending failed.
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

/// Sends the frames that the plan makes, or a capture that it replays.
fn run_bursts(queues: &mut [Box<dyn BurstSender>], job: Job) -> Account {
    // The successor of a stream is known to one thread only.
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

/// Gives the plan to a back end that makes the frames itself.
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

/// Lets the back end send; a second thread passes commands to it and counters from it.
fn run_plan(tx: &mut dyn PlanSender, control: &Arc<dyn PlanControl>, job: Job) -> Account {
    let Job { plan, share, stop, changes, live, .. } = job;
    let publish = Arc::clone(&live);
    let over = Arc::new(AtomicBool::new(false));
    let (over_there, control_there) = (Arc::clone(&over), Arc::clone(control));
    let helper = std::thread::spawn(move || {
        // This thread inherits the pinning to the sender's CPU, where it would never run.
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

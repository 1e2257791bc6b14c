//! The sender: a thread inside one long live-frame call, steered and read through shared memory.

use crate::contract::{
    self, Control, GAP_STEPS_LOG2, HALT_ALL_SENT, HALT_ASKED, HALT_NO, HALT_TIME_UP, Lane, Refusals, Stream,
};
use crate::error::{Why, XdpError};
use crate::histogram::Histogram;
use crate::live::{Call, Words};
use crate::plan::{Pace, XdpPlan};
use crate::sent::{SendEnd, SendReport, SentLane, backlog};
use crate::setup::{
    self, Facts, batch, control_of, copied_head, fill, fill_payload, is_paced, observe, program_for, small, tables,
};
use crate::shared::{SharedArray, load, load32, load64, store32, store64};
use crate::system;
use aya::programs::Xdp;
use dutlab_port::clock;
use std::io;
use std::ptr::addr_of_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Setting up the call takes about 25 ms (a pool of pages); the first frame is due after that.
const SETUP_NS: u64 = 50_000_000;
/// A paced frame that the device had no room for is offered again until it is so late; `pace.h` skips what is later.
const HELD_MOST_NS: u64 = 100_000_000;
/// A gap that ends after 18 minutes: whoever pauses a lane moves its last frame on before that.
const PAUSE_Q24: u64 = u64::MAX - (1 << 24);

/// A trial's sender. Dropping it stops it and waits for its thread.
pub(crate) struct XdpSender {
    iface: String,
    control: SharedArray<Control>,
    streams: SharedArray<Stream>,
    refusals: SharedArray<Refusals>,
    gaps: SharedArray<u64>,
    lanes: usize,
    start_ns: u64,
    end_ns: u64,
    facts: system::Interface,
    refusals_known: bool,
    /// A frame that the device refuses stays refused, and is the only stream's.
    refused_for_good: bool,
    through_link_loss: bool,
    tid: Arc<AtomicI32>,
    call: Option<Call>,
    thread: Option<JoinHandle<Result<(), XdpError>>>,
}

impl XdpSender {
    /// Loads everything that sending on `iface` needs, which lies in the calling thread's network namespace. Sends nothing yet.
    ///
    /// # Errors
    /// When the plan, the interface, the permission or the kernel does not allow it; nothing is left behind then.
    pub(crate) fn prepare(iface: &str, plan: &XdpPlan) -> Result<Self, XdpError> {
        plan.check().map_err(|why| XdpError::new(iface, "plan", why))?;
        let facts = system::Interface::find(iface)?;
        let longest = plan.templates().map(crate::template::Template::len).max().unwrap_or(0);
        facts.can_send(longest)?;

        let t = tables(plan);
        // The head is copied in whole before the frame is cut to its length, so the page holds at least that.
        let cut_each = facts.keeps_what_drivers_wrote();
        let data_len = longest.max(copied_head(plan)) + usize::from(cut_each);
        let mut page = vec![0; data_len];
        for f in plan.templates() {
            page[..f.len()].copy_from_slice(f.bytes());
        }
        let keeps_log = program_for(plan, &t) == "send_any";
        // A card only reads the page. Behind a veth the DUT has the page itself, and may leave it altered.
        let rewrite = facts.driver == "veth" || facts.driver == "unknown";
        let told = Facts { ifindex: facts.index, log: keeps_log, rewrite, cut_each, data_len: small(data_len) };
        let mut bpf = setup::load(iface, plan, &t, &told)?;
        let maps = |e: XdpError| XdpError { iface: iface.into(), ..e };
        let control = SharedArray::<Control>::map(&bpf, "control", 1).map_err(maps)?;
        let streams = SharedArray::<Stream>::map(&bpf, "streams", t.streams.len()).map_err(maps)?;
        let refusals = SharedArray::<Refusals>::map(&bpf, "refusals", 1).map_err(maps)?;
        let gaps = SharedArray::<u64>::map(&bpf, "gaps", plan.lanes.len() * contract::buckets(GAP_STEPS_LOG2))
            .map_err(maps)?;
        fill_payload(&mut bpf, page.get(copied_head(plan)..).unwrap_or(&[])).map_err(maps)?;
        fill(&bpf, "shapes", &t.shapes).map_err(maps)?;
        fill(&bpf, "orders", &t.orders).map_err(maps)?;
        fill(&bpf, "flows4", &t.flows4).map_err(maps)?;
        fill(&bpf, "flows6", &t.flows6).map_err(maps)?;
        for (i, s) in t.streams.iter().enumerate() {
            streams.set(i, *s);
        }
        let program = program_for(plan, &t);
        let loaded: &mut Xdp = bpf
            .program_mut(program)
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| XdpError::new(iface, "load", Why::Other(format!("the object has no program {program}"))))?;
        loaded.load().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
        let refusals_known = observe(&mut bpf);

        // Loading took a while. A plan that begins late is a whole plan; one that begins at once has frames to catch up.
        let start_ns = (clock::monotonic().0 + SETUP_NS).max(plan.start_ns);
        let (initial, end_ns) = control_of(plan, start_ns).map_err(|why| XdpError::new(iface, "plan", why))?;
        control.set(0, initial);
        system::install_wake_signal().map_err(|e| XdpError::system(iface, "sigaction", e))?;

        let words = Words { halt: addr_of_halt(&control), tid: addr_of_tid(&refusals) };
        let call = Call { iface: iface.into(), bpf, program, page, batch: batch(plan), words };
        Ok(Self {
            iface: iface.into(),
            control,
            streams,
            refusals,
            gaps,
            lanes: plan.lanes.len(),
            start_ns,
            end_ns,
            facts,
            refusals_known,
            refused_for_good: !keeps_log && !is_paced(plan),
            through_link_loss: plan.through_link_loss,
            tid: Arc::default(),
            call: Some(call),
            thread: None,
        })
    }

    /// Starts the sending thread, once. It may run where the calling thread may.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn launch(&mut self) -> Result<(), XdpError> {
        let Some(call) = self.call.take() else { return Ok(()) };
        let tid = Arc::clone(&self.tid);
        let thread = thread::Builder::new().name(format!("send-{}", self.iface)).spawn(move || call.run(&tid));
        self.thread = Some(thread.map_err(|e| XdpError::system(&self.iface, "pthread_create", e))?);
        Ok(())
    }

    /// The interface.
    pub(crate) fn iface(&self) -> &str {
        &self.iface
    }

    /// From when and until when frames are due: later than planned if loading took too long.
    pub(crate) fn span_ns(&self) -> (u64, u64) {
        (self.start_ns, self.end_ns)
    }

    /// Where a lane is.
    pub(crate) fn standing(&self, lane: usize) -> Standing {
        let l = self.lane(lane);
        Standing { taken: self.streams.get(lane).sequence + l.at.missed, last_due_ns: l.at.last_ns }
    }

    /// Sets the distance of a paced lane's frames (`None`: a pause), and when the last one was due if that is to be
    /// forgotten. Holds from the next frame on.
    pub(crate) fn steer(&self, lane: usize, gap_ns: Option<f64>, last_due_ns: Option<u64>) {
        let gap = gap_ns.map_or(PAUSE_Q24, |g| {
            Pace::Every { gap_ns: g.clamp(1.0, 5e11) }.gap_and_burst().map_or(PAUSE_Q24, |g| g.0)
        });
        // SAFETY: `pointer` and the index into `lanes` are checked; both words are the mapping's. The program may store
        // a due time of its own at the same moment: then one frame leaves a gap too early.
        unsafe {
            if let Some(last) = last_due_ns {
                store64(&raw mut (*self.control.pointer(0)).lanes[lane].at.last_ns, last);
            }
            store64(&raw mut (*self.control.pointer(0)).lanes[lane].gap_q24, gap);
        }
    }

    /// Changes a lane's pace while it runs; it holds from the next frame on, counted from the last one's due time. A lane
    /// that began at full speed cannot be paced later, nor one with bursts go without.
    ///
    /// # Errors
    /// When there is no such lane or no such pace.
    pub(crate) fn set_pace(&self, lane: usize, pace: Pace) -> Result<(), XdpError> {
        let refuse = |what: String| Err(XdpError::new(&self.iface, "set_pace", Why::Plan(what)));
        if lane >= self.lanes {
            return refuse(format!("lane {lane} of {}", self.lanes));
        }
        let (gap, burst) = pace.gap_and_burst().map_err(|why| XdpError::new(&self.iface, "set_pace", why))?;
        let now = self.lane(lane);
        if gap == 0 || now.gap_q24 == 0 || burst != now.burst {
            return refuse("only the distance of a paced lane's frames or bursts can change".into());
        }
        // SAFETY: `lane` is below the array's length, and the pointer is the mapping's.
        unsafe { store64(addr_of_mut!((*self.control.pointer(0)).lanes[lane].gap_q24), gap) };
        Ok(())
    }

    /// Whether sending has ended; it also ends the call when the program has nothing more to send, so it must be called
    /// now and then.
    ///
    /// # Errors
    /// `PortVanished` when the interface is gone; the sender has stopped then.
    pub(crate) fn poll(&mut self) -> Result<SendEnd, XdpError> {
        if self.end() != SendEnd::Running || self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish()?;
        } else if system::index_of(&self.iface) != Some(self.facts.index) {
            self.stop()?;
            return Err(XdpError::new(&self.iface, "if_nametoindex", Why::PortVanished));
        } else if let Some(e) = self.cut_off() {
            self.stop()?;
            return Err(e);
        }
        Ok(self.end())
    }

    /// Ends sending now and waits for the thread, which takes some milliseconds.
    ///
    /// # Errors
    /// What the call itself ended with.
    pub(crate) fn stop(&mut self) -> Result<(), XdpError> {
        // SAFETY: the mapping's own word.
        unsafe {
            let halt = addr_of_halt(&self.control);
            if load32(halt) == HALT_NO {
                store32(halt, HALT_ASKED);
            }
        }
        self.finish()
    }

    /// Whether the device takes no frames at all any more: it is down, a veth whose peer is, or a card without a queue for the
    /// CPU that sends (`mlx5e_xdp_xmit` answers ENXIO then). Never of a plan that goes on through that: the last refusal is all that
    /// is known, and may be of a link that is back.
    fn cut_off(&self) -> Option<XdpError> {
        if self.through_link_loss {
            return None;
        }
        let errno = self.refusals().last_error.cast_signed();
        let why = match errno {
            libc::ENXIO if self.facts.is_card() && self.facts.is_up() => Why::NoTransmitQueue {
                driver: self.facts.driver.clone(),
                cpu: system::cpu_of(self.tid.load(Ordering::Acquire)),
            },
            libc::ENETDOWN | libc::ENXIO | libc::ENODEV => Why::PortVanished,
            _ => return None,
        };
        let source = Some(io::Error::from_raw_os_error(errno));
        Some(XdpError { source, ..XdpError::new(&self.iface, "bpf_redirect", why) })
    }

    fn lane(&self, lane: usize) -> Lane {
        // SAFETY: the index is checked, and the lane is the mapping's; this process writes whole words of it only.
        unsafe { load(&raw const (*self.control.pointer(0)).lanes[lane]) }
    }

    /// The program's state. The thread writes `halt`, half of a word, so it cannot be copied as a whole.
    fn state(&self) -> Control {
        let c = self.control.pointer(0);
        // SAFETY: fields of the mapped value.
        let (halt, [end_ns, begun_ns, ended_ns, now_ns]) = unsafe {
            let (end, begun) = (&raw const (*c).end_ns, &raw const (*c).begun_ns);
            let (ended, now) = (&raw const (*c).ended_ns, &raw const (*c).now_ns);
            (load32(&raw const (*c).halt), [end, begun, ended, now].map(|at| load64(at)))
        };
        let lanes = std::array::from_fn(|lane| self.lane(lane));
        Control { halt, end_ns, begun_ns, ended_ns, now_ns, lanes, ..Control::default() }
    }

    /// What was refused. The thread writes `tid`, likewise.
    fn refusals(&self) -> Refusals {
        let r = self.refusals.pointer(0);
        // SAFETY: fields of the mapped value.
        unsafe {
            let (by_driver, before) = (load64(&raw const (*r).by_driver), load64(&raw const (*r).before));
            Refusals { by_driver, before, last_error: load32(&raw const (*r).last_error), tid: 0 }
        }
    }

    fn end(&self) -> SendEnd {
        // SAFETY: the mapping's own word.
        match unsafe { load32(addr_of_halt(&self.control)) } {
            HALT_NO => SendEnd::Running,
            HALT_TIME_UP => SendEnd::TimeUp,
            HALT_ALL_SENT => SendEnd::AllSent,
            _ => SendEnd::Stopped,
        }
    }

    /// Interrupts the call until the thread is through: a signal that comes before the call begins is lost.
    fn finish(&mut self) -> Result<(), XdpError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        while !thread.is_finished() {
            let tid = self.tid.load(Ordering::Acquire);
            if tid != 0 {
                system::wake(tid);
            }
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().unwrap_or_else(|_| {
            Err(XdpError::new(&self.iface, "thread", Why::Other("the sending thread panicked".into())))
        })
    }

    /// What has been sent so far; final once sending has ended.
    pub(crate) fn report(&self) -> SendReport {
        let mut control = self.state();
        let refusals = self.refusals();
        let behind = control.lanes.iter().any(|l| l.behind_ns > 0);
        if self.thread.is_some() {
            // What the program would skip if the device made room now.
            control.ended_ns = if behind { clock::monotonic().0.saturating_sub(HELD_MOST_NS) } else { 0 };
        }
        let nonzero = |n: u64| (n != 0).then_some(n);
        let row = contract::buckets(GAP_STEPS_LOG2);
        let lanes = (0..self.lanes)
            .map(|i| (i, self.streams.get(i), backlog(&control, i, self.end_ns)))
            .map(|(i, stream, backlog)| SentLane {
                offered: stream.sequence,
                refused: if self.refused_for_good { refusals.by_driver + refusals.before } else { stream.refused },
                offered_bytes: stream.bytes,
                missed: control.lanes[i].at.missed + backlog,
                kept_out: control.lanes[i].at.kept_out + if behind { backlog } else { 0 },
                last_ns: match control.lanes[i].at.sent_at_ns {
                    // Where no gaps are kept, the last reading of the clock will do: it is a few frames old at most.
                    0 => control.now_ns,
                    at => at,
                },
                late_max_ns: control.lanes[i].late_max_ns,
                gaps: Histogram::new(GAP_STEPS_LOG2, self.gaps.range(i * row, row).collect()),
            })
            .collect();
        SendReport {
            begun_ns: nonzero(control.begun_ns),
            ended_ns: nonzero(control.ended_ns),
            lanes,
            refusals_known: self.refusals_known,
        }
    }
}

/// Where a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Frames offered to the device and not taken back, and frames skipped.
    pub(crate) taken: u64,
    /// When the last of them was due.
    pub(crate) last_due_ns: u64,
}

impl Drop for XdpSender {
    fn drop(&mut self) {
        // The trial is over either way; whoever wants the error calls `stop`.
        let _ = self.stop();
    }
}

fn addr_of_halt(control: &SharedArray<Control>) -> *mut u32 {
    // SAFETY: a field of the mapped value.
    unsafe { addr_of_mut!((*control.pointer(0)).halt) }
}

fn addr_of_tid(refusals: &SharedArray<Refusals>) -> *mut u32 {
    // SAFETY: a field of the mapped value.
    unsafe { addr_of_mut!((*refusals.pointer(0)).tid) }
}

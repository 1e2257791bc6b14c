//! The sender: a thread inside one long live-frame call, steered and read through shared memory.

use super::contract::{
    self, Control, GAP_STEPS_LOG2, HALT_ALL_SENT, HALT_ASKED, HALT_NO, HALT_TIME_UP, Refusals, Stream,
};
use super::error::{Why, XdpError};
use super::histogram::Histogram;
use super::plan::{Pace, XdpPlan};
use super::setup::{batch, control_of, copied_head, fill, fill_payload, load, observe, program_for, tables};
use super::shared::{SharedArray, load32, store32, store64};
use super::system;
use aya::programs::{TestRun as _, Xdp};
use aya::{Ebpf, TestRunAttrs, TestRunOptions};
use std::io;
use std::ptr::addr_of_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Setting up the call takes about 25 ms (a pool of pages); the first frame is due after that.
const SETUP_NS: u64 = 50_000_000;
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
    /// Whether `refused` is told from the kernel's own record of what the driver took (needs kernel BTF). Where it is
    /// false, `refused` is 0 and frames that a driver drops count as lost on the way.
    pub refusals_known: bool,
    /// The errno of the last refusal; 0: none, or the driver's queue was full.
    pub last_refusal_errno: i32,
}

/// A stream's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentStream {
    /// Its number.
    pub id: u16,
    /// Frames written and handed to the kernel; their sequence numbers are 0 to `offered - 1`.
    pub offered: u64,
    /// Of these, frames that the driver refused.
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
    /// The most that a frame was written after it was due; 0 at full speed.
    pub late_max_ns: u64,
    /// Times between successive frames of the lane, as they were written. Known to 1/128.
    pub gaps: Histogram,
}

/// A running trial's sender. Dropping it stops it and waits for its thread.
pub struct XdpSender {
    iface: String,
    control: SharedArray<Control>,
    streams: SharedArray<Stream>,
    refusals: SharedArray<Refusals>,
    gaps: SharedArray<u64>,
    lanes: usize,
    end_ns: u64,
    ifindex: u32,
    refusals_known: bool,
    keeps_log: bool,
    tid: Arc<AtomicI32>,
    thread: Option<JoinHandle<Result<(), XdpError>>>,
}

impl XdpSender {
    /// Starts to send on `iface`, which lies in the calling thread's network namespace, from a thread pinned to `cpu`.
    ///
    /// # Errors
    /// When the plan, the interface, the permission or the kernel does not allow it; nothing is left behind then.
    pub fn start(iface: &str, plan: &XdpPlan, cpu: Option<usize>) -> Result<Self, XdpError> {
        plan.check().map_err(|why| XdpError::new(iface, "plan", why))?;
        let facts = system::Interface::find(iface)?;
        let longest = plan.templates().map(|t| t.len()).max().unwrap_or(0);
        facts.can_send(longest)?;

        let t = tables(plan);
        // The head is copied in whole before the frame is cut to its length, so the page holds at least that.
        let data_len = longest.max(copied_head(plan));
        let mut page = vec![0; data_len];
        for f in plan.templates() {
            page[..f.len()].copy_from_slice(f.bytes());
        }
        let keeps_log = program_for(plan, &t) == "send_any";
        // A card only reads the page. Behind a veth the DUT has the page itself, and may leave it altered.
        let rewrite = facts.driver == "veth" || facts.driver == "unknown";
        let mut bpf = load(iface, plan, &t, facts.index, keeps_log, rewrite, data_len as u32)?;
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

        let start_ns = plan.start_ns.unwrap_or_else(|| system::monotonic_ns() + SETUP_NS);
        let (initial, end_ns) = control_of(plan, start_ns).map_err(|why| XdpError::new(iface, "plan", why))?;
        control.set(0, initial);
        system::install_wake_signal().map_err(|e| XdpError::system(iface, "sigaction", e))?;

        let tid = Arc::new(AtomicI32::new(0));
        let (seen_tid, name, batch) = (Arc::clone(&tid), iface.to_owned(), batch(plan, keeps_log));
        let words = ThreadWords { halt: addr_of_halt(&control), tid: addr_of_tid(&refusals) };
        let thread = thread::Builder::new()
            .name(format!("send-{iface}"))
            .spawn(move || run(&name, bpf, program, &page, batch, cpu, &seen_tid, words))
            .map_err(|e| XdpError::system(iface, "pthread_create", e))?;
        Ok(Self {
            iface: iface.into(),
            control,
            streams,
            refusals,
            gaps,
            lanes: plan.lanes.len(),
            end_ns,
            ifindex: facts.index,
            refusals_known,
            keeps_log,
            tid,
            thread: Some(thread),
        })
    }

    /// Changes a lane's pace while it runs; it holds from the next frame on, counted from the last one's due time. A lane
    /// that began at full speed cannot be paced later, nor one with bursts go without.
    ///
    /// # Errors
    /// When there is no such lane or no such pace.
    pub fn set_pace(&self, lane: usize, pace: Pace) -> Result<(), XdpError> {
        let refuse = |what: String| Err(XdpError::new(&self.iface, "set_pace", Why::Plan(what)));
        if lane >= self.lanes {
            return refuse(format!("lane {lane} of {}", self.lanes));
        }
        let (gap, burst) = pace.gap_and_burst().map_err(|why| XdpError::new(&self.iface, "set_pace", why))?;
        let now = self.control.get(0).lanes[lane];
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
    pub fn poll(&mut self) -> Result<SendEnd, XdpError> {
        let end = self.end();
        if end != SendEnd::Running {
            self.finish()?;
        } else if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish()?;
        } else if system::index_of(&self.iface) != Some(self.ifindex) {
            self.stop()?;
            return Err(XdpError::new(&self.iface, "if_nametoindex", Why::PortVanished));
        }
        Ok(self.end())
    }

    /// Waits until sending has ended by itself.
    ///
    /// # Errors
    /// What `poll` says.
    pub fn wait(&mut self) -> Result<SendReport, XdpError> {
        while self.poll()? == SendEnd::Running {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(self.report())
    }

    /// Ends sending now and waits for the thread, which takes some milliseconds.
    ///
    /// # Errors
    /// What the call itself ended with.
    pub fn stop(&mut self) -> Result<(), XdpError> {
        // SAFETY: the mapping's own word.
        unsafe {
            let halt = addr_of_halt(&self.control);
            if load32(halt) == HALT_NO {
                store32(halt, HALT_ASKED);
            }
        }
        self.finish()
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
    #[must_use]
    pub fn report(&self) -> SendReport {
        let control = self.control.get(0);
        let refusals = self.refusals.get(0);
        let nonzero = |n: u64| (n != 0).then_some(n);
        let mut streams: Vec<_> = self
            .streams
            .range(0, self.streams.len())
            .map(|s| SentStream { id: s.id as u16, offered: s.sequence, refused: s.refused, offered_bytes: s.bytes })
            .collect();
        if !self.keeps_log {
            // One stream: all refusals are its.
            streams[0].refused = refusals.by_driver + refusals.before;
        }
        let row = contract::buckets(GAP_STEPS_LOG2);
        let lanes = (0..self.lanes)
            .map(|i| SentLane {
                missed: control.lanes[i].missed
                    + if self.thread.is_none() { backlog(&control, i, self.end_ns) } else { 0 },
                late_max_ns: control.lanes[i].late_max_ns,
                gaps: Histogram::new(GAP_STEPS_LOG2, self.gaps.range(i * row, row).collect()),
            })
            .collect();
        SendReport {
            end: self.end(),
            begun_ns: nonzero(control.begun_ns),
            ended_ns: nonzero(control.ended_ns),
            streams,
            lanes,
            refusals_known: self.refusals_known,
            last_refusal_errno: refusals.last_error as i32,
        }
    }
}

impl Drop for XdpSender {
    fn drop(&mut self) {
        // The trial is over either way; whoever wants the error calls `stop`.
        let _ = self.stop();
    }
}

/// Frames of a lane that were due before the end and are not sent yet.
fn backlog(c: &Control, lane: usize, end_ns: u64) -> u64 {
    let l = &c.lanes[lane];
    let until = if c.ended_ns == 0 { return 0 } else { c.ended_ns.min(end_ns) };
    if l.gap_q24 == 0 || l.frames_left == 0 {
        return 0;
    }
    let since = u128::from(until.saturating_sub(l.last_ns)) << 24;
    // A frame that would be due exactly at the end is not asked for.
    let due = u64::try_from(since.saturating_sub(1) / u128::from(l.gap_q24)).unwrap_or(u64::MAX);
    due.saturating_mul(u64::from(l.burst)).saturating_add(u64::from(l.burst_left)).min(l.frames_left)
}

fn addr_of_halt(control: &SharedArray<Control>) -> *mut u32 {
    // SAFETY: a field of the mapped value.
    unsafe { addr_of_mut!((*control.pointer(0)).halt) }
}

fn addr_of_tid(refusals: &SharedArray<Refusals>) -> *mut u32 {
    // SAFETY: a field of the mapped value.
    unsafe { addr_of_mut!((*refusals.pointer(0)).tid) }
}

/// Words of mappings that outlive the thread which uses them: `XdpSender` joins the thread before it unmaps.
struct ThreadWords {
    halt: *mut u32,
    tid: *mut u32,
}
// SAFETY: see above; all accesses are atomic.
unsafe impl Send for ThreadWords {}

/// The sending thread. One call sends up to 2^32 frames; long trials at high rates make several, 25 ms apart.
fn run(
    iface: &str,
    mut bpf: Ebpf,
    program: &str,
    page: &[u8],
    batch: u32,
    cpu: Option<usize>,
    tid: &AtomicI32,
    words: ThreadWords,
) -> Result<(), XdpError> {
    let ThreadWords { halt, tid: told_tid } = { words };
    system::block_signals();
    tid.store(system::thread_id(), Ordering::Release);
    // SAFETY: the mapping's own word, as `ThreadWords` says.
    unsafe { store32(told_tid, system::thread_id().cast_unsigned()) };
    let result = (|| {
        if let Some(cpu) = cpu {
            system::pin(cpu).map_err(|e| XdpError::system(iface, "sched_setaffinity", e))?;
        }
        let program: &mut Xdp = bpf.program_mut(program).and_then(|p| p.try_into().ok()).expect("it was loaded");
        // SAFETY: the mapping's own word, as `ThreadWords` says.
        while unsafe { load32(halt) } == HALT_NO {
            let mut options = TestRunOptions::new();
            options.data_in = Some(page);
            options.repeat = u32::MAX;
            options.attrs = TestRunAttrs::new().xdp_live_frames(batch);
            if let Err(e) = program.test_run(options) {
                let e = XdpError::load(iface, "bpf(BPF_PROG_TEST_RUN)", &e);
                match e.source.as_ref().and_then(io::Error::raw_os_error) {
                    Some(libc::EINTR) => continue,
                    Some(libc::EINVAL) => {
                        let why = Why::KernelTooOld { lacks: "live frames", since: "5.18" };
                        return Err(XdpError { why, ..e });
                    }
                    _ => return Err(e),
                }
            }
        }
        Ok(())
    })();
    // SAFETY: as above. A thread that failed must not look as if it still ran.
    unsafe {
        if load32(halt) == HALT_NO {
            store32(halt, HALT_ASKED);
        }
    }
    result
}

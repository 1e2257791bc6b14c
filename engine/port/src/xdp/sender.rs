//! The sender: a thread inside one long live-frame call, steered and read through shared memory.

use super::contract::{
    self, Control, Flow4, Flow6, GAP_STEPS_LOG2, HALT_ALL_SENT, HALT_ASKED, HALT_NO, HALT_TIME_UP, HEAD_MAX, Refusals, SENT_LOG, Shape, Stream,
};
use super::error::{Why, XdpError};
use super::histogram::Histogram;
use super::plan::{Flow, Pace, XdpPlan, flow4, flow6, ports_bytes};
use super::shared::{SharedArray, load32, store32, store64};
use super::system;
use aya::programs::{BtfTracePoint, TestRun as _, Xdp};
use aya::{Btf, Ebpf, EbpfLoader, TestRunAttrs, TestRunOptions};
use std::io;
use std::ptr::addr_of_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Setting up the call takes about 25 ms (a pool of pages); the first frame is due after that.
const SETUP_NS: u64 = 50_000_000;
const BATCH_FULL: u32 = 64;
const BATCH_PACED: u32 = 16;
/// The kernel hands frames to the driver in bulks of this size (`DEV_MAP_BULK_SIZE`).
const BULK: u32 = 16;

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

/// The tables that the program reads, made from the plan.
struct Tables {
    shapes: Vec<Shape>,
    orders: Vec<u32>,
    streams: Vec<Stream>,
    flows4: Vec<Flow4>,
    flows6: Vec<Flow6>,
}

fn tables(plan: &XdpPlan) -> Tables {
    let mut t = Tables { shapes: vec![], orders: vec![], streams: vec![], flows4: vec![], flows6: vec![] };
    let small = |n: usize| u32::try_from(n).expect("tables are far below 2^32 entries");
    for stream in plan.lanes.iter().flat_map(|l| &l.streams) {
        let first_shape = small(t.shapes.len());
        let has_flows = !stream.flows.is_empty();
        t.shapes.extend(stream.templates.iter().map(|f| f.shape(has_flows)));
        let order_first = small(t.orders.len());
        if stream.order.is_empty() {
            t.orders.extend((0..small(stream.templates.len())).map(|i| first_shape + i));
        } else {
            t.orders.extend(stream.order.iter().map(|i| first_shape + i));
        }
        let v6 = stream.templates[0].ip_version() == 6;
        let flow_first = small(if v6 { t.flows6.len() } else { t.flows4.len() });
        let pseudo = stream.templates[0].has_pseudo_header();
        for flow in &stream.flows {
            match *flow {
                Flow::V4 { source, destination, source_port, destination_port } => {
                    t.flows4.push(flow4(source, destination, ports_bytes(source_port, destination_port), pseudo));
                }
                Flow::V6 { source, destination, source_port, destination_port } => {
                    t.flows6.push(flow6(source, destination, ports_bytes(source_port, destination_port)));
                }
            }
        }
        t.streams.push(Stream {
            id: u32::from(stream.id),
            order_first,
            orders: small(t.orders.len()) - order_first,
            flow_first,
            flows: small(stream.flows.len()),
            ..Stream::default()
        });
    }
    t
}

/// Constants of the program; the loader keeps references to them until it loads.
struct Constants {
    words: Vec<(&'static str, u32)>,
    flags: Vec<(&'static str, u8)>,
    max_lag_ns: u64,
}

fn constants(plan: &XdpPlan, t: &Tables, ifindex: u32, netns: u32, log: bool, data_len: u32) -> Constants {
    let head_len = copied_head(plan);
    let same = |of: fn(&Shape) -> u8| if t.shapes.iter().all(|s| of(s) == of(&t.shapes[0])) { of(&t.shapes[0]) } else { 0 };
    let paced = plan.lanes.iter().any(|l| l.pace != Pace::Full);
    Constants {
        words: vec![
            ("egress_ifindex", ifindex),
            ("egress_netns", netns),
            ("batch", batch(plan, log)),
            ("lane_count", plan.lanes.len() as u32),
            ("head_len", head_len as u32),
            ("data_len", data_len),
            ("clock_every", if paced { 1 } else { plan.clock_every.unwrap_or(16).max(1) }),
        ],
        flags: vec![
            ("paced", u8::from(paced)),
            ("fixed_probe_at", same(|s| s.probe_at)),
            ("fixed_sum_at", same(|s| s.sum_at)),
            ("keep_log", u8::from(log)),
            ("keep_gaps", u8::from(paced || plan.gaps_at_full_speed)),
        ],
        max_lag_ns: plan.max_lag_ns.unwrap_or(100_000_000),
    }
}

/// Bytes that the program copies for each frame: the shortest of the lengths that it knows which holds every head.
fn copied_head(plan: &XdpPlan) -> usize {
    let longest = plan.templates().map(|f| f.head_len()).max().unwrap_or(0);
    [60, 64, 72, 80, 92].into_iter().find(|n| *n >= longest).unwrap_or(HEAD_MAX)
}

/// The program that can do what the plan asks for, and as little else as possible.
fn program_for(plan: &XdpPlan, t: &Tables) -> &'static str {
    let bursts = plan.lanes.iter().any(|l| matches!(l.pace, Pace::Bursts { .. }));
    if t.streams.len() > 1 || t.shapes.len() > 1 || bursts || usize::from(t.shapes[0].length) < copied_head(plan) {
        "send_any"
    } else if plan.lanes[0].pace != Pace::Full {
        "send_paced"
    } else if plan.gaps_at_full_speed {
        "send_any"
    } else if t.flows4.is_empty() && t.flows6.is_empty() {
        "send_full"
    } else {
        "send_flows"
    }
}

fn batch(plan: &XdpPlan, log: bool) -> u32 {
    let paced = plan.lanes.iter().any(|l| l.pace != Pace::Full);
    // With the log, a paced batch is one bulk at most: see `note_refused`.
    let most = if log && paced { BULK } else { 256 };
    plan.batch.unwrap_or(if paced { BATCH_PACED } else { BATCH_FULL }).clamp(1, most)
}

fn load(iface: &str, plan: &XdpPlan, t: &Tables, ifindex: u32, log: bool, data_len: u32) -> Result<Ebpf, XdpError> {
    let netns = system::netns_inode().map_err(|e| XdpError::system(iface, "stat of /proc/thread-self/ns/net", e))?;
    let pidns = system::pidns().map_err(|e| XdpError::system(iface, "stat of /proc/self/ns/pid", e))?;
    let c = constants(plan, t, ifindex, netns, log, data_len);
    let btf = Btf::from_sys_fs().ok();
    let mut loader = EbpfLoader::new();
    loader.btf(btf.as_ref());
    for (name, value) in &c.words {
        loader.override_global(name, value, true);
    }
    for (name, value) in &c.flags {
        loader.override_global(name, value, true);
    }
    loader.override_global("max_lag_ns", &c.max_lag_ns, true);
    loader.override_global("pidns_device", &pidns.0, true);
    loader.override_global("pidns_inode", &pidns.1, true);
    for (name, len) in [
        ("streams", t.streams.len()),
        ("orders", t.orders.len()),
        ("shapes", t.shapes.len()),
        ("flows4", t.flows4.len()),
        ("flows6", t.flows6.len()),
        ("gaps", plan.lanes.len() * contract::buckets(GAP_STEPS_LOG2)),
    ] {
        loader.map_max_entries(name, len.max(1) as u32);
    }
    loader.load(super::objects::SENDER).map_err(|e| XdpError::load(iface, "bpf(BPF_MAP_CREATE)", &e))
}

/// Attaches the observers of refusals; without them (no kernel BTF) refusals are unknown, which the report says.
fn observe(bpf: &mut Ebpf) -> bool {
    let Ok(btf) = Btf::from_sys_fs() else { return false };
    [("note_refused", "xdp_devmap_xmit"), ("note_unreached", "xdp_redirect_err")].into_iter().all(|(program, event)| {
        let Some(Ok(program)) = bpf.program_mut(program).map(<&mut BtfTracePoint>::try_from) else { return false };
        program.load(event, &btf).is_ok() && program.attach().is_ok()
    })
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
        let mut bpf = load(iface, plan, &t, facts.index, keeps_log, data_len as u32)?;
        let maps = |e: XdpError| XdpError { iface: iface.into(), ..e };
        let control = SharedArray::<Control>::map(&bpf, "control", 1).map_err(maps)?;
        let streams = SharedArray::<Stream>::map(&bpf, "streams", t.streams.len()).map_err(maps)?;
        let refusals = SharedArray::<Refusals>::map(&bpf, "refusals", 1).map_err(maps)?;
        let gaps = SharedArray::<u64>::map(&bpf, "gaps", plan.lanes.len() * contract::buckets(GAP_STEPS_LOG2)).map_err(maps)?;
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
        thread.join().unwrap_or_else(|_| Err(XdpError::new(&self.iface, "thread", Why::Other("the sending thread panicked".into()))))
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
                missed: control.lanes[i].missed + if self.thread.is_none() { backlog(&control, i, self.end_ns) } else { 0 },
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

/// The program's state at the start, and the end of sending.
fn control_of(plan: &XdpPlan, start_ns: u64) -> Result<(Control, u64), Why> {
    let mut c = Control { end_ns: plan.duration_ns.map_or(u64::MAX, |d| start_ns.saturating_add(d)), ..Control::default() };
    let mut first = 0;
    for (lane, p) in c.lanes.iter_mut().zip(&plan.lanes) {
        let (gap_q24, burst) = p.pace.gap_and_burst()?;
        // The first frame is due at the start: one gap after a frame that never was.
        let before = (gap_q24 >> 24) + u64::from(gap_q24 & 0xff_ffff != 0);
        lane.gap_q24 = gap_q24;
        lane.last_ns = start_ns.saturating_sub(before);
        lane.last_frac = u32::try_from((before << 24) - gap_q24).unwrap_or(0);
        lane.burst = burst;
        lane.stream_first = first;
        lane.streams = p.streams.len() as u32;
        lane.frames_left = p.frames.unwrap_or(u64::MAX);
        first += lane.streams;
    }
    let end = c.end_ns;
    Ok((c, end))
}

fn fill<T: super::shared::Words>(bpf: &Ebpf, name: &'static str, values: &[T]) -> Result<(), XdpError> {
    let map = SharedArray::<T>::map(bpf, name, values.len().max(1))?;
    for (i, v) in values.iter().enumerate() {
        map.set(i, *v);
    }
    Ok(())
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
fn run(iface: &str, mut bpf: Ebpf, program: &str, page: &[u8], batch: u32, cpu: Option<usize>, tid: &AtomicI32, words: ThreadWords) -> Result<(), XdpError> {
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

const _: () = assert!(SENT_LOG.is_power_of_two());

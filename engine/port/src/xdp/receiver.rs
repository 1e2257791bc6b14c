//! The receiver: a program on the interface that accounts for our frames, read through shared memory.

pub use super::attach::AttachMode;
use super::attach::attach;
use super::contract::{self, Ledger, NO_STREAM, Others, Tally};
use super::error::{Why, XdpError};
use super::histogram::Histogram;
use super::setup::small;
use super::shared::{SharedArray, load64, store64};
use super::system;
use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, Xdp};
use aya::{Btf, Ebpf, EbpfLoader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::addr_of_mut;
use std::thread;
use std::time::Duration;

/// A latency is known to 1/1024 of itself; with many rows of totals, to 1/128, to save memory (30 kB a row, not 216).
const FINE_LOG2: u32 = 10;
const COARSE_LOG2: u32 = 7;
const FINE_ROWS: usize = 256;
/// Frames of one poll that share a reading of the clock.
const CLOCK_USES: u32 = 16;
/// No program runs longer than this, so after it none works by what it read before.
const GRACE: Duration = Duration::from_millis(2);

/// What to account for.
#[derive(Debug, Clone, Default)]
pub struct XdpReceivePlan {
    /// Numbers of the streams.
    pub streams: Vec<u16>,
    /// Check the transport checksum of each frame of ours (slower, the more so the longer the frames).
    pub verify_checksums: bool,
    /// The sender's clock minus this host's, in ns; 0 on one host.
    pub clock_offset_ns: i64,
    /// Read the clock for each frame, not for each eighth of a full poll: timing of back-to-back frames to some 20 ns
    /// instead of 1 µs, at about seven eighths of the speed.
    pub clock_for_each_frame: bool,
}

/// Where frames of a stream claimed to come from, as they arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenSource {
    /// Source address.
    pub address: IpAddr,
    /// Source port, or ICMP identifier.
    pub port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port, or ICMP sequence number.
    pub destination_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// VLAN tags.
    pub tags: u8,
}

/// What arrived of a stream. Lost = sent − `unique`.
#[derive(Debug, Clone)]
pub struct ReceivedStream {
    /// Its number.
    pub id: u16,
    /// Arrivals: `unique` + `duplicates` + `too_old`.
    pub frames: u64,
    /// Bytes of these, without FCS.
    pub bytes: u64,
    /// Different frames.
    pub unique: u64,
    /// Arrivals of a frame that had arrived before.
    pub duplicates: u64,
    /// Arrivals more than 131 072 numbers behind: late or duplicate, nobody knows.
    pub too_old: u64,
    /// Unique frames that arrived after one with a higher number (RFC 4737 section 3).
    pub reordered: u64,
    /// One above the highest number that arrived. Never ahead of `unique`, whatever arrives while both are read.
    pub next: u64,
    /// Sum of reordering extents (RFC 4737 section 4.2.1).
    pub extent_sum: u64,
    /// Greatest reordering extent.
    pub extent_max: u64,
    /// Frames that are 3-reordered (RFC 4737 section 5.3); `None` where several CPUs receive, whose arrivals have no common
    /// order.
    pub by_three: Option<u64>,
    /// Reordered frames whose extent is unknown, because more than 64 gaps opened since theirs.
    pub extent_unknown: u64,
    /// Frames sent before the trial began; not in `frames`.
    pub stale: u64,
    /// Frames with a wrong transport checksum; not in `frames`. 0 unless checksums are verified.
    pub corrupted: u64,
    /// Frames that arrived before they were sent, by the clocks; in `frames`, not in `latency`.
    pub negative: u64,
    /// Latency of unique frames.
    pub latency: Histogram,
    /// Least latency; `None`: no frames.
    pub latency_min_ns: Option<u64>,
    /// Greatest latency.
    pub latency_max_ns: u64,
    /// Sum of latencies, over the histogram's count.
    pub latency_sum_ns: u64,
    /// Pairs of successive numbers that arrived one after the other.
    pub ipdv_count: u64,
    /// Sum of the absolute differences of latency of these (RFC 5481 IPDV).
    pub ipdv_sum_ns: u64,
    /// Greatest of these.
    pub ipdv_max_ns: u64,
    /// Arrival of the first frame, in ns of `CLOCK_MONOTONIC`.
    pub first_arrival_ns: Option<u64>,
    /// Arrival of the last frame.
    pub last_arrival_ns: Option<u64>,
    /// The different sources of the first 1024 frames, at most 16 a CPU.
    pub sources: Vec<SeenSource>,
}

/// What arrived.
#[derive(Debug, Clone)]
pub struct ReceiveReport {
    /// Each stream, in the order of the plan.
    pub streams: Vec<ReceivedStream>,
    /// Frames that are not ours and went on to the kernel.
    pub passed: u64,
    /// Frames with our probe but a stream that is not in the plan; dropped.
    pub unknown: u64,
}

/// A receiver on an interface. Dropping it detaches the program, and so does the end of the process, whatever ends it.
pub struct XdpReceiver {
    iface: String,
    plan: XdpReceivePlan,
    mode: AttachMode,
    steps_log2: u32,
    cpus: usize,
    tallies: SharedArray<Tally>,
    ledgers: SharedArray<Ledger>,
    latencies: SharedArray<u64>,
    others: SharedArray<Others>,
    link: Option<FdLink>,
    _programs: Ebpf,
}

impl XdpReceiver {
    /// Attaches to `iface`, which lies in the calling thread's network namespace. Accounting begins with [`Self::begin`].
    ///
    /// # Errors
    /// When the interface, the permission or the kernel does not allow it, or another XDP program is attached.
    pub fn attach(iface: &str, plan: &XdpReceivePlan) -> Result<Self, XdpError> {
        let streams = plan.streams.len();
        if streams == 0 {
            return Err(XdpError::new(iface, "plan", Why::Plan("no streams to receive".into())));
        }
        let facts = system::Interface::find(iface)?;
        // One queue is polled by one CPU at a time, so nothing is shared; a generic program may run on several CPUs.
        let one_queue = facts.rx_queues() == Some(1) && facts.has_native_xdp();
        let cpus = if one_queue { 1 } else { system::possible_cpus() };
        let rows = streams * cpus;
        let steps_log2 = if rows <= FINE_ROWS { FINE_LOG2 } else { COARSE_LOG2 };
        let first = plan.streams[0];
        let contiguous = plan.streams.iter().zip(first..).all(|(a, b)| *a == b);
        let most = plan.streams.iter().copied().max().unwrap_or(0);
        let btf = Btf::from_sys_fs().ok();

        // Without the observer of polls, nobody knows when a reading of the clock is too old.
        let each = plan.clock_for_each_frame || btf.is_none();
        let (shared, verify, use_ids) = (u8::from(!one_queue), u8::from(plan.verify_checksums), u8::from(!contiguous));
        let (count, first_id, clock_uses) = (small(streams), u32::from(first), if each { 1 } else { CLOCK_USES });
        let cpu_count = small(cpus);
        let mut loader = EbpfLoader::new();
        loader
            .btf(btf.as_ref())
            .override_global("shared", &shared, true)
            .override_global("verify", &verify, true)
            .override_global("use_ids", &use_ids, true)
            .override_global("cpus", &cpu_count, true)
            .override_global("stream_count", &count, true)
            .override_global("first_id", &first_id, true)
            .override_global("steps_log2", &steps_log2, true)
            .override_global("clock_uses", &clock_uses, true)
            .override_global("clock_offset_ns", &plan.clock_offset_ns, true)
            .map_max_entries("tallies", small(rows))
            .map_max_entries("ledgers", count)
            .map_max_entries("latencies", small(rows * contract::buckets(steps_log2)))
            .map_max_entries("others", cpu_count);
        if !contiguous {
            loader.map_max_entries("ids", u32::from(most) + 1);
        }
        let mut bpf =
            loader.load(super::objects::RECEIVER).map_err(|e| XdpError::load(iface, "bpf(BPF_MAP_CREATE)", &e))?;

        let named = |e: XdpError| XdpError { iface: iface.into(), ..e };
        if !contiguous {
            let ids = SharedArray::<u32>::map(&bpf, "ids", usize::from(most) + 1).map_err(named)?;
            (0..ids.len()).for_each(|i| ids.set(i, NO_STREAM));
            for (number, id) in (0..).zip(&plan.streams) {
                ids.set(usize::from(*id), number);
            }
        }
        let tallies = SharedArray::map(&bpf, "tallies", rows).map_err(named)?;
        let ledgers = SharedArray::map(&bpf, "ledgers", streams).map_err(named)?;
        let latencies = SharedArray::map(&bpf, "latencies", rows * contract::buckets(steps_log2)).map_err(named)?;
        let others = SharedArray::map(&bpf, "others", cpus).map_err(named)?;
        if !each {
            observe_polls(iface, &mut bpf, btf.as_ref())?;
        }
        for i in 0..tallies.len() {
            tallies.set(i, Tally { begin_ns: u64::MAX, ..Tally::default() });
        }
        let program: &mut Xdp = bpf
            .program_mut("account")
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| XdpError::new(iface, "load", Why::Other("the object has no program account".into())))?;
        program.load().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
        let (link, mode) = attach(iface, program)?;
        Ok(Self {
            iface: iface.into(),
            plan: plan.clone(),
            mode,
            steps_log2,
            cpus,
            tallies,
            ledgers,
            latencies,
            others,
            link: Some(link),
            _programs: bpf,
        })
    }

    /// How the program is attached.
    #[must_use]
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Forgets everything and begins a trial: frames sent before `begin_ns` (of the sender's clock, brought to ours) are
    /// stale. `None`: now.
    pub fn begin(&self, begin_ns: Option<u64>) {
        self.pause();
        for i in 0..self.tallies.len() {
            self.tallies.set(i, Tally { begin_ns: u64::MAX, ..Tally::default() });
        }
        self.ledgers.clear();
        self.latencies.clear();
        self.others.clear();
        self.set_begin(begin_ns.unwrap_or_else(system::monotonic_ns));
    }

    /// Stops accounting; our frames that still come are dropped and counted as stale.
    pub fn pause(&self) {
        self.set_begin(u64::MAX);
        thread::sleep(GRACE);
    }

    fn set_begin(&self, begin_ns: u64) {
        for i in 0..self.tallies.len() {
            // SAFETY: a field of a mapped value.
            unsafe { store64(addr_of_mut!((*self.tallies.pointer(i)).begin_ns), begin_ns) };
        }
    }

    /// Arrivals of all streams so far, and their bytes without FCS: cheap, for a live view.
    #[must_use]
    pub fn arrivals(&self) -> (u64, u64) {
        self.tallies.range(0, self.tallies.len()).fold((0, 0), |(f, b), t| (f + t.arrivals(), b + t.bytes))
    }

    /// Everything so far. Counts of a running trial may be a few frames apart from each other.
    #[must_use]
    pub fn report(&self) -> ReceiveReport {
        let others = self.others.range(0, self.others.len()).fold((0, 0), |(p, u), o| (p + o.passed, u + o.unknown));
        let streams = self.plan.streams.iter().enumerate().map(|(i, id)| self.stream(i, *id)).collect();
        ReceiveReport { streams, passed: others.0, unknown: others.1 }
    }

    /// Whether the interface is still there.
    ///
    /// # Errors
    /// `PortVanished`.
    pub fn check(&self) -> Result<(), XdpError> {
        match system::index_of(&self.iface) {
            Some(_) => Ok(()),
            None => Err(XdpError::new(&self.iface, "if_nametoindex", Why::PortVanished)),
        }
    }

    /// Takes the program off the interface. What was counted can still be read.
    pub fn detach(&mut self) {
        self.link = None;
    }

    fn stream(&self, number: usize, id: u16) -> ReceivedStream {
        let row = contract::buckets(self.steps_log2);
        let first = number * self.cpus;
        // SAFETY: a field of a mapped value.
        let next = unsafe { load64(&raw const (*self.ledgers.pointer(number)).next) };
        let rows: Vec<Tally> = self.tallies.range(first, self.cpus).collect();
        let sum = |of: fn(&Tally) -> u64| rows.iter().map(of).sum::<u64>();
        let max = |of: fn(&Tally) -> u64| rows.iter().map(of).max().unwrap_or(0);
        let mut latency = Histogram::new(self.steps_log2, vec![0; row]);
        for cpu in 0..self.cpus {
            latency.add(&Histogram::new(self.steps_log2, self.latencies.range((first + cpu) * row, row).collect()));
        }
        let floor = max(|t| t.latency_floor);
        let mut sources = Vec::new();
        for t in &rows {
            for s in t.sources.iter().take(t.sources_seen as usize) {
                let seen = seen_source(s);
                if !sources.iter().any(|o: &SeenSource| (o.address, o.port) == (seen.address, seen.port)) {
                    sources.push(seen);
                }
            }
        }
        ReceivedStream {
            id,
            frames: sum(Tally::arrivals),
            bytes: sum(|t| t.bytes),
            unique: sum(|t| t.unique),
            duplicates: sum(|t| t.duplicates),
            too_old: sum(|t| t.too_old),
            reordered: sum(|t| t.reordered),
            next,
            extent_sum: sum(|t| t.extent_sum),
            extent_max: max(|t| t.extent_max),
            by_three: (self.cpus == 1).then(|| sum(|t| t.by_three)),
            extent_unknown: sum(|t| t.extent_unknown),
            stale: sum(|t| t.stale),
            corrupted: sum(|t| t.corrupted),
            negative: sum(|t| t.negative),
            latency,
            latency_min_ns: (floor != 0).then_some(!floor),
            latency_max_ns: max(|t| t.latency_max_ns),
            latency_sum_ns: sum(|t| t.latency_sum_ns),
            ipdv_count: sum(|t| (t.unique - t.negative).saturating_sub(t.ipdv_breaks)),
            ipdv_sum_ns: sum(|t| t.ipdv_sum_ns),
            ipdv_max_ns: max(|t| t.ipdv_max_ns),
            first_arrival_ns: rows.iter().map(|t| t.first_arrival_ns).filter(|n| *n != 0).min(),
            last_arrival_ns: rows.iter().map(|t| t.last_arrival_ns).filter(|n| *n != 0).max(),
            sources,
        }
    }
}

fn seen_source(s: &contract::Source) -> SeenSource {
    let address = |b: [u8; 16]| match s.ip_version {
        4 => IpAddr::from(Ipv4Addr::new(b[0], b[1], b[2], b[3])),
        _ => IpAddr::from(Ipv6Addr::from(b)),
    };
    SeenSource {
        address: address(s.address),
        port: u16::from_be_bytes(s.port),
        destination: address(s.destination),
        destination_port: u16::from_be_bytes(s.destination_port),
        protocol: s.protocol,
        hop_limit: s.hop_limit,
        tags: s.tags,
    }
}

fn observe_polls(iface: &str, bpf: &mut Ebpf, btf: Option<&Btf>) -> Result<(), XdpError> {
    let missing =
        || XdpError::new(iface, "load", Why::Other("the kernel or the object lacks the observer of polls".into()));
    let btf = btf.ok_or_else(missing)?;
    let program: &mut BtfTracePoint =
        bpf.program_mut("end_of_poll").and_then(|p| p.try_into().ok()).ok_or_else(missing)?;
    program.load("napi_poll", btf).map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
    program.attach().map_err(|e| XdpError::load(iface, "bpf(BPF_RAW_TRACEPOINT_OPEN)", &e))?;
    Ok(())
}

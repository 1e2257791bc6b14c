//! The receiver: a program on the interface that accounts for our frames, read through shared memory.

use crate::accounting::{Accounting, OnLoan, Shape, Trial};
pub use crate::attach::AttachMode;
use crate::attach::Attached;
use crate::contract::{self, Tally};
use crate::error::{Why, XdpError};
use crate::histogram::Histogram;
use crate::shared::{load64, store64};
use crate::{quiescence, system};
use dutlab_port::clock;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::addr_of_mut;

/// What to account for.
#[derive(Debug, Clone, Default)]
pub struct XdpReceivePlan {
    /// Numbers of the streams.
    pub streams: Vec<u16>,
    /// The number that probes of this trial carry.
    pub trial: u16,
    /// Check the transport checksum of each frame of ours (slower, the more so the longer the frames).
    pub verify_checksums: bool,
    /// The sender's clock minus this host's, in ns; 0 on one host.
    pub clock_offset_ns: i64,
    /// Read the clock for each frame, not for each eighth of a full poll: timing of back-to-back frames to some 20 ns
    /// instead of 1 µs, at about seven eighths of the speed. So it is in any case where frames do not come by polls.
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
    /// Arrivals more than 131 040 numbers behind: late or duplicate, nobody knows.
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
    /// Frames of another trial, or sent before this one began; not in `frames`.
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
    attached: Option<Attached>,
    /// Serves another receiver when this one is dropped, so its program must run nowhere then: see `detach`.
    accounting: OnLoan,
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
        // The mode first, as the kernel says it: what the program may rely on follows from it.
        let attached = Attached::reserve(iface, facts.index, facts.mtu)?;
        let polled = attached.mode == AttachMode::Native && facts.polls();
        // One queue is polled by one CPU at a time, so nothing is shared; a generic program may run on several CPUs.
        let one_queue = polled && facts.rx_queues() == Some(1);
        let cpus = if one_queue { 1 } else { system::possible_cpus()? };
        let contiguous = plan.streams.iter().zip(plan.streams[0]..).all(|(a, b)| *a == b);
        let shape = Shape {
            streams,
            scattered_to: plan.streams.iter().copied().max().filter(|_| !contiguous),
            cpus,
            shared: !one_queue,
            verify: plan.verify_checksums,
            clock_for_each_frame: plan.clock_for_each_frame || !polled,
        };
        let trial = Trial { number: plan.trial, streams: &plan.streams, clock_offset_ns: plan.clock_offset_ns };
        let mut accounting = Accounting::take(iface, shape, &trial)?;
        let program = accounting.program()?.fd().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
        attached.replace(program)?;
        let mode = attached.mode;
        Ok(Self { iface: iface.into(), plan: plan.clone(), mode, attached: Some(attached), accounting })
    }

    /// How the program is attached.
    #[must_use]
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Forgets everything and begins a trial: frames sent before `begin_ns` (of the sender's clock, brought to ours) are
    /// stale. `None`: now.
    ///
    /// # Errors
    /// When the kernel does not say that no program works by what it read before.
    pub fn begin(&self, begin_ns: Option<u64>) -> Result<(), XdpError> {
        self.pause()?;
        self.accounting.ignore_all();
        self.accounting.ledgers.clear();
        self.accounting.latencies.clear();
        self.accounting.others.clear();
        self.set_begin(begin_ns.unwrap_or_else(|| clock::monotonic().0));
        Ok(())
    }

    /// Stops accounting; our frames that still come are dropped and counted as stale. When this returns, no count changes
    /// but theirs.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn pause(&self) -> Result<(), XdpError> {
        self.set_begin(u64::MAX);
        self.wait_for_programs()
    }

    fn wait_for_programs(&self) -> Result<(), XdpError> {
        quiescence::wait_for_programs().map_err(|e| XdpError { iface: self.iface.clone(), ..e })
    }

    fn set_begin(&self, begin_ns: u64) {
        for i in 0..self.accounting.tallies.len() {
            // SAFETY: a field of a mapped value.
            unsafe { store64(addr_of_mut!((*self.accounting.tallies.pointer(i)).begin_ns), begin_ns) };
        }
    }

    /// Arrivals of all streams so far, and their bytes without FCS: cheap, for a live view.
    #[must_use]
    pub fn arrivals(&self) -> (u64, u64) {
        self.accounting
            .tallies
            .range(0, self.accounting.tallies.len())
            .fold((0, 0), |(f, b), t| (f + t.arrivals(), b + t.bytes))
    }

    /// Everything so far. Counts of a running trial may be a few frames apart from each other.
    #[must_use]
    pub fn report(&self) -> ReceiveReport {
        let others = self
            .accounting
            .others
            .range(0, self.accounting.others.len())
            .fold((0, 0), |(p, u), o| (p + o.passed, u + o.unknown));
        let streams = self.plan.streams.iter().enumerate().map(|(i, id)| self.stream(i, *id)).collect();
        ReceiveReport { streams, passed: others.0, unknown: others.1 }
    }

    /// Whether the interface is still there, and every frame could be counted.
    ///
    /// # Errors
    /// `PortVanished`; frames that came on a CPU which the kernel did not say it could have.
    pub fn check(&self) -> Result<(), XdpError> {
        if system::index_of(&self.iface).is_none() {
            return Err(XdpError::new(&self.iface, "if_nametoindex", Why::PortVanished));
        }
        match self.accounting.others.get(0).misplaced {
            0 => Ok(()),
            n => {
                let cpus = self.accounting.shape.cpus;
                let what = format!("{n} frames came on CPUs from number {cpus} on and could not be counted");
                Err(XdpError::new(&self.iface, "xdp", Why::Other(what)))
            }
        }
    }

    /// Takes the program off the interface, and waits for what still runs of it. What was counted is final then.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn detach(&mut self) -> Result<(), XdpError> {
        if self.attached.take().is_none() {
            return Ok(());
        }
        let done = self.wait_for_programs();
        if done.is_err() {
            // Another trial must not get what this one's program may still write to.
            self.accounting.retire();
        }
        done
    }

    fn stream(&self, number: usize, id: u16) -> ReceivedStream {
        let Shape { cpus, .. } = self.accounting.shape;
        let steps_log2 = self.accounting.shape.steps_log2();
        let row = contract::buckets(steps_log2);
        let first = number * cpus;
        // SAFETY: a field of a mapped value.
        let next = unsafe { load64(&raw const (*self.accounting.ledgers.pointer(number)).next) };
        let rows: Vec<Tally> = self.accounting.tallies.range(first, cpus).collect();
        let sum = |of: fn(&Tally) -> u64| rows.iter().map(of).sum::<u64>();
        let max = |of: fn(&Tally) -> u64| rows.iter().map(of).max().unwrap_or(0);
        let mut latency = Histogram::new(steps_log2, vec![0; row]);
        for cpu in 0..cpus {
            latency
                .add(&Histogram::new(steps_log2, self.accounting.latencies.range((first + cpu) * row, row).collect()));
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
            by_three: (cpus == 1).then(|| sum(|t| t.by_three)),
            extent_unknown: sum(|t| t.extent_unknown),
            stale: sum(|t| t.stale),
            corrupted: sum(|t| t.corrupted),
            negative: sum(|t| t.negative),
            latency,
            latency_min_ns: (floor != 0).then_some(!floor),
            latency_max_ns: max(|t| t.latency_max_ns),
            latency_sum_ns: sum(|t| t.latency_sum_ns),
            ipdv_count: sum(|t| t.unique.saturating_sub(t.ipdv_breaks)),
            ipdv_sum_ns: sum(|t| t.ipdv_sum_ns),
            ipdv_max_ns: max(|t| t.ipdv_max_ns),
            first_arrival_ns: rows.iter().map(|t| t.first_arrival_ns).filter(|n| *n != 0).min(),
            last_arrival_ns: rows.iter().map(|t| t.last_arrival_ns).filter(|n| *n != 0).max(),
            sources,
        }
    }
}

impl Drop for XdpReceiver {
    fn drop(&mut self) {
        // Whoever wants the error detaches it; the program goes off the interface either way.
        let _ = self.detach();
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

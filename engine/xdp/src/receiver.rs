//! The receiver: a program on the interface that accounts for our frames, read through shared memory.

use crate::accounting::{Accounting, OnLoan, Shape, Trial};
use crate::attach::{AttachMode, Place};
use crate::contract::{self, Tally};
use crate::error::{Why, XdpError};
use crate::histogram::Histogram;
use crate::shared::{load64, store64};
use crate::{quiescence, system};
use dutlab_port::feeds::{self, Feeds};
use dutlab_port::{Counted, CountedStream, Stamped, Variation, Watch, WatchedStream};
use dutlab_units::{FCS, Nanos};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::ptr::addr_of_mut;
use std::sync::Arc;

/// A receiver on an interface. The program is detached when this is dropped, or when the process ends.
pub(crate) struct XdpReceiver {
    iface: String,
    streams: Vec<WatchedStream>,
    place: Option<Arc<Place>>,
    /// Queues that feed it.
    feeds: Feeds,
    /// Returned for another receiver when this one is dropped, so its program must not be running then: see `detach`.
    accounting: OnLoan,
}

impl XdpReceiver {
    /// Attaches to `iface`, which is in the calling thread's network namespace, or uses the place in `kept`. Accounting
    /// begins with [`Self::begin`].
    ///
    /// # Errors
    /// When the interface, the permission or the kernel does not allow it, or another XDP program is attached.
    pub(crate) fn attach(iface: &str, watch: &Watch, kept: Option<&Arc<Place>>) -> Result<Self, XdpError> {
        let ids = watch.ids();
        let Some(first) = ids.first() else {
            return Err(XdpError::new(iface, "plan", Why::Plan("no streams to receive".into())));
        };
        let facts = system::Interface::find(iface)?;
        // The mode first, as the kernel reports it: the program depends on it.
        let place = match kept {
            Some(place) => Arc::clone(place),
            None => Arc::new(Place::reserve(iface, facts.index, facts.mtu)?),
        };
        let polled = place.mode() == AttachMode::Native && facts.polls();
        // One queue is polled by one CPU at a time, so nothing is shared; a generic program may run on several CPUs.
        let one_queue = polled && facts.rx_queues() == Some(1);
        let feeds = feeds::of(facts.index);
        let cpus = if one_queue { 1 } else { system::possible_cpus()? };
        let contiguous = ids.iter().zip(*first..).all(|(a, b)| *a == b);
        let shape = Shape {
            streams: ids.len(),
            scattered_to: ids.iter().copied().max().filter(|_| !contiguous),
            cpus,
            shared: !one_queue,
            queues: if one_queue { 1 } else { facts.rx_queues().unwrap_or(1).max(1) },
            by_cpu: !polled,
            verify: !watch.unverified,
            clock_for_each_frame: !polled,
        };
        let trial = Trial { number: watch.trial, streams: &ids };
        let mut accounting = Accounting::take(iface, shape, &trial)?;
        let program = accounting.program()?.fd().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
        place.put(program)?;
        Ok(Self { iface: iface.into(), streams: watch.streams.clone(), place: Some(place), feeds, accounting })
    }

    /// Resets all counters and begins a trial: frames sent before the `begin` of their stream, by our clock, are stale.
    ///
    /// # Errors
    /// When the kernel does not confirm that no program still uses the old values.
    pub(crate) fn begin(&self) -> Result<(), XdpError> {
        self.pause()?;
        self.accounting.ignore_all();
        self.accounting.ledgers.clear();
        self.accounting.latencies.clear();
        self.accounting.others.clear();
        self.accounting.ways.clear();
        for (tallies, stream) in self.rows().zip(&self.streams) {
            for i in tallies {
                let tally = self.accounting.tallies.pointer(i);
                // SAFETY: fields of a mapped value. The begin comes last: until then all frames are stale.
                unsafe {
                    store64(addr_of_mut!((*tally).sender_ahead_ns), stream.sender_ahead.cast_unsigned());
                    store64(addr_of_mut!((*tally).begin_ns), stream.begin.0);
                }
            }
        }
        Ok(())
    }

    /// Stops accounting. Our frames that still arrive are dropped and counted as stale; after the return, only their
    /// count changes.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(crate) fn pause(&self) -> Result<(), XdpError> {
        for i in 0..self.accounting.tallies.len() {
            // SAFETY: a field of a mapped value.
            unsafe { store64(addr_of_mut!((*self.accounting.tallies.pointer(i)).begin_ns), u64::MAX) };
        }
        self.wait_for_programs()
    }

    /// Returns the rows with the totals of each stream.
    fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        let Shape { streams, cpus, .. } = self.accounting.shape;
        (0..streams).map(move |number| number * cpus..(number + 1) * cpus)
    }

    fn wait_for_programs(&self) -> Result<(), XdpError> {
        quiescence::wait_for_programs().map_err(|e| XdpError { iface: self.iface.clone(), ..e })
    }

    /// Returns all counters so far. Counts of a running trial may differ from each other by a few frames.
    pub(crate) fn counted(&self) -> Counted {
        let tallies = &self.accounting.tallies;
        let others: Vec<_> = self.accounting.others.range(0, self.accounting.others.len()).collect();
        let streams: Vec<_> = (0..self.streams.len()).map(|i| self.stream(i)).collect();
        Counted {
            stamped: Stamped { kernel: streams.iter().map(|s| s.received).sum(), ..Stamped::default() },
            foreign: others.iter().map(|o| o.passed + o.unknown).sum(),
            stale: tallies.range(0, tallies.len()).map(|t| t.stale).sum(),
            // Frames that do not fit into the device's queue are the device's loss; the program sees every frame behind
            // it.
            dropped: Some(0),
            streams,
        }
    }

    /// Checks that the interface still exists, and that every frame could be counted.
    ///
    /// # Errors
    /// `PortVanished`, or frames on a CPU that the kernel did not report as possible.
    pub(crate) fn check(&self) -> Result<(), XdpError> {
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

    /// Detaches the program, and waits until it no longer runs. The counts are then final.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(crate) fn detach(&mut self) -> Result<(), XdpError> {
        let Some(place) = self.place.take() else { return Ok(()) };
        let cleared = place.clear();
        drop(place);
        let done = cleared.and_then(|()| self.wait_for_programs());
        if done.is_err() {
            // Another trial must not get memory that this one's program may still write to.
            self.accounting.retire();
        }
        done
    }

    fn stream(&self, number: usize) -> CountedStream {
        let Shape { cpus, .. } = self.accounting.shape;
        let steps_log2 = self.accounting.shape.steps_log2();
        let row = contract::buckets(steps_log2);
        let first = number * cpus;
        // Read before the rest: never ahead of the frames that were counted, whatever arrives meanwhile.
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
        let first_arrival = rows.iter().map(|t| t.first_arrival_ns).filter(|n| *n != 0).min();
        let mut sources = Vec::new();
        for t in &rows {
            for seen in t.sources.iter().take(t.sources_seen as usize).map(source) {
                if !sources.contains(&seen) {
                    sources.push(seen);
                }
            }
        }
        let ways = self.accounting.shape.ways();
        // Frames of one queue keep their order; a port that gets frames of other queues does not know it.
        let used = self.accounting.ways.range(number * ways, ways).filter(|next| *next > 0).count();
        let several_queues = used > 1 || sum(|t| t.astray) > 0 || matches!(self.feeds, Feeds::Others { .. });
        let (received, reordered, too_old) = (sum(Tally::arrivals), sum(|t| t.reordered), sum(|t| t.too_old));
        CountedStream {
            received,
            bytes: sum(|t| t.bytes) + received * u64::from(FCS),
            // It is unknown whether those that are too old came before; counting them as new could hide a loss.
            duplicated: sum(|t| t.duplicates) + too_old,
            reordered,
            reordered_in_queue: if cpus == 1 { reordered } else { sum(|t| t.in_queue) },
            several_queues,
            reorder_extent_max: max(|t| t.extent_max),
            reorder_extent_sum: sum(|t| t.extent_sum),
            reorder_extents: reordered - sum(|t| t.extent_unknown),
            // The arrivals of several CPUs have no common order.
            reordered_by_three: (cpus == 1).then(|| sum(|t| t.by_three)),
            ipdv: Variation {
                count: sum(|t| t.unique.saturating_sub(t.ipdv_breaks)),
                sum: u128::from(sum(|t| t.ipdv_sum_ns)),
                max: Nanos(max(|t| t.ipdv_max_ns)),
            },
            next,
            guessed: too_old,
            corrupted: sum(|t| t.corrupted),
            first: Nanos(first_arrival.unwrap_or(0)),
            last: Nanos(max(|t| t.last_arrival_ns)),
            negative: sum(|t| t.negative),
            latency_min: Nanos(if floor == 0 { 0 } else { !floor }),
            latency_max: Nanos(max(|t| t.latency_max_ns)),
            latency_sum: u128::from(sum(|t| t.latency_sum_ns)),
            latency: latency.filled().map(|(_, high, n)| (high, n)).collect(),
            sources,
        }
    }
}

impl Drop for XdpReceiver {
    fn drop(&mut self) {
        // A caller that needs the error calls `detach`; the program is detached either way.
        let _ = self.detach();
    }
}

fn source(s: &contract::Source) -> (IpAddr, u16) {
    let b = s.address;
    let address = match s.ip_version {
        4 => IpAddr::from(Ipv4Addr::new(b[0], b[1], b[2], b[3])),
        _ => IpAddr::from(Ipv6Addr::from(b)),
    };
    (address, u16::from_be_bytes(s.port))
}

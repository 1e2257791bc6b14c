//! Account of all streams of a receiving port, frame by frame.

use crate::ipdv::Ipdv;
use crate::latency::Latency;
use crate::ledger::Ledger;
use crate::ways::Ways;
use dutlab_units::{FCS, Nanos};
use dutlab_wire::probe::sent_at;
use dutlab_wire::{Found, FourTuple, Seen};
use std::net::IpAddr;

/// Number of frames of each stream whose sender is recorded.
const LOOKED_AT: u64 = 1024;
/// Maximum number of senders that are recorded for each stream.
const SENDERS: usize = 16;
/// Maximum number of frames whose addresses and ports are kept: as many as a stream can have flows.
pub const MOST_TUPLES: usize = 1 << 21;

/// A frame that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Its probe; `None`: the frame has none.
    found: Option<Found>,
    /// Its length without FCS.
    length: u32,
    /// Time of arrival.
    at: Nanos,
    /// The way through this host on which it came; frames of one way keep their order. `None`: unknown.
    way: Option<u64>,
}

impl Arrival {
    /// Reads a frame without FCS, `length` bytes long, that arrived at `at`. `frame` may be cut short.
    #[inline]
    #[must_use]
    pub fn read(frame: &[u8], length: u32, at: Nanos) -> Self {
        let found = match Seen::parse(frame) {
            Seen::Probe(found) => Some(found),
            Seen::Foreign => None,
        };
        Self { found, length, at, way: Some(0) }
    }

    /// Sets the way on which it came; `None`: its place among the others is unknown.
    #[inline]
    #[must_use]
    pub const fn on(mut self, way: Option<u64>) -> Self {
        self.way = way;
        self
    }

    /// Sets the flow as the way on which it came.
    #[inline]
    #[must_use]
    pub fn on_its_flow(self) -> Self {
        let flow = self.found.map(|found| found.flow);
        self.on(flow)
    }

    /// Returns the time of arrival.
    #[must_use]
    pub const fn at(&self) -> Nanos {
        self.at
    }
}

/// Account of a port for one trial.
#[derive(Debug, Clone)]
pub struct Account {
    trial: u16,
    late_from: Nanos,
    streams: Vec<StreamAccount>,
    /// Clock of the stream with the same index.
    clocks: Vec<SenderClock>,
    foreign: u64,
    stale: u64,
}

/// Relation of a stream's send times to our clock.
#[derive(Debug, Clone, Copy)]
struct SenderClock {
    /// Frames that were sent before this, by our clock, are stale.
    begin: Nanos,
    /// Nanoseconds by which it is ahead of ours.
    ahead: i64,
}

/// Account of one stream.
#[derive(Debug, Clone)]
pub struct StreamAccount {
    /// The stream.
    pub stream: u16,
    /// Sequence numbers that arrived, how often, and in which order.
    pub ledger: Ledger,
    /// Order of the frames, by the way on which they came.
    pub ways: Ways,
    /// One-way latency.
    pub latency: Latency,
    /// Change of latency from a frame to the next.
    pub ipdv: Ipdv,
    /// Arrivals after the drain began.
    pub late: u64,
    /// Bytes that arrived, with FCS.
    pub bytes: u64,
    /// Frames with a wrong checksum; not in the ledger.
    pub corrupted: u64,
    /// First and last arrival.
    pub span: Option<(Nanos, Nanos)>,
    /// Different senders of the first frames.
    pub senders: Vec<(IpAddr, u16)>,
    /// Addresses and ports of the frames in order of arrival, each frame once; `None`: not recorded.
    pub tuples: Option<Vec<FourTuple>>,
}

impl StreamAccount {
    fn new(stream: u16) -> Self {
        Self {
            stream,
            ledger: Ledger::new(),
            ways: Ways::default(),
            latency: Latency::new(),
            ipdv: Ipdv::default(),
            late: 0,
            bytes: 0,
            corrupted: 0,
            span: None,
            senders: Vec::new(),
            tuples: None,
        }
    }

    #[inline]
    fn arrive(&mut self, found: &Found, length: u32, at: Nanos, way: Option<u64>) {
        if self.ledger.received() < LOOKED_AT && self.senders.len() < SENDERS {
            let sender = (found.source, found.source_port);
            if !self.senders.contains(&sender) {
                self.senders.push(sender);
            }
        }
        self.bytes += u64::from(length) + u64::from(FCS);
        self.span = Some((self.span.map_or(at, |(first, _)| first), at));
        if self.ledger.arrive(found.probe.sequence) {
            if let Some(tuples) = self.tuples.as_mut().filter(|kept| kept.len() < MOST_TUPLES) {
                tuples.push(found.four_tuple());
            }
            self.ways.arrive(way, found.probe.sequence);
            self.latency.record(found.probe.sent, at);
            self.ipdv.arrive(found.probe.sequence, found.probe.sent, at);
        }
    }
}

impl Account {
    /// Makes an account of trial 0, which begins at `begin`, with these streams. With a `begin` of zero, probes of any
    /// clock count.
    #[must_use]
    pub fn new(begin: Nanos, streams: &[u16]) -> Self {
        let clocks = vec![SenderClock { begin, ahead: 0 }; streams.len()];
        let streams = streams.iter().map(|s| StreamAccount::new(*s)).collect();
        Self { trial: 0, late_from: Nanos::NEVER, streams, clocks, foreign: 0, stale: 0 }
    }

    /// Sets the number in the probes of the trial; probes with another number are stale.
    #[must_use]
    pub const fn of_trial(mut self, trial: u16) -> Self {
        self.trial = trial;
        self
    }

    /// Sets by how many nanoseconds the senders' clock is ahead of ours.
    #[must_use]
    pub const fn with_sender_clock_ahead(mut self, nanoseconds: i64) -> Self {
        let mut rest = self.clocks.as_mut_slice();
        while let [clock, others @ ..] = rest {
            clock.ahead = nanoseconds;
            rest = others;
        }
        self
    }

    /// Sets by how many nanoseconds the clock of the sender of `stream` is ahead of ours. Frames that it sent before
    /// `begin`, by our clock, are stale.
    #[must_use]
    pub fn with_sender_clock_of(mut self, stream: u16, begin: Nanos, nanoseconds: i64) -> Self {
        for (clock, _) in self.clocks.iter_mut().zip(&self.streams).filter(|(_, of)| of.stream == stream) {
            *clock = SenderClock { begin, ahead: nanoseconds };
        }
        self
    }

    /// Records the addresses and ports of the frames of `stream`.
    #[must_use]
    pub fn learning(mut self, stream: Option<u16>) -> Self {
        for of in self.streams.iter_mut().filter(|of| Some(of.stream) == stream) {
            of.tuples = Some(Vec::new());
        }
        self
    }

    /// Returns the recorded addresses and ports.
    #[must_use]
    pub fn into_tuples(self) -> Option<Vec<FourTuple>> {
        self.streams.into_iter().find_map(|of| of.tuples)
    }

    /// Enters a frame.
    #[inline]
    pub fn arrive(&mut self, arrival: &Arrival) {
        let Arrival { found: Some(mut found), length, at, way } = *arrival else {
            self.foreign += 1;
            return;
        };
        let mut streams = self.streams.iter_mut().zip(&self.clocks);
        let Some((stream, clock)) = streams.find(|(s, _)| s.stream == found.probe.stream) else {
            self.foreign += 1;
            return;
        };
        // In the same order as `engine/xdp/bpf/receiver.bpf.c`.
        let ahead = Nanos(at.0.wrapping_add_signed(clock.ahead));
        found.probe.sent.0 = sent_at(found.probe.sent, ahead).0.wrapping_add_signed(clock.ahead.wrapping_neg());
        if !found.intact {
            // Its trial and send time are not used: they may be the corrupted part.
            stream.corrupted += 1;
        } else if found.probe.trial != self.trial || found.probe.sent < clock.begin {
            self.stale += 1;
        } else {
            stream.late += u64::from(at >= self.late_from);
            stream.arrive(&found, length, at, way);
        }
    }

    /// Frames that arrive at `from` or after it are late.
    #[inline]
    pub fn drain(&mut self, from: Nanos) {
        self.late_from = from;
    }

    /// The greatest latency since the last call.
    pub fn take_latency_max(&mut self) -> Nanos {
        self.streams.iter_mut().map(|s| s.latency.take_recent_max()).max().unwrap_or_default()
    }

    /// Returns the streams, in the order given.
    #[must_use]
    pub fn streams(&self) -> &[StreamAccount] {
        &self.streams
    }

    /// Frames without a probe of these streams.
    #[must_use]
    pub const fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Probes of another trial, or sent before this trial began.
    #[must_use]
    pub const fn stale(&self) -> u64 {
        self.stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_wire::{FrameRepr, Probe};

    fn frame(stream: u16, sequence: u64, sent: u64) -> Vec<u8> {
        let repr = FrameRepr {
            source: [10, 0, 0, 1].into(),
            source_port: 1000 + u16::try_from(sequence % 3).unwrap(),
            ..FrameRepr::default()
        };
        let mut b = vec![0; 60];
        repr.emit(&Probe { stream, sequence, trial: 0, sent: Nanos(sent) }, &mut b).unwrap();
        b
    }

    #[test]
    fn each_frame_is_entered_in_exactly_one_place() {
        let mut account = Account::new(Nanos(100), &[1, 2]);
        // Behind headers of 42 bytes: magic number, stream, sequence number, trial and time (probe.rs).
        let altered = |byte: usize| {
            let mut f = frame(2, 1, 200);
            f[byte] ^= 1;
            f
        };
        for f in [frame(1, 0, 150), frame(1, 1, 160), frame(2, 0, 99), frame(3, 0, 150), vec![0; 60]] {
            account.arrive(&Arrival::read(&f, 60, Nanos(1000)));
        }
        for byte in [51, 53, 59] {
            account.arrive(&Arrival::read(&altered(byte), 60, Nanos(1000)));
        }
        let [one, two] = account.streams() else { panic!() };
        assert_eq!((one.ledger.received(), one.bytes, one.corrupted), (2, 128, 0));
        assert_eq!((two.ledger.received(), two.bytes, two.corrupted), (0, 0, 3), "number, trial, time");
        assert_eq!((account.foreign(), account.stale()), (2, 1), "stream 3 and no probe; sent at 99");
    }

    #[test]
    fn what_arrives_in_the_drain_is_late_and_received_all_the_same() {
        let mut account = Account::new(Nanos(0), &[1]);
        account.arrive(&Arrival::read(&frame(1, 0, 10), 60, Nanos(30)));
        account.drain(Nanos(40));
        account.arrive(&Arrival::read(&frame(1, 1, 20), 60, Nanos(39)));
        account.arrive(&Arrival::read(&frame(1, 2, 30), 60, Nanos(40)));
        assert_eq!((account.streams()[0].late, account.streams()[0].ledger.received()), (1, 3));
        assert_eq!(account.take_latency_max(), Nanos(20));
        assert_eq!(account.take_latency_max(), Nanos(0));
    }

    #[test]
    fn send_times_of_another_clock_are_brought_to_ours_before_anything_is_made_of_them() {
        let mut account = Account::new(Nanos(100), &[1]).with_sender_clock_ahead(1_000);
        account.arrive(&Arrival::read(&frame(1, 0, 1_099), 60, Nanos(200)));
        account.arrive(&Arrival::read(&frame(1, 1, 1_150), 60, Nanos(200)));
        assert_eq!((account.stale(), account.streams()[0].ledger.received()), (1, 1));
        assert_eq!(account.streams()[0].latency.max(), Nanos(50));
        let mut account = Account::new(Nanos(100), &[1]).with_sender_clock_ahead(-1_000);
        account.arrive(&Arrival::read(&frame(1, 0, 20), 60, Nanos(1_100)));
        assert_eq!(account.streams()[0].latency.max(), Nanos(80));
    }

    #[test]
    fn each_streams_send_times_are_read_by_the_clock_of_its_own_sender() {
        let mut account = Account::new(Nanos(100), &[1, 2, 3])
            .with_sender_clock_of(2, Nanos::ZERO, 1_000_000)
            .with_sender_clock_of(3, Nanos::ZERO, -150);
        for f in [frame(1, 0, 160), frame(2, 0, 1_000_170), frame(3, 0, 30), frame(1, 1, 99), frame(3, 1, 0)] {
            account.arrive(&Arrival::read(&f, 60, Nanos(200)));
        }
        let max = |i: usize| (account.streams()[i].ledger.received(), account.streams()[i].latency.max());
        assert_eq!([max(0), max(1), max(2)], [(1, Nanos(40)), (1, Nanos(30)), (2, Nanos(50))]);
        assert_eq!(account.stale(), 1, "of the one that has our clock");
    }

    #[test]
    fn senders_are_remembered_once_each_and_duplicates_have_no_latency_and_teach_nothing() {
        let mut account = Account::new(Nanos(0), &[1]).learning(Some(1));
        for s in [0, 1, 2, 3, 4, 4] {
            account.arrive(&Arrival::read(&frame(1, s, 10), 60, Nanos(30 + s)));
        }
        let one = &account.streams()[0];
        let address = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(one.senders, [(address, 1000), (address, 1001), (address, 1002)]);
        assert_eq!((one.latency.count(), one.ledger.duplicated()), (5, 1));
        assert_eq!(one.span, Some((Nanos(30), Nanos(34))));
        let learned = account.into_tuples().unwrap();
        assert_eq!(learned.iter().map(|of| of.source_port).collect::<Vec<_>>(), [1000, 1001, 1002, 1000, 1001]);
        assert!(Account::new(Nanos(0), &[1]).learning(Some(2)).into_tuples().is_none());
    }
}

//! Captures from the controller's plan, with places for probes if requested.

use super::One;
use dutlab_port as port;
use dutlab_port::iface::Interface;
use dutlab_port::pcap::{Replay, Timing};
use dutlab_protocol::plan;
use dutlab_traffic::Profile;
use dutlab_units::{FCS, Nanos};
use dutlab_wire::checksum::Sum;
use dutlab_wire::raw::{self, Carrier};
use dutlab_wire::{Probe, probe};

/// Ethernet header and a tag, which the MTU does not include.
const AROUND_MTU: usize = 14 + 4;

/// A capture, and the places of probes in its frames.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Its frames; those with a probe have stream, sequence 0 and right checksums.
    pub replay: Replay,
    /// Place of the probe in each frame of a round; empty: no frame carries one.
    places: Vec<Option<Place>>,
    /// Number of probes in the first n frames of a round, for n from 0 on.
    before: Vec<u64>,
}

/// Offsets in a frame of the fields that change with its probe.
#[derive(Debug, Clone, Copy)]
struct Place {
    probe_at: usize,
    checksum_at: usize,
    udp: bool,
}

impl Capture {
    /// Returns true if frame `n` carries a probe.
    #[must_use]
    pub fn is_probed(&self, n: u64) -> bool {
        self.place(n).is_some()
    }

    /// Returns the number of probes in the first `n` frames.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a remainder of a usize")]
    pub fn probed_before(&self, n: u64) -> u64 {
        let round = self.places.len() as u64;
        if round == 0 {
            return 0;
        }
        n / round * self.before[round as usize] + self.before[(n % round) as usize]
    }

    /// Writes frame `n` into `b`, with this number and stamp if it carries a probe; returns its length.
    pub fn write(&self, n: u64, sequence: u64, stamp: u64, b: &mut [u8]) -> usize {
        let frame = self.replay.frame(n);
        b[..frame.len()].copy_from_slice(frame);
        if let Some(p) = self.place(n) {
            let [_, _, number @ ..] = sequence.to_be_bytes();
            b[p.probe_at + probe::SEQUENCE_AT..][..6].copy_from_slice(&number);
            b[p.probe_at + probe::STAMP_AT..][..8].copy_from_slice(&stamp.to_be_bytes());
            let before = u16::from_be_bytes([b[p.checksum_at], b[p.checksum_at + 1]]);
            let sum = Sum::ZERO.word(!before).number(sequence).number(stamp);
            let checksum = if p.udp { sum.udp_checksum() } else { sum.checksum() };
            b[p.checksum_at..][..2].copy_from_slice(&checksum.to_be_bytes());
        }
        frame.len()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder of a usize")]
    fn place(&self, n: u64) -> Option<Place> {
        if self.places.is_empty() { None } else { self.places[(n % self.places.len() as u64) as usize] }
    }

    /// Puts a probe of `stream` at the start of each payload that is long enough.
    fn put_probes(&mut self, stream: u16) {
        let mut probed = 0;
        self.before.push(0);
        for n in 0..self.replay.round() {
            let frame = self.replay.frame_mut(n);
            let at = Carrier::of(frame).filter(|c| c.payload_at + probe::LEN <= c.end).map(|c| c.payload_at);
            let sums = at.and_then(|at| {
                let none = Probe { stream, sequence: 0, trial: 0, sent: Nanos::ZERO };
                Some((at, raw::put_probe(frame, at, &none).ok()?))
            });
            let place = sums.map(|(probe_at, s)| Place { probe_at, checksum_at: s.checksum_at, udp: s.udp });
            probed += u64::from(place.is_some());
            self.places.push(place);
            self.before.push(probed);
        }
    }
}

/// Reads and checks the capture; returns its streams, those with a probe first. The error begins with the faulty key.
pub fn lower(r: &plan::Replay, iface: &Interface) -> Result<(Vec<One>, Capture), String> {
    let timing = match r.timing {
        plan::ReplayTiming::Speed(speed) if speed > 0.0 && speed.is_finite() => Timing::Speed(speed),
        plan::ReplayTiming::Speed(speed) => return Err(format!("timing.speed: {speed}: must be above 0")),
        plan::ReplayTiming::Max(true) => Timing::Max,
        plan::ReplayTiming::Max(false) => return Err("timing.max: is true or absent".into()),
    };
    if r.rounds == 0 {
        return Err("rounds: at least 1".into());
    }
    if r.unprobed_stream.is_some_and(|n| !r.probe || n == r.stream) {
        return Err("unprobed_stream: needs `probe`, and another number than `stream`".into());
    }
    let replay = Replay::load(&r.path, timing, r.rounds).map_err(|e| format!("path: {e}"))?;
    let most = iface.mtu as usize + AROUND_MTU;
    if replay.longest() > most {
        return Err(format!(
            "path: {}: a frame of {} bytes without FCS, and {} takes {most}; raise its MTU, or capture shorter frames",
            r.path,
            replay.longest(),
            iface.name,
        ));
    }
    let all = replay.count();
    let mean = replay.mean() + f64::from(FCS);
    let mut capture = Capture { replay, places: Vec::new(), before: Vec::new() };
    if !r.probe {
        return Ok((vec![one(r.stream, all, mean)], capture));
    }
    capture.put_probes(r.stream);
    let probed = capture.probed_before(all);
    if probed == 0 {
        return Err(format!(
            "probe: no frame of {} has room for it: whole packets of UDP, TCP or ICMP with {} bytes of payload",
            r.path,
            probe::LEN
        ));
    }
    let mut streams = vec![one(r.stream, probed, mean)];
    match r.unprobed_stream {
        Some(number) => streams.push(one(number, all - probed, mean)),
        None if probed < all => {
            let first = (0..all).find(|n| !capture.is_probed(*n)).unwrap_or(0) + 1;
            return Err(format!(
                "probe: {} of {all} frames have no room for it, the first is frame {first}; \
                 give `unprobed_stream`, a number under which they are sent as they are",
                all - probed
            ));
        }
        None => {}
    }
    Ok((streams, capture))
}

fn one(stream: u16, frames: u64, mean: f64) -> One {
    let stream = port::PlanStream {
        stream,
        templates: Vec::new(),
        order: Vec::new(),
        flows: None,
        counters: Vec::new(),
        varied: Vec::new(),
        pace: port::Pace::Max,
        after: Nanos::ZERO,
        frames,
    };
    One { stream, profile: Profile::Max, link: None, mean, sizes: Vec::new() }
}

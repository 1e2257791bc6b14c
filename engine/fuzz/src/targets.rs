//! Properties that must hold for any bytes.

use crate::corpus;
use dutlab_measure::{Account, Arrival, Ledger};
use dutlab_port::pcap::{Replay, Timing};
use dutlab_protocol::{Event, Reply, Request};
use dutlab_units::{FrameSize, Nanos};
use dutlab_wire::{Seen, reach};

/// A fuzz target: its first inputs and its property.
pub struct Target {
    /// Name of the target.
    pub name: &'static str,
    /// Inputs to begin with.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Panics if the property does not hold.
    pub check: fn(&[u8]),
}

/// All targets.
pub const ALL: [Target; 4] = [
    Target { name: "frame", corpus: corpus::frames, check: frame },
    Target { name: "protocol", corpus: corpus::lines, check: protocol },
    Target { name: "pcap", corpus: corpus::captures, check: pcap },
    Target { name: "ledger", corpus: corpus::arrivals, check: ledger },
];

/// A frame from the wire is parsed without panic, and counted in exactly one place. A frame with a probe has the same
/// meaning when padding, bytes that its headers do not count, follows it. The search for its destinations ends.
///
/// # Panics
/// If that does not hold.
pub fn frame(bytes: &[u8]) {
    let (seen, mut destinations) = (Seen::parse(bytes), 0);
    let _ = reach::destinations(bytes, &mut |_| destinations += 1);
    assert!(destinations <= 4 * bytes.len(), "{destinations} addresses in {} bytes", bytes.len());
    // Stream 7 is that of the corpus.
    let mut account = Account::new(Nanos(1), &[7]);
    account.arrive(&Arrival::read(bytes, u32::try_from(bytes.len()).unwrap_or(u32::MAX), Nanos(1 << 60)));
    let stream = &account.streams()[0];
    let places = stream.ledger.received() + stream.corrupted + account.foreign() + account.stale();
    assert_eq!(places, 1, "{seen:?} is counted in {places} places");
    if let Seen::Probe(found) = seen {
        let mut padded = bytes.to_vec();
        padded.extend([0; 6]);
        let again = Seen::parse(&padded);
        assert!(matches!(again, Seen::Probe(f) if f.probe == found.probe), "padding changes {seen:?} into {again:?}");
    }
}

/// A line to the agent is either refused, or unchanged after it was written back; lines from the agent are read without
/// panic.
///
/// # Panics
/// If that does not hold.
pub fn protocol(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    if let Ok(request) = Request::parse(&line) {
        // A number beyond f64 is read as infinity and has no JSON form; the plan is refused later for it.
        if let Ok(text) = serde_json::to_string(&request)
            && !text.contains("null")
        {
            let again = Request::parse(&text);
            assert_eq!(again.as_ref(), Ok(&request), "written back as {text}");
        }
    }
    let _ = serde_json::from_slice::<Reply>(bytes).map(|r| serde_json::to_string(&r));
    let _ = serde_json::from_slice::<Event>(bytes).map(|e| serde_json::to_string(&e));
}

/// A capture is refused, or each of its frames has a length that can be sent and is due no earlier than the one before.
///
/// # Panics
/// If that does not hold.
pub fn pcap(bytes: &[u8]) {
    let Ok(replay) = Replay::new(bytes.to_vec(), Timing::Speed(1.0), 2) else { return };
    let mut before = Nanos::ZERO;
    for n in 0..replay.count() {
        let (length, due) = (replay.frame(n).len(), replay.when(n));
        assert!(length <= replay.longest() && length <= FrameSize::MAX.without_fcs(), "frame {n} has {length} bytes");
        assert!(due >= before, "frame {n} is due at {due:?}, the one before at {before:?}");
        before = due;
    }
}

/// The ledger balances for any sequence numbers. Each 3 bytes are an arrival: the distance from the previous one.
///
/// # Panics
/// If that does not hold.
pub fn ledger(bytes: &[u8]) {
    let mut ledger = Ledger::new();
    let (mut at, mut highest) = (0_u64, 0_u64);
    for b in bytes.chunks_exact(3) {
        let step = u64::from(b[1]) << (b[2] % 24);
        at = if b[0] & 1 == 0 { at.saturating_add(step) } else { at.saturating_sub(step) };
        // A probe holds 48 bits.
        at &= (1 << 48) - 1;
        ledger.arrive(at);
        highest = highest.max(at + 1);
    }
    let settled = ledger.settle(highest);
    assert!(settled.frames.balances(), "{settled:?}");
    assert_eq!(settled.frames.received, bytes.len() as u64 / 3);
    assert!(settled.reordered <= settled.frames.unique(), "{settled:?}");
    assert!(settled.by_three <= settled.reordered, "{settled:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::Mutator;

    #[test]
    fn the_corpus_holds_and_is_understood() {
        for target in ALL {
            for input in (target.corpus)() {
                (target.check)(&input);
            }
        }
        assert!(corpus::captures().into_iter().all(|c| Replay::new(c, Timing::Max, 1).is_ok_and(|r| r.count() > 1)));
        let probes = corpus::frames().iter().filter(|f| matches!(Seen::parse(f), Seen::Probe(p) if p.intact)).count();
        assert!(probes >= 8, "{probes} frames of the corpus carry a probe");
        for line in corpus::lines() {
            let line = String::from_utf8(line).unwrap();
            let from_agent =
                serde_json::from_str::<Reply>(&line).is_ok() || serde_json::from_str::<Event>(&line).is_ok();
            assert!(Request::parse(&line).is_ok() || from_agent, "{line}");
        }
    }

    #[test]
    fn twenty_thousand_mutations_of_a_fixed_seed_hold() {
        for target in ALL {
            let mut mutator = Mutator::new((target.corpus)(), 1);
            for _ in 0..20_000 {
                (target.check)(mutator.mutate());
            }
        }
    }
}

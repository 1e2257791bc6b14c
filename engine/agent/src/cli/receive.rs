//! `dutlab-engine receive`: results that do not need the sender's count.

use super::args;
use super::drive::{Clocks, Drive, Why};
use super::exit::{Exit, Refused};
use super::verdict::{self, Doubt, Verdict};
use super::{print, quantity, traffic, words};
use crate::ports;
use crate::trial::Port;
use dutlab_port::clock;
use dutlab_protocol::plan::ReceivePlan;
use dutlab_protocol::reply::Opened;
use dutlab_protocol::totals::{Ipdv, Received, ReceivedStream};
use dutlab_units::Nanos;
use serde::Serialize;

const TAIL: &str = "missing: numbers below the highest one that arrived, also those sent before this began. Frames lost after \
                    the highest one are not among them: how many were sent, only the sender knows.";

#[derive(Serialize)]
struct Report {
    command: &'static str,
    verdict: Verdict,
    doubts: Vec<Doubt>,
    port: Opened,
    one_clock: bool,
    /// Meaning of `sent` and `lost` here.
    note: &'static str,
    received: Received,
    /// Results that are valid without a common clock.
    variation: Vec<Variation>,
}

/// Variation of latency in a stream.
#[derive(Serialize)]
struct Variation {
    stream: u16,
    pdv_p99_ns: Option<u64>,
    pdv_p999_ns: Option<u64>,
    ipdv: Option<Ipdv>,
}

/// Counts until the end, and prints the result.
pub fn run(a: &args::Receive) -> Result<Exit, Refused> {
    let streams = quantity::streams(&a.stream).map_err(|e| Refused::input(e, "see --help"))?;
    let clocks = if a.one_clock { Clocks::Shared } else { Clocks::Unknown };
    let mut drive = Drive::new(&a.output, &a.events, clocks)?;
    let (open, opened) = ports::open(&traffic::open("sink", &a.iface, &a.port, a.port.backend, &a.port.cpu))?;
    let mut port = Port::new(open);
    let plan = ReceivePlan { streams, trial: a.trial, absorb_udp_ports: a.absorb.clone(), ..ReceivePlan::default() };
    port.arm(None, Some(&plan), false)?;
    // For any clock: the sender may have been started long before or after this machine.
    port.begin_receiver(None, Nanos::ZERO)?;
    let begin = clock::monotonic();
    port.start(None, Nanos::ZERO, || ());
    let end = a.duration.map_or(Nanos::NEVER, |d| begin + d);
    let why = drive.wait(&[&port], begin, end);
    drive.end();
    let mut received = port.settle(&[])?;
    received.streams.retain(|s| s.received + s.corrupted > 0);
    received.streams.iter_mut().for_each(settle_by_sight);
    let doubts = verdict::of_receiver(&received, a.one_clock);
    // Ctrl-C is the usual end if no duration was given.
    let ended = if a.duration.is_none() { Why::Time } else { why };
    let verdict = Verdict::of(ended, received.err.is_some(), &doubts);
    let variation = received.streams.iter().map(variation_of).collect();
    let mut report = Report {
        command: "receive",
        verdict,
        doubts,
        port: opened,
        one_clock: a.one_clock,
        note: TAIL,
        received,
        variation,
    };
    let text = in_words(&report, clocks);
    if !a.one_clock {
        // The difference of two clocks must not be presented as a latency.
        report.received.streams.iter_mut().for_each(|s| s.latency = None);
    }
    print(&a.output, &report, || text);
    Ok(verdict.exit())
}

/// Closes the ledger of a stream under the assumption that the highest number that arrived was the last one sent.
fn settle_by_sight(s: &mut ReceivedStream) {
    let first_arrivals = s.received - s.duplicated;
    s.sent = s.next_sequence.unwrap_or(first_arrivals);
    s.lost = s.sent.saturating_sub(first_arrivals);
    s.balances = s.sent + s.duplicated == s.received + s.lost;
}

fn variation_of(s: &ReceivedStream) -> Variation {
    // The smallest latency is unknown if some came out negative.
    let latency = s.latency.as_ref();
    let pdv = latency.filter(|l| l.negative == 0);
    Variation {
        stream: s.stream,
        pdv_p99_ns: pdv.and_then(|l| l.pdv_p99_ns),
        pdv_p999_ns: pdv.and_then(|l| l.pdv_p999_ns),
        ipdv: latency.and_then(|l| l.ipdv.clone()),
    }
}

fn in_words(r: &Report, clocks: Clocks) -> String {
    let streams: Vec<_> = r.received.streams.iter().collect();
    let end = words::verdict(r.verdict, &r.doubts);
    if streams.is_empty() {
        return format!("{}: no frame of ours came; {} others\n{end}", r.port.iface, r.received.foreign);
    }
    let missing = |s: &ReceivedStream| s.next_sequence.map_or_else(|| "?".into(), |_| s.lost.to_string());
    format!(
        "{}, {}; {} foreign frames\n{}{TAIL}\n{}{}{end}",
        r.port.iface,
        words::backend(r.port.backend),
        r.received.foreign,
        words::received(&streams, "missing", missing),
        words::latency(&streams, clocks),
        words::timed_by(None, r.received.timed_by.as_ref()),
    )
}

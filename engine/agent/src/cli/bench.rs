//! `dutlab-engine bench`: speed of one core without a device, and the cost of accounting for a frame.

use super::args;
use super::exit::{Exit, Refused};
use super::quantity::si;
use super::{print, table::table};
use crate::ports;
use crate::session::LEAD;
use crate::trial::{Port, lead};
use dutlab_measure::{Account, Arrival, Histogram, Ipdv, Latency, Ledger};
use dutlab_port::{clock, cpu};
use dutlab_protocol::plan::{Flows, Rate, SendPlan, Sizes, Stream, Transport, WeightedSize};
use dutlab_protocol::request::{Backend, Cpus, Guard, Open};
use dutlab_units::Nanos;
use dutlab_wire::{FrameRepr, Probe, Seen};
use serde::Serialize;
use std::hint::black_box;
use std::sync::mpsc;

/// Number of prepared frames; more than a burst, less than the first-level cache.
const FRAMES: usize = 256;

/// Offset in a frame with Ethernet, IPv4 and UDP headers: 14 + 20 + 6, and 14 + 20 + 8 + 4.
const UDP_CHECKSUM_AT: usize = 40;
const SEQUENCE_AT: usize = 46;

#[derive(Serialize)]
struct Row {
    what: &'static str,
    frames_per_second: f64,
    ns_per_frame: f64,
}

fn row(what: &'static str, frames: u64, ns: u64) -> Row {
    let ns_per_frame = ns as f64 / frames.max(1) as f64;
    Row { what, frames_per_second: 1e9 / ns_per_frame, ns_per_frame }
}

/// Measures row by row.
pub fn run(a: &args::Bench) -> Result<Exit, Refused> {
    if !(0.01..=60.0).contains(&a.seconds) {
        return Err(Refused::input(
            format!("--seconds {}: from 0.01 to 60 are possible", a.seconds),
            "leave it out for 1",
        ));
    }
    if let Some(n) = a.cpu {
        cpu::pin(n).map_err(|e| Refused::unusable(format!("CPU {n} cannot be used: {e}"), "leave --cpu out"))?;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let time = Nanos((a.seconds * 1e9) as u64);
    let imix = [(64, 7), (594, 4), (1518, 1)].map(|(bytes, weight)| WeightedSize { bytes, weight });
    let mut rows = vec![
        sending("send 64: sequence, time", Sizes::FixedBytes(64), 1, time, a.cpu)?,
        sending("send 64: sequence, time, a new flow each frame", Sizes::FixedBytes(64), 60_000, time, a.cpu)?,
        sending("send imix: sequence, time, a new flow each frame", Sizes::Weighted(imix.into()), 60_000, time, a.cpu)?,
    ];
    rows.extend(receiving(time));
    let report = serde_json::json!({"command": "bench", "verdict": "done", "cpu": a.cpu, "rows": rows});
    print(&a.output, &report, || {
        let cells: Vec<_> = rows
            .iter()
            .map(|r| vec![r.what.to_owned(), si(r.frames_per_second, "frames/s"), format!("{:.1} ns", r.ns_per_frame)])
            .collect();
        table(&["one core, no device", "speed", "a frame"], &cells)
    });
    Ok(Exit::Done)
}

/// Measures the whole sending path into the `memory` back end.
fn sending(what: &'static str, sizes: Sizes, flows: u32, time: Nanos, cpu: Option<u32>) -> Result<Row, Refused> {
    let ask = Open {
        port: "memory".into(),
        iface: "memory".into(),
        backend: Backend::Memory,
        cpu: cpu.map_or_else(Cpus::default, Cpus::One),
        receive_cpu: Cpus::default(),
        guard: Guard::default(),
    };
    let stream = Stream {
        stream: 1,
        source_mac: None,
        destination_mac: "02:00:00:00:00:01".into(),
        vlans: Vec::new(),
        source: [172, 16, 0, 2].into(),
        destination: [172, 16, 10, 2].into(),
        answers: false,
        learned: false,
        transport: Transport::Udp,
        extension_headers: Vec::new(),
        vary: Vec::new(),
        source_port: 1024,
        destination_port: 5001,
        ttl: 64,
        flows: (flows > 1).then_some(Flows { count: flows, source_ports: flows, ..Flows::default() }),
        sizes,
        rate: Rate::Max(true),
        frames: None,
    };
    let mut port = Port::new(ports::open(&ask)?.0);
    port.arm(Some(&SendPlan { streams: vec![stream], duration_ns: Some(time.0), ..SendPlan::default() }), None, false)?;
    let (tell, told) = mpsc::channel();
    port.start(None, clock::monotonic() + LEAD.max(lead([&port], None)), move || {
        let _ = tell.send(());
    });
    let _ = told.recv();
    let sent = port.take_sender_back().map_or((0, 0.0), |s| (s.streams[0].sent, s.streams[0].seconds));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a minute at most")]
    Ok(row(what, sent.0, (sent.1 * 1e9) as u64))
}

/// Measures accounting step by step: each row adds one step to the previous row.
fn receiving(time: Nanos) -> Vec<Row> {
    let repr = FrameRepr::default();
    let frames: Vec<_> = (0..FRAMES as u64)
        .map(|sequence| {
            let mut b = vec![0; 60];
            // 60 bytes hold these headers and a probe, so this cannot fail.
            let _ = repr.emit(&Probe { stream: 1, sequence, trial: 0, sent: Nanos(1000 + sequence) }, &mut b);
            b
        })
        .collect();
    let mut ledger = Ledger::new();
    let (mut latency, mut ipdv, mut histogram) = (Latency::new(), Ipdv::default(), Histogram::default());
    let late = |n: u64| Nanos(20_000 + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50));
    let mut account = Account::new(Nanos::ZERO, &[1]);
    // A UDP checksum of 0 means that there is none (RFC 768), so the number can be changed alone.
    let mut plain = frames[0].clone();
    plain[UDP_CHECKSUM_AT..UDP_CHECKSUM_AT + 2].fill(0);
    vec![
        timed("receive: find and check the probe", time, |n| {
            black_box(Seen::parse(black_box(&frames[at(n)])));
        }),
        timed("receive: ledger alone", time, |n| {
            black_box(ledger.arrive(black_box(n)));
        }),
        timed("receive: latency histogram alone", time, |n| latency.record(Nanos(0), black_box(late(n)))),
        timed("receive: IPDV alone", time, |n| ipdv.arrive(n, Nanos(0), black_box(late(n)))),
        timed("send: gap histogram alone", time, |n| histogram.record(black_box(late(n)))),
        timed("receive: all of that, for frames without a checksum", time, |n| {
            plain[SEQUENCE_AT..SEQUENCE_AT + 6].copy_from_slice(&n.to_be_bytes()[2..]);
            account.arrive(&Arrival::read(black_box(&plain), 60, late(n)));
        }),
    ]
}

fn at(n: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below FRAMES")]
    {
        (n % FRAMES as u64) as usize
    }
}

fn timed(what: &'static str, time: Nanos, mut one: impl FnMut(u64)) -> Row {
    let begin = clock::monotonic();
    let mut n = 0;
    loop {
        for _ in 0..FRAMES {
            one(n);
            n += 1;
        }
        let spent = clock::monotonic().since(begin);
        if spent >= time {
            return row(what, n, spent.0);
        }
    }
}

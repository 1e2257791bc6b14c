//! `dutlab-engine forward-test`: the whole ledger of the path between two ports of this machine.

use super::args;
use super::drive::{Clocks, Drive, Why};
use super::exit::{Exit, Refused};
use super::rate::Asked;
use super::verdict::{self, Doubt, Verdict};
use super::{print, send, traffic, words};
use crate::ports;
use crate::session::LEAD;
use crate::trial::{Port, lead};
use dutlab_port::clock;
use dutlab_protocol::plan::{ReceivePlan, SendPlan, Transport};
use dutlab_protocol::reply::Opened;
use dutlab_protocol::request::StreamSent;
use dutlab_protocol::totals::{Received, ReceivedStream, Sent};
use dutlab_units::Nanos;
use serde::Serialize;

/// Time to wait for frames in flight after Ctrl-C.
const SHORT_DRAIN: Nanos = Nanos(200_000_000);

#[derive(Serialize)]
struct Report {
    command: &'static str,
    verdict: Verdict,
    doubts: Vec<Doubt>,
    source: Opened,
    sink: Opened,
    next_hop: String,
    plan: SendPlan,
    drain_ns: u64,
    max_loss_ratio: f64,
    loss_ratio: f64,
    /// intended = sent + refused; sent + duplicated = received + lost
    ledger: Ledger,
    sent: Sent,
    received: Received,
}

#[derive(Serialize)]
struct Ledger {
    intended: u64,
    refused: u64,
    sent: u64,
    received: u64,
    duplicated: u64,
    lost: u64,
    /// Lost frames that reached this host and had no room there; `None`: unknown.
    lost_here: Option<u64>,
    balances: bool,
}

impl Ledger {
    fn new(sent: &Sent, received: &Received) -> Self {
        let of_sent = |of: fn(&dutlab_protocol::totals::SentStream) -> u64| sent.streams.iter().map(of).sum();
        let of_received = |of: fn(&ReceivedStream) -> u64| received.streams.iter().map(of).sum();
        let (intended, refused, sent_all): (u64, u64, u64) =
            (of_sent(|s| s.intended), of_sent(|s| s.refused), of_sent(|s| s.sent));
        Self {
            intended,
            refused,
            sent: sent_all,
            received: of_received(|s| s.received),
            duplicated: of_received(|s| s.duplicated),
            lost: of_received(|s| s.lost),
            lost_here: received.kernel_dropped,
            balances: intended == sent_all + refused && received.streams.iter().all(|s| s.balances),
        }
    }

    fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }
}

/// Sends, receives, and accounts for every frame.
pub fn run(a: &args::ForwardTest) -> Result<Exit, Refused> {
    if a.input == a.output_port {
        return Err(Refused::input(
            "IN and OUT are the same port",
            "name the port where the frames come out of the DUT",
        ));
    }
    traffic::asked(&a.traffic)?;
    let mut drive = Drive::new(&a.output, &a.events, Clocks::Shared)?;
    let (source, opened) = ports::open(&traffic::open("source", &a.input, &a.port, a.port.backend, &a.port.cpu))?;
    let receive_cpu = if a.receive_cpu.is_empty() { &a.port.cpu } else { &a.receive_cpu };
    let back = a.receive_backend.unwrap_or(a.port.backend);
    let (sink, sink_opened) = ports::open(&traffic::open("sink", &a.output_port, &a.port, back, receive_cpu))?;
    let to = a.to.or_else(|| traffic::own_address(&sink_opened, a.traffic.from)).ok_or_else(|| {
        Refused::input(format!("{} has no address that frames could go to", a.output_port), "give --to")
    })?;
    let (plan, next_hop) = traffic::plan(&a.traffic, &opened, to, Some(&sink_opened))?;
    let plan = SendPlan { trial: any_trial(), ..plan };
    let (mut source, mut sink) = (Port::new(source), Port::new(sink));
    source.arm(Some(&plan), None, false)?;
    sink.arm(None, Some(&receive_plan(&plan, &sink_opened)), false)?;
    sink.begin_receiver(None, clock::monotonic())?;
    let at = clock::monotonic() + LEAD.max(lead([&source], None));
    sink.start(None, at, || ());
    source.start(None, at, drive.when_sent());
    let why = drive.wait(&[&source, &sink], at, send::end_of(&plan, at));
    let sent = send::finish(&mut source, &mut drive, why)?;
    let ended = clock::monotonic();
    sink.drain(ended);
    let drain = if why == Why::Interrupted { SHORT_DRAIN } else { a.drain };
    let why = match drive.wait(&[&sink], at, ended + drain) {
        Why::Interrupted => Why::Interrupted,
        _ => why,
    };
    drive.end();
    let told: Vec<StreamSent> = sent.streams.iter().map(Into::into).collect();
    let received = sink.settle(&told)?;
    let mut doubts = verdict::of_sender(&sent, a.traffic.rate == Some(Asked::Max));
    doubts.extend(verdict::of_receiver(&received, true));
    doubts.extend(verdict::of_ledger(&received));
    let ledger = Ledger::new(&sent, &received);
    let loss_ratio = ledger.loss_ratio();
    let failed = loss_ratio > a.max_loss || sent.err.is_some() || received.err.is_some() || ledger.sent == 0;
    let verdict = Verdict::of(why, failed, &doubts);
    let report = Report {
        command: "forward-test",
        verdict,
        doubts,
        source: opened,
        sink: sink_opened,
        next_hop,
        plan,
        drain_ns: drain.0,
        max_loss_ratio: a.max_loss,
        loss_ratio,
        ledger,
        sent,
        received,
    };
    print(&a.output, &report, || in_words(&report));
    Ok(verdict.exit())
}

/// Returns a number that no other trial is likely to have; no other program needs to know it.
fn any_trial() -> u16 {
    let [.., high, low] = (clock::realtime().0 / 1000).to_be_bytes();
    u16::from_be_bytes([high, low]).max(1)
}

/// Returns the receive plan of the same streams. If they are addressed to this host, its own stack takes them silently.
fn receive_plan(plan: &SendPlan, sink: &Opened) -> ReceivePlan {
    let first = &plan.streams[0];
    let own = sink.addresses.iter().any(|a| a.split('/').next() == Some(&first.destination.to_string()));
    let absorb_udp_ports =
        if own && first.transport == Transport::Udp { vec![first.destination_port] } else { Vec::new() };
    let streams = plan.streams.iter().map(|s| s.stream).collect();
    ReceivePlan { streams, trial: plan.trial, absorb_udp_ports, ..ReceivePlan::default() }
}

fn in_words(r: &Report) -> String {
    let streams: Vec<_> = r.received.streams.iter().collect();
    let l = &r.ledger;
    let here = match l.lost_here {
        Some(0) => String::new(),
        Some(n) => format!(", {n} of them here for want of room"),
        None => ", how many of them here nobody knows".into(),
    };
    format!(
        "{} → {} by {} → {}, {}/{}\n{}\n{}\n{}{}\n{} intended = {} sent + {} refused; {} sent + {} duplicated = {} received + {} lost{here}\nloss {:.4} %\n{}",
        r.source.iface,
        r.plan.streams[0].destination,
        r.next_hop,
        r.sink.iface,
        words::backend(r.source.backend),
        words::backend(r.sink.backend),
        words::sent(&r.sent),
        words::received(&streams, "lost", |s| s.lost.to_string()),
        words::latency(&streams, Clocks::Shared),
        words::timed_by(r.sent.timed_by, r.received.timed_by.as_ref()),
        l.intended,
        l.sent,
        l.refused,
        l.sent,
        l.duplicated,
        l.received,
        l.lost,
        r.loss_ratio * 100.0,
        words::verdict(r.verdict, &r.doubts)
    )
}

//! `dutlab-engine send`.

use super::args;
use super::drive::{Clocks, Drive, Why};
use super::exit::{Exit, Refused};
use super::rate::Asked;
use super::verdict::{self, Doubt, Verdict};
use super::{print, traffic, words};
use crate::ports::{self, OpenPort};
use crate::session::LEAD;
use crate::trial::{Port, lead};
use dutlab_port::clock;
use dutlab_protocol::plan::SendPlan;
use dutlab_protocol::reply::Opened;
use dutlab_protocol::totals::Sent;
use dutlab_units::Nanos;
use serde::Serialize;

/// Longest time that sending may take after the last frame is due; it is then ended.
const OVERTIME: Nanos = Nanos(2_000_000_000);

#[derive(Serialize)]
struct Report {
    command: &'static str,
    verdict: Verdict,
    doubts: Vec<Doubt>,
    port: Opened,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_hop: Option<String>,
    plan: SendPlan,
    sent: Sent,
}

/// Sends, and prints what was sent.
pub fn run(a: &args::Send) -> Result<Exit, Refused> {
    if a.given.replay.is_none() {
        traffic::asked(&a.traffic)?;
    }
    let mut drive = Drive::new(&a.output, &a.events, Clocks::Unknown)?;
    let (open, opened) = ports::open(&traffic::open("source", &a.iface, &a.port, a.port.backend, &a.port.cpu))?;
    let (plan, next_hop) = match (traffic::given(&a.given, &a.traffic)?, a.to) {
        (Some(plan), _) => (plan, None),
        (None, Some(to)) => traffic::plan(&a.traffic, &opened, to, None).map(|(plan, hop)| (plan, Some(hop)))?,
        (None, None) => return Err(Refused::input("where to? --to is missing", "give --to, --raw or --replay")),
    };
    let plan = SendPlan { trial: a.trial, ..plan };
    let (sent, why) = send(open, &plan, &mut drive)?;
    // A capture without its own timing is sent as fast as possible.
    let at_maximum = a.traffic.rate.as_ref().is_none_or(|rate| *rate == Asked::Max);
    let doubts = verdict::of_sender(&sent, at_maximum);
    let verdict = Verdict::of(why, sent.err.is_some(), &doubts);
    let result = Report { command: "send", verdict, doubts, port: opened, next_hop, plan, sent };
    print(&a.output, &result, || in_words(&result));
    Ok(verdict.exit())
}

/// Sends a plan out of an open port, and returns the counters and why sending ended.
pub fn send(open: OpenPort, plan: &SendPlan, drive: &mut Drive) -> Result<(Sent, Why), Refused> {
    let mut port = Port::new(open);
    port.arm(Some(plan), None, false)?;
    let at = clock::monotonic() + LEAD.max(lead([&port], None));
    port.start(None, at, drive.when_sent());
    let why = drive.wait(&[&port], at, end_of(plan, at));
    Ok((finish(&mut port, drive, why)?, why))
}

/// Returns the latest end of sending.
pub fn end_of(plan: &SendPlan, at: Nanos) -> Nanos {
    plan.duration_ns.map_or(Nanos::NEVER, |d| at + Nanos(d) + OVERTIME)
}

/// Ends sending if it has not ended automatically, and returns the counters.
pub fn finish(port: &mut Port, drive: &mut Drive, why: Why) -> Result<Sent, Refused> {
    if why != Why::Sent {
        port.stop_sending();
    }
    drive.end();
    let sent = port.take_sender_back().cloned();
    sent.ok_or_else(|| {
        Refused::unusable("the sending thread did not come back", "report this as a fault of the engine")
    })
}

fn in_words(r: &Report) -> String {
    let to = match (&r.plan.replay, r.plan.streams.first(), &r.next_hop) {
        (Some(replay), ..) => format!("the frames of {}", replay.path),
        (None, Some(stream), Some(hop)) => format!("{} by {hop}", stream.destination),
        _ => "frames as given".into(),
    };
    format!(
        "{} → {to}, {}\n{}{}",
        r.port.iface,
        words::backend(r.port.backend),
        words::sent(&r.sent),
        words::verdict(r.verdict, &r.doubts)
    )
}

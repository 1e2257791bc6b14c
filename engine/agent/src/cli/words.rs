//! Sent and received frames, as tables for people.

use super::drive::Clocks;
use super::quantity::{si, span};
use super::table::table;
use super::verdict::{Doubt, Verdict};
use clap::ValueEnum as _;
use dutlab_protocol::reply::{CardClock, Probed, TimeOf};
use dutlab_protocol::request::Backend;
use dutlab_protocol::totals::{ArrivalTimes, ReceivedStream, Sent, TimedBy};
use dutlab_units::Pps;

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn ns(n: u64) -> String {
    span(n as f64)
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".into(), show)
}

/// Returns the name of a back end, as `--backend` has it.
pub fn backend(backend: Backend) -> String {
    backend.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
}

/// Describes the sources of time stamps of an interface.
pub fn times(probed: &Probed) -> String {
    let word = |time: &TimeOf| match time {
        TimeOf::SoftwareSend => "software when sent",
        TimeOf::SoftwareReceive => "software when received",
        TimeOf::CardSend => "card when sent",
        TimeOf::CardReceive => "card when received",
        TimeOf::XdpArrival => "driver to XDP programs, when received",
        TimeOf::XdpDeparture => "driver to AF_XDP, when sent",
        TimeOf::XdpLaunch => "AF_XDP, when to send",
    };
    let mut all: Vec<_> = probed.times.iter().map(word).map(str::to_owned).collect();
    all.extend(probed.card_clock.as_ref().map(card_clock));
    let offered = if all.is_empty() { "nothing".into() } else { all.join("; ") };
    let used = if probed.times.contains(&TimeOf::CardReceive) {
        "af_packet uses the card's when received, af_xdp those that the driver tells programs; all others are software's"
    } else {
        "the engine uses those of software"
    };
    format!("times that the driver offers: {offered}\n  {used}\n")
}

fn card_clock(clock: &CardClock) -> String {
    let number = clock.number;
    match (clock.ahead_ns, clock.error_ns, &clock.reason) {
        (Some(ahead), Some(error), _) => {
            format!("the card's clock, /dev/ptp{number}, is ahead of the host's by {ahead} ns, to within {error} ns")
        }
        (_, _, reason) => {
            format!("the card's clock, /dev/ptp{number}, cannot be read ({})", reason.as_deref().unwrap_or("–"))
        }
    }
}

/// Describes the sources of the times in latencies.
pub fn timed_by(sent: Option<TimedBy>, received: Option<&ArrivalTimes>) -> String {
    let who = |by: TimedBy| match by {
        TimedBy::Card => "the card",
        TimedBy::Kernel => "the kernel",
        TimedBy::Engine => "the engine",
    };
    let arrivals =
        received.map(|r| [(TimedBy::Card, r.card), (TimedBy::Kernel, r.kernel), (TimedBy::Engine, r.engine)]);
    let seen: Vec<_> = arrivals.into_iter().flatten().filter(|(_, n)| *n > 0).collect();
    let arrived = match seen[..] {
        [] => return String::new(),
        [(by, _)] => who(by).to_owned(),
        _ => seen.iter().map(|(by, n)| format!("{} ({n} frames)", who(*by))).collect::<Vec<_>>().join(", "),
    };
    let within = received
        .and_then(|r| r.card_error_ns)
        .map_or_else(String::new, |n| format!(", the card's to within {}", ns(n)));
    let sent = sent.map_or_else(String::new, |by| format!("sent by {}, ", who(by)));
    format!("times: {sent}received by {arrived}{within}\n")
}

/// Formats the counters of a sender.
pub fn sent(sent: &Sent) -> String {
    let rows: Vec<_> = sent
        .streams
        .iter()
        .map(|s| {
            let gaps = s.gaps.as_ref();
            vec![
                s.stream.to_string(),
                s.intended.to_string(),
                s.sent.to_string(),
                s.refused.to_string(),
                si(s.achieved_pps, "pps"),
                si(s.achieved_bps_l1, "bit/s"),
                si(s.achieved_bps_l2, "bit/s"),
                or_dash(gaps, |g| ns(g.p50_ns)),
                or_dash(gaps, |g| ns(g.p99_ns)),
                or_dash(gaps, |g| ns(g.max_ns)),
            ]
        })
        .collect();
    table(
        &["stream", "intended", "sent", "refused", "rate", "on the wire (L1)", "frames (L2)", "gap p50", "p99", "max"],
        &rows,
    )
}

/// Formats the counters of a receiver. `lost` gives the column of lost frames.
pub fn received(streams: &[&ReceivedStream], lost_head: &str, lost: impl Fn(&ReceivedStream) -> String) -> String {
    let rows: Vec<_> = streams
        .iter()
        .map(|s| {
            let pps = received_pps(s);
            vec![
                s.stream.to_string(),
                s.received.to_string(),
                lost(s),
                s.duplicated.to_string(),
                reordered(s),
                or_dash(s.reorder_extent_max, |n| n.to_string()),
                or_dash(s.late, |n| n.to_string()),
                s.corrupted.to_string(),
                or_dash(pps, |p| si(p.0, "pps")),
            ]
        })
        .collect();
    table(&["stream", "received", lost_head, "duplicated", "reordered", "extent", "late", "corrupted", "rate"], &rows)
}

/// Returns the number of frames out of order, or a lower bound if it is unknown.
fn reordered(s: &ReceivedStream) -> String {
    s.reordered.map_or_else(|| format!("≥ {}", s.reordered_at_least), |n| n.to_string())
}

/// Frames a second between the first and the last arrival.
fn received_pps(s: &ReceivedStream) -> Option<Pps> {
    let ns = s.last_monotonic_ns?.checked_sub(s.first_monotonic_ns?).filter(|ns| *ns > 0)?;
    Some(Pps((s.received - 1) as f64 * 1e9 / ns as f64))
}

/// Formats one-way latency and its variation. Without one clock, only values that do not depend on it.
pub fn latency(streams: &[&ReceivedStream], clocks: Clocks) -> String {
    let one_clock = clocks == Clocks::Shared;
    let rows: Vec<_> = streams
        .iter()
        .filter_map(|s| Some((s.stream, s.latency.as_ref()?)))
        .map(|(stream, l)| {
            let mut row = vec![stream.to_string()];
            if one_clock {
                row.extend([l.min_ns, l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns].map(ns));
            }
            row.push(or_dash(l.pdv_p99_ns.filter(|_| one_clock || l.negative == 0), ns));
            row.push(or_dash(l.pdv_p999_ns.filter(|_| one_clock || l.negative == 0), ns));
            let ipdv = l.ipdv.as_ref();
            row.extend(
                [ipdv.and_then(|i| i.p50_ns), ipdv.and_then(|i| i.p99_ns), ipdv.map(|i| i.max_ns)]
                    .map(|n| or_dash(n, ns)),
            );
            row
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut head = vec!["stream"];
    if one_clock {
        head.extend(["latency min", "p50", "p99", "p99.9", "max"]);
    }
    head.extend(["PDV p99", "p99.9", "IPDV p50", "p99", "max"]);
    table(&head, &rows)
}

/// Formats the last lines.
pub fn verdict(verdict: Verdict, doubts: &[Doubt]) -> String {
    let mut text = verdict.word().to_owned() + "\n";
    for doubt in doubts {
        text.extend([if doubt.kind.is_note() { "  note: " } else { "  doubt: " }, &doubt.text, "\n"]);
    }
    text
}

//! Conversion of counters to messages of the protocol.

use crate::receive::{self, Tally};
use crate::send;
use dutlab_measure::{Histogram, Settlement, StreamAccount};
use dutlab_port::iface::InUse;
use dutlab_port::link_watch::LinkLoss;
use dutlab_port::{self as port, CountedStream, PortError, Stamped, Variation};
use dutlab_protocol::request::StreamSent;
use dutlab_protocol::totals::{
    ArrivalTimes, Ended, Gaps, Ipdv, Latency, Learned, LinkLost, Received, ReceivedStream, Sent, SentStream, Source,
};
use dutlab_protocol::{ErrorKind, Fault};
use dutlab_units::{Nanos, Pps};
use dutlab_wire::FourTuple;
use std::collections::HashSet;

/// Makes a fault that the controller caused.
#[must_use]
pub fn fault(kind: ErrorKind, message: impl Into<String>, remedy: Option<&str>) -> Fault {
    Fault { kind, message: message.into(), call: None, errno: None, remedy: remedy.map(Into::into) }
}

/// Makes a fault of a port.
#[must_use]
pub fn port_fault(e: &PortError) -> Fault {
    let kind = match e.kind() {
        port::ErrorKind::NoSuchInterface => ErrorKind::NoSuchInterface,
        port::ErrorKind::Permission => ErrorKind::Permission,
        port::ErrorKind::Unsupported => ErrorKind::Unsupported,
        port::ErrorKind::Lost => ErrorKind::PortLost,
        port::ErrorKind::Syscall => ErrorKind::Syscall,
    };
    Fault { kind, message: e.to_string(), call: e.call().map(Into::into), errno: e.errno(), remedy: e.remedy() }
}

/// Makes the guard's refusal.
#[must_use]
pub fn guard_fault(e: &InUse) -> Fault {
    fault(ErrorKind::GuardRefused, e.to_string(), Some(&e.remedy()))
}

/// Converts the result of a sending thread.
#[must_use]
pub fn sent(port: &str, plan: &crate::lower::Lowered, done: &send::Done) -> Sent {
    let streams = plan.plan.streams.iter().zip(&plan.means).zip(done.totals.iter().zip(&done.gaps));
    Sent {
        port: port.to_owned(),
        ended: match (&done.error, done.stopped) {
            (Some(_), _) => Ended::Failed,
            (None, true) => Ended::Stopped,
            (None, false) => Ended::Finished,
        },
        err: done.error.as_ref().map(port_fault),
        notes: done.notes.clone(),
        timed_by: done.timed_by,
        link_lost: None,
        streams: streams
            .map(|((stream, mean), (t, gaps))| {
                let cut = done.stopped || done.error.is_some() || t.sent == stream.frames;
                let seconds =
                    if plan.duration != Nanos::NEVER && !cut { plan.duration.seconds() } else { from_first_to_last(t) };
                let pps = if seconds > 0.0 { t.sent as f64 / seconds } else { 0.0 };
                let mean = if t.sent > 0 { t.bytes as f64 / t.sent as f64 } else { *mean };
                SentStream {
                    stream: stream.stream,
                    intended: t.asked,
                    sent: t.sent,
                    numbered: (t.numbered > t.sent).then_some(t.numbered),
                    unordered: t.unordered,
                    refused: t.refused,
                    backpressure: (!t.refusals_unknown).then_some(t.backpressure),
                    sent_bytes: t.bytes,
                    first_monotonic_ns: (t.sent > 0).then_some(t.first.0),
                    last_monotonic_ns: (t.sent > 0).then_some(t.last.0),
                    seconds,
                    achieved_pps: pps,
                    achieved_bps_l1: Pps(pps).l1(mean).0,
                    achieved_bps_l2: Pps(pps).l2(mean).0,
                    late_max_ns: t.late_max.0,
                    gaps: gaps.as_ref().filter(|g| !g.buckets.is_empty()).map(gaps_between),
                }
            })
            .collect(),
    }
}

fn gaps_between(g: &dutlab_port::Gaps) -> Gaps {
    let count: u64 = g.buckets.iter().map(|(_, n)| n).sum();
    Gaps {
        count,
        min_ns: g.min.0,
        p50_ns: quantile(&g.buckets, count, g.max, 0.5),
        p99_ns: quantile(&g.buckets, count, g.max, 0.99),
        max_ns: g.max.0,
        mean_ns: if count > 0 { g.sum as f64 / count as f64 } else { 0.0 },
        histogram: g.buckets.clone(),
    }
}

/// Returns the quantile `share` of the `count` values in `buckets`: the upper end of its bucket, at most `max`.
fn quantile(buckets: &[(u64, u64)], count: u64, max: Nanos, share: f64) -> u64 {
    let rank = (share * count as f64).ceil().max(1.0);
    let mut below = 0;
    for (upper, n) in buckets {
        below += n;
        if below as f64 >= rank {
            return (*upper).min(max.0);
        }
    }
    max.0
}

fn ipdv(h: &Histogram) -> Option<Ipdv> {
    (h.count() > 0).then(|| Ipdv {
        count: h.count(),
        p50_ns: Some(h.quantile(0.5).0),
        p99_ns: Some(h.quantile(0.99).0),
        max_ns: h.max().0,
        mean_ns: h.mean_ns(),
    })
}

/// Converts IPDV. The kernel keeps no distribution of it: a second histogram would cost each frame a twentieth of its
/// time.
fn variation(v: &Variation) -> Option<Ipdv> {
    (v.count > 0).then(|| Ipdv {
        count: v.count,
        p50_ns: None,
        p99_ns: None,
        max_ns: v.max.0,
        mean_ns: v.sum as f64 / v.count as f64,
    })
}

/// Returns the ratio of RFC 4737 section 4.1; `None` when nothing arrived.
fn ratio(reordered: u64, first_arrivals: u64) -> Option<f64> {
    (first_arrivals > 0).then(|| reordered as f64 / first_arrivals as f64)
}

/// Returns the time from the first frame to the last, plus one mean gap: n frames take n gaps.
fn from_first_to_last(t: &dutlab_port::StreamTotals) -> f64 {
    if t.sent < 2 {
        return 0.0;
    }
    t.last.since(t.first).seconds() * t.sent as f64 / (t.sent - 1) as f64
}

/// Converts the result of a receiving thread, settled with the frames that were sent.
#[must_use]
pub fn received(port: &str, streams: &[u16], sent: &[StreamSent], done: &receive::Done) -> Received {
    let sent_of = |stream: u16| sent.iter().find(|s| s.stream == stream);
    let (streams, foreign, stale) = match &done.tally {
        Tally::Here(account) => {
            (account.streams().iter().map(|s| here(s, sent_of(s.stream))).collect(), account.foreign(), account.stale())
        }
        Tally::Kernel { counted, before_late } => (
            streams
                .iter()
                .zip(&counted.streams)
                .enumerate()
                .map(|(i, (n, s))| in_kernel(*n, s, before_late.as_ref().and_then(|b| b.streams.get(i)), sent_of(*n)))
                .collect(),
            counted.foreign,
            counted.stale,
        ),
    };
    Received {
        port: port.to_owned(),
        streams,
        foreign: foreign + done.passed,
        stale,
        kernel_dropped: done.dropped,
        timed_by: arrivals(done.stamped),
        link_lost: None,
        err: done.error.as_ref().map(port_fault),
    }
}

/// Converts the losses of a link, if it went down.
#[must_use]
pub fn link_lost(loss: LinkLoss) -> Option<LinkLost> {
    (loss.times > 0).then_some(LinkLost { times: loss.times, set_down: loss.set_down })
}

fn arrivals(s: Stamped) -> Option<ArrivalTimes> {
    let card_error_ns = (s.card > 0).then_some(s.card_error.0);
    let times = ArrivalTimes { card: s.card, kernel: s.kernel, engine: s.engine, card_error_ns };
    (s.card + s.kernel + s.engine > 0).then_some(times)
}

/// Returns the number of frames that were sent of a stream, and the upper bound of their numbers.
fn sent_and_numbered(sent: Option<&StreamSent>) -> (u64, u64) {
    sent.map_or((0, 0), |s| (s.frames, s.numbered.unwrap_or(s.frames)))
}

/// Converts the counts of a stream that the agent counted.
fn here(s: &StreamAccount, told: Option<&StreamSent>) -> ReceivedStream {
    let (sent, numbered) = sent_and_numbered(told);
    let settled = s.ledger.settle_numbered(sent, numbered);
    let (first, last) = s.span.unwrap_or_default();
    let counted = CountedStream {
        received: settled.frames.received,
        bytes: s.bytes,
        duplicated: settled.frames.duplicated,
        reordered: settled.reordered,
        reordered_in_queue: s.ways.reordered(),
        several_queues: !s.ways.is_one(),
        reorder_extent_max: settled.extent_max,
        reorder_extent_sum: settled.extent_sum,
        reorder_extents: settled.reordered,
        reordered_by_three: Some(settled.by_three),
        next: s.ledger.next(),
        guessed: settled.guessed,
        corrupted: s.corrupted,
        first,
        last,
        negative: s.latency.negative(),
        latency_min: s.latency.min().unwrap_or_default(),
        latency_max: s.latency.max(),
        latency_sum: s.latency.sum_ns(),
        latency: s.latency.buckets(),
        sources: s.senders.clone(),
        ..CountedStream::default()
    };
    ReceivedStream {
        learned: s.tuples.as_deref().map(learned),
        ..of_stream(s.stream, &counted, Some(s.late), ipdv(s.ipdv.sizes()), told)
    }
}

fn learned(kept: &[FourTuple]) -> Learned {
    Learned { frames: kept.len() as u64, different: kept.iter().collect::<HashSet<_>>().len() as u64 }
}

fn in_kernel(
    stream: u16,
    s: &CountedStream,
    before_late: Option<&CountedStream>,
    told: Option<&StreamSent>,
) -> ReceivedStream {
    of_stream(stream, s, before_late.map(|b| s.received - b.received), variation(&s.ipdv), told)
}

fn of_stream(
    stream: u16,
    s: &CountedStream,
    late: Option<u64>,
    ipdv: Option<Ipdv>,
    told: Option<&StreamSent>,
) -> ReceivedStream {
    let (sent, numbered) = sent_and_numbered(told);
    let frames = Settlement { sent, numbered, received: s.received, duplicated: s.duplicated, next: s.next };
    let unordered = told.is_some_and(|t| t.unordered);
    let is_link = !unordered && !s.several_queues; // the order of arrival is that of the link
    ReceivedStream {
        stream,
        sent,
        received: s.received,
        received_bytes: s.bytes,
        lost: frames.lost(),
        duplicated: s.duplicated,
        reordered: is_link.then_some(s.reordered),
        reordered_at_least: match (unordered, is_link) {
            (true, _) => 0,
            (_, true) => s.reordered,
            (_, false) => s.reordered_in_queue,
        },
        reorder_extent_max: is_link.then_some(s.reorder_extent_max),
        reordered_ratio: ratio(s.reordered, frames.unique()).filter(|_| is_link),
        reorder_extents_unknown: if is_link { s.reordered.saturating_sub(s.reorder_extents) } else { 0 },
        reorder_extent_mean: ratio(s.reorder_extent_sum, s.reorder_extents).filter(|_| is_link),
        reordered_by_three: s.reordered_by_three.filter(|_| is_link),
        late,
        next_sequence: Some(s.next),
        guessed: s.guessed,
        corrupted: s.corrupted,
        balances: frames.balances(),
        first_monotonic_ns: (s.received > 0).then_some(s.first.0),
        last_monotonic_ns: (s.received > 0).then_some(s.last.0),
        latency: latency(s, ipdv),
        sources: s.sources.iter().map(|(address, port)| Source { address: *address, port: *port }).collect(),
        learned: None,
    }
}

fn latency(s: &CountedStream, ipdv: Option<Ipdv>) -> Option<Latency> {
    let count: u64 = s.latency.iter().map(|(_, n)| n).sum();
    let quantile = |share| quantile(&s.latency, count, s.latency_max, share);
    let above_least = |share| (count > 0).then(|| quantile(share).saturating_sub(s.latency_min.0));
    (count + s.negative > 0).then(|| Latency {
        count,
        negative: s.negative,
        min_ns: s.latency_min.0,
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        max_ns: s.latency_max.0,
        mean_ns: if count > 0 { s.latency_sum as f64 / count as f64 } else { 0.0 },
        pdv_p99_ns: above_least(0.99),
        pdv_p999_ns: above_least(0.999),
        ipdv,
        histogram: s.latency.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the same counts in two forms: the agent's ledger, and the kernel's counters.
    fn both(arrivals: &[u64]) -> (StreamAccount, CountedStream) {
        let mut account = dutlab_measure::Account::new(Nanos::ZERO, &[7]).streams()[0].clone();
        for sequence in arrivals {
            account.ledger.arrive(*sequence);
        }
        let frames = account.ledger.settle(0).frames;
        let counted = CountedStream {
            received: frames.received,
            duplicated: frames.duplicated,
            next: frames.next,
            ..CountedStream::default()
        };
        (account, counted)
    }

    #[test]
    fn frames_are_settled_by_one_rule_wherever_they_were_counted() {
        let ten: Vec<u64> = (0..10).collect();
        let stray: Vec<u64> = (0..9).chain([5000]).collect();
        for (arrivals, sent, numbered, lost, balances) in [
            (&ten, 10, None, 0, true),
            (&ten, 12, None, 2, true),
            (&ten, 9, None, 0, false),
            (&ten, 8, Some(10), 0, false),
            (&stray, 10, None, 0, false),
            (&stray, 10, Some(5001), 0, true),
        ] {
            let (account, counted) = both(arrivals);
            let told = StreamSent { stream: 7, frames: sent, numbered, unordered: false };
            for r in [here(&account, Some(&told)), in_kernel(7, &counted, None, Some(&told))] {
                assert_eq!((r.lost, r.balances), (lost, balances), "{arrivals:?}, sent {sent}, numbered {numbered:?}");
            }
            assert_eq!(here(&account, None).balances, arrivals.is_empty(), "nothing was reported as sent");
            assert_eq!(in_kernel(7, &counted, None, None).balances, arrivals.is_empty());
        }
    }

    #[test]
    fn extents_that_the_kernel_did_not_keep_are_reported_as_unknown() {
        let counted = CountedStream {
            received: 100,
            reordered: 9,
            reorder_extents: 6,
            reorder_extent_max: 4,
            reorder_extent_sum: 12,
            next: 100,
            ..CountedStream::default()
        };
        let r = in_kernel(
            7,
            &counted,
            None,
            Some(&StreamSent { stream: 7, frames: 100, numbered: None, unordered: false }),
        );
        assert_eq!((r.reorder_extents_unknown, r.reorder_extent_max, r.reorder_extent_mean), (3, Some(4), Some(2.0)));
    }
}

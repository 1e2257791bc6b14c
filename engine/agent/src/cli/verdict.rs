//! What a result is worth: reasons to distrust it, and how the command ends.

use super::drive::Why;
use super::exit::Exit;
pub use dutlab_protocol::Doubt;
use dutlab_protocol::DoubtKind;
use dutlab_protocol::doubt::{DUPLICATES_SHARE, RATE_TOLERANCE};
use dutlab_protocol::totals::{Ended, LinkLost, Received, Sent};
use serde::Serialize;

/// In one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Measured, and nothing speaks against it; there may be something to know.
    Done,
    /// Measured, with reasons to distrust it.
    Doubtful,
    /// The port failed, or more was lost than was allowed.
    Failed,
    /// The user ended it.
    Interrupted,
}

impl Verdict {
    /// From what went wrong; an interruption is told first.
    pub fn of(why: Why, failed: bool, doubts: &[Doubt]) -> Self {
        match (why, failed, doubts.iter().all(|d| d.kind.is_note())) {
            (Why::Interrupted, ..) => Self::Interrupted,
            (_, true, _) => Self::Failed,
            (_, _, false) => Self::Doubtful,
            _ => Self::Done,
        }
    }

    /// The exit code.
    pub const fn exit(self) -> Exit {
        match self {
            Self::Done => Exit::Done,
            Self::Doubtful | Self::Failed => Exit::Doubtful,
            Self::Interrupted => Exit::Interrupted,
        }
    }

    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Doubtful => "doubtful",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

fn doubt(kind: DoubtKind, text: String) -> Doubt {
    Doubt { kind, text }
}

/// What speaks against a sender.
pub fn of_sender(sent: &Sent, at_maximum: bool) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let sum = |of: fn(&dutlab_protocol::totals::SentStream) -> u64| sent.streams.iter().map(of).sum::<u64>();
    let (intended, refused) = (sum(|s| s.intended), sum(|s| s.refused));
    let by_peer: u64 = sent.streams.iter().filter_map(|s| s.backpressure).sum();
    let not_made = refused - by_peer;
    let is_much = |frames: u64| frames as f64 > intended as f64 * RATE_TOLERANCE && !at_maximum;
    if is_much(not_made) {
        doubts.push(doubt(
            DoubtKind::TxStarved,
            format!("the generator did not reach its rate: {not_made} of {intended} frames were due and not sent in time; lower --rate, or try another --backend or --cpu"),
        ));
    }
    if is_much(by_peer) {
        doubts.push(doubt(
            DoubtKind::HeldBack,
            format!("the port took less than was offered: for {by_peer} of {intended} frames there was no room, because what is behind it is slower; lower --rate"),
        ));
    }
    if sent.streams.iter().any(|s| s.backpressure.is_none()) {
        doubts.push(doubt(
            DoubtKind::RefusalsUnknown,
            "this kernel does not report which frames a port refused: such frames count as sent, and seem lost on the way"
                .into(),
        ));
    }
    doubts.extend(of_link(&sent.port, sent.link_lost));
    if let (Ended::Failed, Some(err)) = (sent.ended, &sent.err) {
        doubts.push(doubt(DoubtKind::PortFailed, err.message.clone()));
    }
    doubts
}

/// What speaks against a receiver.
pub fn of_receiver(received: &Received, one_clock: bool) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let sum = |of: fn(&dutlab_protocol::totals::ReceivedStream) -> u64| received.streams.iter().map(of).sum::<u64>();
    match received.kernel_dropped {
        Some(0) => {}
        Some(n) => doubts.push(doubt(
            DoubtKind::RxDropped,
            format!(
                "{n} frames reached this host and were dropped for want of room: it was not the DUT that lost them"
            ),
        )),
        None => doubts.push(doubt(
            DoubtKind::RxDropsUnknown,
            "the receiver cannot tell how many frames it dropped for want of room: any loss may be its own".into(),
        )),
    }
    let guessed = sum(|s| s.guessed);
    if guessed > 0 {
        doubts.push(doubt(
            DoubtKind::LedgerGuessed,
            format!(
                "{guessed} frames came so late that nobody knows whether they came twice; they count as duplicates"
            ),
        ));
    }
    let unknown = sum(|s| s.reorder_extents_unknown);
    if unknown > 0 {
        doubts.push(doubt(
            DoubtKind::ReorderingPartlyKnown,
            format!("the reordering extent of {unknown} frames is not known; the greatest may be larger than shown"),
        ));
    }
    let known = |s: &&dutlab_protocol::totals::ReceivedStream| s.reordered.is_none() && s.received > 0;
    if let unordered @ 1.. = received.streams.iter().filter(known).count() {
        doubts.push(doubt(
            DoubtKind::ReorderingUnknown,
            format!("of {unordered} streams the order is not known: their frames came on several receive queues of this host, or several CPUs sent them; take one queue (ethtool -L IFACE combined 1), or a stream for each flow and sending CPU"),
        ));
    }
    let (duplicated, first_arrivals) = (sum(|s| s.duplicated), sum(|s| s.received - s.duplicated));
    if duplicated as f64 > first_arrivals.max(sum(|s| s.sent)) as f64 * DUPLICATES_SHARE {
        doubts.push(doubt(
            DoubtKind::Duplicates,
            format!(
                "{duplicated} frames came more than once: the path makes copies, or two senders use one stream's number"
            ),
        ));
    }
    if received.foreign > 0 {
        doubts.push(doubt(DoubtKind::ForeignFrames, format!("{} frames were not ours", received.foreign)));
    }
    doubts.extend(of_link(&received.port, received.link_lost));
    let corrupted = sum(|s| s.corrupted);
    if corrupted > 0 {
        doubts.push(doubt(DoubtKind::CorruptedFrames, format!("{corrupted} frames arrived with a wrong checksum")));
    }
    let negative: u64 = received.streams.iter().filter_map(|s| s.latency.as_ref()).map(|l| l.negative).sum();
    if one_clock && negative > 0 {
        doubts.push(doubt(
            DoubtKind::LatencyUnknown,
            format!("{negative} frames arrived before they were sent: not one clock"),
        ));
    }
    if let Some(err) = &received.err {
        doubts.push(doubt(DoubtKind::PortFailed, err.message.clone()));
    }
    doubts
}

/// A link that went down meanwhile.
fn of_link(port: &str, lost: Option<LinkLost>) -> Option<Doubt> {
    let LinkLost { times, set_down } = lost?;
    let whose = if set_down { "the port was set down on this host" } else { "whose end is not known" };
    let text =
        format!("the link of port {port} went down {times} times; {whose}: what was lost then says nothing of the DUT");
    Some(doubt(DoubtKind::LinkWentDown, text))
}

/// A ledger that does not balance.
pub fn of_ledger(received: &Received) -> Vec<Doubt> {
    let odd = received.streams.iter().filter(|s| !s.balances);
    odd.map(|s| doubt(DoubtKind::LedgerOpen, format!("stream {}: frames arrived that nobody sent", s.stream))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_generator_and_a_peer_without_room_are_different_doubts() {
        use DoubtKind::{HeldBack, TxStarved};
        let kinds = |intended: u64, refused: u64, by_peer: u64, at_maximum: bool| {
            let sent = serde_json::json!({"port": "p", "ended": "finished", "streams": [{
                "stream": 1, "intended": intended, "sent": intended - refused, "refused": refused, "backpressure": by_peer,
                "sent_bytes": 0, "late_max_ns": 0, "seconds": 1.0, "achieved_pps": 0.0, "achieved_bps_l1": 0.0,
                "achieved_bps_l2": 0.0}]});
            let sent = serde_json::from_value::<Sent>(sent).unwrap();
            of_sender(&sent, at_maximum).iter().map(|d| d.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(10_000, 500, 0, false), [TxStarved]);
        assert_eq!(kinds(10_000, 500, 495, false), [HeldBack]);
        assert_eq!(kinds(10_000, 500, 250, false), [TxStarved, HeldBack]);
        assert_eq!(kinds(10_000, 10, 5, false), Vec::new(), "below the share that is a doubt");
        assert_eq!(kinds(10_000, 500, 250, true), Vec::new(), "the maximum is what was taken");
    }

    #[test]
    fn an_interruption_is_told_before_a_failure_and_a_failure_before_a_doubt() {
        let doubts = [doubt(DoubtKind::TxStarved, String::new())];
        assert_eq!(Verdict::of(Why::Interrupted, true, &doubts).exit(), Exit::Interrupted);
        assert_eq!(Verdict::of(Why::Sent, true, &[]), Verdict::Failed);
        assert_eq!(Verdict::of(Why::Time, false, &doubts), Verdict::Doubtful);
        assert_eq!(Verdict::of(Why::Sent, false, &[]).exit(), Exit::Done);
        let note = [doubt(DoubtKind::ForeignFrames, String::new())];
        assert_eq!(Verdict::of(Why::Sent, false, &note).exit(), Exit::Done, "only what the user should know");
    }

    #[test]
    fn copies_a_link_that_went_down_and_an_order_that_nobody_knows_are_said_of_what_was_received() {
        let kinds = |of_stream: serde_json::Value, of_port: serde_json::Value| {
            let mut stream = serde_json::json!({"stream": 1, "sent": 10_000, "received": 10_000, "received_bytes": 0, "lost": 0,
                "duplicated": 0, "reordered": 0, "reordered_at_least": 0, "reorder_extent_max": 0, "guessed": 0, "corrupted": 0,
                "balances": true, "sources": []});
            stream.as_object_mut().unwrap().extend(of_stream.as_object().unwrap().clone());
            let mut port =
                serde_json::json!({"port": "p", "streams": [stream], "foreign": 0, "stale": 0, "kernel_dropped": 0});
            port.as_object_mut().unwrap().extend(of_port.as_object().unwrap().clone());
            let received = serde_json::from_value::<Received>(port).unwrap();
            of_receiver(&received, true).iter().map(|d| d.kind).collect::<Vec<_>>()
        };
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        for (stream, port, expected) in [
            ("{}", "{}", vec![]),
            (r#"{"duplicated": 10, "received": 10010}"#, "{}", vec![]),
            (r#"{"duplicated": 11, "received": 10011}"#, "{}", vec![DoubtKind::Duplicates]),
            (r#"{"reordered": null, "reorder_extent_max": null}"#, "{}", vec![DoubtKind::ReorderingUnknown]),
            (r#"{"reordered": null, "reorder_extent_max": null, "received": 0}"#, "{}", vec![]),
            ("{}", r#"{"foreign": 3}"#, vec![DoubtKind::ForeignFrames]),
            ("{}", r#"{"link_lost": {"times": 1, "set_down": false}}"#, vec![DoubtKind::LinkWentDown]),
        ] {
            assert_eq!(kinds(json(stream), json(port)), expected, "{stream} {port}");
        }
    }
}

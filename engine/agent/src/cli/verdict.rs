//! What a result is worth: reasons to distrust it, and how the command ends.

use super::drive::Why;
use super::exit::Exit;
use dutlab_protocol::totals::{Ended, Received, Sent};
use serde::Serialize;

/// Frames that were due and not sent: more than this share of them is a doubt.
const STARVED: f64 = 0.001;

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// For programs.
    pub kind: &'static str,
    /// For people.
    pub text: String,
}

/// In one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Measured, and nothing speaks against it.
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
        match (why, failed, doubts.is_empty()) {
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

fn doubt(kind: &'static str, text: String) -> Doubt {
    Doubt { kind, text }
}

/// What speaks against a sender.
pub fn of_sender(sent: &Sent, at_maximum: bool) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let sum = |of: fn(&dutlab_protocol::totals::SentStream) -> u64| sent.streams.iter().map(of).sum::<u64>();
    let (intended, refused) = (sum(|s| s.intended), sum(|s| s.refused));
    let by_peer: u64 = sent.streams.iter().filter_map(|s| s.backpressure).sum();
    let not_made = refused - by_peer;
    let is_much = |frames: u64| frames as f64 > intended as f64 * STARVED && !at_maximum;
    if is_much(not_made) {
        doubts.push(doubt(
            "generator_starved",
            format!("the generator did not reach its rate: {not_made} of {intended} frames were due and not sent in time; lower --rate, or try another --backend or --cpu"),
        ));
    }
    if is_much(by_peer) {
        doubts.push(doubt(
            "held_back",
            format!("the port took less than was offered: for {by_peer} of {intended} frames there was no room, because what is behind it is slower; lower --rate"),
        ));
    }
    if sent.streams.iter().any(|s| s.backpressure.is_none()) {
        doubts.push(doubt(
            "refusals_unknown",
            "this kernel does not report which frames a port refused: such frames count as sent, and seem lost on the way"
                .into(),
        ));
    }
    if let (Ended::Failed, Some(err)) = (sent.ended, &sent.err) {
        doubts.push(doubt("port_failed", err.message.clone()));
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
            "receiver_dropped",
            format!(
                "{n} frames reached this host and were dropped for want of room: it was not the DUT that lost them"
            ),
        )),
        None => doubts.push(doubt(
            "receiver_drops_unknown",
            "the receiver cannot tell how many frames it dropped for want of room: any loss may be its own".into(),
        )),
    }
    let guessed = sum(|s| s.guessed);
    if guessed > 0 {
        doubts.push(doubt(
            "ledger_guessed",
            format!(
                "{guessed} frames came so late that nobody knows whether they came twice; they count as duplicates"
            ),
        ));
    }
    let unknown = sum(|s| s.reorder_extents_unknown);
    if unknown > 0 {
        doubts.push(doubt(
            "reordering_partly_known",
            format!("the reordering extent of {unknown} frames is not known; the greatest may be larger than shown"),
        ));
    }
    let corrupted = sum(|s| s.corrupted);
    if corrupted > 0 {
        doubts.push(doubt("corrupted_frames", format!("{corrupted} frames arrived with a wrong checksum")));
    }
    let negative: u64 = received.streams.iter().filter_map(|s| s.latency.as_ref()).map(|l| l.negative).sum();
    if one_clock && negative > 0 {
        doubts
            .push(doubt("latency_unknown", format!("{negative} frames arrived before they were sent: not one clock")));
    }
    if let Some(err) = &received.err {
        doubts.push(doubt("port_failed", err.message.clone()));
    }
    doubts
}

/// A ledger that does not balance.
pub fn of_ledger(received: &Received) -> Vec<Doubt> {
    let odd = received.streams.iter().filter(|s| !s.balances);
    odd.map(|s| doubt("ledger_unbalanced", format!("stream {}: frames arrived that nobody sent", s.stream))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_generator_and_a_peer_without_room_are_different_doubts() {
        let kinds = |intended: u64, refused: u64, by_peer: u64, at_maximum: bool| {
            let sent = serde_json::json!({"port": "p", "ended": "finished", "streams": [{
                "stream": 1, "intended": intended, "sent": intended - refused, "refused": refused, "backpressure": by_peer,
                "sent_bytes": 0, "late_max_ns": 0, "seconds": 1.0, "achieved_pps": 0.0, "achieved_bps_l1": 0.0,
                "achieved_bps_l2": 0.0}]});
            let sent = serde_json::from_value::<Sent>(sent).unwrap();
            of_sender(&sent, at_maximum).iter().map(|d| d.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(10_000, 500, 0, false), ["generator_starved"]);
        assert_eq!(kinds(10_000, 500, 495, false), ["held_back"]);
        assert_eq!(kinds(10_000, 500, 250, false), ["generator_starved", "held_back"]);
        assert_eq!(kinds(10_000, 10, 5, false), Vec::<&str>::new(), "below the share that is a doubt");
        assert_eq!(kinds(10_000, 500, 250, true), Vec::<&str>::new(), "the maximum is what was taken");
    }

    #[test]
    fn an_interruption_is_told_before_a_failure_and_a_failure_before_a_doubt() {
        let doubts = [doubt("x", String::new())];
        assert_eq!(Verdict::of(Why::Interrupted, true, &doubts).exit(), Exit::Interrupted);
        assert_eq!(Verdict::of(Why::Sent, true, &[]), Verdict::Failed);
        assert_eq!(Verdict::of(Why::Time, false, &doubts), Verdict::Doubtful);
        assert_eq!(Verdict::of(Why::Sent, false, &[]).exit(), Exit::Done);
    }
}

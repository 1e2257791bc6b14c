//! Verdict on a result: reasons to distrust it, and the end of the command.
//!
//! A command runs without dutlab and doubts its port as a whole. dutlab doubts each link, and adds doubts that only it
//! can raise (its offered load, the path between). tests/data/engine-doubts.json ensures that both use the same kinds,
//! bounds and conditions.

use super::drive::Why;
use super::exit::Exit;
pub use dutlab_protocol::Doubt;
use dutlab_protocol::DoubtKind;
use dutlab_protocol::doubt::{DUPLICATES_SHARE, RATE_TOLERANCE};
use dutlab_protocol::totals::{Ended, LinkLost, Received, Sent};
use serde::Serialize;

/// Verdict in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Measured without doubts; there may be notes.
    Done,
    /// Measured, with reasons to distrust it.
    Doubtful,
    /// The port failed, or the loss was above the limit.
    Failed,
    /// The user ended the command.
    Interrupted,
}

impl Verdict {
    /// Returns the verdict from the faults; an interruption has priority.
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

    /// Returns the verdict as a word.
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

/// Returns doubts about a sender.
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

/// Returns doubts about a receiver.
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

/// Returns a doubt about a link that went down meanwhile.
fn of_link(port: &str, lost: Option<LinkLost>) -> Option<Doubt> {
    let LinkLost { times, set_down } = lost?;
    let whose = if set_down { "the port was set down on this host" } else { "whose end is not known" };
    let text =
        format!("the link of port {port} went down {times} times; {whose}: what was lost then says nothing of the DUT");
    Some(doubt(DoubtKind::LinkWentDown, text))
}

/// Returns a doubt about a ledger that does not balance.
pub fn of_ledger(received: &Received) -> Vec<Doubt> {
    let odd = received.streams.iter().filter(|s| !s.balances);
    odd.map(|s| doubt(DoubtKind::LedgerOpen, format!("stream {}: frames arrived that nobody sent", s.stream))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Replies and the doubts about them, which `tests/contract/test_engine_doubts.py` also gives to dutlab.
    const TABLE: &str = include_str!("../../../../tests/data/engine-doubts.json");

    /// Returns the table's usual reply `part` with the changes of `case`.
    fn changed(table: &Value, case: &Value, part: &str) -> Value {
        let mut of = table[part].clone();
        for (key, value) in case[part].as_object().into_iter().flatten() {
            of[key] = value.clone();
        }
        of
    }

    fn sent(table: &Value, case: &Value) -> Sent {
        let mut of = changed(table, case, "sent");
        of["streams"] = Value::Array(vec![changed(table, case, "sent_stream")]);
        serde_json::from_value(of).unwrap()
    }

    fn received(table: &Value, case: &Value) -> Received {
        let mut of = changed(table, case, "received");
        of["streams"] = Value::Array(vec![changed(table, case, "received_stream")]);
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn each_reply_of_the_table_raises_its_doubts() {
        let table: Value = serde_json::from_str(TABLE).unwrap();
        for case in table["cases"].as_array().unwrap() {
            let (sent, received) = (sent(&table, case), received(&table, case));
            let doubts =
                of_sender(&sent, false).into_iter().chain(of_receiver(&received, true)).chain(of_ledger(&received));
            let mut kinds: Vec<_> =
                doubts.map(|d| serde_json::to_value(d.kind).unwrap().as_str().unwrap().to_owned()).collect();
            kinds.sort_unstable();
            assert_eq!(Value::from(kinds), case["doubts"], "{case}");
            let rate: Vec<_> = of_sender(&sent, true).iter().map(|d| d.kind).collect();
            assert!(
                !rate.contains(&DoubtKind::TxStarved) && !rate.contains(&DoubtKind::HeldBack),
                "the maximum is what was taken"
            );
        }
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
}

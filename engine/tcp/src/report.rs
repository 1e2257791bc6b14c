//! What became of all connections of a client: each end counted, each time recorded.

use crate::ending::{Ending, State};
use crate::tls::Handshakes;
use dutlab_units::Nanos;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A longer time counts as this.
const LONGEST_NS: u64 = 600_000_000_000;

/// Some times, in nanoseconds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TcpTimes")]
pub struct Times {
    /// How many there are.
    pub count: u64,
    /// The least.
    pub min_ns: u64,
    /// Half of them took no longer; and so on.
    pub p50_ns: u64,
    /// 90 %.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What became of all connections: `asked` = `begun` + `not_begun`; `begun` = `completed` + all failures.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TcpConnections")]
pub struct Report {
    /// Connections that were to be begun.
    pub asked: u64,
    /// A SYN was sent.
    pub begun: u64,
    /// Not in time, or the system had no socket or port for them.
    pub not_begun: u64,
    /// The handshake was done.
    pub established: u64,
    /// Every request was answered, and in a trial that holds them, the last one too.
    pub completed: u64,
    /// RST instead of a handshake.
    pub refused: u64,
    /// ICMP, or no route.
    pub unreachable: u64,
    /// No answer to SYN in time.
    pub no_handshake: u64,
    /// No handshake of TLS, or one that came to nothing, or bytes that were not TLS.
    pub tls_failed: u64,
    /// RST after the handshake.
    pub reset: u64,
    /// FIN before the answer had come.
    pub closed_early: u64,
    /// No whole answer in time.
    pub no_answer: u64,
    /// An answer that is none, or not of the length asked for.
    pub malformed: u64,
    /// An answer with another status than 200.
    pub error_status: u64,
    /// How many answers had each of these other statuses.
    pub statuses: BTreeMap<String, u64>,
    /// The most that were established at once.
    pub open_max: u64,
    /// Requests that were answered.
    pub transactions: u64,
    /// Of bodies.
    pub body_bytes: u64,
    /// From the first SYN to the last, and one gap.
    pub begun_ns: u64,
    /// From the first SYN to the last byte of an answer.
    pub answered_ns: u64,
    /// From SYN to the end of the handshake.
    pub handshake: Times,
    /// From the end of that to the end of the handshake of TLS.
    pub tls_handshake: Times,
    /// From SYN to the first byte of the first answer (RFC 9411 section 7.4.1).
    pub first_byte: Times,
    /// From a request to the last byte of its answer.
    pub response: Times,
    /// Why the system had no socket or port, the last time.
    pub refused_by_system: Option<String>,
    /// What handshakes of TLS came to.
    pub tls: Handshakes,
}

/// A report that is being made, and the times that it sums up.
pub(crate) struct Account {
    pub(crate) report: Report,
    handshake: Histogram<u64>,
    tls_handshake: Histogram<u64>,
    first_byte: Histogram<u64>,
    response: Histogram<u64>,
    open: u64,
}

impl Account {
    /// Of so many connections, none begun.
    pub(crate) fn new(asked: u64) -> Self {
        let histogram = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("three digits are few");
        Self {
            report: empty(asked),
            handshake: histogram(),
            tls_handshake: histogram(),
            first_byte: histogram(),
            response: histogram(),
            open: 0,
        }
    }

    /// How many have been begun, or cannot be.
    pub(crate) fn tried(&self) -> u64 {
        self.report.begun + self.report.not_begun
    }

    /// Another handshake was done.
    pub(crate) fn established(&mut self, took: Nanos) {
        self.handshake.saturating_record(took.0);
        self.open += 1;
        self.report.established += 1;
        self.report.open_max = self.report.open_max.max(self.open);
    }

    /// Another handshake of TLS was done.
    pub(crate) fn secured(&mut self, took: Nanos, of: &rustls::Connection) {
        self.tls_handshake.saturating_record(took.0);
        self.report.tls.done(of);
    }

    /// The first byte came over another.
    pub(crate) fn first_byte(&mut self, took: Nanos) {
        self.first_byte.saturating_record(took.0);
    }

    /// Another request was answered, at `now`, with a body of so many bytes.
    pub(crate) fn answered(&mut self, took: Nanos, now: Nanos, body_bytes: u64) {
        self.response.saturating_record(took.0);
        self.report.transactions += 1;
        self.report.body_bytes += body_bytes;
        self.report.answered_ns = now.0;
    }

    /// Another ended in this state.
    pub(crate) fn ended(&mut self, state: State, ending: Ending) {
        self.open -= u64::from(state != State::Connecting);
        let report = &mut self.report;
        if let Ending::ErrorStatus(status) = ending {
            *report.statuses.entry(status.to_string()).or_default() += 1;
        }
        *match ending {
            Ending::Completed => &mut report.completed,
            Ending::Refused => &mut report.refused,
            Ending::Unreachable => &mut report.unreachable,
            Ending::NoHandshake => &mut report.no_handshake,
            Ending::TlsFailed => &mut report.tls_failed,
            Ending::Reset => &mut report.reset,
            Ending::ClosedEarly => &mut report.closed_early,
            Ending::NoAnswer => &mut report.no_answer,
            Ending::Malformed => &mut report.malformed,
            Ending::ErrorStatus(_) => &mut report.error_status,
        } += 1;
    }

    /// With its times.
    pub(crate) fn whole(self) -> Report {
        Report {
            handshake: times(&self.handshake),
            tls_handshake: times(&self.tls_handshake),
            first_byte: times(&self.first_byte),
            response: times(&self.response),
            ..self.report
        }
    }
}

fn times(of: &Histogram<u64>) -> Times {
    let at = |q| if of.is_empty() { 0 } else { of.value_at_quantile(q) };
    Times { count: of.len(), min_ns: of.min(), p50_ns: at(0.5), p90_ns: at(0.9), p99_ns: at(0.99), max_ns: of.max() }
}

fn empty(asked: u64) -> Report {
    let none = || Times { count: 0, min_ns: 0, p50_ns: 0, p90_ns: 0, p99_ns: 0, max_ns: 0 };
    Report {
        asked,
        begun: 0,
        not_begun: 0,
        established: 0,
        completed: 0,
        refused: 0,
        unreachable: 0,
        no_handshake: 0,
        tls_failed: 0,
        reset: 0,
        closed_early: 0,
        no_answer: 0,
        malformed: 0,
        error_status: 0,
        statuses: BTreeMap::new(),
        open_max: 0,
        transactions: 0,
        body_bytes: 0,
        begun_ns: 0,
        answered_ns: 0,
        handshake: none(),
        tls_handshake: none(),
        first_byte: none(),
        response: none(),
        refused_by_system: None,
        tls: Handshakes::default(),
    }
}

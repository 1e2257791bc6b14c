//! Results of all connections of a client: each end counted, each time recorded.

use crate::ending::{Ending, State};
use crate::tls::Handshakes;
use dutlab_units::Nanos;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Longest time; a longer one is recorded as this.
const LONGEST_NS: u64 = 600_000_000_000;

/// Distribution of some times, in nanoseconds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TcpTimes")]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// The least.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Results of all connections: `asked` = `begun` + `not_begun`; `begun` = `completed` + all failures.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TcpConnections")]
pub struct Report {
    /// Connections that the plan asks for.
    pub asked: u64,
    /// Connections for which a SYN was sent.
    pub begun: u64,
    /// Connections that were not begun in time, or for which the system had no socket or port.
    pub not_begun: u64,
    /// Connections with a completed handshake.
    pub established: u64,
    /// Connections whose requests were all answered; in a trial that holds them, the last one too.
    pub completed: u64,
    /// Connections that got RST instead of a handshake.
    pub refused: u64,
    /// Connections that failed with ICMP, or without a route.
    pub unreachable: u64,
    /// Connections without an answer to SYN in time.
    pub no_handshake: u64,
    /// Connections without a TLS handshake, with a failed one, or with bytes that were not TLS.
    pub tls_failed: u64,
    /// Connections that got RST after the handshake.
    pub reset: u64,
    /// Connections that got FIN before the answer.
    pub closed_early: u64,
    /// Connections without a complete answer in time.
    pub no_answer: u64,
    /// Connections with an answer that is malformed, or not of the requested length.
    pub malformed: u64,
    /// Connections with an answer whose status is not 200.
    pub error_status: u64,
    /// Number of answers with each of these other statuses.
    pub statuses: BTreeMap<String, u64>,
    /// Largest number of connections that were established at the same time.
    pub open_max: u64,
    /// Requests that were answered.
    pub transactions: u64,
    /// Bytes of bodies that were received.
    pub body_bytes: u64,
    /// Time from the first SYN to the last, plus one gap.
    pub begun_ns: u64,
    /// Time from the first SYN to the last byte of an answer.
    pub answered_ns: u64,
    /// Times from SYN to the end of the handshake.
    pub handshake: Times,
    /// Times from the end of the TCP handshake to the end of the TLS handshake.
    pub tls_handshake: Times,
    /// Times from SYN to the first byte of the first answer (RFC 9411 section 7.4.1).
    pub first_byte: Times,
    /// Times from a request to the last byte of its answer.
    pub response: Times,
    /// Last reason why the system had no socket or port.
    pub refused_by_system: Option<String>,
    /// Results of the TLS handshakes.
    pub tls: Handshakes,
}

/// A report under construction, and the times that it summarises.
pub(crate) struct Account {
    pub(crate) report: Report,
    handshake: Histogram<u64>,
    tls_handshake: Histogram<u64>,
    first_byte: Histogram<u64>,
    response: Histogram<u64>,
    open: u64,
}

impl Account {
    /// Makes a report of `asked` connections, none of which has begun.
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

    /// Returns the number of connections that have begun, or cannot.
    pub(crate) fn tried(&self) -> u64 {
        self.report.begun + self.report.not_begun
    }

    /// Counts a completed handshake.
    pub(crate) fn established(&mut self, took: Nanos) {
        self.handshake.saturating_record(took.0);
        self.open += 1;
        self.report.established += 1;
        self.report.open_max = self.report.open_max.max(self.open);
    }

    /// Counts a completed TLS handshake.
    pub(crate) fn secured(&mut self, took: Nanos, of: &rustls::Connection) {
        self.tls_handshake.saturating_record(took.0);
        self.report.tls.done(of);
    }

    /// Records the time of a first byte.
    pub(crate) fn first_byte(&mut self, took: Nanos) {
        self.first_byte.saturating_record(took.0);
    }

    /// Counts an answer that was complete at `now`, with a body of `body_bytes`.
    pub(crate) fn answered(&mut self, took: Nanos, now: Nanos, body_bytes: u64) {
        self.response.saturating_record(took.0);
        self.report.transactions += 1;
        self.report.body_bytes += body_bytes;
        self.report.answered_ns = now.0;
    }

    /// Counts the end of a connection in this state.
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

    /// Returns the report with its times.
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

//! Begins connections at a rate, asks over each, and says what became of every one.

use crate::message;
use crate::poll::{Poll, Slab, socket};
use crate::tuples::Tuples;
use dutlab_units::Nanos;
use hdrhistogram::Histogram;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, bind, connect, recv, send, sockopt};
use serde::Serialize;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Begun before what has happened is looked at again.
const AT_ONCE: u64 = 32;
/// Connections whose own port is taken are begun from another, so often.
const OTHER_PORTS: u32 = 64;
/// A longer time counts as this.
const LONGEST_NS: u64 = 600_000_000_000;
const NAP: Nanos = Nanos(5_000_000);
/// A connection is still begun so much after the time for it is over.
const LATE: Nanos = Nanos(20_000_000);

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where connections begin; not empty.
    pub from: Vec<IpAddr>,
    /// Where they go.
    pub to: IpAddr,
    /// Of the server.
    pub ports: RangeInclusive<u16>,
    /// Which of all connections that can be told apart is the first.
    pub first: u64,
    /// Connections a second.
    pub rate_per_s: f64,
    /// Connections.
    pub count: u64,
    /// Requests over each, one after the other.
    pub requests: u32,
    /// Of a request, with its head.
    pub request_bytes: usize,
    /// Of the body of a response.
    pub response_bytes: u64,
    /// Whether all are kept open until the last has been answered, and each is asked once more then.
    pub hold: bool,
    /// A handshake, or an answer, that takes longer has failed.
    pub timeout: Nanos,
    /// Whether a connection ends with RST instead of FIN.
    pub resets: bool,
}

/// Some times, in nanoseconds.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
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
    /// RST after the handshake.
    pub reset: u64,
    /// FIN before the answer had come.
    pub closed_early: u64,
    /// No whole answer in time.
    pub no_answer: u64,
    /// An answer that is none, or not of the length asked for.
    pub malformed: u64,
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
    /// From SYN to the first byte of the first answer (RFC 9411 section 7.4.1).
    pub first_byte: Times,
    /// From a request to the last byte of its answer.
    pub response: Times,
    /// Why the system had no socket or port, the last time.
    pub refused_by_system: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Completed,
    Refused,
    Unreachable,
    NoHandshake,
    Reset,
    ClosedEarly,
    NoAnswer,
    Malformed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Asking,
    /// Answered, and kept open.
    Held,
}

struct Connection {
    socket: OwnedFd,
    state: State,
    begun: Nanos,
    asked: Nanos,
    deadline: Nanos,
    sent: usize,
    answered: u32,
    again: bool,
    head: Vec<u8>,
    body_left: Option<u64>,
}

struct Run<'a, C: Fn() -> Nanos> {
    plan: &'a Plan,
    clock: C,
    poll: Poll,
    tuples: Tuples,
    request: Vec<u8>,
    buffer: Vec<u8>,
    connections: Slab<Connection>,
    waiting: VecDeque<(Nanos, u64)>,
    report: Report,
    handshake: Histogram<u64>,
    first_byte: Histogram<u64>,
    response: Histogram<u64>,
    open: u64,
    held: u64,
}

/// Carries `plan` out. `clock` says how much time has passed since some moment.
///
/// Raises what the system says when it has no epoll.
///
/// # Panics
/// Where the plan names no address or port.
pub fn run(plan: &Plan, clock: impl Fn() -> Nanos) -> Result<Report, Errno> {
    let histogram = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("three digits are few");
    let mut run = Run {
        plan,
        clock,
        poll: Poll::new()?,
        tuples: Tuples::new(plan.from.clone(), plan.to, plan.ports.clone(), plan.first),
        request: message::request(&plan.to.to_string(), plan.response_bytes, plan.request_bytes),
        buffer: vec![0; 64 * 1024],
        connections: Slab::default(),
        waiting: VecDeque::new(),
        report: empty(plan.count),
        handshake: histogram(),
        first_byte: histogram(),
        response: histogram(),
        open: 0,
        held: 0,
    };
    let start = (run.clock)();
    run.fill(start)?;
    if plan.hold {
        run.ask_again()?;
    }
    run.report.handshake = times(&run.handshake);
    run.report.first_byte = times(&run.first_byte);
    run.report.response = times(&run.response);
    Ok(run.report)
}

impl<C: Fn() -> Nanos> Run<'_, C> {
    /// Begins all in time, and goes on until each has ended or is held.
    fn fill(&mut self, start: Nanos) -> Result<(), Errno> {
        let gap_ns = 1e9 / self.plan.rate_per_s;
        let due_at = |n: u64| Nanos(start.0 + whole(n as f64 * gap_ns));
        let over = Nanos(due_at(self.plan.count).0 + LATE.0);
        let mut last = start;
        while self.report.begun + self.report.not_begun < self.plan.count || self.connections.len() as u64 > self.held {
            let now = (self.clock)();
            for _ in 0..AT_ONCE {
                let done = self.report.begun + self.report.not_begun;
                if done == self.plan.count || due_at(done) > now {
                    break;
                }
                if now > over {
                    self.report.not_begun = self.plan.count - self.report.begun;
                    break;
                }
                if self.begin() {
                    last = (self.clock)();
                }
            }
            let done = self.report.begun + self.report.not_begun;
            self.turn(if done < self.plan.count { due_at(done) } else { Nanos(u64::MAX) })?;
        }
        self.report.begun_ns = last.0 - start.0 + if self.report.begun > 0 { whole(gap_ns) } else { 0 };
        self.report.answered_ns = self.report.answered_ns.saturating_sub(start.0);
        Ok(())
    }

    /// Asks once more over each that is held, at the same rate, and ends it.
    fn ask_again(&mut self) -> Result<(), Errno> {
        let (start, gap_ns) = ((self.clock)(), 1e9 / self.plan.rate_per_s);
        let answered_ns = self.report.answered_ns;
        let held = self.connections.numbers();
        let (mut next, mut due) = (0, start);
        while next < held.len() || !self.connections.is_empty() {
            let now = (self.clock)();
            while next < held.len() && due <= now {
                let number = held[next];
                if let Some(of) = self.connections.get(number) {
                    self.held -= 1;
                    (of.again, of.state) = (true, State::Asking);
                    self.ask(number);
                    self.advance(number);
                }
                next += 1;
                due = Nanos(start.0 + whole(next as f64 * gap_ns));
            }
            self.turn(if next < held.len() { due } else { Nanos(u64::MAX) })?;
        }
        self.report.answered_ns = answered_ns;
        Ok(())
    }

    /// Whether a SYN was sent.
    fn begin(&mut self) -> bool {
        let mut why = Errno::ADDRNOTAVAIL;
        for _ in 0..OTHER_PORTS {
            let (from, to) = self.tuples.take();
            let begun = (self.clock)();
            let made = socket(to).and_then(|socket| bind(&socket, &from).map(|()| socket));
            let (socket, outcome) = match made {
                Ok(socket) => {
                    let outcome = connect(&socket, &to);
                    (socket, outcome)
                }
                Err(e @ (Errno::ADDRINUSE | Errno::ADDRNOTAVAIL)) => {
                    why = e;
                    continue;
                }
                Err(e) => {
                    why = e;
                    break;
                }
            };
            match outcome {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(e @ (Errno::ADDRINUSE | Errno::ADDRNOTAVAIL)) => {
                    why = e;
                    continue;
                }
                Err(e) => {
                    self.report.begun += 1;
                    self.count(ending_of(e, State::Connecting));
                    return true;
                }
            }
            let deadline = Nanos(begun.0 + self.plan.timeout.0);
            let number = self.connections.put(Connection {
                socket,
                state: State::Connecting,
                begun,
                asked: begun,
                deadline,
                sent: 0,
                answered: 0,
                again: false,
                head: Vec::new(),
                body_left: None,
            });
            let watched = self.connections.get(number).map(|of| self.poll.watch(&of.socket, number));
            if let Some(Err(e)) = watched {
                self.connections.take(number);
                why = e;
                break;
            }
            self.waiting.push_back((deadline, number));
            self.report.begun += 1;
            return true;
        }
        self.report.not_begun += 1;
        self.report.refused_by_system = Some(why.to_string());
        false
    }

    /// Sees what has happened up to `until`, and what has taken too long.
    fn turn(&mut self, until: Nanos) -> Result<(), Errno> {
        let now = (self.clock)();
        let at_most = until.0.saturating_sub(now.0).min(NAP.0);
        let happened: Vec<u64> = self.poll.wait(Duration::from_nanos(at_most))?.collect();
        for number in happened {
            self.advance(number);
        }
        let now = (self.clock)();
        while let Some((deadline, number)) = self.waiting.front().copied().filter(|(deadline, _)| *deadline <= now) {
            self.waiting.pop_front();
            let late = self
                .connections
                .get(number)
                .filter(|of| of.deadline == deadline && of.state != State::Held)
                .map(|of| of.state);
            match late {
                Some(State::Connecting) => self.end(number, Ending::NoHandshake),
                Some(_) => self.end(number, Ending::NoAnswer),
                None => {}
            }
        }
        Ok(())
    }

    /// Takes a connection as far as it goes without waiting.
    fn advance(&mut self, number: u64) {
        while let Some(of) = self.connections.get(number) {
            let now = (self.clock)();
            match of.state {
                State::Connecting => match sockopt::socket_error(&of.socket) {
                    Ok(Ok(())) => {
                        let took = now.0.saturating_sub(of.begun.0);
                        of.state = State::Asking;
                        self.handshake.saturating_record(took);
                        self.report.established += 1;
                        self.open += 1;
                        self.report.open_max = self.report.open_max.max(self.open);
                        self.ask(number);
                    }
                    Ok(Err(e)) | Err(e) => return self.end(number, ending_of(e, State::Connecting)),
                },
                State::Held => {
                    // Nothing is owed: what comes now is an end.
                    let mut byte = [0; 1];
                    return match recv(&of.socket, &mut byte[..], RecvFlags::empty()) {
                        Err(Errno::AGAIN | Errno::INTR) => {}
                        Err(e) => self.end(number, ending_of(e, State::Held)),
                        Ok((0, _)) => self.end(number, Ending::ClosedEarly),
                        Ok(_) => self.end(number, Ending::Malformed),
                    };
                }
                State::Asking => {
                    while of.sent < self.request.len() {
                        match send(&of.socket, &self.request[of.sent..], SendFlags::NOSIGNAL) {
                            Ok(n) => of.sent += n,
                            Err(Errno::AGAIN) => return,
                            Err(e) => return self.end(number, ending_of(e, State::Asking)),
                        }
                    }
                    match recv(&of.socket, &mut self.buffer[..], RecvFlags::empty()) {
                        Ok((0, _)) => return self.end(number, Ending::ClosedEarly),
                        Ok((n, _)) => match self.read(number, n) {
                            Ok(true) => self.answered(number),
                            Ok(false) => {}
                            Err(message::Malformed) => return self.end(number, Ending::Malformed),
                        },
                        Err(Errno::AGAIN) => return,
                        Err(Errno::INTR) => {}
                        Err(e) => return self.end(number, ending_of(e, State::Asking)),
                    }
                }
            }
        }
    }

    /// Begins the next request of a connection.
    fn ask(&mut self, number: u64) {
        let now = (self.clock)();
        if let Some(of) = self.connections.get(number) {
            of.asked = now;
            of.sent = 0;
            of.deadline = Nanos(now.0 + self.plan.timeout.0);
            self.waiting.push_back((of.deadline, number));
        }
    }

    /// Takes in `n` bytes of the buffer; whether the answer is whole now.
    fn read(&mut self, number: u64, n: usize) -> Result<bool, message::Malformed> {
        let Some(of) = self.connections.get(number) else { return Ok(false) };
        if of.answered == 0 && of.body_left.is_none() && of.head.is_empty() {
            let now = (self.clock)();
            self.first_byte.saturating_record(now.0.saturating_sub(of.begun.0));
        }
        let arrived = if of.body_left.is_some() {
            n as u64
        } else {
            of.head.extend(&self.buffer[..n]);
            let Some(said) = message::answered(&of.head)? else { return Ok(false) };
            if !said.ok || said.body_bytes != self.plan.response_bytes {
                return Err(message::Malformed);
            }
            of.body_left = Some(said.body_bytes);
            let of_body = of.head.len() - said.head_bytes;
            of.head = Vec::new();
            of_body as u64
        };
        let left = of.body_left.unwrap_or(0).checked_sub(arrived).ok_or(message::Malformed)?;
        of.body_left = Some(left);
        Ok(left == 0)
    }

    /// One more answer has come whole.
    fn answered(&mut self, number: u64) {
        let now = (self.clock)();
        let Some(of) = self.connections.get(number) else { return };
        of.body_left = None;
        of.answered += 1;
        self.response.saturating_record(now.0.saturating_sub(of.asked.0));
        self.report.transactions += 1;
        self.report.body_bytes += self.plan.response_bytes;
        self.report.answered_ns = now.0;
        if of.again || (of.answered == self.plan.requests && !self.plan.hold) {
            self.end(number, Ending::Completed);
        } else if of.answered == self.plan.requests {
            of.state = State::Held;
            self.held += 1;
        } else {
            self.ask(number);
        }
    }

    fn end(&mut self, number: u64, ending: Ending) {
        let Some(of) = self.connections.take(number) else { return };
        self.open -= u64::from(of.state != State::Connecting);
        self.held -= u64::from(of.state == State::Held);
        if self.plan.resets || ending == Ending::NoAnswer {
            let _ = sockopt::set_socket_linger(&of.socket, Some(Duration::ZERO));
        }
        self.count(ending);
    }

    fn count(&mut self, ending: Ending) {
        let report = &mut self.report;
        *match ending {
            Ending::Completed => &mut report.completed,
            Ending::Refused => &mut report.refused,
            Ending::Unreachable => &mut report.unreachable,
            Ending::NoHandshake => &mut report.no_handshake,
            Ending::Reset => &mut report.reset,
            Ending::ClosedEarly => &mut report.closed_early,
            Ending::NoAnswer => &mut report.no_answer,
            Ending::Malformed => &mut report.malformed,
        } += 1;
    }
}

/// What an error means for a connection in this state (tcp(7), connect(2)).
fn ending_of(error: Errno, state: State) -> Ending {
    match (error, state) {
        (Errno::CONNREFUSED | Errno::CONNRESET, State::Connecting) => Ending::Refused,
        (Errno::TIMEDOUT, State::Connecting) => Ending::NoHandshake,
        (_, State::Connecting) | (Errno::HOSTUNREACH | Errno::NETUNREACH, _) => Ending::Unreachable,
        (Errno::TIMEDOUT, _) => Ending::NoAnswer,
        _ => Ending::Reset,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a trial are far below 2^53 and not negative"
)]
fn whole(ns: f64) -> u64 {
    ns as u64
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
        reset: 0,
        closed_early: 0,
        no_answer: 0,
        malformed: 0,
        open_max: 0,
        transactions: 0,
        body_bytes: 0,
        begun_ns: 0,
        answered_ns: 0,
        handshake: none(),
        first_byte: none(),
        response: none(),
        refused_by_system: None,
    }
}

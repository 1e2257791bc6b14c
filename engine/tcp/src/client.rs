//! Client: begins connections at a rate, sends requests over each, and counts the result of each.

use crate::connection::Connection;
use crate::ending::{Ending, State};
use crate::http2;
use crate::message;
use crate::objects::{Object, Rotation};
use crate::poll::{Poll, Slab, socket};
use crate::report::{Account, Report};
use crate::tls::{self, Client};
use crate::transport::Broken;
use crate::tuples::Tuples;
use dutlab_units::Nanos;
use rustix::io::Errno;
use rustix::net::{bind, connect, sockopt};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Maximum number of connections that are begun before events are handled again.
const AT_ONCE: u64 = 32;
/// Number of other source ports to try for a connection whose port is in use.
const OTHER_PORTS: u32 = 64;
const NAP: Nanos = Nanos(5_000_000);
/// Longest delay, after the time for beginning is over, with which a connection is still begun.
const LATE: Nanos = Nanos(20_000_000);

/// Plan of a client.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Source addresses of the connections; not empty.
    pub from: Vec<IpAddr>,
    /// Destination address of the connections.
    pub to: IpAddr,
    /// Ports of the server.
    pub ports: RangeInclusive<u16>,
    /// Index of the first connection, among all possible combinations of addresses and ports.
    pub first: u64,
    /// Connections a second.
    pub rate_per_s: f64,
    /// Number of connections.
    pub count: u64,
    /// Requests over each connection, one after the other.
    pub requests: u32,
    /// Length of a request, with its head.
    pub request_bytes: usize,
    /// Objects that responses carry; not empty.
    pub objects: Vec<Object>,
    /// Host that requests name; absent: the address.
    pub host: Option<String>,
    /// Use HTTP/2 instead of HTTP/1.1.
    pub http2: bool,
    /// TLS for requests and responses.
    pub tls: Option<Client>,
    /// Keep all connections open until the last has been answered, then send one more request over each.
    pub hold: bool,
    /// A handshake or an answer that takes longer has failed.
    pub timeout: Nanos,
    /// End connections with RST instead of FIN.
    pub resets: bool,
}

struct Run<'a, C: Fn() -> Nanos> {
    plan: &'a Plan,
    clock: C,
    poll: Poll,
    tuples: Tuples,
    /// Requests, one for each object; for HTTP/2 their header fields.
    requests: Vec<Vec<u8>>,
    objects: Rotation,
    buffer: Vec<u8>,
    connections: Slab<Connection>,
    waiting: VecDeque<(Nanos, u64)>,
    account: Account,
    held: u64,
}

/// Runs `plan`. `clock` returns the time since some fixed moment.
///
/// Returns the system's error if it has no epoll.
///
/// # Panics
/// If the plan names no address, port or object.
pub fn run(plan: &Plan, clock: impl Fn() -> Nanos) -> Result<Report, Errno> {
    let host = plan.host.clone().unwrap_or_else(|| match plan.to {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    let request = |object: &Object| {
        if plan.http2 {
            http2::fields(&host, plan.tls.is_some(), object.bytes, plan.request_bytes)
        } else {
            message::request(&host, object.bytes, plan.request_bytes)
        }
    };
    let mut run = Run {
        plan,
        clock,
        poll: Poll::new()?,
        tuples: Tuples::new(plan.from.clone(), plan.to, plan.ports.clone(), plan.first),
        requests: plan.objects.iter().map(request).collect(),
        objects: Rotation::new(plan.objects.clone()),
        buffer: vec![0; 64 * 1024],
        connections: Slab::default(),
        waiting: VecDeque::new(),
        account: Account::new(plan.count),
        held: 0,
    };
    let start = (run.clock)();
    run.fill(start)?;
    if plan.hold {
        run.ask_again()?;
    }
    Ok(run.account.whole())
}

impl<C: Fn() -> Nanos> Run<'_, C> {
    /// Begins all connections on time, and continues until each has ended or is held.
    fn fill(&mut self, start: Nanos) -> Result<(), Errno> {
        let gap_ns = 1e9 / self.plan.rate_per_s;
        let due_at = |n: u64| Nanos(start.0 + whole(n as f64 * gap_ns));
        let over = Nanos(due_at(self.plan.count).0 + LATE.0);
        let mut last = start;
        while self.account.tried() < self.plan.count || self.connections.len() as u64 > self.held {
            let now = (self.clock)();
            for _ in 0..AT_ONCE {
                let done = self.account.tried();
                if done == self.plan.count || due_at(done) > now {
                    break;
                }
                if now > over {
                    self.account.report.not_begun = self.plan.count - self.account.report.begun;
                    break;
                }
                if self.begin() {
                    last = (self.clock)();
                }
            }
            let done = self.account.tried();
            self.turn(if done < self.plan.count { due_at(done) } else { Nanos(u64::MAX) })?;
        }
        let report = &mut self.account.report;
        report.begun_ns = last.0 - start.0 + if report.begun > 0 { whole(gap_ns) } else { 0 };
        report.answered_ns = report.answered_ns.saturating_sub(start.0);
        Ok(())
    }

    /// Sends one more request over each held connection, at the same rate, and ends it.
    fn ask_again(&mut self) -> Result<(), Errno> {
        let (start, gap_ns) = ((self.clock)(), 1e9 / self.plan.rate_per_s);
        let answered_ns = self.account.report.answered_ns;
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
        self.account.report.answered_ns = answered_ns;
        Ok(())
    }

    /// Begins a connection; returns true if a SYN was sent.
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
                    self.account.report.begun += 1;
                    self.account.ended(State::Connecting, Ending::of(e, State::Connecting));
                    return true;
                }
            }
            let deadline = Nanos(begun.0 + self.plan.timeout.0);
            let number = self.connections.put(Connection::new(socket, begun, deadline, self.plan.http2));
            let watched = self.connections.get(number).map(|of| self.poll.watch(&of.transport.socket, number));
            if let Some(Err(e)) = watched {
                self.connections.take(number);
                why = e;
                break;
            }
            self.waiting.push_back((deadline, number));
            self.account.report.begun += 1;
            return true;
        }
        self.account.report.not_begun += 1;
        self.account.report.refused_by_system = Some(why.to_string());
        false
    }

    /// Handles events up to `until`, and timeouts.
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
                Some(State::Securing) => self.tls_failed(number, "no handshake in time".to_owned()),
                Some(_) => self.end(number, Ending::NoAnswer),
                None => {}
            }
        }
        Ok(())
    }

    /// Advances a connection as far as possible without waiting.
    fn advance(&mut self, number: u64) {
        while let Some(of) = self.connections.get(number) {
            let now = (self.clock)();
            match of.state {
                State::Connecting => match sockopt::socket_error(&of.transport.socket) {
                    Ok(Ok(())) => {
                        self.account.established(since(of.begun, now));
                        self.connected(number);
                    }
                    Ok(Err(e)) | Err(e) => return self.end(number, Ending::of(e, State::Connecting)),
                },
                State::Securing => match of.transport.secure() {
                    Ok(Some(tls)) if self.plan.http2 && tls.alpn_protocol() != Some(tls::HTTP2) => {
                        return self.tls_failed(number, "the server did not choose HTTP/2 (ALPN)".to_owned());
                    }
                    Ok(Some(tls)) => {
                        self.account.secured(since(of.asked, (self.clock)()), tls);
                        of.state = State::Asking;
                        self.ask(number);
                    }
                    Ok(None) => return,
                    Err(e) => return self.broken(number, e),
                },
                State::Held => match of.end_while_held() {
                    Some(ending) => return self.end(number, ending),
                    None => return,
                },
                State::Asking => {
                    match of.send(&self.requests[of.object]) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(e) => return self.broken(number, e),
                    }
                    match of.transport.recv(&mut self.buffer) {
                        Ok(0) => return self.end(number, Ending::ClosedEarly),
                        Ok(n) => {
                            let (came, silent) = ((self.clock)(), of.is_silent());
                            let taken = of.take_in(&self.buffer[..n], self.plan.objects[of.object].bytes);
                            if silent && !of.is_silent() {
                                self.account.first_byte(since(of.begun, came));
                            }
                            match taken {
                                Ok(true) => self.answered(number),
                                Ok(false) => {}
                                Err(ending) => return self.end(number, ending),
                            }
                        }
                        Err(Broken::System(Errno::AGAIN)) => return,
                        Err(Broken::System(Errno::INTR)) => {}
                        Err(e) => return self.broken(number, e),
                    }
                }
            }
        }
    }

    /// Handles the end of the TCP handshake: starts the TLS handshake, or sends the first request.
    fn connected(&mut self, number: u64) {
        let now = (self.clock)();
        let Some(of) = self.connections.get(number) else { return };
        let Some(tls) = &self.plan.tls else {
            of.state = State::Asking;
            return self.ask(number);
        };
        match tls.connection() {
            Ok(tls) => {
                of.transport.put_on(tls);
                (of.state, of.asked, of.deadline) = (State::Securing, now, Nanos(now.0 + self.plan.timeout.0));
                self.waiting.push_back((of.deadline, number));
            }
            Err(e) => self.tls_failed(number, e.to_string()),
        }
    }

    /// Sends the next request of a connection.
    fn ask(&mut self, number: u64) {
        let now = (self.clock)();
        if let Some(of) = self.connections.get(number) {
            let object = self.objects.take();
            of.ask(object, &self.requests[object], now, Nanos(now.0 + self.plan.timeout.0));
            self.waiting.push_back((of.deadline, number));
        }
    }

    /// Handles a complete answer.
    fn answered(&mut self, number: u64) {
        let now = (self.clock)();
        let Some(of) = self.connections.get(number) else { return };
        of.answered += 1;
        self.account.answered(since(of.asked, now), now, self.plan.objects[of.object].bytes);
        if of.again || (of.answered == self.plan.requests && !self.plan.hold) {
            self.end(number, Ending::Completed);
        } else if of.answered == self.plan.requests {
            of.state = State::Held;
            self.held += 1;
        } else {
            self.ask(number);
        }
    }

    fn broken(&mut self, number: u64, why: Broken) {
        match why {
            Broken::System(e) => {
                let state = self.connections.get(number).map_or(State::Asking, |of| of.state);
                self.end(number, Ending::of(e, state));
            }
            Broken::Tls(why) => self.tls_failed(number, why),
        }
    }

    fn tls_failed(&mut self, number: u64, why: String) {
        self.account.report.tls.error = Some(why);
        self.end(number, Ending::TlsFailed);
    }

    fn end(&mut self, number: u64, ending: Ending) {
        let Some(mut of) = self.connections.take(number) else { return };
        self.held -= u64::from(of.state == State::Held);
        if self.plan.resets || ending == Ending::NoAnswer {
            let _ = sockopt::set_socket_linger(&of.transport.socket, Some(Duration::ZERO));
        } else if ending == Ending::Completed {
            of.transport.say_close();
        }
        self.account.ended(of.state, ending);
    }
}

fn since(then: Nanos, now: Nanos) -> Nanos {
    Nanos(now.0.saturating_sub(then.0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a trial are far below 2^53 and not negative"
)]
fn whole(ns: f64) -> u64 {
    ns as u64
}

//! Server: answers requests, and counts its answers.

use crate::message::{self, Malformed};
use crate::poll::{Poll, Slab, socket};
use crate::tls::{self, Handshakes};
use crate::transport::{Broken, Transport};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, bind, listen};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

/// Length of the queue of waiting connections, at the kernel's limit (`net.core.somaxconn` bounds it).
const BACKLOG: i32 = 65_535;
const LISTENER: u64 = 1 << 63;

/// Counters of a server.
#[derive(Debug, Default, Clone, Serialize, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "TcpServed")]
pub struct Served {
    /// Accepted connections.
    pub accepted: u64,
    /// Accepted connections that are open.
    pub open: u64,
    /// Largest number of connections that were open at the same time.
    pub open_max: u64,
    /// Requests with a complete answer.
    pub answered: u64,
    /// Bytes of bodies that were sent.
    pub body_bytes: u64,
    /// Connections that the other end closed: FIN.
    pub closed: u64,
    /// Connections that this end closed, as a request demanded.
    pub closed_here: u64,
    /// Connections that the other end, or something on the way, reset.
    pub reset: u64,
    /// Malformed requests.
    pub malformed: u64,
    /// Connections that could not be accepted, because too many files were open.
    pub not_taken: u64,
    /// Connections without a TLS handshake, or with bytes that were not TLS.
    pub tls_failed: u64,
    /// Results of the TLS handshakes.
    pub tls: Handshakes,
}

struct Connection {
    transport: Transport,
    /// True if nothing is left to do before the first request.
    secure: bool,
    request: Vec<u8>,
    answer: Option<(Rc<[u8]>, usize)>,
    body_bytes: u64,
    closes: bool,
}

/// Server that listens on ports of one address.
pub struct Server {
    poll: Poll,
    listeners: Vec<OwnedFd>,
    connections: Slab<Connection>,
    answers: HashMap<u64, Rc<[u8]>>,
    tls: Option<tls::Server>,
    served: Served,
}

enum Step {
    Waits,
    /// The other end closed it.
    Closed,
    /// This end closes it.
    Closes,
    Malformed,
}

impl Server {
    /// Listens, with TLS if `tls` is given. Returns the error of bind(2), with the address that it refers to.
    pub fn listening(
        address: IpAddr,
        ports: RangeInclusive<u16>,
        tls: Option<tls::Server>,
    ) -> Result<Self, (SocketAddr, Errno)> {
        let poll = Poll::new().map_err(|e| (SocketAddr::new(address, *ports.start()), e))?;
        let mut listeners = Vec::new();
        for (at, port) in (0..).zip(ports) {
            let address = SocketAddr::new(address, port);
            let made = socket(address).and_then(|socket| {
                bind(&socket, &address)?;
                listen(&socket, BACKLOG)?;
                poll.watch(&socket, LISTENER | at)?;
                Ok(socket)
            });
            listeners.push(made.map_err(|e| (address, e))?);
        }
        let (connections, answers, served) = (Slab::default(), HashMap::new(), Served::default());
        Ok(Self { poll, listeners, connections, answers, tls, served })
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn served(&self) -> Served {
        Served { open: self.connections.len() as u64, ..self.served.clone() }
    }

    /// Handles the events within `at_most`.
    ///
    /// # Panics
    /// If `at_most` is longer than the system can count.
    pub fn turn(&mut self, at_most: Duration) -> Result<(), Errno> {
        let happened: Vec<u64> = self.poll.wait(at_most)?.collect();
        for token in happened {
            if token & LISTENER != 0 {
                self.accept(usize::try_from(token & !LISTENER).expect("a place in a list"));
            } else {
                self.serve(token);
            }
        }
        Ok(())
    }

    fn accept(&mut self, at: usize) {
        loop {
            match accept_with(&self.listeners[at], SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    self.served.accepted += 1;
                    let tls = match self.tls.as_ref().map(tls::Server::connection).transpose() {
                        Ok(tls) => tls,
                        Err(e) => {
                            self.served.tls_failed += 1;
                            self.served.tls.error = Some(e.to_string());
                            continue;
                        }
                    };
                    let number = self.connections.put(Connection {
                        secure: tls.is_none(),
                        transport: Transport::new(socket, tls),
                        request: Vec::new(),
                        answer: None,
                        body_bytes: 0,
                        closes: false,
                    });
                    let watched = self.connections.get(number).map(|c| self.poll.watch(&c.transport.socket, number));
                    if !matches!(watched, Some(Ok(()))) {
                        self.connections.take(number);
                        self.served.not_taken += 1;
                    }
                    self.served.open_max = self.served.open_max.max(self.connections.len() as u64);
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE) => {
                    self.served.not_taken += 1;
                    return;
                }
                Err(_) => return,
            }
        }
    }

    fn serve(&mut self, number: u64) {
        let Some(connection) = self.connections.get(number) else { return };
        let counted = match step(connection, &mut self.answers, &mut self.served) {
            Ok(Step::Waits) => return,
            Ok(Step::Closed) => &mut self.served.closed,
            Ok(Step::Closes) => &mut self.served.closed_here,
            Ok(Step::Malformed) => &mut self.served.malformed,
            Err(Broken::System(Errno::CONNRESET | Errno::PIPE)) => &mut self.served.reset,
            Err(Broken::System(_)) => return drop(self.connections.take(number)),
            Err(Broken::Tls(why)) => {
                self.served.tls.error = Some(why);
                &mut self.served.tls_failed
            }
        };
        *counted += 1;
        self.connections.take(number);
    }
}

/// Advances a connection as far as possible without waiting.
fn step(of: &mut Connection, answers: &mut HashMap<u64, Rc<[u8]>>, served: &mut Served) -> Result<Step, Broken> {
    let mut chunk = [0; 4096];
    if !of.secure {
        let Some(agreed) = of.transport.secure()? else { return Ok(Step::Waits) };
        served.tls.done(agreed);
        of.secure = true;
    }
    loop {
        if let Some((answer, sent)) = &mut of.answer {
            if !of.transport.send_all(answer, sent)? {
                return Ok(Step::Waits);
            }
            of.answer = None;
            served.answered += 1;
            served.body_bytes += of.body_bytes;
            if of.closes {
                of.transport.say_close();
                return Ok(Step::Closes);
            }
        }
        match message::asked(&of.request) {
            Ok(Some(asked)) => {
                of.request.drain(..asked.head_bytes);
                (of.closes, of.body_bytes) = (asked.closes, asked.response_bytes);
                let text = answers
                    .entry(asked.response_bytes)
                    .or_insert_with(|| message::response(asked.response_bytes).into());
                of.answer = Some((Rc::clone(text), 0));
                continue;
            }
            Ok(None) => {}
            Err(Malformed) => return Ok(Step::Malformed),
        }
        match of.transport.recv(&mut chunk) {
            Ok(0) => return Ok(Step::Closed),
            Ok(n) => of.request.extend(&chunk[..n]),
            Err(Broken::System(Errno::AGAIN)) => {
                of.request.shrink_to_fit(); // a hundred thousand idle connections keep no buffers
                return Ok(Step::Waits);
            }
            Err(Broken::System(Errno::INTR)) => {}
            Err(e) => return Err(e),
        }
    }
}

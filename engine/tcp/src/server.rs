//! Answers requests, and counts what it answered.

use crate::message::{self, Malformed};
use crate::poll::{Poll, Slab, socket};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, bind, listen, recv, send};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

/// As many as the kernel lets wait (`net.core.somaxconn` bounds it).
const BACKLOG: i32 = 65_535;
const LISTENER: u64 = 1 << 63;
const CHUNK: usize = 64 * 1024;

/// What the server has seen.
#[derive(Debug, Default, Clone, Copy, Serialize, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "TcpServed")]
pub struct Served {
    /// Connections taken.
    pub accepted: u64,
    /// Of them, those that are open.
    pub open: u64,
    /// The most that were open at once.
    pub open_max: u64,
    /// Requests answered whole.
    pub answered: u64,
    /// Of bodies.
    pub body_bytes: u64,
    /// Connections that the other end, or something on the way, reset.
    pub reset: u64,
    /// Requests that were none.
    pub malformed: u64,
    /// Connections that could not be taken, as there were too many open files.
    pub not_taken: u64,
}

struct Connection {
    socket: OwnedFd,
    request: Vec<u8>,
    answer: Option<(Rc<[u8]>, usize)>,
    body_bytes: u64,
    closes: bool,
}

/// Listens on ports of one address.
pub struct Server {
    poll: Poll,
    listeners: Vec<OwnedFd>,
    connections: Slab<Connection>,
    answers: HashMap<u64, Rc<[u8]>>,
    served: Served,
}

enum Step {
    Waits,
    Ends,
}

impl Server {
    /// Listens; raises what bind(2) says, with the address that it was about.
    pub fn listening(address: IpAddr, ports: RangeInclusive<u16>) -> Result<Self, (SocketAddr, Errno)> {
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
        Ok(Self { poll, listeners, connections: Slab::default(), answers: HashMap::new(), served: Served::default() })
    }

    /// What it has seen so far.
    #[must_use]
    pub fn served(&self) -> Served {
        Served { open: self.connections.len() as u64, ..self.served }
    }

    /// Serves whatever comes within `at_most`.
    ///
    /// # Panics
    /// Where `at_most` is longer than the system can count.
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
                    let number = self.connections.put(Connection {
                        socket,
                        request: Vec::new(),
                        answer: None,
                        body_bytes: 0,
                        closes: false,
                    });
                    let watched = self.connections.get(number).map(|c| self.poll.watch(&c.socket, number));
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
        match step(connection, &mut self.answers, &mut self.served) {
            Ok(Step::Waits) => {}
            Ok(Step::Ends) => drop(self.connections.take(number)),
            Err(e) => {
                if matches!(e, Errno::CONNRESET | Errno::PIPE) {
                    self.served.reset += 1;
                }
                self.connections.take(number);
            }
        }
    }
}

/// Takes a connection as far as it goes without waiting.
fn step(of: &mut Connection, answers: &mut HashMap<u64, Rc<[u8]>>, served: &mut Served) -> Result<Step, Errno> {
    let mut chunk = [0; 4096];
    loop {
        if let Some((answer, sent)) = &mut of.answer {
            while *sent < answer.len() {
                match send(&of.socket, &answer[*sent..answer.len().min(*sent + CHUNK)], SendFlags::NOSIGNAL) {
                    Ok(n) => *sent += n,
                    Err(Errno::AGAIN) => return Ok(Step::Waits),
                    Err(e) => return Err(e),
                }
            }
            of.answer = None;
            served.answered += 1;
            served.body_bytes += of.body_bytes;
            if of.closes {
                return Ok(Step::Ends);
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
            Err(Malformed) => {
                served.malformed += 1;
                return Ok(Step::Ends);
            }
        }
        match recv(&of.socket, &mut chunk[..], RecvFlags::empty()) {
            Ok((0, _)) => return Ok(Step::Ends),
            Ok((n, _)) => of.request.extend(&chunk[..n]),
            Err(Errno::AGAIN) => {
                of.request.shrink_to_fit(); // a hundred thousand idle connections keep no buffers
                return Ok(Step::Waits);
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

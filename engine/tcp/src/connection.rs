//! One connection of the client: its state, and the received part of its answer.

use crate::ending::{Ending, State};
use crate::http2::Http2;
use crate::message;
use crate::transport::{Broken, Transport};
use dutlab_units::Nanos;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) state: State,
    pub(crate) begun: Nanos,
    pub(crate) asked: Nanos,
    pub(crate) deadline: Nanos,
    /// Number of requests that were answered.
    pub(crate) answered: u32,
    /// Index of the object that is requested.
    pub(crate) object: usize,
    /// True if it was held, and gets one more request.
    pub(crate) again: bool,
    /// State of HTTP/2; `None`: HTTP/1.1.
    http2: Option<Box<Http2>>,
    sent: usize,
    head: Vec<u8>,
    body_left: Option<u64>,
}

impl Connection {
    /// Makes a connection whose handshake must be over at `deadline`.
    pub(crate) fn new(socket: OwnedFd, begun: Nanos, deadline: Nanos, http2: bool) -> Self {
        Self {
            transport: Transport::new(socket, None),
            state: State::Connecting,
            begun,
            asked: begun,
            deadline,
            answered: 0,
            object: 0,
            again: false,
            http2: http2.then(Box::default),
            sent: 0,
            head: Vec::new(),
            body_left: None,
        }
    }

    /// Starts the next request, for `object`, which must be answered at `deadline`.
    pub(crate) fn ask(&mut self, object: usize, request: &[u8], now: Nanos, deadline: Nanos) {
        (self.object, self.asked, self.deadline) = (object, now, deadline);
        if let Some(http2) = &mut self.http2 {
            http2.ask(request);
        } else {
            (self.sent, self.body_left) = (0, None);
        }
    }

    /// Sends the rest of `request`; returns true if all of it was sent.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<bool, Broken> {
        let Some(http2) = &mut self.http2 else { return self.transport.send_all(request, &mut self.sent) };
        let all = self.transport.send_all(&http2.out, &mut self.sent)?;
        if all {
            http2.out.clear();
            self.sent = 0;
        }
        Ok(all)
    }

    /// Returns true if nothing has been received yet.
    pub(crate) fn is_silent(&self) -> bool {
        let silent = self.http2.as_ref().is_none_or(|http2| http2.is_silent());
        silent && self.answered == 0 && self.body_left.is_none() && self.head.is_empty()
    }

    /// Handles received bytes of an answer with a body of `body_bytes`; returns true if it is complete.
    pub(crate) fn take_in(&mut self, bytes: &[u8], body_bytes: u64) -> Result<bool, Ending> {
        if let Some(http2) = &mut self.http2 {
            return http2.take_in(bytes, body_bytes);
        }
        let arrived = if self.body_left.is_some() {
            bytes.len()
        } else {
            self.head.extend(bytes);
            let Ok(said) = message::answered(&self.head) else { return Err(Ending::Malformed) };
            let Some(said) = said else { return Ok(false) };
            if said.status != message::OK {
                return Err(Ending::ErrorStatus(said.status));
            }
            if said.body_bytes != body_bytes {
                return Err(Ending::Malformed);
            }
            let of_body = self.head.len() - said.head_bytes;
            self.head = Vec::new();
            of_body
        };
        let left = self.body_left.unwrap_or(body_bytes).checked_sub(arrived as u64).ok_or(Ending::Malformed)?;
        self.body_left = Some(left);
        Ok(left == 0)
    }

    /// Returns how the connection ended while it was held, if it did. No answer is expected then, so any received byte
    /// is an end.
    pub(crate) fn end_while_held(&mut self) -> Option<Ending> {
        let mut chunk = [0; 1024];
        loop {
            let ending = match (self.transport.recv(&mut chunk), &mut self.http2) {
                (Err(Broken::System(Errno::AGAIN | Errno::INTR)), None) => return None,
                (Err(Broken::System(Errno::AGAIN | Errno::INTR)), Some(_)) => {
                    return self.send(&[]).err().map(|_| Ending::Reset);
                }
                (Err(Broken::System(e)), _) => Ending::of(e, State::Held),
                (Err(Broken::Tls(_)), _) => Ending::TlsFailed,
                (Ok(0), _) => Ending::ClosedEarly,
                (Ok(_), None) => Ending::Malformed,
                (Ok(n), Some(http2)) => match http2.idle(&chunk[..n]) {
                    Ok(()) => continue,
                    Err(ending) => ending,
                },
            };
            return Some(ending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, socket};

    fn connection() -> Connection {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        Connection::new(socket, Nanos(0), Nanos(1), false)
    }

    #[test]
    fn an_answer_is_whole_with_its_last_byte_however_it_is_cut() {
        let text = message::response(5);
        for cut in 0..text.len() {
            let mut of = connection();
            assert!(of.is_silent());
            assert_eq!(of.take_in(&text[..cut], 5), Ok(false));
            assert_eq!(of.take_in(&text[cut..], 5), Ok(true));
            assert!(!of.is_silent());
        }
    }

    #[test]
    fn an_answer_of_another_length_or_with_bytes_too_many_is_malformed() {
        assert_eq!(connection().take_in(&message::response(5), 6), Err(Ending::Malformed));
        let unavailable = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n<html>";
        assert_eq!(connection().take_in(unavailable, 6), Err(Ending::ErrorStatus(503)));
        let mut of = connection();
        assert_eq!(of.take_in(&message::response(5), 5), Ok(true));
        assert_eq!(of.take_in(b"x", 5), Err(Ending::Malformed));
    }

    #[test]
    fn the_next_answer_begins_with_a_head_again() {
        let mut of = connection();
        assert_eq!(of.take_in(&message::response(5), 5), Ok(true));
        of.answered = 1;
        of.ask(0, b"", Nanos(2), Nanos(3));
        assert!(!of.is_silent());
        assert_eq!(of.take_in(&message::response(5), 5), Ok(true));
    }
}

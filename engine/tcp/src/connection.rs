//! One connection of the client: how far it is, and what has come of its answer.

use crate::ending::{Ending, State};
use crate::message;
use dutlab_units::Nanos;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) state: State,
    pub(crate) begun: Nanos,
    pub(crate) asked: Nanos,
    pub(crate) deadline: Nanos,
    /// Requests that were answered.
    pub(crate) answered: u32,
    /// Whether it was held, and is asked once more.
    pub(crate) again: bool,
    sent: usize,
    head: Vec<u8>,
    body_left: Option<u64>,
}

impl Connection {
    /// Its handshake must be over at `deadline`.
    pub(crate) fn new(socket: OwnedFd, begun: Nanos, deadline: Nanos) -> Self {
        Self {
            socket,
            state: State::Connecting,
            begun,
            asked: begun,
            deadline,
            answered: 0,
            again: false,
            sent: 0,
            head: Vec::new(),
            body_left: None,
        }
    }

    /// Begins the next request, to be answered at `deadline`.
    pub(crate) fn ask(&mut self, now: Nanos, deadline: Nanos) {
        (self.asked, self.deadline) = (now, deadline);
        (self.sent, self.body_left) = (0, None);
    }

    /// Sends what is left of `request`; whether all of it is gone.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<bool, Errno> {
        while self.sent < request.len() {
            match send(&self.socket, &request[self.sent..], SendFlags::NOSIGNAL) {
                Ok(n) => self.sent += n,
                Err(Errno::AGAIN) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Whether nothing has come over it yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.answered == 0 && self.body_left.is_none() && self.head.is_empty()
    }

    /// Takes in what has come of an answer with a body of `body_bytes`; whether it is whole now.
    pub(crate) fn take_in(&mut self, bytes: &[u8], body_bytes: u64) -> Result<bool, message::Malformed> {
        let arrived = if self.body_left.is_some() {
            bytes.len()
        } else {
            self.head.extend(bytes);
            let Some(said) = message::answered(&self.head)? else { return Ok(false) };
            if !said.ok || said.body_bytes != body_bytes {
                return Err(message::Malformed);
            }
            let of_body = self.head.len() - said.head_bytes;
            self.head = Vec::new();
            of_body
        };
        let left = self.body_left.unwrap_or(body_bytes).checked_sub(arrived as u64).ok_or(message::Malformed)?;
        self.body_left = Some(left);
        Ok(left == 0)
    }

    /// How it ended while it was held, where it has: nothing is owed then, so whatever comes is an end.
    pub(crate) fn end_while_held(&self) -> Option<Ending> {
        match recv(&self.socket, &mut [0; 1][..], RecvFlags::empty()) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(e) => Some(Ending::of(e, State::Held)),
            Ok((0, _)) => Some(Ending::ClosedEarly),
            Ok(_) => Some(Ending::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, socket};

    fn connection() -> Connection {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        Connection::new(socket, Nanos(0), Nanos(1))
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
        assert_eq!(connection().take_in(&message::response(5), 6), Err(message::Malformed));
        let mut of = connection();
        assert_eq!(of.take_in(&message::response(5), 5), Ok(true));
        assert_eq!(of.take_in(b"x", 5), Err(message::Malformed));
    }

    #[test]
    fn the_next_answer_begins_with_a_head_again() {
        let mut of = connection();
        assert_eq!(of.take_in(&message::response(5), 5), Ok(true));
        of.answered = 1;
        of.ask(Nanos(2), Nanos(3));
        assert!(!of.is_silent());
        assert_eq!(of.take_in(&message::response(5), 5), Ok(true));
    }
}

//! States of a connection of the client, and the ways in which it can end there.

use rustix::io::Errno;

/// Event that a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Connecting,
    /// End of the TLS handshake.
    Securing,
    Asking,
    /// None: it was answered and is kept open.
    Held,
}

/// End of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    Completed,
    Refused,
    Unreachable,
    NoHandshake,
    TlsFailed,
    Reset,
    ClosedEarly,
    NoAnswer,
    Malformed,
    /// A complete head with this status, which is not 200.
    ErrorStatus(u16),
}

impl Ending {
    /// Classifies an error of a connection in this state (tcp(7), connect(2)).
    pub(crate) fn of(error: Errno, state: State) -> Self {
        match (error, state) {
            (Errno::CONNREFUSED | Errno::CONNRESET, State::Connecting) => Self::Refused,
            (Errno::TIMEDOUT, State::Connecting) => Self::NoHandshake,
            (Errno::TIMEDOUT, State::Securing) => Self::TlsFailed,
            (_, State::Connecting) | (Errno::HOSTUNREACH | Errno::NETUNREACH, _) => Self::Unreachable,
            (Errno::TIMEDOUT, _) => Self::NoAnswer,
            _ => Self::Reset,
        }
    }
}

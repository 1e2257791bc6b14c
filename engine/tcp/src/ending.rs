//! How far a connection of the client is, and how it can end there.

use rustix::io::Errno;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Connecting,
    /// The handshake of TLS.
    Securing,
    Asking,
    /// Answered, and kept open.
    Held,
}

/// How a connection ended.
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
    /// A whole head with this status, which is not 200.
    ErrorStatus(u16),
}

impl Ending {
    /// What an error means for a connection in this state (tcp(7), connect(2)).
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

//! Errors of a port: the call, its errno, the facts and the remedy.

use std::fmt;
use std::io;

/// Reason why a port cannot be opened or used.
#[derive(Debug)]
pub enum PortError {
    /// There is no such interface in this network namespace.
    NoSuchInterface {
        /// Its name.
        iface: String,
    },
    /// The interface exists and is down.
    Down {
        /// Its name.
        iface: String,
    },
    /// The operating system denies it.
    Permission {
        /// The system call that was denied.
        call: &'static str,
        /// The interface.
        iface: String,
        /// The system's error.
        source: io::Error,
    },
    /// This back end cannot do that on this interface or kernel.
    Unsupported {
        /// The interface.
        iface: String,
        /// Unsupported action, and the reason.
        what: String,
        /// Suggested remedy.
        remedy: String,
    },
    /// The interface vanished or went down while in use.
    Lost {
        /// The system call that noticed.
        call: &'static str,
        /// The interface.
        iface: String,
        /// The system's error.
        source: io::Error,
    },
    /// A back end of another crate failed. The text names the call, the reason and the remedy.
    Refused(Box<Refusal>),
    /// The interface is up and takes no frames: nothing is plugged in, or the other end is down.
    NoCarrier {
        /// The system call that was refused.
        call: &'static str,
        /// The interface.
        iface: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another system call failed.
    Syscall {
        /// Its name.
        call: &'static str,
        /// The interface.
        iface: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Failure of a back end of another crate.
#[derive(Debug)]
pub struct Refusal {
    /// Kind of error, for programs.
    pub kind: ErrorKind,
    /// The call that failed.
    pub call: &'static str,
    /// Text for people: the interface, the call, the system's answer and the cause.
    pub text: String,
    /// Suggested remedy.
    pub remedy: String,
    /// The system's error, if a system call failed.
    pub source: Option<io::Error>,
}

/// The kinds of errors that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such interface, or it is down.
    NoSuchInterface,
    /// The operating system denies it.
    Permission,
    /// This back end cannot do that here.
    Unsupported,
    /// The interface vanished, went down or lost its carrier while in use.
    Lost,
    /// A system call failed.
    Syscall,
}

impl PortError {
    /// Returns the kind of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSuchInterface { .. } | Self::Down { .. } => ErrorKind::NoSuchInterface,
            Self::Permission { .. } => ErrorKind::Permission,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Lost { .. } | Self::NoCarrier { .. } => ErrorKind::Lost,
            Self::Syscall { .. } => ErrorKind::Syscall,
            Self::Refused(r) => r.kind,
        }
    }

    /// Makes the error of a system call on `iface`, classified by its errno.
    #[must_use]
    pub fn from_call(call: &'static str, iface: &str, source: io::Error) -> Self {
        let iface = iface.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Permission { call, iface, source },
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Self::Lost { call, iface, source },
            _ => Self::Syscall { call, iface, source },
        }
    }

    /// Makes an error of this thread's last errno, for `call` on `iface`.
    #[must_use]
    pub fn last(call: &'static str, iface: &str) -> Self {
        Self::from_call(call, iface, io::Error::last_os_error())
    }

    /// Returns the system call, if one failed.
    #[must_use]
    pub const fn call(&self) -> Option<&'static str> {
        match self {
            Self::Refused(r) => Some(r.call),
            Self::Permission { call, .. }
            | Self::Lost { call, .. }
            | Self::NoCarrier { call, .. }
            | Self::Syscall { call, .. } => Some(call),
            _ => None,
        }
    }

    /// Returns the errno, if a system call failed.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Permission { source, .. }
            | Self::Lost { source, .. }
            | Self::NoCarrier { source, .. }
            | Self::Syscall { source, .. } => source.raw_os_error(),
            Self::Refused(r) => r.source.as_ref().and_then(io::Error::raw_os_error),
            _ => None,
        }
    }

    /// Returns a remedy, if one is known.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NoSuchInterface { .. } => Some("list the names with `ip link`; is this the right namespace?".into()),
            Self::Down { iface } => Some(format!("bring it up: ip link set dev {iface} up")),
            Self::Permission { .. } => Some("run the engine as root, or give it CAP_NET_RAW and CAP_NET_ADMIN".into()),
            Self::Refused(r) => Some(r.remedy.clone()),
            Self::Unsupported { remedy, .. } => Some(remedy.clone()),
            Self::Lost { iface, .. } => Some(format!("see what became of it: ip link show dev {iface}")),
            Self::NoCarrier { iface, .. } => {
                Some(format!("plug the cable in, or bring the other end up; then: ip link show dev {iface}"))
            }
            Self::Syscall { source, .. } if source.raw_os_error() == Some(libc::ENOMEM) => {
                Some("free memory, or open fewer ports at once".into())
            }
            Self::Syscall { source, .. } if source.raw_os_error() == Some(libc::EMSGSIZE) => {
                Some("raise the interface's MTU, or ask for smaller frames".into())
            }
            Self::Syscall { .. } => None,
        }
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchInterface { iface } => write!(f, "{iface}: no such interface here"),
            Self::Down { iface } => write!(f, "{iface} is down"),
            Self::Permission { call, iface, source } => write!(f, "{iface}: {call} is not permitted: {source}"),
            Self::Unsupported { iface, what, .. } => write!(f, "{iface}: {what}"),
            Self::Refused(r) => f.write_str(&r.text),
            Self::Lost { call, iface, source } => write!(f, "{iface} was lost: {call}: {source}"),
            Self::NoCarrier { call, iface, source } => {
                write!(f, "{iface} has no carrier, so it takes no frames: {call}: {source}")
            }
            Self::Syscall { call, iface, source } => write!(f, "{iface}: {call}: {source}"),
        }
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Permission { source, .. }
            | Self::Lost { source, .. }
            | Self::NoCarrier { source, .. }
            | Self::Syscall { source, .. } => Some(source),
            Self::Refused(r) => r.source.as_ref().map(|e| e as _),
            _ => None,
        }
    }
}

//! End of a command, for the shell and for people.

use dutlab_protocol::{ErrorKind, Fault};
use serde::Serialize;
use std::process::ExitCode;

/// The exit codes, the same as those of `dutlab`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Measured, but failed or doubtful.
    Doubtful = 1,
    /// Wrong input: nothing was sent.
    Input = 2,
    /// The port or the machine is not usable.
    Unusable = 3,
    /// Interrupted; the result contains the data measured until then.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Reason why a command did not measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    #[serde(skip)]
    pub exit: Exit,
    #[serde(flatten)]
    pub fault: Fault,
}

impl Refused {
    /// Makes a refusal of a request that cannot be fulfilled.
    pub fn input(message: impl Into<String>, remedy: &str) -> Self {
        let (kind, remedy) = (ErrorKind::BadRequest, Some(remedy.to_owned()));
        Self { exit: Exit::Input, fault: Fault { kind, message: message.into(), call: None, errno: None, remedy } }
    }

    /// Makes a refusal because of the state of the machine.
    pub fn unusable(message: impl Into<String>, remedy: &str) -> Self {
        Self { exit: Exit::Unusable, ..Self::input(message, remedy) }
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        let exit = match fault.kind {
            ErrorKind::BadRequest | ErrorKind::BadPlan | ErrorKind::WrongState => Exit::Input,
            _ => Exit::Unusable,
        };
        let remedy = fault.remedy.as_deref().map(in_words);
        Self { exit, fault: Fault { message: in_words(&fault.message), remedy, ..fault } }
    }
}

/// Replaces the protocol's keys in a text by the words of the command line.
fn in_words(text: &str) -> String {
    text.replace("set `isolated: true` for this link", "give --isolated")
        .replace("allow the address's network in the testbed", "give --allow with the address's network")
        .replace("give `of_bps`", "give --speed")
        .replace("send.streams[0].sizes", "--size")
        .replace("send.streams[0].rate", "--rate")
        .replace("send.streams[0].destination_mac", "--mac")
        .replace("send.streams[0].vlans", "--vlan")
        .replace("send.streams[0].flows", "--flows")
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.fault.message)?;
        match &self.fault.remedy {
            Some(remedy) => write!(f, "\n  remedy: {remedy}"),
            None => Ok(()),
        }
    }
}

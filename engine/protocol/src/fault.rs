//! Faults, described for programs and for people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason why a request was not carried out or a port failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of fault, for programs.
    pub kind: ErrorKind,
    /// One sentence with the facts, for people.
    pub message: String,
    /// The system call that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Its errno.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// Suggested remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The line could not be read, or a key is unknown or wrong.
    BadRequest,
    /// The plan contradicts itself or the port.
    BadPlan,
    /// The operation does not fit what the port is doing.
    WrongState,
    /// There is no such interface, or it is down.
    NoSuchInterface,
    /// The port looks like part of a network in use (RFC 6815).
    GuardRefused,
    /// The operating system denies it.
    Permission,
    /// This back end cannot do that here.
    Unsupported,
    /// The port vanished or failed while in use.
    PortLost,
    /// A system call failed.
    Syscall,
}

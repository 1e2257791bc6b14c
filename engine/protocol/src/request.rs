//! What the controller asks for.

use crate::plan::{Rate, ReceivePlan, SendPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Request {
    /// Chosen by the controller; the reply carries it back.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub op: Op,
}

/// The operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Who are you, what is your time? Replied with [`crate::reply::Hello`].
    Hello(Hello),
    /// What time is it? Replied with [`crate::reply::Clock`].
    Clock(Clock),
    /// What can each back end do on this interface? Replied with [`crate::reply::Probed`].
    Probe(Probe),
    /// Take a port. Replied with [`crate::reply::Opened`].
    Open(Open),
    /// Lay a trial's plan before a port. Replied with [`crate::reply::Armed`].
    Arm(Arm),
    /// Begin. Replied with [`crate::reply::Started`] at once, before the instant has come.
    Start(Start),
    /// Change the rate of a stream that is being sent. Replied with [`crate::reply::Done`].
    Rate(ChangeRate),
    /// Wait until all streams of a port have been sent. Replied with [`crate::totals::Sent`] when they have.
    Wait(Wait),
    /// Read the counters of a running trial, stream by stream. Replied with [`crate::status::Status`].
    Status(Status),
    /// Read the receiver's counters, after a drain. Ends the trial. Replied with [`crate::totals::Received`].
    Settle(Settle),
    /// End sending early; `wait` is then replied to. Replied with [`crate::reply::Done`].
    Stop(Stop),
    /// Give a port back. Replied with [`crate::reply::Done`].
    Close(Close),
}

/// Arguments of `hello`: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {}

/// Arguments of `clock`: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clock {}

/// Arguments of `probe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Interface name.
    pub iface: String,
}

/// Arguments of `open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// The name by which all later messages call this port.
    pub port: String,
    /// Interface name. The back end `memory` needs none.
    #[serde(default)]
    pub iface: String,
    /// How frames get in and out.
    #[serde(default)]
    pub backend: Backend,
    /// CPUs to which the sending threads are pinned, one to each, and the receiving ones too unless `receive_cpu` says otherwise. With
    /// `xdp` several share a stream where there are fewer streams.
    #[serde(default, skip_serializing_if = "Cpus::is_empty")]
    pub cpu: Cpus,
    /// CPUs to which the receiving threads are pinned. With `af_xdp` each receive queue has a thread, queue n on the n-th
    /// of these, from the first again when there are more queues; with none, wherever the kernel puts it.
    #[serde(default, skip_serializing_if = "Cpus::is_empty")]
    pub receive_cpu: Cpus,
    /// What keeps test traffic off networks in use.
    #[serde(default)]
    pub guard: Guard,
}

/// CPUs by their numbers: one, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cpus {
    /// This one.
    One(u32),
    /// These.
    Several(Vec<u32>),
}

impl Default for Cpus {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Cpus {
    /// All of them, in order.
    #[must_use]
    pub fn list(&self) -> &[u32] {
        match self {
            Self::One(n) => std::slice::from_ref(n),
            Self::Several(all) => all,
        }
    }

    /// Whether none is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list().is_empty()
    }
}

/// How frames get in and out of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
pub enum Backend {
    /// The fastest that works here.
    #[default]
    Auto,
    /// eBPF live frames to send, an XDP program to receive.
    Xdp,
    /// `AF_XDP` rings.
    AfXdp,
    /// `AF_PACKET` rings: works on every interface.
    AfPacket,
    /// No device: frames go nowhere. What the CPU alone can do.
    Memory,
    /// A pcap file.
    Pcap,
}

/// What nobody routes on the Internet: RFC 1918, RFC 6598, benchmarking (RFC 2544; RFC 5180 section 8 with its erratum),
/// documentation (RFC 5737, 3849), unique local (RFC 4193).
pub const TESTBEDS: [&str; 11] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "198.18.0.0/15",
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "2001:db8::/32",
    "fc00::/7",
    "2001:2::/48",
];

/// RFC 6815: test traffic must stay off production networks. `open` refuses a port that carries the default route, or
/// an address that `allow` does not cover, or that shares its link with an interface that does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// The testbed's networks, as in `172.16.0.0/24`; absent: those that nobody routes on the Internet. Link-local addresses are
    /// always allowed.
    #[serde(default = "testbeds")]
    pub allow: Vec<String>,
    /// The user vouches that nothing else is on this link: no check at all.
    #[serde(default)]
    pub isolated: bool,
}

impl Default for Guard {
    /// Of a link that is not isolated.
    fn default() -> Self {
        Self { allow: testbeds(), isolated: false }
    }
}

fn testbeds() -> Vec<String> {
    TESTBEDS.map(String::from).to_vec()
}

/// Arguments of `arm`. At least one of `send` and `receive` is present; a port may do both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// The port.
    pub port: String,
    /// What it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<SendPlan>,
    /// What it receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive: Option<ReceivePlan>,
    /// Emit a `second` event for this port once a second while the trial lasts.
    #[serde(default)]
    pub events: bool,
}

/// Arguments of `start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The ports to start; absent or empty: all that are armed.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Only this half of them; absent: both. Where ports send to one another, all receive before the first one sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<Half>,
    /// When the trial begins; absent: now. Probes with an earlier send time count as stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_monotonic_ns: Option<u64>,
    /// The same as wall clock (`CLOCK_REALTIME`), which agents on different hosts can share. One of the two at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_realtime_ns: Option<u64>,
}

/// Half of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// What it receives.
    Receive,
    /// What it sends.
    Send,
}

/// Arguments of `rate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRate {
    /// The port.
    pub port: String,
    /// The stream.
    pub stream: u16,
    /// Its rate from now on.
    pub rate: Rate,
}

/// Arguments of `wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The port.
    pub port: String,
}

/// Arguments of `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The port.
    pub port: String,
}

/// Arguments of `settle`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The port.
    pub port: String,
    /// How many frames of each stream were really sent, as the sender's `wait` said.
    pub sent: Vec<StreamSent>,
    /// Time that the agent still receives before it reads the counters.
    #[serde(default)]
    pub drain_ns: u64,
}

/// How many frames of a stream were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSent {
    /// The stream.
    pub stream: u16,
    /// Frames that left the sender.
    pub frames: u64,
    /// What `wait` said of it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbered: Option<u64>,
    /// Likewise.
    #[serde(default, skip_serializing_if = "crate::totals::is_false")]
    pub unordered: bool,
}

impl From<&crate::totals::SentStream> for StreamSent {
    fn from(s: &crate::totals::SentStream) -> Self {
        Self { stream: s.stream, frames: s.sent, numbered: s.numbered, unordered: s.unordered }
    }
}

/// Arguments of `stop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The ports; absent or empty: all.
    #[serde(default)]
    pub ports: Vec<String>,
}

/// Arguments of `close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// The port.
    pub port: String,
}

/// A line that is not a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRequest {
    /// The request's number, if it could be read.
    pub id: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl Request {
    /// Reads one line. Unknown operations and unknown keys are refused.
    pub fn parse(line: &str) -> Result<Self, BadRequest> {
        let refuse = |id, what: String| BadRequest { id, what };
        let mut value: serde_json::Value =
            serde_json::from_str(line).map_err(|e| refuse(None, format!("no JSON object: {e}")))?;
        let object = value.as_object_mut().ok_or_else(|| refuse(None, "no JSON object".into()))?;
        let id = object.remove("id").and_then(|id| id.as_u64());
        let id = id.ok_or_else(|| refuse(None, "`id`: a whole number is missing".into()))?;
        let op = serde_json::from_value(value).map_err(|e| refuse(Some(id), e.to_string()))?;
        Ok(Self { id, op })
    }
}

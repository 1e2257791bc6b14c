//! Requests of the controller.

use crate::plan::{Rate, ReceivePlan, SendPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Request {
    /// Chosen by the controller; the reply carries it back.
    pub id: u64,
    /// Operation to carry out.
    #[serde(flatten)]
    pub op: Op,
}

/// The operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Ask for the agent's version and time. Replied with [`crate::reply::Hello`].
    Hello(Hello),
    /// Ask for the time. Replied with [`crate::reply::Clock`].
    Clock(Clock),
    /// Ask for the abilities of each back end on an interface. Replied with [`crate::reply::Probed`].
    Probe(Probe),
    /// Open a port. Replied with [`crate::reply::Opened`].
    Open(Open),
    /// Give a port the plan of a trial. Replied with [`crate::reply::Armed`].
    Arm(Arm),
    /// Start the trial. Replied with [`crate::reply::Started`] at once, before the start time.
    Start(Start),
    /// Change the rate of a stream that is being sent. Replied with [`crate::reply::Done`].
    Rate(ChangeRate),
    /// Wait until all streams of a port have been sent. Replied with [`crate::totals::Sent`] when they have.
    Wait(Wait),
    /// Read the counters of a running trial, stream by stream. Replied with [`crate::status::Status`].
    Status(Status),
    /// Read the receiver's counters, after a drain. Ends the trial. Replied with [`crate::totals::Received`].
    Settle(Settle),
    /// End sending early, which also ends `wait`. Replied with [`crate::reply::Done`].
    Stop(Stop),
    /// Close a port. Replied with [`crate::reply::Done`].
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
    /// Name of this port in all later messages.
    pub port: String,
    /// Interface name. The back end `memory` needs none.
    #[serde(default)]
    pub iface: String,
    /// Back end that sends and receives the frames.
    #[serde(default)]
    pub backend: Backend,
    /// CPUs of the sending threads, one for each. The receiving threads use them too unless `receive_cpu` is set. With
    /// `xdp`, several CPUs share a stream where there are fewer streams.
    #[serde(default, skip_serializing_if = "Cpus::is_empty")]
    pub cpu: Cpus,
    /// CPUs of the receiving threads. With `af_xdp` each receive queue has a thread: queue n runs on the n-th of these,
    /// from the first again when there are more queues. Empty: the kernel chooses.
    #[serde(default, skip_serializing_if = "Cpus::is_empty")]
    pub receive_cpu: Cpus,
    /// Guard that keeps test traffic off networks in use.
    #[serde(default)]
    pub guard: Guard,
}

/// CPUs by their numbers: one, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cpus {
    /// One CPU.
    One(u32),
    /// Several CPUs.
    Several(Vec<u32>),
}

impl Default for Cpus {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Cpus {
    /// Returns all CPUs, in order.
    #[must_use]
    pub fn list(&self) -> &[u32] {
        match self {
            Self::One(n) => std::slice::from_ref(n),
            Self::Several(all) => all,
        }
    }

    /// Returns true if no CPU is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list().is_empty()
    }
}

/// Method by which frames leave and enter a port.
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

/// Networks that are not routed on the Internet: RFC 1918, RFC 6598, benchmarking (RFC 2544; RFC 5180 section 8 with
/// its erratum), documentation (RFC 5737, 3849), unique local (RFC 4193).
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

/// Guard of production networks, which test traffic must not reach (RFC 6815). `open` refuses a port that carries the
/// default route, or an address that `allow` does not cover, or that shares its link with an interface that does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// Networks of the testbed, such as `172.16.0.0/24`; absent: those that are not routed on the Internet. Link-local
    /// addresses are always allowed.
    #[serde(default = "testbeds")]
    pub allow: Vec<String>,
    /// No check at all: the user asserts that nothing else is on this link.
    #[serde(default)]
    pub isolated: bool,
}

impl Default for Guard {
    /// Guard of a link that is not isolated.
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
    /// Send plan of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<SendPlan>,
    /// Receive plan of the port.
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
    /// Half of the ports to start; absent: both. Where ports send to one another, all receive before the first one
    /// sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<Half>,
    /// Start of the trial; absent: now. Probes with an earlier send time count as stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_monotonic_ns: Option<u64>,
    /// Start of the trial by the wall clock (`CLOCK_REALTIME`), which agents on different hosts can share. At most one
    /// of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_realtime_ns: Option<u64>,
}

/// Half of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// Receiving half.
    Receive,
    /// Sending half.
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
    /// Frames of each stream that were sent, as the sender's `wait` reported.
    pub sent: Vec<StreamSent>,
    /// Time for which the agent still receives before it reads the counters.
    #[serde(default)]
    pub drain_ns: u64,
}

/// Number of frames of a stream that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSent {
    /// The stream.
    pub stream: u16,
    /// Frames that left the sender.
    pub frames: u64,
    /// `numbered` of the stream in the reply to `wait`, if present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbered: Option<u64>,
    /// `unordered` of the stream in the reply to `wait`.
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
    /// Description of the fault.
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

//! Replies of the agent: exactly one for each request.

use crate::fault::Fault;
use crate::request::Backend;
use crate::status::Status;
use crate::totals::{Received, Sent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line from the agent that answers a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// The request's number; `null` when the request could not be read at all.
    pub id: Option<u64>,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Result of a request: its answer, or the reason why it was not carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done; the content belongs to the operation.
    Ok(Answer),
    /// Not done, and nothing was changed.
    Err(Fault),
}

/// Content of a successful reply, by operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Answer {
    /// To `hello`.
    Hello(Hello),
    /// To `clock`.
    Clock(Clock),
    /// To `probe`.
    Probed(Probed),
    /// To `open`.
    Opened(Opened),
    /// To `arm`.
    Armed(Armed),
    /// To `start`.
    Started(Started),
    /// To `status`.
    Status(Status),
    /// To `wait`.
    Sent(Sent),
    /// To `settle`.
    Received(Received),
    /// To `rate`, `stop` and `close`.
    Done(Done),
}

/// Reply to `hello`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The program's version.
    pub version: String,
    /// The number of this protocol.
    pub protocol: u32,
    /// `CLOCK_MONOTONIC` at the moment of the reply.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME` at the same moment.
    pub realtime_ns: u64,
    /// Kernel release.
    pub kernel: String,
    /// CPUs that the agent may run on.
    pub cpus: Vec<u32>,
}

/// Reply to `clock`: the middle two of the four time stamps of NTP (RFC 5905 section 8); the controller has the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// `CLOCK_MONOTONIC` when the request was read.
    pub received_monotonic_ns: u64,
    /// `CLOCK_MONOTONIC` when this reply was written.
    pub replied_monotonic_ns: u64,
    /// `CLOCK_REALTIME` at the same moment as the second.
    pub realtime_ns: u64,
}

/// Reply to `probe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    /// The interface.
    pub iface: String,
    /// Every back end, best first.
    pub backends: Vec<BackendAbility>,
    /// Time stamps that the interface offers, as its driver reports.
    #[serde(default)]
    pub times: Vec<TimeOf>,
    /// The card's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_clock: Option<CardClock>,
}

/// The clock of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CardClock {
    /// Number N of its device `/dev/ptpN`.
    pub number: u32,
    /// How far the clock is ahead of `CLOCK_MONOTONIC`; absent where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead_ns: Option<i64>,
    /// Error bound of `ahead_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ns: Option<u64>,
    /// Reason why the clock cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A time stamp that an interface can offer, by the part that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeOf {
    /// Send time, by the driver.
    SoftwareSend,
    /// Receive time, by the kernel.
    SoftwareReceive,
    /// Send time, by the card.
    CardSend,
    /// Receive time, by the card.
    CardReceive,
    /// Arrival time, which the driver gives to an XDP program.
    XdpArrival,
    /// Departure time, which the driver gives to an `AF_XDP` socket.
    XdpDeparture,
    /// Launch time, which an `AF_XDP` socket can set for a frame.
    XdpLaunch,
}

/// Abilities of one back end on one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendAbility {
    /// The back end.
    pub backend: Backend,
    /// True if it can send here.
    pub can_send: bool,
    /// True if it can receive here.
    pub can_receive: bool,
    /// Longest frame in bytes with FCS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frame_bytes: Option<u32>,
    /// Reason why it cannot, or what it does worse here than elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Remedy for `reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Reply to `open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// The port.
    pub port: String,
    /// The interface.
    pub iface: String,
    /// Back end in use.
    pub backend: Backend,
    /// The interface's MAC.
    pub mac: String,
    /// The interface's MTU in bytes (IP).
    pub mtu_bytes: u32,
    /// The interface's addresses with prefix length.
    pub addresses: Vec<String>,
    /// Notes for the user, such as a slower path or an absent feature.
    pub notes: Vec<String>,
}

/// Reply to `arm`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Armed {
    /// The port.
    pub armed: String,
    /// Per stream that is sent: the mean frame size, in bytes with FCS.
    pub streams: Vec<ArmedStream>,
}

/// A stream as understood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmedStream {
    /// The stream.
    pub stream: u16,
    /// Mean frame size in bytes with FCS.
    pub mean_frame_bytes: f64,
    /// Its frame sizes, each stated in all three ways.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frame_sizes: Vec<ArmedSize>,
    /// Speed of the link that a rate in percent refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bps: Option<f64>,
    /// Frames that are due until its end (RFC 2285: intended load); absent at the maximum rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended: Option<u64>,
}

/// A frame size as different tools count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmedSize {
    /// From destination MAC to FCS.
    pub with_fcs_bytes: u32,
    /// Without the FCS.
    pub without_fcs_bytes: u32,
    /// The IP datagram, behind all tags; absent where the frame has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_bytes: Option<u32>,
    /// Frames of this size in one round.
    pub count: u64,
}

/// Reply to `start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// Start of the trial.
    pub at_monotonic_ns: u64,
}

/// Reply to operations that have no result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Done {}

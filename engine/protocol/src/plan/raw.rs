//! Streams of frames that are given byte by byte.

use super::rate::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stream whose frames are given byte by byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawStream {
    /// Stream number in every probe.
    pub stream: u16,
    /// The frames, sent repeatedly in this order.
    pub templates: Vec<RawFrame>,
    /// Rate of the stream.
    pub rate: Rate,
    /// The stream ends after this many frames; absent: only the plan's `duration_ns` ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
}

/// A frame without FCS. The probe overwrites 18 of its bytes. The checksums of IPv4 or IPv6 with UDP, TCP or ICMP in
/// front of the probe are corrected; those of headers inside of them are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawFrame {
    /// The bytes from destination MAC on, in hexadecimal; blanks and colons are ignored.
    pub hex: String,
    /// Offset of the probe: an even number of bytes from the start. Receivers look for it at the start of the payload
    /// of UDP, TCP or ICMP.
    pub probe_at: u16,
}

//! Frames that are given byte by byte.

use super::rate::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stream whose frames are given byte by byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawStream {
    /// Its number in every probe.
    pub stream: u16,
    /// The frames, sent in this order, over and over.
    pub templates: Vec<RawFrame>,
    /// How fast.
    pub rate: Rate,
    /// The stream ends after this many frames; absent: only the plan's `duration_ns` ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
}

/// A frame without FCS. The probe is written over 18 of its bytes. Where it is IPv4 or IPv6 with UDP, TCP or ICMP in
/// front of the probe, the checksums of these headers are made right; of headers inside of them, none is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawFrame {
    /// The bytes from destination MAC on, in hexadecimal; blanks and colons are ignored.
    pub hex: String,
    /// Where the probe is: an even number of bytes from the start. Receivers look for it where the payload of UDP,
    /// TCP or ICMP begins.
    pub probe_at: u16,
}

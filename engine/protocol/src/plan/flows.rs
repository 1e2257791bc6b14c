//! Many flows in one stream.

use super::default::one;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Many flows in one stream, the same set in every trial with the same plan. Frame n belongs to flow n mod `count`: as
/// long as `frames` is not above `count`, every frame is a new flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Number of flows.
    pub count: u32,
    /// Source addresses, from the stream's `source` upwards.
    #[serde(default = "one")]
    pub source_addresses: u32,
    /// Destination addresses, from the stream's `destination` upwards.
    #[serde(default = "one")]
    pub destination_addresses: u32,
    /// Length of the prefix that each source address represents. Each address is in the prefix after that of the
    /// previous address: 24 puts one in each /24. Absent: consecutive addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_prefix_length: Option<u8>,
    /// Length of the prefix that each destination address represents, as `source_prefix_length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_prefix_length: Option<u8>,
    /// Source ports, from `source_port` upwards.
    #[serde(default = "one")]
    pub source_ports: u32,
    /// Destination ports, from `destination_port` upwards.
    #[serde(default = "one")]
    pub destination_ports: u32,
    /// Number of source MACs. Above 1: MACs of the pattern of RFC 4814 section 4.2 instead of the stream's MAC.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub source_macs: u32,
    /// Number of destination MACs, as `source_macs`. Must be 1 for frames that are addressed to a router.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub destination_macs: u32,
    /// Numbers of the tester's sending and receiving port, counted from 1, that are part of these MACs.
    #[serde(default = "tester_ports", skip_serializing_if = "is_tester_ports")]
    pub mac_ports: (u16, u16),
    /// Seed with which members are drawn pseudo-randomly from the ranges (RFC 4814 section 4). Absent: members are
    /// counted through, source port fastest, then destination port, source address, destination address, source MAC,
    /// destination MAC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Default for Flows {
    /// A single flow.
    fn default() -> Self {
        Self {
            count: 1,
            source_addresses: 1,
            destination_addresses: 1,
            source_prefix_length: None,
            destination_prefix_length: None,
            source_ports: 1,
            destination_ports: 1,
            source_macs: 1,
            destination_macs: 1,
            mac_ports: tester_ports(),
            seed: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_one(n: &u32) -> bool {
    *n == 1
}

const fn tester_ports() -> (u16, u16) {
    (1, 2)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_tester_ports(ports: &(u16, u16)) -> bool {
    ports.0 == 1 && ports.1 == 2
}

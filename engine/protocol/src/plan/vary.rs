//! Fields that vary from frame to frame.

use super::default::is_no_time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A field whose value changes from frame to frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// Field that varies.
    pub field: VariedField,
    /// Values of the field.
    pub values: Values,
    /// Index, counted from 0, of the value that frame 0 has.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub phase: u64,
    /// Number of consecutive frames that have one value.
    #[serde(default = "one_frame", skip_serializing_if = "is_one_frame")]
    pub every: u64,
}

const fn one_frame() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_one_frame(n: &u64) -> bool {
    *n == 1
}

/// A field of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariedField {
    /// Source MAC.
    SourceMac,
    /// Destination MAC.
    DestinationMac,
    /// VLAN identifier of the outermost tag.
    VlanId,
    /// Priority of the outermost tag.
    VlanPriority,
    /// VLAN identifier of the inner of two tags.
    InnerVlanId,
    /// Priority of the inner of two tags.
    InnerVlanPriority,
    /// Source address, IPv4 or IPv6.
    SourceAddress,
    /// Destination address. The guard looks at all of its values.
    DestinationAddress,
    /// Differentiated services code point (RFC 2474), 6 bits.
    Dscp,
    /// Time to live, or hop limit.
    Ttl,
    /// Identification of IPv4.
    Identification,
    /// Flow label of IPv6, 20 bits.
    FlowLabel,
    /// Source port (ICMP echo: the identifier).
    SourcePort,
    /// Destination port.
    DestinationPort,
    /// Bits at an offset in the frame. Bits that give the place of headers and probe, checksums and the probe are
    /// refused.
    Bits(Bits),
}

/// Some bits of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bits {
    /// Byte with the first bit, counted from the destination MAC.
    pub byte: u16,
    /// Bits of this byte in front of the first bit, from the most significant one.
    #[serde(default)]
    pub bit: u8,
    /// Number of bits, 1 to 64.
    pub width: u8,
}

/// Values of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Equal steps from `from` to `to`, then again from the first value; downwards where `from` is above `to`.
    Step(StepValues),
    /// Pseudo-random values, with repetitions; the same in every trial.
    Random(RandomValues),
    /// Listed values, repeatedly in this order.
    List(Vec<FieldValue>),
}

/// Values in equal steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepValues {
    /// First value.
    pub from: FieldValue,
    /// Last value, if a step meets it.
    pub to: FieldValue,
    /// Difference between consecutive values, at least 1.
    #[serde(default = "one_frame")]
    pub by: u64,
}

/// Pseudo-random values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomValues {
    /// Lowest value.
    pub from: FieldValue,
    /// Highest value.
    pub to: FieldValue,
    /// Seed of the pseudo-random values.
    #[serde(default)]
    pub seed: u64,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// An address, a MAC, or a number as in `0x1f`.
    Text(String),
}

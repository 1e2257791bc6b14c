//! Fields that vary from frame to frame.

use super::default::is_no_time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A field whose value is another in each frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// Which field.
    pub field: VariedField,
    /// Its values.
    pub values: Values,
    /// The place in the values, counted from 0, that frame 0 has.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub phase: u64,
    /// So many frames have one value before the next follows.
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
    /// Bits at a place in the frame. Those that say where headers and probe are, checksums and the probe are refused.
    Bits(Bits),
}

/// Some bits of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bits {
    /// The byte with the first of them, counted from the destination MAC.
    pub byte: u16,
    /// Bits of this byte in front of the first, from the most significant one.
    #[serde(default)]
    pub bit: u8,
    /// How many, 1 to 64.
    pub width: u8,
}

/// Values of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// From one to another in equal steps, then again from the first; downwards where `from` is above `to`.
    Step(StepValues),
    /// Pseudo-random, with repetitions; the same in every trial.
    Random(RandomValues),
    /// These in this order, over and over.
    List(Vec<FieldValue>),
}

/// Values in equal steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepValues {
    /// The first.
    pub from: FieldValue,
    /// The last, if a step meets it.
    pub to: FieldValue,
    /// From one to the next, at least 1.
    #[serde(default = "one_frame")]
    pub by: u64,
}

/// Pseudo-random values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomValues {
    /// The lowest.
    pub from: FieldValue,
    /// The highest.
    pub to: FieldValue,
    /// Which values they are.
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

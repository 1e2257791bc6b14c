//! A frame as the plan gives it, and what the sender needs to know of it: where its fields are, and the sums of what stays.

use super::contract::{HEAD_MAX, PROBE_LEN, SHAPE_IPV6, SHAPE_UDP, Shape};
use super::error::Why;

/// The longest live frame, in bytes without FCS: a page, less the kernel's bookkeeping in front of and behind it.
pub const LONGEST: usize = 3400;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const VLAN_TYPES: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// A complete frame without FCS, its probe in place. Its checksums need not be right; they are computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    bytes: Vec<u8>,
    probe_at: usize,
    l3_at: usize,
    l4_at: usize,
    protocol: u8,
    ip_version: u8,
}

fn sum_of(bytes: &[u8]) -> u64 {
    // RFC 1071 sums in any byte order; the program adds words as its CPU reads them, so this does too.
    bytes.chunks(2).map(|c| u64::from(u16::from_ne_bytes([c[0], *c.get(1).unwrap_or(&0)]))).sum()
}

/// Folds a sum of 16-bit words to 16 bits (RFC 1071).
#[must_use]
pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

pub(super) fn words_sum(bytes: &[u8]) -> u16 {
    fold(sum_of(bytes))
}

impl Template {
    /// Understands a frame: Ethernet, up to four VLAN tags, IPv4 (with options) or IPv6 (without extension headers),
    /// UDP, TCP (with options) or ICMP echo, then the 18 bytes of the probe, then payload.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Why> {
        let short =
            || Why::Plan(format!("a frame of {} bytes is too short for its headers and the probe", bytes.len()));
        let at = |i: usize| bytes.get(i).copied().ok_or_else(short);
        let at16 = |i: usize| Ok::<u16, Why>(u16::from_be_bytes([at(i)?, at(i + 1)?]));
        if bytes.len() > LONGEST {
            return Err(Why::FrameTooLong { frame: bytes.len(), most: LONGEST });
        }
        let mut type_at = 12;
        while VLAN_TYPES.contains(&at16(type_at)?) && type_at < 12 + 4 * 4 {
            type_at += 4;
        }
        let l3_at = type_at + 2;
        let (ip_version, protocol, l4_at) = match at16(type_at)? {
            ETHERTYPE_IPV4 => (4, at(l3_at + 9)?, l3_at + usize::from(at(l3_at)? & 15) * 4),
            ETHERTYPE_IPV6 => (6, at(l3_at + 6)?, l3_at + 40),
            other => {
                return Err(Why::Plan(format!(
                    "the xdp back end sends IPv4 and IPv6 only, not Ethernet type {other:#06x}"
                )));
            }
        };
        let probe_at = match protocol {
            UDP | ICMP | ICMPV6 => l4_at + 8,
            TCP => l4_at + usize::from(at(l4_at + 12)? >> 4) * 4,
            other => {
                return Err(Why::Plan(format!(
                    "the xdp back end sends UDP, TCP and ICMP only, not IP protocol {other}"
                )));
            }
        };
        if bytes.len() < probe_at + PROBE_LEN {
            return Err(short());
        }
        if probe_at + PROBE_LEN > HEAD_MAX {
            return Err(Why::Plan(format!(
                "headers and probe take {} bytes; the xdp back end has room for {HEAD_MAX}",
                probe_at + PROBE_LEN
            )));
        }
        Ok(Self { bytes, probe_at, l3_at, l4_at, protocol, ip_version })
    }

    /// Length without FCS.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true: a template has headers and a probe.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// 4 or 6.
    #[must_use]
    pub fn ip_version(&self) -> u8 {
        self.ip_version
    }

    /// Headers and probe.
    pub(super) fn head_len(&self) -> usize {
        self.probe_at + PROBE_LEN
    }

    /// Everything after the probe.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.head_len()..]
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the transport checksum covers the addresses.
    pub(super) fn has_pseudo_header(&self) -> bool {
        self.protocol != ICMP
    }

    /// What is written for each frame of this template: `flows` says that addresses and ports come from a flow.
    pub(super) fn shape(&self, flows: bool) -> Shape {
        let mut b = self.bytes.clone();
        let (l3, l4, v6) = (self.l3_at, self.l4_at, self.ip_version == 6);
        let (addresses_at, addresses_len) = if v6 { (l3 + 8, 32) } else { (l3 + 12, 8) };
        let sum_at = l4
            + match self.protocol {
                UDP => 6,
                TCP => 16,
                _ => 2,
            };
        // An ICMP flow is its identifier, four bytes into the header; the two bytes after it are written as given.
        let ports_at = if matches!(self.protocol, ICMP | ICMPV6) { l4 + 4 } else { l4 };
        // Lengths follow from the frame's.
        let payload_len = u16::try_from(b.len() - l4).expect("a live frame is short");
        if v6 {
            b[l3 + 4..l3 + 6].copy_from_slice(&payload_len.to_be_bytes());
        } else {
            let total = u16::try_from(b.len() - l3).expect("a live frame is short");
            b[l3 + 2..l3 + 4].copy_from_slice(&total.to_be_bytes());
            b[l3 + 10..l3 + 12].fill(0);
        }
        if self.protocol == UDP {
            b[l4 + 4..l4 + 6].copy_from_slice(&payload_len.to_be_bytes());
        }
        b[sum_at..sum_at + 2].fill(0);
        // Magic and stream stay; sequence and time are added by the program.
        b[self.probe_at + 4..self.probe_at + PROBE_LEN].fill(0);

        let pseudo = u64::from(payload_len.to_be()) + u64::from(u16::from(self.protocol).to_be());
        let addresses = sum_of(&b[addresses_at..addresses_at + addresses_len]);
        let ports = sum_of(&b[ports_at..ports_at + 4]);
        let mut base = sum_of(&b[l4..]);
        if self.has_pseudo_header() {
            base += pseudo + addresses;
        }
        if !v6 {
            let header = fold(sum_of(&b[l3..l4]));
            b[l3 + 10..l3 + 12].copy_from_slice(&(!header).to_ne_bytes());
        }
        let mut ip_base = 0;
        if flows {
            // One's complement subtraction: what the flow will add is taken out.
            let taken = ports + if self.has_pseudo_header() { addresses } else { 0 };
            base += u64::from(!fold(taken));
            if !v6 {
                let mut header = b[l3..l4].to_vec();
                header[10..12].fill(0);
                header[12..20].fill(0);
                ip_base = u32::from(fold(sum_of(&header)));
            }
        }
        let mut head = [0; HEAD_MAX];
        let n = b.len().min(HEAD_MAX);
        head[..n].copy_from_slice(&b[..n]);
        let small = |n: usize| u8::try_from(n).expect("offsets lie in the head");
        Shape {
            head,
            length: u16::try_from(b.len()).expect("a live frame is short"),
            addresses_at: small(addresses_at),
            ports_at: small(ports_at),
            ip_sum_at: if v6 { 0 } else { small(l3 + 10) },
            sum_at: small(sum_at),
            probe_at: small(self.probe_at),
            flags: if self.protocol == UDP { SHAPE_UDP } else { 0 } | if v6 { SHAPE_IPV6 } else { 0 },
            ip_base,
            base: u32::from(fold(base)),
        }
    }
}

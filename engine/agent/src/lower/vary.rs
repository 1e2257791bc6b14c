//! Varying fields, from the controller's plan.

use dutlab_port as port;
use dutlab_protocol::plan::{self, FieldValue, Stream, Transport, VariedField};
use dutlab_traffic::Series;
use dutlab_wire::{Layout, Mac, ethernet, icmp, ipv4, ipv6, probe, tcp, udp, vlan};
use std::net::IpAddr;
use std::ops::Range;

/// Length of a MAC in bits.
const MAC: usize = 48;

/// Returns the varying fields of a stream, whose frames have the offsets of `layout` and at least `shortest` bytes
/// without FCS. Fields that `flows` keeps constant may vary instead. The error contains every fault with its path.
pub fn lower(
    s: &Stream,
    layout: &Layout,
    shortest: usize,
    flows: &mut Option<port::FlowSet>,
) -> Result<Vec<port::Varied>, Vec<String>> {
    let (mut faults, mut taken, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (i, vary) in s.vary.iter().enumerate() {
        let made = place(vary.field, s, layout).and_then(|bits| {
            series(vary, bits.len()).and_then(|values| {
                check(&bits, vary.field, s, layout, shortest)?;
                if let Some((earlier, _)) = taken.iter().find(|(_, other)| overlap(&bits, other)) {
                    return Err(format!("field: has bits in common with vary[{earlier}]"));
                }
                make_room(&bits, flows)?;
                Ok((bits, values))
            })
        });
        match made {
            Ok((bits, values)) => {
                all.push(varied(&bits, layout, values));
                taken.push((i, bits));
            }
            Err(e) => faults.push(format!("vary[{i}].{e}")),
        }
    }
    if faults.is_empty() { Ok(all) } else { Err(faults) }
}

const fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Converts a range of bytes to bits.
const fn bytes(at: usize, length: usize) -> Range<usize> {
    8 * at..8 * (at + length)
}

/// Returns the bits of a field, counted from the first bit of the frame.
fn place(field: VariedField, s: &Stream, layout: &Layout) -> Result<Range<usize>, String> {
    let tag = |number: usize, bit: usize, width: usize| {
        if number >= s.vlans.len() {
            return Err(format!("field: the frames have {} tags; name them in `vlans`", s.vlans.len()));
        }
        let at = 8 * (ethernet::LEN + vlan::LEN * number) + bit;
        Ok(at..at + width)
    };
    let only = |family: &str, is: bool, bits: Range<usize>| {
        if is { Ok(bits) } else { Err(format!("field: only {family} has it")) }
    };
    let (ip, address) = (8 * layout.ip_at, if layout.v6 { 16 } else { 4 });
    match field {
        VariedField::DestinationMac => Ok(0..MAC),
        VariedField::SourceMac => Ok(MAC..2 * MAC),
        VariedField::VlanPriority => tag(0, 0, 3),
        VariedField::VlanId => tag(0, 4, 12),
        VariedField::InnerVlanPriority => tag(1, 0, 3),
        VariedField::InnerVlanId => tag(1, 4, 12),
        VariedField::SourceAddress => Ok(bytes(layout.source_at, address)),
        VariedField::DestinationAddress => Ok(bytes(layout.destination_at, address)),
        VariedField::Dscp => {
            let at = ip + if layout.v6 { 4 } else { 8 };
            Ok(at..at + 6)
        }
        VariedField::Ttl => Ok(bytes(layout.ip_at + if layout.v6 { 7 } else { 8 }, 1)),
        VariedField::Identification => only("IPv4", !layout.v6, bytes(layout.ip_at + 4, 2)),
        VariedField::FlowLabel => only("IPv6", layout.v6, ip + 12..ip + 32),
        VariedField::SourcePort => Ok(bytes(layout.source_port_at, 2)),
        VariedField::DestinationPort => layout
            .destination_port_at
            .map(|at| bytes(at, 2))
            .ok_or_else(|| "field: ICMP has no destination ports; vary source_port, which is its identifier".into()),
        VariedField::Bits(b) if !(1..=64).contains(&b.width) || b.bit > 7 => {
            Err("field: bits: `width` is 1 to 64, `bit` 0 to 7".into())
        }
        VariedField::Bits(b) => {
            let at = 8 * usize::from(b.byte) + usize::from(b.bit);
            Ok(at..at + usize::from(b.width))
        }
    }
}

/// Refuses bits outside of the shortest frame, and those that receivers, checksums or the guard depend on.
fn check(bits: &Range<usize>, field: VariedField, s: &Stream, layout: &Layout, shortest: usize) -> Result<(), String> {
    // Checksums are sums of pairs of bytes: an odd last byte is not varied.
    let room = shortest & !1;
    if bits.end > 8 * room {
        return Err(format!("field: reaches past byte {room} of the shortest frame (without FCS)"));
    }
    let (ip, l4) = (layout.ip_at, layout.transport_at);
    let mut kept = vec![
        (bytes(layout.probe_at, probe::LEN), "the probe, by which frames are accounted for"),
        (bytes(layout.checksum_at, 2), "the transport's checksum, which is computed"),
        (bytes(ip - 2, 2), "the EtherType, by which receivers find the probe"),
    ];
    kept.extend((0..s.vlans.len()).map(|i| {
        let at = ethernet::LEN - 2 + vlan::LEN * i;
        (bytes(at, 2), "the type of a tag, by which receivers find the probe")
    }));
    if layout.v6 {
        kept.push((8 * ip..8 * ip + 4, "the version of IP"));
        kept.push((bytes(ip + 4, 3), "length and protocol of IPv6"));
        kept.push((bytes(ip + ipv6::LEN, l4 - ip - ipv6::LEN), "an extension header"));
    } else {
        kept.push((bytes(ip, 1), "version and length of the IPv4 header"));
        kept.push((bytes(ip + 2, 2), "the length of IPv4"));
        kept.push((bytes(ip + 6, 2), "flags and fragment offset of IPv4: receivers find no probe in fragments"));
        kept.push((bytes(ip + 9, 1), "the protocol of IPv4"));
        kept.push((bytes(ip + ipv4::CHECKSUM_AT, 2), "the checksum of IPv4, which is computed"));
    }
    match s.transport {
        Transport::Udp => kept.push((bytes(l4 + 4, udp::CHECKSUM_AT - 4), "the length of UDP")),
        Transport::Tcp | Transport::TcpSyn => {
            kept.push((bytes(l4 + tcp::SEQUENCE_AT, 4), "the sequence number of TCP, which the stream counts"));
            kept.push((8 * (l4 + 12)..8 * (l4 + 12) + 4, "the length of the TCP header"));
        }
        Transport::IcmpEcho => {
            kept.push((bytes(l4, 2), "type and code of ICMP"));
            kept.push((bytes(l4 + icmp::SEQUENCE_AT, 2), "the sequence number of ICMP, which the stream counts"));
        }
    }
    if matches!(field, VariedField::Bits(_)) {
        let length = if layout.v6 { 16 } else { 4 };
        let why = "the destination address: name it `destination_address`, so that the guard can look at its values";
        kept.push((bytes(layout.destination_at, length), why));
        kept.push((0..MAC, "the destination MAC: name it `destination_mac`, so that the guard can see that it varies"));
    }
    match kept.iter().find(|(range, _)| !range.is_empty() && overlap(bits, range)) {
        Some((_, what)) => Err(format!("field: would overwrite {what}")),
        None => Ok(()),
    }
}

/// Removes the columns of `flows` that cover these bits, if they are the same in all flows.
fn make_room(bits: &Range<usize>, flows: &mut Option<port::FlowSet>) -> Result<(), String> {
    let Some(set) = flows else { return Ok(()) };
    while let Some(column) = set.fields.iter().position(|f| overlap(bits, &bytes(f.at.into(), f.length.into()))) {
        let width = set.fields.len();
        let mut values = set.values.iter().skip(column).step_by(width);
        let first = values.next();
        if values.any(|v| Some(v) != first) {
            return Err("field: `flows` changes it already; take it out of one of the two".into());
        }
        set.fields.remove(column);
        let mut place = 0..;
        set.values.retain(|_| place.next().is_some_and(|i: usize| i % width != column));
    }
    Ok(())
}

/// Returns the values of a field of `width` bits.
fn series(vary: &plan::Vary, width: usize) -> Result<Series, String> {
    let value = |v: &FieldValue| number(v, vary.field, width).map_err(|e| format!("values: {e}"));
    let series = match &vary.values {
        plan::Values::Step(s) => Series::step(value(&s.from)?, value(&s.to)?, s.by.into()),
        plan::Values::Random(r) => Series::random(value(&r.from)?, value(&r.to)?, r.seed),
        plan::Values::List(list) => Series::list(list.iter().map(value).collect::<Result<_, _>>()?),
    };
    series.and_then(|s| s.shifted(vary.phase, vary.every)).map_err(|e| format!("values: {e}"))
}

/// Returns the destinations that the rules of `vary` produce: lowest and highest, or each of a list.
pub fn destinations(s: &Stream) -> impl Iterator<Item = Result<(IpAddr, IpAddr), String>> {
    let v6 = s.destination.is_ipv6();
    let one = move |v: &FieldValue| {
        let bits = number(v, VariedField::DestinationAddress, if v6 { 128 } else { 32 })?;
        Ok(if v6 { IpAddr::from(bits.to_be_bytes()) } else { IpAddr::from(low4(bits)) })
    };
    let fields = s.vary.iter().filter(|v| v.field == VariedField::DestinationAddress);
    fields.flat_map(move |vary| match &vary.values {
        plan::Values::Step(plan::StepValues { from, to, .. })
        | plan::Values::Random(plan::RandomValues { from, to, .. }) => {
            vec![one(from).and_then(|a| Ok((a.min(one(to)?), a.max(one(to)?))))]
        }
        plan::Values::List(list) => list.iter().map(|v| one(v).map(|a| (a, a))).collect(),
    })
}

fn low4(bits: u128) -> [u8; 4] {
    let [.., a, b, c, d] = bits.to_be_bytes();
    [a, b, c, d]
}

/// Converts a value to a number of at most `width` bits.
fn number(value: &FieldValue, field: VariedField, width: usize) -> Result<u128, String> {
    let number = match value {
        FieldValue::Number(n) => Some(u128::from(*n)),
        FieldValue::Text(text) => match (field, text.parse::<IpAddr>(), text.parse::<Mac>()) {
            (VariedField::SourceAddress | VariedField::DestinationAddress, Ok(IpAddr::V4(a)), _) if width == 32 => {
                Some(a.to_bits().into())
            }
            (VariedField::SourceAddress | VariedField::DestinationAddress, Ok(IpAddr::V6(a)), _) if width == 128 => {
                Some(a.to_bits())
            }
            (VariedField::SourceMac | VariedField::DestinationMac, _, Ok(Mac(mac))) => {
                Some(mac.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
            }
            _ => text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u128::from_str_radix(hex, 16).ok()),
        },
    };
    let shown = match value {
        FieldValue::Number(n) => n.to_string(),
        FieldValue::Text(text) => format!("{text:?}"),
    };
    match number {
        Some(n) if width == 128 || n >> width == 0 => Ok(n),
        Some(_) => Err(format!("{shown} does not fit into {width} bits")),
        None => Err(format!("{shown} is not a value of this field")),
    }
}

/// Returns the pairs of bytes around some bits, and the checksums that cover them.
#[expect(clippy::cast_possible_truncation, reason = "places in a frame are below 9242, widths at most 128")]
fn varied(bits: &Range<usize>, layout: &Layout, values: Series) -> port::Varied {
    let (at, end) = (bits.start / 16 * 2, bits.end.div_ceil(16) * 2);
    let length = end - at;
    let mask_of = |holds: &dyn Fn(usize) -> bool| {
        (at..end).fold(0_u128, |mask, byte| mask << 8 | if holds(byte) { 0xff } else { 0 })
    };
    let addresses = layout.source_at..layout.destination_at + if layout.v6 { 16 } else { 4 };
    let shift = 8 * end - bits.end;
    port::Varied {
        at: at as u16,
        length: length as u8,
        shift: shift as u8,
        mask: (u128::MAX >> (128 - bits.len())) << shift,
        in_checksum: mask_of(&|byte| {
            byte >= layout.transport_at || layout.checksum_covers_addresses && addresses.contains(&byte)
        }),
        in_ip_checksum: mask_of(&|byte| !layout.v6 && (layout.ip_at..layout.transport_at).contains(&byte)),
        values,
    }
}

#[cfg(test)]
mod tests;

//! Flows of a stream as columns of values, from the controller's plan.

mod addresses;

use addresses::Addresses;
use dutlab_port as port;
use dutlab_protocol::plan::{self, Stream};
use dutlab_traffic::{Flow, Flows, macs};
use dutlab_wire::{FourTuple, Layout, Mac};
use std::net::IpAddr;

/// Maximum number of flows of a stream: their values are stored in memory before the trial.
pub(super) const MOST: u32 = 1 << 21;

/// Value of a flow in one column.
type Value = Box<dyn Fn(&Flow) -> u32>;

/// Values that change from flow to flow, column by column.
struct Columns {
    fields: Vec<port::Field>,
    values: Vec<Value>,
}

impl Columns {
    fn add(&mut self, field: port::Field, value: impl Fn(&Flow) -> u32 + 'static) {
        self.fields.push(field);
        self.values.push(Box::new(value));
    }

    /// Adds a MAC at `at`: its first two bytes and its last four, which no checksum covers.
    #[expect(clippy::cast_possible_truncation, reason = "MACs are in the first 12 bytes")]
    fn add_mac(&mut self, at: usize, port: u16, seed: u64, number: fn(&Flow) -> u32) {
        let field =
            |at: usize, length| port::Field { at: at as u16, length, in_checksum: false, in_ip_checksum: false };
        let mac = move |f: &Flow| macs::rfc_4814(port, number(f), seed);
        self.add(field(at, 2), move |f| u32::from(u16::from_be_bytes([mac(f)[0], mac(f)[1]])));
        self.add(field(at + 2, 4), move |f| {
            let [_, _, a, b, c, d] = mac(f);
            u32::from_be_bytes([a, b, c, d])
        });
    }
}

/// One end of the flows: its addresses and ports, and the numbers of a flow that are added to the first of them.
#[derive(Clone, Copy)]
struct End {
    addresses: Addresses,
    number: fn(&Flow) -> u32,
    port: u16,
    add: fn(&Flow) -> u16,
}

/// Returns the first and the last address that the flows of `s` go to, whatever else varies; the error explains why
/// there are not enough.
pub fn destinations(s: &Stream) -> Result<(IpAddr, IpAddr), String> {
    let f = s.flows.unwrap_or_default();
    let (first, count, length) = if s.answers {
        (s.source, f.source_addresses, f.source_prefix_length)
    } else {
        (s.destination, f.destination_addresses, f.destination_prefix_length)
    };
    Ok(Addresses::new(first, count.max(1), length)?.ends())
}

/// Returns the flows of stream `s`, whose fields are at the offsets of `layout`.
#[expect(clippy::cast_possible_truncation, reason = "places in a frame are below 9242")]
pub fn lower(f: &plan::Flows, s: &Stream, layout: &Layout) -> Result<port::FlowSet, String> {
    if f.count > MOST {
        return Err(format!("{} flows: {MOST} is the most; take several streams", f.count));
    }
    let ranges = [
        f.source_ports,
        f.destination_ports,
        f.source_addresses,
        f.destination_addresses,
        f.source_macs,
        f.destination_macs,
    ];
    let flows = Flows::new(f.count, ranges, f.seed).map_err(|e| e.to_string())?;
    if u32::from(s.source_port) + f.source_ports > 1 << 16
        || u32::from(s.destination_port) + f.destination_ports > 1 << 16
    {
        return Err("the ports reach past 65535; begin lower".into());
    }
    if layout.destination_port_at.is_none() && f.destination_ports > 1 {
        return Err("ICMP has no destination ports; vary source_ports, which are its identifiers".into());
    }
    let source = Addresses::new(s.source, f.source_addresses, f.source_prefix_length)
        .map_err(|e| format!("source_addresses: {e}"))?;
    let destination = Addresses::new(s.destination, f.destination_addresses, f.destination_prefix_length)
        .map_err(|e| format!("destination_addresses: {e}"))?;
    let mut ends = [
        End { addresses: source, number: |f| f.source, port: s.source_port, add: |f| f.source_port },
        End {
            addresses: destination,
            number: |f| f.destination,
            port: s.destination_port,
            add: |f| f.destination_port,
        },
    ];
    if s.answers {
        ends.reverse();
    }
    let address = |at: usize, word: usize| port::Field {
        at: (at + if layout.v6 { 12 - 4 * word } else { 0 }) as u16,
        length: 4,
        in_checksum: layout.checksum_covers_addresses,
        in_ip_checksum: !layout.v6,
    };
    let number = |at: usize| port::Field { at: at as u16, length: 2, in_checksum: true, in_ip_checksum: false };
    let addresses_at = [layout.source_at, layout.destination_at];
    let mut columns = Columns { fields: Vec::new(), values: Vec::new() };
    for (end, at) in ends.into_iter().zip(addresses_at) {
        columns.add(address(at, 0), move |f| end.addresses.word((end.number)(f), 0));
    }
    for (end, at) in ends.into_iter().zip([Some(layout.source_port_at), layout.destination_port_at]) {
        if let Some(at) = at {
            columns.add(number(at), move |f| u32::from(end.port) + u32::from((end.add)(f)));
        }
    }
    for (end, at) in ends.into_iter().zip(addresses_at) {
        for word in 1..end.addresses.changing_words() {
            columns.add(address(at, word), move |f| end.addresses.word((end.number)(f), word));
        }
    }
    let seed = f.seed.unwrap_or(0);
    if f.source_macs > 1 {
        columns.add_mac(size_of::<Mac>(), f.mac_ports.0, seed, |f| f.source_mac);
    }
    if f.destination_macs > 1 {
        columns.add_mac(0, f.mac_ports.1, seed, |f| f.destination_mac);
    }
    let mut values = Vec::with_capacity(f.count as usize * columns.fields.len());
    for i in 0..f.count {
        let flow = flows.flow(i);
        values.extend(columns.values.iter().map(|value| value(&flow)));
    }
    Ok(port::FlowSet { count: f.count, fields: columns.fields, values })
}

/// Returns the flows of a stream that answers learned frames of its port.
#[expect(clippy::cast_possible_truncation, reason = "places in a frame are below 9242")]
pub fn answering(learned: &[FourTuple], s: &Stream, layout: &Layout) -> Result<port::FlowSet, String> {
    if s.answers || !s.vary.is_empty() || s.transport != plan::Transport::Udp {
        return Err(
            "each frame is a UDP answer to one that was learned; leave `answers`, `vary` and `transport` out".into()
        );
    }
    let count = u32::try_from(learned.len()).ok().filter(|n| (1..=MOST).contains(n));
    let count = count.ok_or("this port has learned nothing; receive with `learn` first")?;
    if let Some(other) = learned.iter().find(|of| of.source.is_ipv6() != layout.v6) {
        return Err(format!("frames came from {}; give the stream addresses of that version of IP", other.source));
    }
    let words = if layout.v6 { 4 } else { 1 };
    let address = |at: usize, word: usize| port::Field {
        at: (at + if layout.v6 { 12 - 4 * word } else { 0 }) as u16,
        length: 4,
        in_checksum: layout.checksum_covers_addresses,
        in_ip_checksum: !layout.v6,
    };
    let number = |at: usize| port::Field { at: at as u16, length: 2, in_checksum: true, in_ip_checksum: false };
    let ends = [layout.source_at, layout.destination_at];
    let ports_at = [Some(layout.source_port_at), layout.destination_port_at];
    let mut fields: Vec<_> = ends.iter().map(|at| address(*at, 0)).collect();
    fields.extend(ports_at.into_iter().flatten().map(number));
    fields.extend(ends.iter().flat_map(|at| (1..words).map(move |word| address(*at, word))));
    let mut values = Vec::with_capacity(learned.len() * fields.len());
    for of in learned {
        let ends = [of.destination, of.source];
        values.extend(ends.map(|end| word_of(end, 0)));
        values.extend([of.destination_port, of.source_port].map(u32::from));
        values.extend(ends.iter().flat_map(|end| (1..words).map(move |word| word_of(*end, word))));
    }
    Ok(port::FlowSet { count, fields, values })
}

/// Four bytes of an address; word 0 is the lowest.
#[expect(clippy::cast_possible_truncation, reason = "one word is meant")]
fn word_of(address: IpAddr, word: usize) -> u32 {
    let bits = match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    };
    (bits >> (32 * word)) as u32
}

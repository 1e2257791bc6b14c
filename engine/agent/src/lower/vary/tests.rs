//! Tests of varied fields in each frame. The test computes the expected values itself; etherparse checks frames and
//! checksums.

use crate::lower::tests::{found, frames, lowered};
use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Panics unless etherparse reads `b` as a whole frame with right checksums.
fn sound(b: &[u8]) {
    let p = PacketHeaders::from_ethernet_slice(b).unwrap();
    let payload = p.payload.slice();
    let (right, written) = match (p.net.unwrap(), p.transport.unwrap()) {
        (NetHeaders::Ipv4(ip, _), l4) => {
            assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
            match l4 {
                TransportHeader::Udp(h) => (h.calc_checksum_ipv4(&ip, payload).unwrap(), h.checksum),
                TransportHeader::Tcp(h) => (h.calc_checksum_ipv4(&ip, payload).unwrap(), h.checksum),
                TransportHeader::Icmpv4(h) => (h.icmp_type.calc_checksum(payload), h.checksum),
                other => panic!("{other:?} over IPv4"),
            }
        }
        (NetHeaders::Ipv6(ip, _), l4) => match l4 {
            TransportHeader::Udp(h) => (h.calc_checksum_ipv6(&ip, payload).unwrap(), h.checksum),
            TransportHeader::Tcp(h) => (h.calc_checksum_ipv6(&ip, payload).unwrap(), h.checksum),
            TransportHeader::Icmpv6(h) => {
                (h.icmp_type.calc_checksum(ip.source, ip.destination, payload).unwrap(), h.checksum)
            }
            other => panic!("{other:?} over IPv6"),
        },
        (NetHeaders::Arp(_), _) => panic!("ARP"),
    };
    assert_eq!(right, written, "{b:02x?}");
}

/// Bits of a frame as a number.
fn bits(b: &[u8], at: usize, width: usize) -> u128 {
    (at..at + width).fold(0, |n, bit| n << 1 | u128::from(b[bit / 8] >> (7 - bit % 8) & 1))
}

/// Returns every field of a frame with two tags: its name, its offset and its width in bits.
fn fields(v6: bool, transport: &str) -> Vec<(Value, usize, usize)> {
    let l4 = 22 + if v6 { 40 } else { 20 };
    let mut all = vec![
        (json!("destination_mac"), 0, 48),
        (json!("source_mac"), 48, 48),
        (json!("vlan_priority"), 14 * 8, 3),
        (json!("vlan_id"), 14 * 8 + 4, 12),
        (json!("inner_vlan_priority"), 18 * 8, 3),
        (json!("inner_vlan_id"), 18 * 8 + 4, 12),
        (json!("source_port"), if transport == "icmp_echo" { l4 + 4 } else { l4 } * 8, 16),
        // Odd offsets and widths behind the probe.
        (json!({"bits": {"byte": 119, "bit": 5, "width": 61}}), 119 * 8 + 5, 61),
        (json!({"bits": {"byte": 127, "bit": 7, "width": 1}}), 127 * 8 + 7, 1),
    ];
    if transport != "icmp_echo" {
        all.push((json!("destination_port"), (l4 + 2) * 8, 16));
    }
    if transport == "tcp" {
        all.push((json!({"bits": {"byte": l4 + 14, "width": 16}}), (l4 + 14) * 8, 16)); // the window
    }
    if v6 {
        all.extend([
            (json!("source_address"), 30 * 8, 128),
            (json!("destination_address"), 46 * 8, 128),
            (json!("dscp"), 22 * 8 + 4, 6),
            (json!("flow_label"), 22 * 8 + 12, 20),
            (json!("ttl"), 29 * 8, 8),
        ]);
    } else {
        all.extend([
            (json!("source_address"), 34 * 8, 32),
            (json!("destination_address"), 38 * 8, 32),
            (json!("dscp"), 23 * 8, 6),
            (json!({"bits": {"byte": 23, "bit": 6, "width": 2}}), 23 * 8 + 6, 2), // ECN
            (json!("identification"), 26 * 8, 16),
            (json!("ttl"), 30 * 8, 8),
        ]);
    }
    all
}

/// Returns a rule with small numbers: 0 counts up, 1 down, 2 is a list, 3 random. Also returns the value in frame `n`,
/// if arithmetic gives it.
fn rule(kind: u8, width: usize, phase: u64, every: u64) -> (Value, impl Fn(u64) -> Option<u128>) {
    let top = if width == 1 { 1 } else { (1_u64 << width.min(62)) - 1 };
    let (low, high) = (top / 3, top / 3 + top.min(9) / 2);
    let count = high - low + 1;
    let values = match kind {
        0 => json!({"step": {"from": low, "to": high}}),
        1 => json!({"step": {"from": high, "to": low}}),
        2 => json!({"list": [high, low, high]}),
        _ => json!({"random": {"from": low, "to": high, "seed": 5}}),
    };
    let phase = if kind == 2 { phase % 3 } else { phase % count };
    let more = json!({"values": values, "phase": phase, "every": every});
    (more, move |n| {
        let place = n / every + phase;
        match kind {
            0 => Some((low + place % count).into()),
            1 => Some((high - place % count).into()),
            2 => Some([high, low, high][usize::try_from(place % 3).unwrap()].into()),
            _ => None,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_field_at_once_has_its_values_and_every_frame_is_sound(
        v6: bool, transport in prop::sample::select(vec!["udp", "tcp", "icmp_echo"]), flows: bool,
        rules in proptest::collection::vec((0_u8..4, 0_u64..20, 1_u64..4), 20),
    ) {
        let (source, destination) = if v6 { ("2001:db8::2", "2001:db8:1::2") } else { ("172.16.0.2", "172.16.10.2") };
        let fields = fields(v6, transport);
        let (mut vary, mut oracles) = (Vec::new(), Vec::new());
        for ((field, at, width), (kind, phase, every)) in fields.iter().zip(rules) {
            let (mut more, value) = rule(kind, *width, phase, every);
            more["field"] = field.clone();
            vary.push(more);
            oracles.push((field, *at, *width, value));
        }
        let mut more = json!({"source": source, "destination": destination, "transport": transport, "vary": vary,
            "vlans": [{"id": 5}, {"id": 6}], "sizes": {"sequence_bytes": [132, 201]}});
        if flows {
            // One flow changes no field, so all fields may vary.
            more["flows"] = json!({"count": 1});
        }
        let all = frames(more.clone(), 40);
        for (n, frame) in all.iter().enumerate() {
            sound(frame);
            let found = found(frame);
            prop_assert!(found.intact);
            prop_assert_eq!(found.probe.sequence, n as u64, "the probe is as it was");
            for (field, at, width, value) in &oracles {
                if let Some(value) = value(n as u64) {
                    prop_assert_eq!(bits(frame, *at, *width), value, "{} in frame {}", field, n);
                }
            }
        }
        prop_assert_eq!(all, frames(more, 40), "the same in every trial");
    }

    #[test]
    fn a_field_that_varies_beside_flows_leaves_the_flows_as_they_are(n in 2_usize..30, ports in 2_u32..9) {
        let more = json!({"flows": {"count": ports, "source_ports": ports}, "vary": [
            {"field": "destination_port", "values": {"step": {"from": 9000, "to": 9006}}},
            {"field": "ttl", "values": {"list": [3, 9]}}]});
        for (i, frame) in frames(more, n).iter().enumerate() {
            sound(frame);
            let i = i as u128;
            prop_assert_eq!(bits(frame, 34 * 8, 16), 1024 + i % u128::from(ports));
            prop_assert_eq!(bits(frame, 36 * 8, 16), 9000 + i % 7);
            prop_assert_eq!(bits(frame, 22 * 8, 8), [3, 9][usize::try_from(i % 2).unwrap()]);
        }
    }
}

#[test]
fn addresses_and_macs_may_be_written_as_such() {
    let all = frames(
        json!({"vary": [
            {"field": "source_mac", "values": {"step": {"from": "02:00:00:00:00:fe", "to": "02:00:00:00:01:01"}}},
            {"field": "source_address", "values": {"list": ["10.0.0.1", "10.9.8.7"]}},
            {"field": "identification", "values": {"random": {"from": "0x100", "to": "0x1ff", "seed": 3}}}]}),
        100,
    );
    assert_eq!((&all[2][6..12], &all[1][26..30]), (&[2, 0, 0, 0, 1, 0][..], &[10, 9, 8, 7][..]));
    assert!(all.iter().all(|f| f[18] == 1), "identifications from 0x100 to 0x1ff");
    assert!(all.iter().map(|f| f[19]).collect::<std::collections::HashSet<_>>().len() > 60);
}

fn refused(vary: &Value) -> String {
    let vlans = json!([{"id": 1}]);
    lowered(json!({"vary": vary, "vlans": vlans})).unwrap_err()
}

#[test]
fn what_must_not_vary_is_refused_with_the_reason() {
    let of = |field: Value| json!([{"field": field, "values": {"list": [0]}}]);
    let bits = |byte: u16, width: u8| of(json!({"bits": {"byte": byte, "width": width}}));
    // One tag: the probe is at 14 + 4 + 20 + 8 = 46.
    for (byte, width, why) in [
        (46, 16, "would overwrite the probe"),
        (40, 64, "would overwrite the probe"),
        (63, 8, "would overwrite the probe"),
        (44, 16, "the transport's checksum"),
        (42, 16, "the length of UDP"),
        (28, 16, "the checksum of IPv4"),
        (27, 8, "the protocol of IPv4"),
        (24, 8, "fragment"),
        (18, 8, "version and length"),
        (16, 16, "EtherType"),
        (12, 16, "the type of a tag"),
        (34, 8, "name it `destination_address`"),
        (124, 8, "reaches past byte 124"),
        (46, 0, "`width` is 1 to 64"),
    ] {
        let said = refused(&bits(byte, width));
        assert!(said.starts_with("send.streams[0].vary[0].field: ") && said.contains(why), "{byte}+{width}: {said}");
    }
    assert!(refused(&of(json!("flow_label"))).contains("only IPv6 has it"));
    assert!(refused(&of(json!("inner_vlan_id"))).contains("have 1 tags"));
    let both = json!([{"field": "dscp", "values": {"list": [64]}},
        {"field": "vlan_id", "values": {"step": {"from": 0, "to": 9, "by": 0}}},
        {"field": "source_address", "values": {"list": ["2001:db8::1"]}},
        {"field": "ttl", "values": {"list": [1]}, "phase": 1},
        {"field": "ttl", "values": {"list": [1]}},
        {"field": {"bits": {"byte": 26, "bit": 4, "width": 2}}, "values": {"list": [1]}}]);
    let said = refused(&both);
    for why in [
        "vary[0].values: 64 does not fit into 6 bits",
        "vary[1].values: `by`",
        "vary[2].values: \"2001:db8::1\" is not",
        "vary[3].values: phase 1: the series has 1 values",
        "vary[5].field: has bits in common with vary[4]",
    ] {
        assert!(said.contains(why), "{why} in {said}");
    }
    let twice = lowered(json!({"flows": {"count": 3, "source_ports": 3},
        "vary": [{"field": "source_port", "values": {"list": [1]}}]}));
    assert!(twice.unwrap_err().contains("`flows` changes it already"));
    let sequence = lowered(
        json!({"transport": "tcp", "vary": [{"field": {"bits": {"byte": 38, "width": 32}}, "values": {"list": [1]}}]}),
    );
    assert!(sequence.unwrap_err().contains("sequence number of TCP"));
}

#[test]
fn a_table_of_flows_gives_the_same_frames_where_there_is_one() {
    use crate::lower::tabled;
    use crate::write::Writer;
    use dutlab_port::batch::fill_one;
    use dutlab_units::Nanos;
    for (source, destination, flows) in [
        ("198.18.0.1", "198.19.0.1", Value::Null),
        ("198.18.0.1", "198.19.0.1", json!({"count": 3, "destination_addresses": 3})),
        ("2001:db8::1", "2001:2::1", Value::Null),
    ] {
        let mut more = json!({"source": source, "destination": destination, "vary": [
            {"field": "source_port", "values": {"step": {"from": 10, "to": 13}}},
            {"field": "source_address", "values": {"list": [1, 2, 3, 4, 5, 6]}, "phase": 2, "every": 2}]});
        if !flows.is_null() {
            more["flows"] = flows;
        }
        let plan = lowered(more).unwrap().plan;
        let table = tabled(&plan).unwrap();
        assert!(table.streams[0].varied.is_empty() && table.streams[0].flows.as_ref().unwrap().count == 12);
        let (ruled, looked_up) = (Writer::new(0, &plan.streams[0]), Writer::new(0, &table.streams[0]));
        for n in 0..50 {
            let [a, b] = [&ruled, &looked_up].map(|w| {
                let mut b = vec![0; 300];
                let length = fill_one(&mut w.burst(Nanos(9)), n, &mut b);
                b.truncate(length);
                b
            });
            assert_eq!(a, b, "frame {n}");
            sound(&a);
        }
    }
    let why = |vary: &Value| tabled(&lowered(json!({"vary": [vary]})).unwrap().plan).unwrap_err();
    assert!(why(&json!({"field": "ttl", "values": {"list": [1]}})).contains("not the field at byte 22"));
    assert!(why(&json!({"field": "source_port", "values": {"random": {"from": 1, "to": 9}}})).contains("random"));
    let long = json!({"field": "source_address", "values": {"step": {"from": "10.0.0.0", "to": "10.255.255.255"}}});
    assert!(why(&long).contains("2097152 frames at most"));
}

//! Tests from the controller's plan to the bytes that leave: lowered and written, frame by frame.

#![expect(clippy::needless_pass_by_value, reason = "so that plans can be written in place")]

use super::*;
use crate::write::Writer;
use dutlab_port::batch::fill_one;
use dutlab_wire::{Found, Seen, ethernet, ipv4, ipv6};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::net::IpAddr;

/// An interface that no machine has.
pub(crate) fn iface() -> Interface {
    Interface {
        name: "dutlab-none".into(),
        index: 0,
        mac: [2, 0, 0, 0, 0, 9],
        mtu: 1500,
        up: true,
        carrier: true,
        addresses: Vec::new(),
        leads_out: dutlab_port::iface::LeadsOut::No,
        shared_with: Vec::new(),
    }
}

fn stream(more: Value) -> Stream {
    let mut s = json!({"stream": 7, "destination_mac": "02:00:00:00:00:01", "source": "198.18.0.1",
        "destination": "198.19.0.1", "source_port": 1024, "destination_port": 1, "sizes": {"fixed_bytes": 128},
        "rate": {"pps": 1.0}, "frames": 1});
    for (key, value) in more.as_object().unwrap() {
        s[key] = value.clone();
    }
    serde_json::from_value(s).unwrap()
}

pub(crate) fn lowered(more: Value) -> Result<Lowered, String> {
    lower(&SendPlan { streams: vec![stream(more)], ..SendPlan::default() }, &iface(), &[])
}

/// The first `n` frames, written in bursts of three.
pub(crate) fn frames(more: Value, n: usize) -> Vec<Vec<u8>> {
    let lowered = lowered(more).unwrap();
    let mut writer = Writer::new(lowered.plan.trial, &lowered.plan.streams[0]);
    let mut all = Vec::new();
    while all.len() < n {
        for ahead in 0..3 {
            let mut b = vec![0xee; 9300];
            let length = fill_one(&mut writer.burst(Nanos(1000 + all.len() as u64)), ahead, &mut b);
            b.truncate(length);
            all.push(b);
        }
        writer.accept(3);
    }
    all.truncate(n);
    all
}

pub(crate) fn found(frame: &[u8]) -> Found {
    match Seen::parse(frame) {
        Seen::Probe(found) => found,
        Seen::Foreign => panic!("no probe in {frame:02x?}"),
    }
}

/// The transport header of an untagged frame.
fn transport(frame: &[u8]) -> &[u8] {
    match ethernet::Packet::new(frame).unwrap().ethertype() {
        ethernet::IPV4 => ipv4::Packet::new(&frame[14..]).unwrap().payload(),
        _ => ipv6::Packet::new(&frame[14..]).unwrap().payload(),
    }
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(b[at..at + 4].try_into().unwrap())
}

#[test]
fn every_frame_of_every_kind_is_numbered_and_its_checksums_are_right() {
    let six = json!({"source": "2001:db8::1", "destination": "2001:db8:1::1"});
    let tags = json!([{"id": 100, "priority": 3}, {"id": 7}]);
    for transport in ["udp", "tcp", "tcp_syn", "icmp_echo"] {
        for v6 in [false, true] {
            for vlans in [json!([]), json!([{"id": 4095}]), tags.clone()] {
                let mut more = if v6 { six.clone() } else { json!({}) };
                more["transport"] = json!(transport);
                more["vlans"] = vlans;
                more["sizes"] = json!({"genome": {"letters": "bgc"}});
                more["flows"] = json!({"count": 50, "source_ports": 40, "source_addresses": 256, "destination_addresses": 256,
                    "source_macs": 1000, "destination_macs": 1000, "seed": 5});
                for (i, frame) in frames(more.clone(), 200).iter().enumerate() {
                    let found = found(frame);
                    assert!(found.intact, "{more}: frame {i}");
                    assert_eq!((found.probe.stream, found.probe.sequence), (7, i as u64), "{more}");
                    assert_eq!(frame.len(), [124, 1514, 252][i % 3]);
                }
            }
        }
    }
}

#[test]
fn extension_headers_stand_between_ipv6_and_the_transport_of_every_flow() {
    let chain = json!(["routing", "destination_options", "fragment"]);
    let six = json!({"source": "2001:2::1", "destination": "2001:2:0:1::1", "extension_headers": chain,
        "flows": {"count": 3, "destination_addresses": 3}});
    for (i, frame) in frames(six.clone(), 6).iter().enumerate() {
        let found = found(frame);
        assert!(found.intact && found.probe.sequence == i as u64);
        let packet = transport(frame);
        assert_eq!((frame[20], packet[0], packet[24], packet[32]), (43, 60, 44, 17), "each names the one behind it");
        assert_eq!(packet.len(), 128 - 4 - 14 - 40);
    }
    let four = lowered(json!({"extension_headers": ["fragment"]})).unwrap_err();
    assert_eq!(four, "send.streams[0].sizes: IPv4 has no extension headers; give IPv6 addresses, or leave them out");
    let mut late = six.clone();
    late["extension_headers"] = json!(["fragment", "hop_by_hop"]);
    assert!(lowered(late).unwrap_err().contains("hop_by_hop only as the first"));
    let mut short = six;
    short["sizes"] = json!({"fixed_bytes": 123});
    assert!(lowered(short).unwrap_err().contains("124 is the least"));
}

#[test]
fn tcp_sequence_numbers_of_a_flow_go_up_by_its_payload() {
    let more = json!({"transport": "tcp", "flows": {"count": 3, "source_ports": 3}});
    // 128 bytes with FCS: 14 + 20 + 20 of headers and 4 of FCS leave 70.
    for (i, frame) in frames(more, 12).iter().enumerate() {
        let segment = transport(frame);
        assert_eq!(segment.len() - 20, 70);
        assert_eq!(u32_at(segment, 4), 1 + 70 * (u32::try_from(i).unwrap() / 3), "frame {i}");
        assert_eq!((u32_at(segment, 8), segment[13]), (1, tcp::ACK));
    }
}

#[test]
fn connection_requests_have_different_initial_sequence_numbers() {
    let all = frames(json!({"transport": "tcp_syn"}), 300);
    let numbers: HashSet<_> = all.iter().map(|f| u32_at(transport(f), 4)).collect();
    assert_eq!(numbers.len(), 300);
    assert!(all.iter().all(|f| transport(f)[13] == tcp::SYN && u32_at(transport(f), 8) == 0));
}

#[test]
fn echo_requests_count_their_frames_per_identifier() {
    let more = json!({"transport": "icmp_echo", "flows": {"count": 4, "source_ports": 4}});
    for (i, frame) in frames(more, 13).iter().enumerate() {
        let message = transport(frame);
        let i = u8::try_from(i).unwrap();
        assert_eq!(message[4..8], [4, i % 4, 0, i / 4], "identifier from 1024 on, then the number");
    }
}

#[test]
fn as_long_as_there_are_flows_every_frame_is_a_new_one() {
    let more = json!({"flows": {"count": 5000, "source_ports": 60_000, "destination_ports": 40_000, "seed": 1}});
    let all = frames(more, 5000);
    let tuples: HashSet<_> = all.iter().map(|f| f[26..38].to_vec()).collect();
    assert_eq!(tuples.len(), 5000, "addresses and ports");
}

/// Source and destination of an untagged frame, and its ports.
fn ends(frame: &[u8]) -> [(IpAddr, u16); 2] {
    let l4 = transport(frame);
    let port = |at| u16::from_be_bytes([l4[at], l4[at + 1]]);
    let [source, destination]: [IpAddr; 2] = match ethernet::Packet::new(frame).unwrap().ethertype() {
        ethernet::IPV4 => [26, 30].map(|at| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into()),
        _ => [22, 38].map(|at| <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap().into()),
    };
    [(source, port(0)), (destination, port(2))]
}

#[test]
fn destinations_are_spread_over_all_prefixes_of_a_length_each_hit_once_in_a_round() {
    for (first, length, count, last) in [
        ("198.18.0.1", 24, 512, "198.19.255.1"),
        ("198.18.0.0", 32, 4096, "198.18.15.255"),
        ("2001:2::1", 64, 4096, "2001:2:0:fff::1"),
        ("2001:db8::7", 40, 100, "2001:db8:6300::7"),
    ] {
        let first: IpAddr = first.parse().unwrap();
        let source = if first.is_ipv4() { "198.51.100.1" } else { "2001:db8:ffff::1" };
        let more = json!({"source": source, "destination": first, "flows":
            {"count": count, "destination_addresses": count, "destination_prefix_length": length, "seed": 1}});
        let all = frames(more, 2 * count);
        assert!(all.iter().all(|f| found(f).intact), "{first}");
        let seen: HashSet<_> = all[..count].iter().map(|f| ends(f)[1].0).collect();
        assert_eq!(seen.len(), count, "{first}: in one round");
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&first), Some(&last.parse().unwrap())));
        assert!(all.iter().all(|f| ends(f)[0].0.to_string() == source));
    }
}

#[test]
fn each_answer_has_the_addresses_and_ports_of_its_frame_exchanged() {
    for (source, destination) in [("198.18.0.1", "198.19.0.1"), ("2001:db8::1", "2001:2::1")] {
        let more = json!({"source": source, "destination": destination, "flows": {"count": 500, "source_ports": 100,
            "destination_ports": 50, "destination_addresses": 9, "source_addresses": 3, "destination_prefix_length": 30,
            "seed": 4}});
        let mut back = more.clone();
        back["answers"] = json!(true);
        for (there, answer) in frames(more, 600).iter().zip(frames(back, 600)) {
            let [from, to] = ends(there);
            assert_eq!(ends(&answer), [to, from]);
            assert!(found(&answer).intact);
        }
    }
    let one = frames(json!({"answers": true}), 1);
    assert_eq!(ends(&one[0]), [("198.19.0.1".parse().unwrap(), 1), ("198.18.0.1".parse().unwrap(), 1024)]);
    assert!(lowered(json!({"answers": true, "transport": "icmp_echo"})).unwrap_err().contains("answers"));
}

#[test]
fn macs_are_of_the_pattern_of_rfc_4814_with_the_numbers_of_the_testers_ports() {
    let more =
        json!({"flows": {"count": 1000, "source_macs": 500, "destination_macs": 500, "mac_ports": [3, 4], "seed": 1}});
    let all = frames(more, 1000);
    for f in &all {
        assert_eq!((f[0] & 3, &f[1..3], f[6] & 3, &f[7..9]), (0, &[0, 4][..], 0, &[0, 3][..]));
    }
    let sources: HashSet<_> = all.iter().map(|f| f[6..12].to_vec()).collect();
    // 1000 of 250000 pairs: of 500 sources, 500 * (1 - (1 - 1/500)^1000) = 432 are expected.
    assert!((400..465).contains(&sources.len()), "{}", sources.len());
}

#[test]
fn a_mix_by_name_and_a_genome_say_their_sizes_in_all_three_ways() {
    let sizes = |sizes: Value, vlans: Value| {
        let lowered = lowered(json!({"sizes": sizes, "vlans": vlans})).unwrap();
        let armed = lowered.armed().remove(0);
        let all: Vec<_> = armed
            .frame_sizes
            .iter()
            .map(|s| (s.with_fcs_bytes, s.without_fcs_bytes, s.ip_bytes.unwrap(), s.count))
            .collect();
        (all, armed.mean_frame_bytes)
    };
    let (imix, mean) = sizes(json!({"mix": "imix"}), json!([]));
    assert_eq!(imix, [(64, 60, 46, 7), (594, 590, 576, 4), (1518, 1514, 1500, 1)]);
    assert!((mean - 361.83).abs() < 0.005);
    assert_eq!(sizes(json!({"genome": {"letters": "aag"}}), json!([])).0, [(64, 60, 46, 2), (1518, 1514, 1500, 1)]);
    let (tagged, _) = sizes(json!({"swept_bytes": {"from": 100, "to": 130, "step": 20}}), json!([{"id": 1}]));
    assert_eq!(tagged, [(100, 96, 78, 1), (120, 116, 98, 1)]);
}

#[test]
fn what_is_no_mix_or_genome_or_speed_is_refused_with_what_would_help() {
    for (more, part) in [
        (json!({"sizes": {"mix": "imax"}}), "imix-csit"),
        (json!({"sizes": {"genome": {"letters": "az"}}}), "z is the MTU"),
        (json!({"sizes": {"genome": {"letters": "j"}}}), "16000 is not a frame size"),
        (json!({"sizes": {"swept_bytes": {"from": 100, "to": 64, "step": 1}}}), "go upwards"),
        (json!({"rate": {"percent": {"percent": 10.0}}}), "of_bps"),
        (json!({"flows": {"count": 3_000_000, "source_addresses": 4_000_000}}), "several streams"),
        (json!({"transport": "icmp_echo", "flows": {"count": 2, "destination_ports": 2}}), "identifiers"),
        (json!({"flows": {"count": 2, "source_macs": 2_000_000_000}}), "2000000000 MACs"),
    ] {
        let why = lowered(more).unwrap_err();
        assert!(why.starts_with("send.streams[0].") && why.contains(part), "{why}");
    }
}

fn raw(frames: Value) -> Result<Lowered, String> {
    let raw = json!({"stream": 9, "templates": frames, "rate": {"pps": 1.0}, "frames": 1});
    lower(&SendPlan { raw_streams: vec![serde_json::from_value(raw).unwrap()], ..SendPlan::default() }, &iface(), &[])
}

#[test]
fn a_frame_given_byte_by_byte_leaves_with_number_time_and_right_checksum() {
    let given = &frames(json!({"stream": 1, "destination": "198.19.0.77"}), 1)[0];
    let hex = given.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
    let lowered = raw(json!([{"hex": hex, "probe_at": 42}])).unwrap();
    let mut writer = Writer::new(lowered.plan.trial, &lowered.plan.streams[0]);
    for n in 0..5 {
        let mut b = vec![0; 200];
        let length = fill_one(&mut writer.burst(Nanos(7)), 0, &mut b);
        writer.accept(1);
        let found = found(&b[..length]);
        assert!(found.intact);
        assert_eq!((found.probe.stream, found.probe.sequence, found.probe.sent), (9, n, Nanos(7)));
        assert_eq!((&b[..34], found.source), (&given[..34], IpAddr::from([198, 18, 0, 1])));
    }
    let armed = &lowered.armed()[0].frame_sizes[0];
    assert_eq!((armed.with_fcs_bytes, armed.ip_bytes), (128, Some(110)));
}

#[test]
fn frames_of_no_known_protocol_can_be_given_too() {
    let lowered = raw(json!([{"hex": "8847".repeat(40), "probe_at": 20}])).unwrap();
    let armed = &lowered.armed()[0].frame_sizes[0];
    assert_eq!((armed.without_fcs_bytes, armed.ip_bytes), (80, None));
}

#[test]
fn bytes_that_are_no_frame_are_refused_with_every_fault() {
    let why = raw(
        json!([{"hex": "00", "probe_at": 0}, {"hex": "zz", "probe_at": 0}, {"hex": "00".repeat(60), "probe_at": 43}]),
    )
    .unwrap_err();
    for part in [
        "templates[0]: 5 is not a frame size",
        "templates[1]: hex: 'z'",
        "templates[2]: probe_at",
        "send.raw_streams[0].",
    ] {
        assert!(why.contains(part), "{part} is missing in {why}");
    }
    assert!(raw(json!([])).unwrap_err().contains("templates: the mix has no frames"));
}

#[test]
fn a_stream_that_answers_what_was_learned_goes_where_that_came_from() {
    let tuple = |source: &str, destination: &str, ports: [u16; 2]| FourTuple {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        source_port: ports[0],
        destination_port: ports[1],
    };
    let four = [tuple("198.19.0.1", "198.18.0.9", [2000, 7]), tuple("198.19.0.2", "198.18.0.9", [40_000, 9])];
    let six =
        [tuple("2001:db8:1::1", "2001:db8:ffff::2", [1, 2]), tuple("2001:db8:2::1:1", "2001:db8:ffff::2", [3, 4])];
    let of_six = json!({"source": "2001:db8::1", "destination": "2001:db8::2"});
    for (learned, mut more) in [(four, json!({})), (six, of_six)] {
        more["learned"] = json!(true);
        let plan = SendPlan { streams: vec![stream(more)], ..SendPlan::default() };
        let lowered = lower(&plan, &iface(), &learned).unwrap();
        let mut writer = Writer::new(0, &lowered.plan.streams[0]);
        for n in 0..5 {
            let mut b = vec![0; 9300];
            let length = fill_one(&mut writer.burst(Nanos(1)), 0, &mut b);
            writer.accept(1);
            let (to, frame) = (learned[n % 2], found(&b[..length]));
            assert!(frame.intact);
            let back = FourTuple {
                source: to.destination,
                destination: to.source,
                source_port: to.destination_port,
                destination_port: to.source_port,
            };
            assert_eq!(frame.four_tuple(), back, "frame {n}");
        }
    }
    for (more, learned, part) in [
        (json!({"learned": true}), &four[..0], "learned nothing"),
        (json!({"learned": true}), &six[..], "2001:db8:1::1"),
        (json!({"learned": true, "answers": true}), &four[..], "`answers`"),
        (json!({"learned": true, "flows": {"count": 1}}), &four[..], "`flows`"),
    ] {
        let plan = SendPlan { streams: vec![stream(more)], ..SendPlan::default() };
        let why = lower(&plan, &iface(), learned).unwrap_err();
        assert!(why.contains("].learned: ") && why.contains(part), "{why}");
    }
}

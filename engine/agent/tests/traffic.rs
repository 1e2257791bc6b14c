//! Tests of the content of frames and of their timing, as seen by the kernel and tcpdump at the other end.

mod lab;

use lab::{Agent, Lab, netns_or_skip};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read};
use std::process::Child;

const FRAMES: u64 = 60;

/// Sends `streams`, and returns the reply to `wait`; if `sink` is given, also the reply to `settle`.
fn send(source: &mut Agent, sink: Option<&mut Agent>, plan: &Value) -> (Value, Value) {
    let all = |key: &str| plan[key].as_array().cloned().unwrap_or_default();
    let numbers: Vec<_> = [all("streams"), all("raw_streams")].concat().iter().map(|s| s["stream"].clone()).collect();
    source.must("arm", json!({"port": "p", "send": plan}));
    let Some(sink) = sink else {
        source.must("start", json!({}));
        return (source.must("wait", json!({"port": "p"})), Value::Null);
    };
    sink.must("arm", json!({"port": "p", "receive": {"streams": numbers}}));
    sink.must("start", json!({}));
    source.must("start", json!({}));
    let sent = source.must("wait", json!({"port": "p"}));
    let told = sent["streams"].as_array().unwrap().iter();
    let told: Vec<_> = told.map(|s| json!({"stream": s["stream"], "frames": s["sent"]})).collect();
    let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 200_000_000}));
    (sent, received)
}

/// Returns the sink's counters of /proc/net/snmp and /proc/net/snmp6 by name, such as `UdpInCsumErrors` and
/// `Udp6InCsumErrors`.
fn counters(lab: &Lab) -> HashMap<String, u64> {
    let text = lab.exec("sink", &["cat", "/proc/net/snmp"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    let mut all = HashMap::new();
    for pair in lines.chunks_exact(2) {
        for (name, value) in pair[0].iter().zip(&pair[1]).skip(1) {
            all.insert(format!("{}{name}", pair[0][0].trim_end_matches(':')), value.parse().unwrap_or(0));
        }
    }
    for line in lab.exec("sink", &["cat", "/proc/net/snmp6"]).lines() {
        let mut words = line.split_whitespace();
        all.insert(words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap());
    }
    all
}

/// A listening tcpdump at the sink; it prints its lines when it has seen `count` frames.
struct Dump(Child);

impl Dump {
    fn start(lab: &Lab, count: u64, filter: &str) -> Self {
        // Short snapshots make room for many in its ring; the time limit ends it if frames are missing.
        let argv =
            format!("timeout 10 tcpdump -i eth-a -Q in -n -S -e -vv --immediate-mode -s 2000 -B 8192 -c {count}");
        let argv: Vec<&str> = argv.split(' ').chain([filter]).collect();
        let mut child = lab.spawn("sink", &argv);
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(said.any(|l| l.unwrap().contains("listening on")), "tcpdump does not listen");
        // The rest is discarded, because a full pipe would stop it.
        std::thread::spawn(move || said.for_each(drop));
        Self(child)
    }

    fn lines(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn csum_errors(counters: &HashMap<String, u64>) -> u64 {
    let errors = counters.iter().filter(|(name, _)| name.ends_with("InCsumErrors") || name.as_str() == "IpInHdrErrors");
    errors.map(|(_, n)| n).sum()
}

#[test]
fn frames_of_every_transport_through_a_router_have_checksums_that_kernel_and_tcpdump_find_right() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::routed();
    lab.add_ipv6();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.must("open", json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": {"isolated": true}}));
    sink.must("open", json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": {"isolated": true}}));
    // Transport, tcpdump's filter and its output for a good frame, and the kernel's counter, by IP version.
    let kinds = [
        ("udp", "udp", ["udp sum ok", "udp sum ok"], ["UdpNoPorts", "Udp6NoPorts"]),
        ("tcp", "tcp", ["(correct)", "(correct)"], ["TcpInSegs", "TcpInSegs"]),
        ("tcp_syn", "tcp", ["(correct)", "(correct)"], ["TcpInSegs", "TcpInSegs"]),
        ("icmp_echo", "icmp or icmp6", ["ICMP echo request", "icmp6 sum ok"], ["IcmpInEchos", "Icmp6InEchos"]),
    ];
    for (number, (transport, filter, good, counter)) in (1_u16..).zip(kinds) {
        for v6 in [false, true] {
            let mut stream = lab.stream(number, &json!({"genome": {"letters": "bbe"}}), &json!({"pps": 2000.0}));
            if v6 {
                (stream["source"], stream["destination"]) = (json!("2001:db8:0::2"), json!("2001:db8:10::2"));
            }
            stream["transport"] = json!(transport);
            stream["frames"] = json!(FRAMES);
            stream["flows"] = json!({"count": 20, "source_ports": 20_000, "seed": 3});
            let (before, version) = (counters(&lab), usize::from(v6));
            let filter =
                format!("({filter}) and {} src host {}", ["ip", "ip6"][version], stream["source"].as_str().unwrap());
            let dump = Dump::start(&lab, FRAMES, &filter);
            let (_, received) = send(&mut source, Some(&mut sink), &json!({"streams": [stream]}));
            let r = &received["streams"][0];
            assert_eq!((&r["received"], &r["corrupted"]), (&json!(FRAMES), &json!(0)), "{transport} {v6}: {received}");
            assert_eq!(r["sources"].as_array().unwrap().len(), 16, "{transport} {v6}");
            let after = counters(&lab);
            assert_eq!(csum_errors(&after), csum_errors(&before), "{transport} {v6}");
            assert!(after[counter[version]] >= before[counter[version]] + FRAMES, "{transport} {v6}: {after:?}");
            let seen = dump.lines();
            assert_eq!(seen.matches(good[version]).count() as u64, FRAMES, "{transport} {v6}:\n{seen}");
            // tcpdump's words for bad checksums. A plain "bad" would match the good checksum 0x1bad.
            for bad in ["(incorrect", "[bad", "wrong"] {
                assert!(!seen.contains(bad), "{transport} {v6}:\n{seen}");
            }
        }
    }
}

#[test]
fn the_kernels_count_of_wrong_checksums_does_rise_when_they_are_wrong() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.open();
    // IPv4 and UDP from 172.16.0.2 to 172.16.0.3 with four bytes of payload and the checksum 1111; the probe is in
    // the trailer behind the datagram.
    let mac = lab.mac("sink", "eth-a");
    let hex = format!(
        "{mac} 02:00:00:00:00:02 0800 4500 0020 0000 4000 4011 e2a7 ac10 0002 ac10 0003 9c40 1389 000c 1111 aabbccdd {}",
        "00".repeat(40)
    );
    let raw =
        json!({"stream": 1, "templates": [{"hex": hex, "probe_at": 46}], "rate": {"pps": 1000.0}, "frames": FRAMES});
    let before = counters(&lab);
    send(&mut source, None, &json!({"raw_streams": [raw]}));
    std::thread::sleep(std::time::Duration::from_millis(100));
    let after = counters(&lab);
    assert_eq!((csum_errors(&after) - csum_errors(&before), after["UdpInCsumErrors"]), (FRAMES, FRAMES), "{after:?}");
}

#[test]
fn tags_stand_on_the_wire_as_asked_and_the_numbers_of_the_transports_advance() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 200}), &json!({"pps": 1000.0}));
    stream["frames"] = json!(FRAMES);
    let mut one = stream.clone();
    one["vlans"] = json!([{"id": 7, "priority": 5}]);
    let mut two = stream.clone();
    two["vlans"] = json!([{"id": 100}, {"id": 4094}]);
    for (stream, filter, say) in [
        (&one, "vlan 7", vec!["802.1Q (0x8100)", "vlan 7, p 5,", "udp sum ok"]),
        (
            &two,
            "vlan 100 and vlan 4094",
            vec!["802.1Q-QinQ (0x88a8)", "vlan 100, p 0,", "vlan 4094, p 0,", "udp sum ok"],
        ),
    ] {
        let dump = Dump::start(&lab, FRAMES, filter);
        let (sent, received) = send(&mut source, Some(&mut sink), &json!({"streams": [stream]}));
        let (s, r) = (&sent["streams"][0], &received["streams"][0]);
        assert_eq!((&r["received"], &r["lost"]), (&json!(FRAMES), &json!(0)));
        assert_eq!(
            (&s["sent_bytes"], &r["received_bytes"]),
            (&json!(FRAMES * 200), &json!(FRAMES * 200)),
            "tags count"
        );
        let seen = dump.lines();
        for say in say {
            assert_eq!(seen.matches(say).count() as u64, FRAMES, "{say}:\n{seen}");
        }
    }
    let mut tcp = stream.clone();
    (tcp["transport"], tcp["frames"]) = (json!("tcp"), json!(3));
    let mut echo = stream;
    (echo["transport"], echo["frames"]) = (json!("icmp_echo"), json!(3));
    // 200 bytes with FCS: 18 of Ethernet, 20 of IP and 20 of TCP leave 142.
    for (stream, filter, say) in [
        (tcp, "tcp", vec!["seq 1:143,", "seq 143:285,", "seq 285:427,"]),
        (echo, "icmp", vec!["id 40000, seq 0,", "id 40000, seq 1,", "id 40000, seq 2,"]),
    ] {
        let dump = Dump::start(&lab, 3, filter);
        send(&mut source, None, &json!({"streams": [stream]}));
        let seen = dump.lines();
        for say in say {
            assert_eq!(seen.matches(say).count(), 1, "{say}:\n{seen}");
        }
    }
}

#[test]
fn each_flow_of_a_seed_is_one_entry_in_the_routers_state_table() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::routed();
    let mut source = lab.source();
    source.open();
    lab.exec("dut", &["nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f ct state new accept"]);
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 20_000.0}));
    (stream["source_port"], stream["destination_port"], stream["frames"]) = (json!(1024), json!(1), json!(5000));
    stream["flows"] = json!({"count": 5000, "source_ports": 64_512, "destination_ports": 49_151, "seed": 11});
    let entries =
        || lab.exec("dut", &["sysctl", "-n", "net.netfilter.nf_conntrack_count"]).trim().parse::<i64>().unwrap();
    let before = entries();
    for _ in 0..2 {
        let (sent, _) = send(&mut source, None, &json!({"streams": [stream]}));
        assert_eq!(sent["streams"][0]["sent"], 5000);
        std::thread::sleep(std::time::Duration::from_millis(100));
        // The second trial uses the same set: no entry is added. The namespace's own multicast may add one or two.
        let made = entries() - before;
        assert!((5000..5010).contains(&made), "{made} entries");
    }
}

#[test]
fn every_address_of_a_prefix_is_hit_by_each_back_end_with_right_checksums() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.exec("sink", &["ethtool", "-K", "eth-a", "gro", "on"]); // without NAPI a veth takes no redirected frames
    let mut sink = lab.sink();
    sink.open();
    for backend in ["af_packet", "xdp"] {
        let mut source = lab.source();
        source.open_with(backend);
        for (number, source_address, first, length) in
            [(1, "198.18.0.1", "198.19.0.1", 24), (2, "2001:db8::1", "2001:2::1", 64)]
        {
            let mut stream = lab.stream(number, &json!({"fixed_bytes": 100}), &json!({"pps": 5000.0}));
            (stream["source"], stream["destination"], stream["frames"]) =
                (json!(source_address), json!(first), json!(256));
            stream["flows"] = json!({"count": 256, "source_addresses": 4, "destination_addresses": 64,
                "destination_prefix_length": length, "seed": 2});
            let dump = Dump::start(&lab, 256, if first.contains(':') { "ip6 and udp" } else { "ip and udp" });
            let (_, received) = send(&mut source, Some(&mut sink), &json!({"streams": [stream]}));
            let r = &received["streams"][0];
            assert_eq!((&r["received"], &r["corrupted"]), (&json!(256), &json!(0)), "{backend}: {received}");
            let seen = dump.lines();
            assert_eq!(seen.matches("udp sum ok").count(), 256, "{backend}:\n{seen}");
            // As in `198.18.0.3.40000 > 198.19.7.1.5001: [udp sum ok] …`.
            let pairs =
                seen.lines().filter_map(|line| line.rsplit_once(" > ").filter(|(_, to)| to.contains("udp sum")));
            let address = |s: &str| s.rsplit_once('.').unwrap().0.rsplit(' ').next().unwrap().to_owned();
            let (from, to): (HashSet<_>, HashSet<_>) =
                pairs.map(|(from, to)| (address(from), address(to.split(": ").next().unwrap()))).unzip();
            assert_eq!((from.len(), to.len()), (4, 64), "{backend}: {to:?}");
        }
    }
}

#[test]
fn extension_headers_are_sent_and_passed_over_by_each_back_end_in_both_places() {
    if !netns_or_skip() {
        return;
    }
    // The chain of RFC 5180 section 5.3, and the header that each router examines. tcpdump does not verify checksums
    // behind a fragment header.
    let chains = [
        (
            1,
            json!(["routing", "destination_options", "fragment"]),
            "type=2, segleft=0, rsv=0x0, [0]2001:2:0:ff00::1) DSTOPT (padn) frag (0x00000001:0|158) 40000 > 5001: UDP, length 150",
        ),
        (2, json!(["hop_by_hop"]), "HBH (padn) 40000 > 5001: [udp sum ok] UDP, length 182"),
    ];
    for (sends, receives) in [("af_packet", "xdp"), ("xdp", "af_packet")] {
        let lab = Lab::direct();
        for end in ["source", "sink"] {
            lab.exec(end, &["ethtool", "-K", "eth-a", "gro", "on"]); // without NAPI a veth takes no redirected frames
        }
        let (mut sink, mut source) = (lab.sink(), lab.source());
        sink.open_with(receives);
        source.open_with(sends);
        for (number, chain, printed) in &chains {
            let mut stream = lab.stream(*number, &json!({"fixed_bytes": 256}), &json!({"pps": 5000.0}));
            (stream["source"], stream["destination"], stream["frames"]) =
                (json!("2001:2::1"), json!("2001:2:0:ff00::1"), json!(500));
            stream["extension_headers"] = chain.clone();
            stream["flows"] =
                json!({"count": 256, "destination_addresses": 256, "destination_prefix_length": 64, "seed": 1});
            // An XDP program takes frames before tcpdump can.
            let dump = (receives == "af_packet").then(|| Dump::start(&lab, 500, "ip6 src 2001:2::1"));
            let (_, received) = send(&mut source, Some(&mut sink), &json!({"streams": [stream]}));
            let r = &received["streams"][0];
            let counted = (&r["received"], &r["corrupted"], &r["lost"]);
            assert_eq!(counted, (&json!(500), &json!(0), &json!(0)), "{sends} to {receives}: {received}");
            if let Some(seen) = dump.map(Dump::lines) {
                assert_eq!(seen.matches(printed).count(), 500, "{sends}:\n{}", &seen[..600]);
            }
        }
    }
}

#[test]
fn a_million_flows_take_less_than_256_megabytes_and_keep_the_rate() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.open_guarded("af_packet", &json!({"isolated": true}));
    let mut stream = lab.stream(1, &json!({"mix": "imix"}), &json!({"pps": 20_000.0}));
    (stream["source_port"], stream["destination_port"]) = (json!(1024), json!(1));
    stream["flows"] = json!({"count": 1_000_000, "source_ports": 64_512, "destination_ports": 49_151, "source_addresses": 200,
        "source_macs": 1000, "destination_macs": 1000, "seed": 4});
    let (sent, _) = send(&mut source, None, &json!({"duration_ns": 500_000_000, "streams": [stream]}));
    assert_eq!(sent["streams"][0]["intended"], 10_000, "{sent}");
    let peak = source.peak_memory();
    eprintln!("1000000 flows with MACs: {} MB at most", peak / 1_000_000);
    assert!(peak < 256_000_000, "{peak} bytes");
}

#[test]
fn a_stream_of_a_share_of_the_link_needs_the_links_speed_and_keeps_it() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    let stream = |percent: Value| lab.stream(1, &json!({"fixed_bytes": 1518}), &json!({"percent": percent}));
    let plan = |percent| json!({"duration_ns": 500_000_000, "streams": [stream(percent)]});
    let refused = source.ask("arm", json!({"port": "p", "send": plan(json!({"percent": 5.0}))}));
    let why = refused["err"]["message"].as_str().unwrap();
    assert!(why.contains("driver veth") && why.contains("of_bps"), "{why}");
    let given = plan(json!({"percent": 5.0, "of_bps": 1e9}));
    let armed = source.must("arm", json!({"port": "p", "send": given}));
    assert_eq!(armed["streams"][0]["link_bps"], 1e9);
    assert_eq!(armed["streams"][0]["frame_sizes"][0]["ip_bytes"], 1500);
    let (sent, received) = send(&mut source, Some(&mut sink), &given);
    // 5e7 / ((1518 + 20) * 8) = 4063.7 a second, so 2031.9 in half a second.
    assert_eq!(sent["streams"][0]["intended"], 2032, "{sent}");
    let r = &received["streams"][0];
    assert_eq!(
        r["received"].as_u64().unwrap() + r["lost"].as_u64().unwrap(),
        sent["streams"][0]["sent"].as_u64().unwrap()
    );
}

#[test]
fn bursts_arrive_together_and_at_their_mean_rate() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"bursts_at": {"frames": 50, "pps": 1000.0}}));
    let dump = Dump::start(&lab, 500, "udp");
    let (sent, received) =
        send(&mut source, Some(&mut sink), &json!({"duration_ns": 500_000_000, "streams": [stream]}));
    assert_eq!((&sent["streams"][0]["intended"], &received["streams"][0]["received"]), (&json!(500), &json!(500)));
    // The first line of a frame begins with a time of day: 14:03:27.123456. Gaps of more than 10 ms separate bursts.
    let text = dump.lines();
    let at: Vec<f64> = text.lines().filter(|l| l.get(2..3) == Some(":")).map(seconds_of_day).collect();
    assert_eq!(at.len(), 500);
    let starts: Vec<f64> = at.windows(2).filter(|w| w[1] - w[0] > 0.010).map(|w| w[1]).collect();
    assert!(
        (7..=9).contains(&starts.len()),
        "10 bursts, 9 gaps, of which a busy machine may swallow some: {}",
        starts.len()
    );
}

fn seconds_of_day(line: &str) -> f64 {
    line[..15].split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}

#[test]
fn several_streams_each_keep_their_own_rate_and_a_change_of_one_loses_nothing() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    let stream = |number: u16, pps: f64| lab.stream(number, &json!({"fixed_bytes": 64}), &json!({"pps": pps}));
    let plan = json!({"duration_ns": 1_000_000_000, "streams": [stream(1, 1000.0), stream(2, 300.0), stream(3, 50.0)]});
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1, 2, 3]}}));
    source.must("arm", json!({"port": "p", "send": plan}));
    sink.must("start", json!({}));
    source.must("start", json!({}));
    // Setting the current rate again, in every unit, must not add or lose a frame. A frame takes 84 bytes.
    let same =
        [json!({"pps": 300.0}), json!({"bps_l1": 201_600.0}), json!({"percent": {"percent": 10, "of_bps": 2_016_000}})];
    for rate in same.iter().cycle().take(20) {
        source.must("rate", json!({"port": "p", "stream": 2, "rate": rate}));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let sent = source.must("wait", json!({"port": "p"}));
    let asked: Vec<_> = sent["streams"].as_array().unwrap().iter().map(|s| s["intended"].as_u64().unwrap()).collect();
    assert_eq!((asked[0], asked[2]), (1000, 50));
    assert!((299..=301).contains(&asked[1]), "{sent}");
    let told: Vec<_> = (1..=3).zip(&asked).map(|(n, frames)| json!({"stream": n, "frames": frames})).collect();
    let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 200_000_000}));
    let numbers: HashSet<_> =
        received["streams"].as_array().unwrap().iter().map(|s| s["lost"].as_u64().unwrap()).collect();
    assert_eq!(numbers, HashSet::from([0]), "{received}");
}

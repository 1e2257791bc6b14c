//! Tests of consecutive streams, bursts at a rate, varying fields, and captures with probes, as seen by a file or a
//! receiver.

mod lab;

use lab::{Agent, Lab, n, netns_or_skip, told};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A capture that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("dutlab-streams-{}-{name}.pcap", std::process::id())))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Returns time in nanoseconds and bytes of each frame.
    fn frames(&self) -> Vec<(u64, Vec<u8>)> {
        let bytes = std::fs::read(&self.0).unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut all) = (24, Vec::new());
        while at < bytes.len() {
            let length = word(at + 8) as usize;
            let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
            all.push((time, bytes[at + 16..at + 16 + length].to_vec()));
            at += 16 + length;
        }
        all
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Sends a plan into a file; returns the reply to `wait`.
fn write(agent: &mut Agent, file: &Scratch, plan: &Value) -> Value {
    agent.must("open", json!({"port": "f", "iface": file.name(), "backend": "pcap"}));
    agent.must("arm", json!({"port": "f", "send": plan}));
    agent.must("start", json!({"ports": ["f"]}));
    let sent = agent.must("wait", json!({"port": "f"}));
    agent.must("close", json!({"port": "f"}));
    sent
}

/// Returns time and stream of each frame.
fn streams(file: &Scratch) -> Vec<(u64, u16)> {
    // Ethernet, IPv4 and UDP, then two bytes of magic.
    file.frames().into_iter().map(|(time, b)| (time, u16::from_be_bytes([b[44], b[45]]))).collect()
}

#[test]
fn streams_at_full_speed_have_an_equal_share_of_the_port() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.napi();
    let mut source = lab.source();
    for backend in ["xdp", "af_xdp", "af_packet"] {
        source.must("open", json!({"port": "p", "iface": "eth-a", "backend": backend, "guard": {"isolated": true}}));
        let streams: Vec<_> =
            [7, 9, 8].map(|number| lab.stream(number, &json!({"fixed_bytes": 64}), &json!({"max": true}))).into();
        source.must("arm", json!({"port": "p", "send": {"duration_ns": 200_000_000, "streams": streams}}));
        source.must("start", json!({}));
        let sent = source.must("wait", json!({"port": "p"}));
        let asked: Vec<_> = sent["streams"].as_array().unwrap().iter().map(|s| n(&s["intended"])).collect();
        let (least, most) = (asked.iter().min().unwrap(), asked.iter().max().unwrap());
        assert!(*least > 0 && most * 4 < least * 5, "{backend}: {asked:?}");
        source.must("close", json!({"port": "p"}));
    }
}

/// Streams at full speed take turns by their times, also where the program paces another one.
#[test]
fn a_paced_stream_keeps_its_rate_beside_two_at_full_speed_that_share_the_rest() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.napi();
    let mut source = lab.source();
    source.must("open", json!({"port": "p", "iface": "eth-a", "backend": "xdp", "guard": {"isolated": true}}));
    let streams: Vec<_> = [(7, json!({"max": true})), (9, json!({"pps": 5000})), (8, json!({"max": true}))]
        .map(|(number, rate)| lab.stream(number, &json!({"fixed_bytes": 64}), &rate))
        .into();
    source.must("arm", json!({"port": "p", "send": {"duration_ns": 400_000_000, "streams": streams}}));
    source.must("start", json!({}));
    let sent = source.must("wait", json!({"port": "p"}));
    let asked: Vec<_> = sent["streams"].as_array().unwrap().iter().map(|s| n(&s["intended"])).collect();
    assert_eq!(asked[1], 2000, "{asked:?}");
    let (least, most) = (asked[0].min(asked[2]), asked[0].max(asked[2]));
    assert!(least > 2000 && most * 4 < least * 5, "{asked:?}");
    source.must("close", json!({"port": "p"}));
}

#[test]
fn streams_of_a_chain_are_sent_one_after_the_other_with_their_pauses_for_all_rounds() {
    if !netns_or_skip() {
        return;
    }
    let (lab, file) = (Lab::direct(), Scratch::new("chain"));
    let mut source = lab.source();
    let stream = |number: u16, frames: u64, rate: Value| {
        let mut s = lab.stream(number, &json!({"fixed_bytes": 64}), &rate);
        s["frames"] = json!(frames);
        s
    };
    let plan = json!({
        "streams": [stream(1, 3, json!({"pps": 1000.0})), stream(2, 40, json!({"max": true})),
            stream(3, 5, json!({"multi_burst": {"frames": 2, "pps": 2000.0, "gap_ns": 4_000_000}}))],
        "chains": [{"steps": [{"stream": 3, "gap_ns": 2_000_000}, {"stream": 1, "gap_ns": 20_000_000}, {"stream": 2}], "rounds": 3}]});
    let sent = write(&mut source, &file, &plan);
    for (s, frames) in sent["streams"].as_array().unwrap().iter().zip([9, 120, 15]) {
        assert_eq!((n(&s["intended"]), n(&s["sent"]), n(&s["refused"])), (frames, frames, 0), "{sent}");
    }
    let seen = streams(&file);
    let order: Vec<u16> = seen.iter().map(|(_, stream)| *stream).collect();
    let round = [vec![3; 5], vec![1; 3], vec![2; 40]].concat();
    assert_eq!(order, [round.clone(), round.clone(), round].concat());
    for (i, pair) in seen.windows(2).enumerate() {
        let (place, gap) = (i % 48, pair[1].0.saturating_sub(pair[0].0));
        // Late frames shorten the gap behind them, and a millisecond allows for clock corrections. A pause is never
        // omitted.
        let least = match place {
            4 => 20_000_000,
            47 => 2_000_000,
            _ => 0,
        };
        assert!(gap + 1_000_000 >= least, "{gap} ns between frames {i} and {}", i + 1);
    }
    let burst = seen[3].0 - seen[0].0;
    assert!(burst >= 3_000_000, "two bursts lie 4.5 ms apart: {burst} ns");
}

#[test]
fn a_chain_that_cannot_be_is_refused_with_every_fault() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.open_with("af_packet");
    let mut bounded = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 10.0}));
    bounded["frames"] = json!(1);
    let endless = lab.stream(2, &json!({"fixed_bytes": 64}), &json!({"pps": 10.0}));
    let plan = json!({"duration_ns": 1_000_000_000, "streams": [bounded, endless], "chains": [
        {"steps": [{"stream": 1}, {"stream": 1}, {"stream": 2}, {"stream": 9}]}, {"steps": [], "rounds": 0}]});
    let reply = source.ask("arm", json!({"port": "p", "send": plan}));
    let said = reply["err"]["message"].as_str().unwrap();
    for fault in [
        "send.chains[0].steps[1].stream: 1 is in a chain already",
        "send.chains[0].steps[2].stream: 2 never ends; give it `frames`",
        "send.chains[0].steps[3].stream: 9 is not a stream of this plan",
        "send.chains[1]: has at least one step and one round",
    ] {
        assert!(said.contains(fault), "{fault} in {said}");
    }
}

#[test]
fn chains_and_varied_fields_arrive_whole_over_a_cable_whichever_back_end_sends() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.napi();
    for backend in ["auto", "af_packet", "af_xdp"] {
        let (mut source, mut sink) = (lab.source(), lab.sink());
        source.open_with(backend);
        sink.open_with("auto");
        let stream = |number: u16, vary: Value| {
            let mut s = lab.stream(number, &json!({"fixed_bytes": 128}), &json!({"pps": 5000.0}));
            s["frames"] = json!(500);
            s["vary"] = vary;
            s
        };
        let ports = json!([{"field": "source_port", "values": {"step": {"from": 1024, "to": 1033}}},
            {"field": "source_address", "values": {"list": ["172.16.0.200", "172.16.0.201"]}, "every": 10}]);
        let any = json!([{"field": "ttl", "values": {"random": {"from": 2, "to": 255}}},
            {"field": "dscp", "values": {"step": {"from": 63, "to": 0}}},
            {"field": {"bits": {"byte": 100, "bit": 3, "width": 33}}, "values": {"step": {"from": 0, "to": 0x1_ffff_ffff_u64, "by": 0x1111_1111}}}]);
        for plan in [
            json!({"streams": [stream(1, ports.clone())]}),
            json!({"streams": [stream(1, ports), stream(2, any)], "chains": [{"steps": [{"stream": 1}, {"stream": 2}], "rounds": 2}]}),
        ] {
            let numbers: Vec<_> = plan["streams"].as_array().unwrap().iter().map(|s| s["stream"].clone()).collect();
            let rounds = if numbers.len() == 2 { 2 } else { 1 };
            source.must("arm", json!({"port": "p", "send": plan}));
            sink.must("arm", json!({"port": "p", "receive": {"streams": numbers, "absorb_udp_ports": [5001]}}));
            sink.must("start", json!({}));
            source.must("start", json!({}));
            let sent = source.must("wait", json!({"port": "p"}));
            let received = sink.must("settle", json!({"port": "p", "sent": told(&sent), "drain_ns": 300_000_000}));
            for s in received["streams"].as_array().unwrap() {
                let frames = (n(&s["received"]), n(&s["lost"]), n(&s["corrupted"]));
                assert_eq!(frames, (500 * rounds, 0, 0), "{backend}: {sent} {received}");
                let ports: Vec<_> = s["sources"].as_array().unwrap().iter().map(|o| n(&o["port"])).collect();
                if s["stream"] == 1 && !ports.is_empty() {
                    assert!(ports.iter().all(|p| (1024..1034).contains(p)), "{received}");
                }
            }
        }
    }
}

#[test]
fn a_replayed_capture_with_probes_is_accounted_for_frame_by_frame() {
    if !netns_or_skip() {
        return;
    }
    let (lab, file) = (Lab::direct(), Scratch::new("replayed"));
    let mut source = lab.source();
    // Old probes in every kind of packet, whose streams and numbers are overwritten, and frames of a protocol that
    // carries none.
    let kinds = [(11, "udp"), (12, "tcp"), (13, "icmp_echo")];
    let mut made: Vec<_> = kinds
        .iter()
        .map(|(number, transport)| {
            let mut s = lab.stream(*number, &json!({"sequence_bytes": [80, 201, 1518]}), &json!({"pps": 2000.0}));
            s["transport"] = json!(transport);
            s["frames"] = json!(30);
            s["vlans"] = json!([{"id": 7}]);
            s
        })
        .collect();
    made[0]["vlans"] = json!([]);
    let strange = format!("020000000001 020000000002 88b5 {}", "00".repeat(46));
    let raw =
        json!({"stream": 14, "templates": [{"hex": strange, "probe_at": 20}], "rate": {"pps": 2000.0}, "frames": 10});
    write(&mut source, &file, &json!({"streams": made, "raw_streams": [raw]}));
    for backend in ["af_packet", "af_xdp"] {
        let (mut source, mut sink) = (lab.source(), lab.sink());
        source.open_with(backend);
        sink.open_with("af_packet");
        let mut replay = json!({"path": file.name(), "stream": 5, "rounds": 3, "probe": true});
        let refused = source.ask("arm", json!({"port": "p", "send": {"replay": replay}}));
        let why = refused["err"]["message"].as_str().unwrap();
        assert!(why.contains("send.replay.probe: 30 of 300 frames have no room for it"), "{why}");
        replay["unprobed_stream"] = json!(6);
        source.must("arm", json!({"port": "p", "send": {"replay": replay, "trial": 77}}));
        sink.must("arm", json!({"port": "p", "receive": {"streams": [5], "trial": 77, "absorb_udp_ports": [5001]}}));
        sink.must("start", json!({}));
        source.must("start", json!({}));
        let sent = source.must("wait", json!({"port": "p"}));
        let counts = |i: usize| {
            let s = &sent["streams"][i];
            [n(&s["stream"]), n(&s["intended"]), n(&s["sent"]), n(&s["refused"])]
        };
        assert_eq!([counts(0), counts(1)], [[5, 270, 270, 0], [6, 30, 30, 0]], "{backend}: {sent}");
        let probed = json!([{"stream": 5, "frames": 270}]);
        let received = sink.must("settle", json!({"port": "p", "sent": probed, "drain_ns": 300_000_000}));
        let s = &received["streams"][0];
        let ledger =
            [n(&s["received"]), n(&s["lost"]), n(&s["duplicated"]), n(&s["corrupted"]), n(&s["next_sequence"])];
        assert_eq!((ledger, &s["balances"]), ([270, 0, 0, 0, 270], &json!(true)), "{backend}: {received}");
        assert_eq!(n(&s["latency"]["count"]), 270);
    }
}

//! One suite for every back end that uses an interface: all must pass the same tests.

mod lab;

use lab::{Agent, Lab, n as number, netns_or_skip, told};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const BACKENDS: [&str; 2] = ["af_packet", "af_xdp"];

/// Both ends of a cable, opened with `backend`.
fn both(lab: &Lab, backend: &str) -> (Agent, Agent) {
    let (mut source, mut sink) = (lab.source(), lab.sink());
    for agent in [&mut source, &mut sink] {
        assert_eq!(agent.open_with(backend)["backend"], backend);
    }
    (source, sink)
}

fn start(source: &mut Agent, sink: &mut Agent, send: &Value) {
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1], "absorb_udp_ports": [5001]}}));
    source.must("arm", json!({"port": "p", "send": send}));
    sink.must("start", json!({}));
    source.must("start", json!({}));
}

fn finish(source: &mut Agent, sink: &mut Agent) -> (Value, Value) {
    let sent = source.must("wait", json!({"port": "p"}));
    let received = sink.must("settle", json!({"port": "p", "sent": told(&sent), "drain_ns": 200_000_000}));
    (sent, received)
}

#[test]
fn as_many_frames_as_asked_for_arrive_once_whole_and_in_order() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let (mut source, mut sink) = both(&lab, backend);
        for (bytes, frames, flows) in [(64, 1, 1), (64, 3001, 1), (1518, 777, 50), (1000, 64, 1)] {
            let mut stream = lab.stream(1, &json!({"fixed_bytes": bytes}), &json!({"pps": 20_000.0}));
            stream["frames"] = json!(frames);
            if flows > 1 {
                stream["flows"] = json!({"count": flows, "source_ports": 1000, "seed": 5});
            }
            start(&mut source, &mut sink, &json!({"streams": [stream]}));
            let (sent, received) = finish(&mut source, &mut sink);
            let (s, r) = (&sent["streams"][0], &received["streams"][0]);
            let what = format!("{backend}, {frames} frames of {bytes}: {sent} {received}");
            assert_eq!(
                (number(&s["intended"]), number(&s["sent"]), number(&s["refused"])),
                (frames, frames, 0),
                "{what}"
            );
            assert_eq!((number(&r["received"]), number(&r["lost"])), (frames, 0), "{what}");
            assert_eq!(
                (number(&r["duplicated"]), number(&r["reordered"]), number(&r["corrupted"])),
                (0, 0, 0),
                "{what}"
            );
            assert_eq!(number(&r["received_bytes"]), frames * bytes, "{what}");
            assert_eq!((number(&r["latency"]["count"]), number(&r["latency"]["negative"])), (frames, 0), "{what}");
            let arrivals = json!({"card": 0, "kernel": frames, "engine": 0});
            assert_eq!((&sent["timed_by"], &received["timed_by"]), (&json!("engine"), &arrivals), "{what}");
        }
    }
}

#[test]
fn everything_sent_at_the_maximum_is_received_or_missed_by_count() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let (mut source, mut sink) = both(&lab, backend);
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
        start(&mut source, &mut sink, &json!({"duration_ns": 300_000_000, "streams": [stream]}));
        let (sent, received) = finish(&mut source, &mut sink);
        let (s, r) = (&sent["streams"][0], &received["streams"][0]);
        assert!(number(&s["sent"]) > 10_000, "{backend}: {sent}");
        assert_eq!(number(&s["intended"]), number(&s["sent"]) + number(&s["refused"]), "{backend}: {sent}");
        assert_eq!(number(&r["received"]) + number(&r["lost"]), number(&s["sent"]) + number(&r["duplicated"]));
        assert_eq!((number(&r["corrupted"]), &r["balances"]), (0, &json!(true)), "{backend}: {received}");
    }
}

#[test]
fn a_stop_ends_sending_and_nothing_that_was_sent_is_missing() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let (mut source, mut sink) = both(&lab, backend);
        let stream = lab.stream(1, &json!({"fixed_bytes": 200}), &json!({"pps": 5000.0}));
        start(&mut source, &mut sink, &json!({"duration_ns": 60_000_000_000_u64, "streams": [stream]}));
        std::thread::sleep(Duration::from_millis(200));
        source.must("stop", json!({}));
        let (sent, received) = finish(&mut source, &mut sink);
        assert_eq!(sent["ended"], "stopped", "{backend}: {sent}");
        let n = number(&sent["streams"][0]["sent"]);
        assert!((100..20_000).contains(&n), "{backend}: {sent}");
        assert_eq!(number(&received["streams"][0]["received"]), n, "{backend}: {received}");
    }
}

#[test]
fn a_port_that_vanishes_ends_sender_and_receiver_with_its_name_the_call_and_a_remedy() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let (mut source, mut sink) = both(&lab, backend);
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 10_000.0}));
        start(&mut source, &mut sink, &json!({"duration_ns": 20_000_000_000_u64, "streams": [stream]}));
        std::thread::sleep(Duration::from_millis(200));
        let before = Instant::now();
        // Deleting one end of a veth pair deletes the other too.
        lab.at_source(&["link", "del", "dev", "eth-a"]);
        let (sent, received) = finish(&mut source, &mut sink);
        assert!(before.elapsed() < Duration::from_secs(5), "{backend}");
        assert_eq!(sent["ended"], "failed", "{backend}: {sent}");
        for err in [&sent["err"], &received["err"]] {
            assert_eq!(err["kind"], "port_lost", "{backend}: {sent} {received}");
            assert!(err["message"].as_str().unwrap().contains("eth-a"), "{backend}: {err}");
            assert!(
                err["call"].is_string() && err["errno"].is_number() && err["remedy"].is_string(),
                "{backend}: {err}"
            );
        }
        let (s, r) = (&sent["streams"][0], &received["streams"][0]);
        assert!(number(&s["sent"]) > 100, "{backend}: {sent}");
        assert!(number(&r["received"]) > 100 && number(&r["received"]) <= number(&s["sent"]), "{backend}: {received}");
    }
}

#[test]
fn a_port_without_a_carrier_says_so_and_what_was_tried_counts_as_refused() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        for rate in [json!({"max": true}), json!({"pps": 1000.0})] {
            let lab = Lab::direct();
            let mut source = lab.source();
            source.open_with(backend);
            assert!(lab.run_at_sink(&["ip", "link", "set", "dev", "eth-a", "down"]).0);
            let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &rate);
            source.must("arm", json!({"port": "p", "send": {"duration_ns": 2_000_000_000_u64, "streams": [stream]}}));
            source.must("start", json!({}));
            let sent = source.must("wait", json!({"port": "p"}));
            assert_eq!(sent["ended"], "failed", "{backend}: {sent}");
            let message = sent["err"]["message"].as_str().unwrap();
            assert!(message.contains("eth-a has no carrier"), "{backend}: {sent}");
            let s = &sent["streams"][0];
            assert!(number(&s["intended"]) > 0, "{backend}: {sent}");
            assert_eq!((number(&s["sent"]), &s["intended"]), (0, &s["refused"]), "{backend}: {sent}");
        }
    }
}

#[test]
fn a_load_goes_on_through_the_loss_of_its_link_if_it_is_asked_to_and_refuses_what_falls_due_meanwhile() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::routed();
        let (mut source, mut sink) = (lab.source(), lab.sink());
        source.open_with(backend);
        sink.open_with(backend);
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 1000.0}));
        let plan = json!({"duration_ns": 3_000_000_000_u64, "streams": [stream], "through_link_loss": true});
        sink.must("arm", json!({"port": "p", "receive": {"streams": [1]}}));
        source.must("arm", json!({"port": "p", "send": plan}));
        sink.must("start", json!({}));
        source.must("start", json!({}));
        std::thread::sleep(Duration::from_millis(700));
        lab.at_dut(&["ip", "link", "set", "dev", "in-a", "down"]);
        std::thread::sleep(Duration::from_millis(800));
        lab.at_dut(&["ip", "link", "set", "dev", "in-a", "up"]);
        let sent = source.must("wait", json!({"port": "p"}));
        let account = lab::told(&sent);
        let received = sink.must("settle", json!({"port": "p", "sent": account, "drain_ns": 300_000_000}));
        let (s, r, what) = (&sent["streams"][0], &received["streams"][0], format!("{backend}: {sent} {received}"));
        assert_eq!((&sent["ended"], number(&s["intended"])), (&json!("finished"), 3000), "{what}");
        assert_eq!(number(&s["sent"]) + number(&s["refused"]), 3000, "{what}");
        assert_eq!(r["balances"], true, "{what}");
        // Frames of the last 100 ms without a carrier may still leave, and a busy machine brings the link back late.
        let missing = 3000 - number(&r["received"]);
        assert!((600..1900).contains(&missing), "{what}");
        assert!(number(&s["backpressure"]) > 500, "{what}");
    }
}

#[test]
fn a_port_that_goes_down_while_it_sends_is_an_error() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let mut source = lab.source();
        source.open_with(backend);
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 1000.0}));
        source.must("arm", json!({"port": "p", "send": {"duration_ns": 20_000_000_000_u64, "streams": [stream]}}));
        source.must("start", json!({}));
        std::thread::sleep(Duration::from_millis(100));
        lab.at_source(&["link", "set", "dev", "eth-a", "down"]);
        let sent = source.must("wait", json!({"port": "p"}));
        assert_eq!(
            (&sent["ended"], &sent["err"]["kind"]),
            (&json!("failed"), &json!("port_lost")),
            "{backend}: {sent}"
        );
    }
}

#[test]
fn a_frame_longer_than_the_mtu_is_refused_before_anything_is_sent() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let mut source = lab.source();
        source.open_with(backend);
        let mut stream = lab.stream(1, &json!({"fixed_bytes": 1519}), &json!({"pps": 1000.0}));
        stream["frames"] = json!(10);
        let reply = source.ask("arm", json!({"port": "p", "send": {"streams": [stream]}}));
        assert_eq!(reply["err"]["kind"], "bad_plan", "{backend}: {reply}");
        assert!(reply["err"]["message"].as_str().unwrap().contains("1519"), "{backend}: {reply}");
    }
}

#[test]
fn an_mtu_that_is_lowered_while_frames_are_sent_ends_the_trial_or_loses_them_by_count() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let (mut source, mut sink) = both(&lab, backend);
        let stream = lab.stream(1, &json!({"fixed_bytes": 1518}), &json!({"pps": 2000.0}));
        start(&mut source, &mut sink, &json!({"duration_ns": 600_000_000_u64, "streams": [stream]}));
        std::thread::sleep(Duration::from_millis(200));
        lab.at_source(&["link", "set", "dev", "eth-a", "mtu", "1000"]);
        let (sent, received) = finish(&mut source, &mut sink);
        let (s, r) = (&sent["streams"][0], &received["streams"][0]);
        if sent["ended"] == "failed" {
            assert!(sent["err"]["remedy"].as_str().unwrap().contains("MTU"), "{backend}: {sent}");
            assert!(number(&s["refused"]) > 0, "{backend}: {sent}");
        }
        assert_eq!(number(&r["received"]) + number(&r["lost"]), number(&s["sent"]), "{backend}: {sent} {received}");
    }
}

#[test]
fn what_is_not_ours_is_counted_as_foreign_and_reaches_the_host() {
    if !netns_or_skip() {
        return;
    }
    for backend in BACKENDS {
        let lab = Lab::direct();
        let (mut source, mut sink) = both(&lab, backend);
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 1000.0}));
        start(&mut source, &mut sink, &json!({"duration_ns": 600_000_000_u64, "streams": [stream]}));
        let ping = ["ping", "-c", "5", "-i", "0.02", "-W", "1", "172.16.0.3"];
        let (answered, out) = lab.run_at_source(&ping);
        assert!(answered, "{backend}: {out}");
        let (sent, received) = finish(&mut source, &mut sink);
        assert!(number(&received["foreign"]) >= 5, "{backend}: {received}");
        let n = &sent["streams"][0]["sent"];
        assert!(number(n) > 100 && received["streams"][0]["received"] == *n, "{backend}: {sent} {received}");
    }
}

#[test]
fn nothing_stays_attached_when_the_agent_closes_or_is_killed() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let shown = || lab.run_at_source(&["ip", "-details", "link", "show", "dev", "eth-a"]).1;
    for kill in [false, true] {
        let mut source = lab.source();
        source.open_with("af_xdp");
        assert!(shown().contains("xdp"), "attached while open: {}", shown());
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
        source.must("arm", json!({"port": "p", "send": {"duration_ns": 20_000_000_000_u64, "streams": [stream]}}));
        source.must("start", json!({}));
        if kill {
            assert!(source.kill());
        } else {
            source.must("close", json!({"port": "p"}));
        }
        // The kernel releases a killed program's descriptors some time later.
        let end = Instant::now() + Duration::from_secs(2);
        while shown().contains("xdp") && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!shown().contains("xdp"), "{}", shown());
    }
}

#[test]
fn a_queue_that_another_program_holds_is_named_with_a_remedy() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut first, mut second) = (lab.source(), lab.source());
    first.open_with("af_xdp");
    let open = json!({"port": "p", "iface": "eth-a", "backend": "af_xdp", "guard": {"isolated": true}});
    let reply = second.ask("open", open);
    assert_eq!(reply["err"]["kind"], "unsupported", "{reply}");
    assert!(reply["err"]["message"].as_str().unwrap().contains("another AF_XDP socket"), "{reply}");
    assert!(reply["err"]["remedy"].is_string(), "{reply}");
}

#[test]
fn jumbo_frames_arrive_whole_through_every_back_end_that_takes_them_and_xdp_says_why_it_does_not() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.at_source(&["link", "set", "dev", "eth-a", "mtu", "9000"]);
    assert!(lab.run_at_sink(&["ip", "link", "set", "dev", "eth-a", "mtu", "9000"]).0);
    // `auto` skips back ends that cannot send the frame, with a note; AF_XDP takes several pages for a frame since
    // Linux 6.6.
    let (mut source, mut sink) = (lab.source(), lab.sink());
    for agent in [&mut source, &mut sink] {
        let opened = agent.open_with("auto");
        assert_eq!(opened["backend"], "af_xdp");
        assert!(opened["notes"].to_string().contains("not xdp: "), "{opened}");
        assert!(opened["notes"].to_string().contains("takes several buffers"), "{opened}");
        agent.must("close", json!({"port": "p"}));
    }
    for backend in BACKENDS {
        let (mut source, mut sink) = both(&lab, backend);
        // At, below and above the ends of one, two and three buffers of 4096 bytes; the first has 3840 for receiving.
        for size in [64, 3844, 3845, 4100, 4101, 7940, 7941, 8196, 8197, 9018] {
            let mut stream = lab.stream(1, &json!({"sequence_bytes": [size, 9018, 64]}), &json!({"pps": 2000.0}));
            stream["frames"] = json!(30);
            start(&mut source, &mut sink, &json!({"streams": [stream]}));
            let (sent, received) = finish(&mut source, &mut sink);
            let (r, what) = (&received["streams"][0], format!("{backend}, {size}: {sent} {received}"));
            assert_eq!((number(&r["received"]), number(&r["lost"]), number(&r["corrupted"])), (30, 0, 0), "{what}");
            assert_eq!(number(&r["received_bytes"]), 10 * (size + 9018 + 64), "{what}");
            assert_eq!((number(&r["reordered"]), number(&received["timed_by"]["kernel"])), (0, 30), "{what}");
        }
        let stream = lab.stream(1, &json!({"fixed_bytes": 9018}), &json!({"max": true}));
        start(&mut source, &mut sink, &json!({"duration_ns": 200_000_000, "streams": [stream]}));
        let (sent, received) = finish(&mut source, &mut sink);
        let (s, r) = (&sent["streams"][0], &received["streams"][0]);
        assert!(number(&s["sent"]) > 1000, "{backend}: {sent}");
        assert_eq!((number(&r["corrupted"]), &r["balances"]), (0, &json!(true)), "{backend}: {sent} {received}");
    }
}

#[test]
fn the_probe_says_of_every_back_end_what_it_can_do_and_why_not() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    let probed = source.must("probe", json!({"iface": "eth-a"}));
    let all = probed["backends"].as_array().unwrap();
    let names: Vec<_> = all.iter().map(|b| b["backend"].as_str().unwrap()).collect();
    assert_eq!(names, ["xdp", "af_xdp", "af_packet", "memory", "pcap"]);
    for b in all {
        let can = b["can_send"] == true && b["can_receive"] == true;
        assert!(can || (b["reason"].is_string() && b["remedy"].is_string()), "{b}");
    }
    assert_eq!((&all[1]["can_send"], &all[1]["can_receive"]), (&json!(true), &json!(true)), "{probed}");
    assert_eq!(all[2]["max_frame_bytes"], 1518);
    lab.at_source(&["link", "set", "dev", "eth-a", "mtu", "9000"]);
    let probed = source.must("probe", json!({"iface": "eth-a"}));
    assert_eq!(probed["backends"][1]["max_frame_bytes"], 9018, "{probed}");
    assert_eq!(probed["backends"][2]["max_frame_bytes"], 9018, "{probed}");
    // Longer than three pages.
    lab.at_source(&["link", "set", "dev", "eth-a", "mtu", "20000"]);
    let probed = source.must("probe", json!({"iface": "eth-a"}));
    assert_eq!(probed["backends"][1]["can_send"], false, "{probed}");
    assert!(probed["backends"][1]["reason"].as_str().unwrap().contains("MTU of 20000"), "{probed}");
    assert!(probed["backends"][1]["remedy"].as_str().unwrap().contains("af_packet"), "{probed}");
}

/// A separate file name for a test. The file is removed when this is dropped.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("dutlab-{}-{name}.pcap", std::process::id())))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes 100 frames, due every millisecond, into a new file.
fn capture(lab: &Lab, file: &Scratch) {
    let mut writer = lab.source();
    let opened = writer.must("open", json!({"port": "p", "iface": file.name(), "backend": "pcap"}));
    assert_eq!(opened["backend"], "pcap");
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 100}), &json!({"pps": 1000.0}));
    stream["frames"] = json!(100);
    writer.must("arm", json!({"port": "p", "send": {"streams": [stream]}}));
    writer.must("start", json!({}));
    let sent = writer.must("wait", json!({"port": "p"}));
    assert_eq!((number(&sent["streams"][0]["sent"]), &sent["ended"]), (100, &json!("finished")), "{sent}");
}

/// Gives frame n of a file of 100-byte frames (96 without FCS) the stamp of 1 s and n ms.
fn restamp(file: &Scratch) {
    let mut bytes = std::fs::read(&file.0).unwrap();
    for (n, record) in (0_u32..).zip(bytes[24..].chunks_exact_mut(16 + 96)) {
        record[..4].copy_from_slice(&1_u32.to_ne_bytes());
        record[4..8].copy_from_slice(&(n * 1_000_000).to_ne_bytes());
    }
    std::fs::write(&file.0, bytes).unwrap();
}

#[test]
fn what_is_sent_into_a_file_is_read_by_others_and_leaves_again_in_its_own_time_or_another() {
    if !netns_or_skip() {
        return;
    }
    let (lab, file) = (Lab::direct(), Scratch::new("replay"));
    capture(&lab, &file);
    let (read, text) = lab.run_at_source(&["tcpdump", "-nn", "-vv", "-r", file.name()]);
    assert!(read && text.matches("172.16.0.2.40000 > 172.16.0.3.5001: [udp sum ok]").count() == 100, "{text}");
    restamp(&file);
    for backend in BACKENDS {
        let (mut source, mut sink) = both(&lab, backend);
        for (timing, rounds, span_ms) in [
            (json!({"speed": 1.0}), 1, 99),
            (json!({"speed": 2.0}), 1, 49),
            (json!({"speed": 0.5}), 1, 198),
            (json!({"max": true}), 30, 0),
        ] {
            let replay = json!({"path": file.name(), "stream": 9, "timing": timing, "rounds": rounds});
            start(&mut source, &mut sink, &json!({"replay": replay}));
            let sent = source.must("wait", json!({"port": "p"}));
            let s = &sent["streams"][0];
            let n = 100 * rounds;
            assert_eq!(
                (number(&s["stream"]), number(&s["intended"]), number(&s["sent"])),
                (9, n, n),
                "{backend}: {sent}"
            );
            assert_eq!(number(&s["sent_bytes"]), 100 * n, "{backend}: {sent}");
            let span = number(&s["last_monotonic_ns"]) - number(&s["first_monotonic_ns"]);
            // Never sooner than in the capture, except for the delay of the first frame.
            let ms = (span + number(&s["late_max_ns"])).div_ceil(1_000_000);
            assert!(ms >= span_ms && ms <= span_ms + 2000, "{backend} {timing}: {ms} ms");
            // The probes are of an earlier trial, so each frame is seen and belongs to no stream.
            let settle = json!({"port": "p", "sent": [], "drain_ns": 200_000_000});
            let received = sink.must("settle", settle);
            assert_eq!(number(&received["stale"]), n, "{backend}: {received}");
        }
    }
}

#[test]
fn a_file_that_is_no_capture_is_refused_with_the_place_of_the_fault() {
    if !netns_or_skip() {
        return;
    }
    let (lab, file) = (Lab::direct(), Scratch::new("bad"));
    capture(&lab, &file);
    let mut source = lab.source();
    let again = source.ask("open", json!({"port": "x", "iface": file.name(), "backend": "pcap"}));
    assert!(again["err"]["message"].as_str().unwrap().contains("exists already"), "{again}");
    source.open_with("af_packet");
    let mut refused = |bytes: &[u8]| {
        std::fs::write(file.name(), bytes).unwrap();
        let replay = json!({"port": "p", "send": {"replay": {"path": file.name()}}});
        let answer = source.ask("arm", replay);
        assert_eq!(answer["err"]["kind"], "bad_plan", "{answer}");
        answer["err"]["message"].as_str().unwrap().to_owned()
    };
    let good = std::fs::read(file.name()).unwrap();
    assert!(refused(&good[..good.len() - 5]).contains("(frame 100): the file ends too early"));
    assert!(refused(b"#!/bin/sh\necho no capture at all\n").contains("byte 0: "));
    assert!(refused(&good[..24]).contains("byte 24: there is no frame"));
    let mut huge = good.clone();
    huge[32..36].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert!(refused(&huge).contains("byte 32 (frame 1): a frame of 4294967295 bytes"));
    let mut long = good[..24].to_vec();
    for word in [0, 0, 3000_u32, 3000] {
        long.extend(word.to_ne_bytes());
    }
    long.extend([0; 3000]);
    assert!(refused(&long).contains("eth-a takes 1518"));
}

//! Tests of the `xdp` back end through the real agent: every frame accounted for, over a cable, through a Linux router
//! and through NAT. Requests that it cannot fulfil use another back end or are reported. However the agent ends, no
//! program stays attached.

mod lab;

use lab::{Agent, Lab, n, netns_or_skip};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn imix() -> Value {
    json!({"weighted": [{"bytes": 64, "weight": 7}, {"bytes": 594, "weight": 4}, {"bytes": 1518, "weight": 1}]})
}

/// Source and sink with the `xdp` back end on both.
fn both(lab: &Lab) -> (Agent, Agent) {
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    for agent in [&mut source, &mut sink] {
        assert_eq!(agent.open_with("auto")["backend"], "xdp");
    }
    (source, sink)
}

fn assert_conserved(s: &Value, r: &Value) {
    assert_eq!(n(&s["intended"]), n(&s["sent"]) + n(&s["refused"]), "{s}");
    assert_eq!(n(&r["received"]) + n(&r["lost"]), n(&s["sent"]) + n(&r["duplicated"]), "{s}\n{r}");
    assert_eq!((&r["balances"], &r["corrupted"], &r["guessed"]), (&json!(true), &json!(0), &json!(0)), "{r}");
}

#[test]
fn at_full_speed_over_a_cable_nothing_is_lost_and_nothing_is_unaccounted_for() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let (mut source, mut sink) = both(&lab);
    for sizes in [json!({"fixed_bytes": 64}), imix()] {
        let stream = lab.stream(7, &sizes, &json!({"max": true}));
        let plan = json!({"duration_ns": 300_000_000, "streams": [stream]});
        let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
        let (s, r) = (&sent["streams"][0], &received["streams"][0]);
        assert_conserved(s, r);
        assert!(n(&s["sent"]) > 10_000, "{sent}");
        assert_eq!(r["lost"], 0, "{sent}");
        // It is unknown which frames of a mix the driver refused, so their bytes are taken at the mean.
        let of_refused = if sizes.get("fixed_bytes").is_some() { 0 } else { 1518 * n(&s["refused"]) / 10 };
        assert!(n(&r["received_bytes"]).abs_diff(n(&s["sent_bytes"])) <= of_refused, "{sent}");
        assert_eq!((&r["reordered"], n(&r["latency"]["count"])), (&json!(0), n(&r["received"])));
        assert_eq!(r["sources"], json!([{"address": "172.16.0.2", "port": 40_000}]));
        let arrivals = json!({"card": 0, "kernel": n(&r["received"]), "engine": 0});
        assert_eq!((&sent["timed_by"], &received["timed_by"]), (&json!("kernel"), &arrivals));
    }
}

#[test]
fn checksums_of_frames_of_any_length_are_found_right() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let (mut source, mut sink) = both(&lab);
    // Behind 64 bytes the sum is taken in pieces of 512, 256, … 1 bytes: all of them, and an odd end.
    let sizes = json!({"sequence_bytes": [64, 65, 66, 68, 95, 128, 575, 1087, 1517, 1518]});
    let stream = lab.stream(7, &sizes, &json!({"pps": 20_000.0}));
    let plan = json!({"duration_ns": 100_000_000, "streams": [stream]});
    let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert_conserved(s, r);
    assert_eq!((n(&s["intended"]), n(&r["lost"])), (2000, 0), "{sent}\n{received}");
}

#[test]
fn a_paced_mix_with_many_flows_through_a_router_arrives_whole_and_in_the_asked_number() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::routed();
    let (mut source, mut sink) = both(&lab);
    let mut many = lab.stream(1, &imix(), &json!({"pps": 3000.0}));
    many["flows"] = json!({"count": 16, "source_ports": 1000, "source_addresses": 4, "seed": 1});
    let bursts =
        lab.stream(2, &json!({"fixed_bytes": 64}), &json!({"bursts": {"frames": 16, "period_ns": 10_000_000}}));
    let plan = json!({"duration_ns": 480_000_000, "streams": [many, bursts]});
    let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
    for (i, asked) in [(0, 1440), (1, 48 * 16)] {
        let (s, r) = (&sent["streams"][i], &received["streams"][i]);
        assert_conserved(s, r);
        assert_eq!((n(&s["intended"]), n(&r["lost"])), (asked, 0), "{sent}\n{received}");
    }
    // 120 rounds of 7 * 64 + 4 * 594 + 1518 bytes, if the machine let every frame leave in time
    if sent["streams"][0]["refused"] == 0 {
        assert_eq!(received["streams"][0]["received_bytes"], 120 * (7 * 64 + 4 * 594 + 1518));
    }
    assert_eq!(received["streams"][0]["sources"].as_array().unwrap().len(), 16);
}

#[test]
fn frames_that_a_driver_refused_open_no_ledger_at_a_receiver_in_user_space() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::routed();
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open_with("xdp");
    sink.open_with("af_packet");
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
    let plan = json!({"duration_ns": 200_000_000, "streams": [stream]});
    let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert!(n(&s["sent"]) > 0, "{sent}");
    assert!(s.get("numbered").is_none_or(|numbered| n(numbered) > n(&s["sent"])), "{sent}");
    assert_conserved(s, r);
}

#[test]
fn through_a_translating_router_streams_are_told_by_their_probes() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::routed();
    lab.translates();
    let (mut source, mut sink) = both(&lab);
    let stream = lab.stream(9, &json!({"fixed_bytes": 128}), &json!({"pps": 5000.0}));
    let plan = json!({"duration_ns": 300_000_000, "streams": [stream]});
    let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert_conserved(s, r);
    assert_eq!((n(&s["intended"]), n(&r["lost"])), (1500, 0), "{sent}\n{received}");
    assert_eq!(r["sources"][0]["address"], "172.16.10.1", "the router's own address");
}

#[test]
fn both_ports_of_one_agent_send_to_each_other_at_once() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::looped();
    lab.napi();
    let mut agent = lab.source();
    for iface in ["eth-a", "eth-b"] {
        let open = json!({"port": iface, "iface": iface, "backend": "xdp", "guard": {"allow": ["172.16.0.0/12"]}});
        assert_eq!(agent.must("open", open)["backend"], "xdp");
    }
    for (port, number, other) in [("eth-a", 1, 2), ("eth-b", 2, 1)] {
        let stream = lab.stream(number, &json!({"fixed_bytes": 64}), &json!({"pps": 20_000.0}));
        let send = json!({"duration_ns": 300_000_000, "streams": [stream]});
        agent.must("arm", json!({"port": port, "send": send, "receive": {"streams": [other]}}));
    }
    agent.must("start", json!({}));
    let sent = ["eth-a", "eth-b"].map(|port| agent.must("wait", json!({"port": port}))["streams"][0].clone());
    for (port, s) in [("eth-b", &sent[0]), ("eth-a", &sent[1])] {
        let told = json!([{"stream": s["stream"], "frames": s["sent"]}]);
        let settle = json!({"port": port, "sent": told, "drain_ns": 100_000_000});
        let received = agent.must("settle", settle);
        assert_conserved(s, &received["streams"][0]);
        assert_eq!((n(&s["intended"]), n(&received["streams"][0]["lost"])), (6000, 0), "{s}\n{received}");
    }
}

#[test]
fn a_rate_that_rises_pauses_and_is_changed_while_running_is_followed() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let (mut source, mut sink) = both(&lab);
    let stretch = |from: f64, to: f64, ns: u64| json!({"from_pps": from, "to_pps": to, "duration_ns": ns});
    let ramp = json!({"profile": [stretch(0.0, 20_000.0, 400_000_000)]});
    let steps = [(5000.0, 100_000_000), (0.0, 200_000_000), (10_000.0, 100_000_000)];
    let steps = json!({"profile": steps.map(|(pps, ns)| stretch(pps, pps, ns))});
    let streams =
        [lab.stream(1, &json!({"fixed_bytes": 64}), &ramp), lab.stream(2, &json!({"fixed_bytes": 64}), &steps)];
    let plan = json!({"duration_ns": 400_000_000, "streams": streams});
    let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
    // The area under each curve.
    for (i, asked) in [(0, 4000), (1, 1500)] {
        let (s, r) = (&sent["streams"][i], &received["streams"][i]);
        assert_conserved(s, r);
        assert_eq!(n(&r["lost"]), 0, "{received}");
        assert!(n(&s["intended"]).abs_diff(asked) <= asked / 20, "{s}");
    }

    let stream = lab.stream(3, &json!({"fixed_bytes": 64}), &json!({"pps": 10.0}));
    source.must("arm", json!({"port": "p", "send": {"duration_ns": 60_000_000_000_u64, "streams": [stream]}}));
    source.must("start", json!({}));
    std::thread::sleep(Duration::from_millis(500));
    source.must("rate", json!({"port": "p", "stream": 3, "rate": {"pps": 2000.0}}));
    std::thread::sleep(Duration::from_secs(1));
    source.must("stop", json!({}));
    let sent = source.must("wait", json!({"port": "p"}));
    assert_eq!(sent["ended"], "stopped", "{sent}");
    assert!((1500..5000).contains(&n(&sent["streams"][0]["sent"])), "{sent}");
}

#[test]
fn what_the_kernel_cannot_send_another_back_end_sends_and_says_so() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let (mut source, mut sink) = both(&lab);
    let many: Vec<_> = (1..=40).map(|i| lab.stream(i, &json!({"fixed_bytes": 64}), &json!({"pps": 100.0}))).collect();
    let plan = json!({"duration_ns": 200_000_000, "streams": many});
    let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
    assert!(sent["notes"][0].as_str().unwrap().contains("40 streams"), "{sent}");
    for (s, r) in sent["streams"].as_array().unwrap().iter().zip(received["streams"].as_array().unwrap()) {
        assert_conserved(s, r);
        assert_eq!((n(&s["intended"]), n(&r["lost"])), (20, 0), "{s}\n{r}");
    }
    // Now the same plan on a port that must use this back end.
    source.must("close", json!({"port": "p"}));
    source.open_with("xdp");
    source.must("arm", json!({"port": "p", "send": plan}));
    source.must("start", json!({}));
    let sent = source.must("wait", json!({"port": "p"}));
    assert_eq!((&sent["ended"], &sent["err"]["kind"]), (&json!("failed"), &json!("unsupported")), "{sent}");
}

#[test]
fn a_peer_without_napi_is_named_with_its_remedy_and_auto_does_without() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let mut source = lab.source();
    let open = |backend: &str| json!({"port": "p", "iface": "eth-a", "backend": backend, "guard": {"isolated": true}});
    let refused = source.ask("open", open("xdp"));
    assert_eq!(refused["err"]["kind"], "unsupported", "{refused}");
    assert!(refused["err"]["message"].as_str().unwrap().contains("NAPI"), "{refused}");
    assert!(refused["err"]["remedy"].as_str().unwrap().contains("gro on"), "{refused}");
    let opened = source.must("open", open("auto"));
    assert_ne!(opened["backend"], "xdp");
    assert!(opened["notes"].to_string().contains("NAPI"), "{opened}");
    source.must("close", json!({"port": "p"}));
    let probed = source.must("probe", json!({"iface": "eth-a"}));
    let xdp = probed["backends"].as_array().unwrap().iter().find(|b| b["backend"] == "xdp").unwrap();
    assert_eq!((&xdp["can_send"], &xdp["can_receive"]), (&json!(false), &json!(true)), "{probed}");
}

#[test]
fn another_xdp_program_is_left_alone_and_named() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    lab.napi();
    let other = lab.drops_at_source();
    let mut source = lab.source();
    let open = |backend: &str| json!({"port": "p", "iface": "eth-a", "backend": backend, "guard": {"isolated": true}});
    let refused = source.ask("open", open("xdp"));
    let id = lab.xdp_at_source().expect("the other program is attached");
    assert!(refused["err"]["message"].as_str().unwrap().contains(&format!("id {id} ")), "{refused}");
    assert!(refused["err"]["remedy"].as_str().unwrap().contains("xdp off"), "{refused}");
    assert_ne!(source.must("open", open("auto"))["backend"], "xdp");
    assert_eq!(lab.xdp_at_source(), Some(id));
    drop(other);
}

#[test]
fn without_the_permission_to_load_programs_auto_says_so_and_uses_another_back_end() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    // A new user namespace has its own network, and no eBPF.
    let make = "ip link add name eth-a type veth peer name eth-b && ip link set dev eth-a up && ip link set dev eth-b up \
                && ethtool -K eth-b gro on";
    let mut agent = Agent::unprivileged(make);
    let open = |backend: &str| json!({"port": "p", "iface": "eth-a", "backend": backend, "guard": {"isolated": true}});
    let refused = agent.ask("open", open("xdp"));
    assert_eq!((&refused["err"]["kind"], &refused["err"]["errno"]), (&json!("permission"), &json!(1)), "{refused}");
    assert!(refused["err"]["call"].as_str().unwrap().starts_with("bpf("), "{refused}");
    assert!(refused["err"]["remedy"].as_str().unwrap().contains("CAP_BPF"), "{refused}");
    let opened = agent.must("open", open("auto"));
    assert_ne!(opened["backend"], "xdp");
    assert!(opened["notes"].to_string().contains("permi"), "{opened}");
}

#[test]
fn a_port_that_vanishes_in_mid_send_ends_the_trial_with_its_name_and_what_was_sent() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for rate in [json!({"max": true}), json!({"pps": 1000.0})] {
        let lab = Lab::direct();
        let (mut source, _sink) = both(&lab);
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &rate);
        source.must("arm", json!({"port": "p", "send": {"duration_ns": 20_000_000_000_u64, "streams": [stream]}}));
        source.must("start", json!({}));
        std::thread::sleep(Duration::from_millis(1500));
        lab.at_source(&["link", "del", "dev", "eth-a"]);
        let sent = source.must("wait", json!({"port": "p"}));
        assert_eq!((&sent["ended"], &sent["err"]["kind"]), (&json!("failed"), &json!("port_lost")), "{sent}");
        assert!(sent["err"]["message"].as_str().unwrap().contains("eth-a"), "{sent}");
        assert!(n(&sent["streams"][0]["sent"]) > 100, "{sent}");
    }
}

#[test]
fn whatever_ends_the_agent_nothing_stays_attached() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    lab.napi();
    let begun = |lab: &Lab| {
        let mut agent = lab.source();
        agent.open_with("xdp");
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
        let send = json!({"duration_ns": 60_000_000_000_u64, "streams": [stream]});
        agent.must("arm", json!({"port": "p", "send": send, "receive": {"streams": [2]}}));
        agent.must("start", json!({}));
        assert!(lab.xdp_at_source().is_some(), "the receiver is attached while the trial lasts");
        agent
    };
    let mut closed = begun(&lab);
    closed.must("close", json!({"port": "p"}));
    assert_eq!(lab.xdp_at_source(), None, "after close");
    let mut hung_up = begun(&lab);
    assert!(hung_up.hang_up().success());
    assert_eq!(lab.xdp_at_source(), None, "after the end of stdin");
    let mut signalled = begun(&lab);
    signalled.signal("TERM");
    assert_eq!(lab.xdp_at_source(), None, "after SIGTERM");
    // Killed at a hundred different moments: while it loads, attaches, waits for the start, sends.
    let at = Instant::now();
    for i in 0..100_u64 {
        let mut agent = lab.source();
        let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
        let send = json!({"duration_ns": 60_000_000_000_u64, "streams": [stream]});
        agent.tell("open", json!({"port": "p", "iface": "eth-a", "backend": "xdp", "guard": {"isolated": true}}));
        agent.tell("arm", json!({"port": "p", "send": send, "receive": {"streams": [2]}}));
        agent.tell("start", json!({}));
        // A stride that shares no factor with the range visits all of it.
        std::thread::sleep(Duration::from_millis(i * 37 % 300));
        agent.signal("KILL");
        lab.until_detached();
    }
    assert!(at.elapsed() < Duration::from_secs(120), "{:?}", at.elapsed());
}

#[test]
fn a_program_that_an_earlier_trial_left_counts_for_the_next_trial_alone() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let (mut source, mut sink) = both(&lab);
    let plan = |frames: u64, numbers: &[u16]| {
        let stream = |number| {
            let mut s = lab.stream(number, &json!({"fixed_bytes": 64}), &json!({"pps": 10_000.0}));
            s["frames"] = json!(frames);
            s
        };
        json!({"streams": numbers.iter().map(|n| stream(*n)).collect::<Vec<_>>()})
    };
    let mut programs = Vec::new();
    // In turn: consecutive stream numbers, and others, some of which are of the previous trial.
    for (frames, numbers) in [(300, [7, 8]), (20, [8, 9]), (200, [3, 9]), (10, [4, 9]), (30, [2, 3])] {
        sink.must("arm", json!({"port": "p", "receive": {"streams": numbers}}));
        sink.must("start", json!({}));
        programs.push(lab.xdp_at_sink().expect("the receiver is attached while the trial lasts"));
        let told = numbers.map(|n| json!({"stream": n, "frames": 0}));
        sink.must("settle", json!({"port": "p", "sent": told}));
        assert_eq!(lab.xdp_at_sink(), None, "between trials");
        let (sent, received) = lab::trial(&mut source, &mut sink, &plan(frames, &numbers));
        for (i, number) in numbers.iter().enumerate() {
            let (s, r) = (&sent["streams"][i], &received["streams"][i]);
            assert_conserved(s, r);
            let found = (&r["stream"], &r["received"], &r["lost"], &r["latency"]["count"]);
            assert_eq!(found, (&json!(number), &json!(frames), &json!(0), &json!(frames)), "{received}");
        }
        assert_eq!(received["stale"], 0, "{received}");
    }
    let same = |a: usize, b: usize| programs[a] == programs[b];
    assert!(same(0, 1) && same(0, 4) && same(2, 3) && !same(0, 2), "{programs:?}");
}

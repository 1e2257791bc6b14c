//! Tests of the whole engine on real interfaces: agents in network namespaces, frames over veth and through a Linux
//! router.

mod lab;

use lab::{Lab, n, netns_or_skip, trial};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn imix() -> Value {
    json!({"weighted": [{"bytes": 64, "weight": 7}, {"bytes": 594, "weight": 4}, {"bytes": 1518, "weight": 1}]})
}

#[test]
fn every_frame_of_a_paced_mix_arrives_once_and_in_order() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    let stream = lab.stream(7, &imix(), &json!({"pps": 5000.0}));
    let (sent, received) = trial(&mut source, &mut sink, &json!({"duration_ns": 480_000_000, "streams": [stream]}));
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert_eq!((&s["intended"], &s["sent"], &s["refused"]), (&json!(2400), &json!(2400), &json!(0)), "{sent}");
    // 200 rounds of 7 * 64 + 4 * 594 + 1518 bytes
    assert_eq!((&s["sent_bytes"], &r["received_bytes"]), (&json!(868_400), &json!(868_400)));
    assert_eq!(
        (&r["received"], &r["lost"], &r["duplicated"], &r["reordered"]),
        (&json!(2400), &json!(0), &json!(0), &json!(0))
    );
    assert_eq!((&r["balances"], &r["corrupted"], &received["stale"]), (&json!(true), &json!(0), &json!(0)));
    let latency = &r["latency"];
    assert_eq!((&latency["count"], &latency["negative"]), (&json!(2400), &json!(0)));
    assert!(
        latency["min_ns"].as_u64().unwrap() > 100 && latency["max_ns"].as_u64().unwrap() < 1_000_000_000,
        "{latency}"
    );
    let least = latency["min_ns"].as_u64().unwrap();
    assert_eq!(latency["pdv_p999_ns"], latency["p999_ns"].as_u64().unwrap() - least, "RFC 5481: less the least");
    assert_eq!(latency["ipdv"]["count"], 2399, "each frame but the first has one before it");
    assert_eq!((&r["reordered_ratio"], &r["reordered_by_three"], &r["late"]), (&json!(0.0), &json!(0), &json!(0)));
    let gaps = &s["gaps"];
    assert_eq!(gaps["count"], 2399);
    // The sum of all gaps is the time from the first frame to the last: 200 µs each at 5000 frames a second, except for
    // delays of the two.
    let (all, late) = (gaps["mean_ns"].as_f64().unwrap() * 2399.0, s["late_max_ns"].as_f64().unwrap());
    assert!((all - 2399.0 * 200_000.0).abs() <= late + 1_000_000.0, "{s}");
    assert_eq!(r["sources"], json!([{"address": "172.16.0.2", "port": 40_000}]));
}

#[test]
fn all_that_is_sent_through_a_router_at_the_maximum_is_accounted_for() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::routed();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    for sizes in [json!({"fixed_bytes": 64}), imix()] {
        let stream = lab.stream(1, &sizes, &json!({"max": true}));
        let (sent, received) = trial(&mut source, &mut sink, &json!({"duration_ns": 300_000_000, "streams": [stream]}));
        let (s, r) = (&sent["streams"][0], &received["streams"][0]);
        let n = |v: &Value| v.as_u64().unwrap();
        assert_eq!(n(&s["intended"]), n(&s["sent"]) + n(&s["refused"]));
        assert!(n(&s["sent"]) > 1000, "{sent}");
        assert_eq!(n(&r["received"]) + n(&r["lost"]), n(&s["sent"]) + n(&r["duplicated"]));
        assert_eq!((&r["balances"], &r["corrupted"]), (&json!(true), &json!(0)));
        // Over veth no frame is lost on the way except those for which the receiver's ring had no room.
        assert_eq!(n(&r["lost"]), n(&received["kernel_dropped"]), "{received}");
    }
}

#[test]
fn streams_with_many_flows_and_their_own_rates_arrive_whole() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::routed();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    let mut many = lab.stream(1, &json!({"fixed_bytes": 100}), &json!({"pps": 4000.0}));
    many["flows"] = json!({"count": 16, "source_ports": 1000, "seed": 1});
    let mut bursts =
        lab.stream(2, &json!({"fixed_bytes": 64}), &json!({"bursts": {"frames": 16, "period_ns": 10_000_000}}));
    bursts["frames"] = json!(300);
    let (_, received) = trial(&mut source, &mut sink, &json!({"duration_ns": 250_000_000, "streams": [many, bursts]}));
    let [first, second] = received["streams"].as_array().unwrap().as_slice() else { panic!("{received}") };
    assert_eq!((&first["received"], &first["lost"], &first["corrupted"]), (&json!(1000), &json!(0), &json!(0)));
    assert_eq!(first["sources"].as_array().unwrap().len(), 16);
    assert_eq!((&second["received"], &second["lost"]), (&json!(300), &json!(0)));
}

#[test]
fn a_trial_does_not_count_the_frames_of_the_one_before() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    let plan = |frames: u64| {
        let mut s = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
        s["frames"] = json!(frames);
        json!({"streams": [s]})
    };
    // Sent while no trial counts, and still in the sink's ring when the next trial begins.
    source.must("arm", json!({"port": "p", "send": plan(500)}));
    source.must("start", json!({}));
    source.must("wait", json!({"port": "p"}));
    let (_, received) = trial(&mut source, &mut sink, &plan(50));
    assert_eq!((&received["streams"][0]["received"], &received["streams"][0]["lost"]), (&json!(50), &json!(0)));
}

#[test]
fn a_port_with_the_default_route_or_a_foreign_address_is_refused_unless_isolated() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    let open = |allow: &str, isolated: bool| json!({"port": "p", "iface": "eth-a", "guard": {"allow": [allow], "isolated": isolated}});
    let foreign = source.ask("open", open("10.0.0.0/8", false));
    assert_eq!(foreign["err"]["kind"], "guard_refused", "{foreign}");
    assert!(foreign["err"]["message"].as_str().unwrap().contains("172.16.0.2/24"), "{foreign}");
    lab.at_source(&["route", "add", "default", "via", "172.16.0.3"]);
    let default = source.ask("open", open("0.0.0.0/0", false));
    assert!(default["err"]["message"].as_str().unwrap().contains("default route"), "{default}");
    assert!(default["err"]["remedy"].as_str().unwrap().contains("isolated"), "{default}");
    lab.at_source(&["route", "del", "default"]);
    for route in [
        &["0.0.0.0/1", "via", "172.16.0.3"][..],
        &["128.0.0.0/1", "via", "172.16.0.3"],
        &["default", "via", "172.16.0.3", "table", "100"],
    ] {
        lab.at_source(&[&["route", "add"], route].concat());
        let wide = source.ask("open", open("0.0.0.0/0", false));
        assert_eq!(wide["err"]["kind"], "guard_refused", "{route:?}: {wide}");
        lab.at_source(&[&["route", "del"], route].concat());
    }
    source.must("open", open("10.0.0.0/8", true));
}

#[test]
fn a_port_that_shares_its_link_with_the_default_route_is_refused_by_every_door() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let run = |line: &str| lab.at_source(&line.split(' ').collect::<Vec<_>>());
    for (made, master) in [
        ("link add upper type bridge", true),
        ("link add upper type bond", true),
        ("link add link eth-a name upper type macvlan", false),
        ("link add link eth-a name upper type ipvlan", false),
        ("link add link eth-a name upper type vlan id 7", false),
    ] {
        let (there, said) = lab.run_at_source(&["sh", "-c", &format!("ip {made}")]);
        if !there {
            assert_ne!(made, "link add upper type bridge", "{said}");
            eprintln!("SKIP: this kernel cannot `ip {made}`");
            continue;
        }
        if master {
            run("link set eth-a down");
            run("link set eth-a master upper");
            run("link set eth-a up");
        }
        run("link set upper up");
        run("addr add 10.9.0.2/24 dev upper");
        run("route add default via 10.9.0.1 dev upper");
        let mut source = lab.source();
        let opened = source.ask("open", json!({"port": "p", "iface": "eth-a", "guard": {"allow": ["0.0.0.0/0"]}}));
        assert_eq!(opened["err"]["kind"], "guard_refused", "{made}: {opened}");
        assert!(opened["err"]["message"].as_str().unwrap().contains("upper, which shares a link"), "{made}: {opened}");
        let to = ["--to", "172.16.0.3", "--mac", "02:00:00:00:00:01", "--frames", "1", "--rate", "100pps"];
        let out = lab.engine(&[], &[&["send", "eth-a"][..], &to].concat()).output().unwrap();
        assert!(
            !out.status.success() && String::from_utf8_lossy(&out.stderr).contains("default route"),
            "{made}: {out:?}"
        );
        run("link del upper");
    }
}

#[test]
fn frames_for_an_address_outside_of_the_testbed_are_refused_unless_the_link_is_isolated() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 100.0}));
    let mut range = stream.clone();
    stream["destination"] = json!("8.8.8.8");
    range["destination"] = json!("172.31.255.255");
    range["flows"] = json!({"count": 2, "destination_addresses": 2});
    for (isolated, refused) in [(false, true), (true, false)] {
        let guard = json!({"allow": ["172.16.0.0/12"], "isolated": isolated});
        source.must("open", json!({"port": "p", "iface": "eth-a", "guard": guard}));
        for stray in [&stream, &range] {
            let said = source.ask("arm", json!({"port": "p", "send": {"duration_ns": 10_000_000, "streams": [stray]}}));
            assert_eq!(said["err"]["kind"] == "guard_refused", refused, "{said}");
        }
        source.must("close", json!({"port": "p"}));
    }
    let to = ["--to", "8.8.8.8", "--gateway", "172.16.0.3", "--rate", "100pps", "--frames", "1"];
    let out = lab.engine(&[], &[&["send", "eth-a"][..], &to].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("8.8.8.8") && said.contains("RFC 6815"), "{said}");
}

#[test]
fn more_streams_than_a_port_can_account_for_are_refused_in_words() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut sink = lab.sink();
    sink.open();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let refused = sink.ask("arm", json!({"port": "p", "receive": {"streams": all}}));
    assert_eq!(refused["err"]["kind"], "bad_plan", "{refused}");
    assert!(refused["err"]["message"].as_str().unwrap().contains("65536 streams"), "{refused}");
    let refused = sink.ask("arm", json!({"port": "p", "receive": {"streams": [1, 2, 1]}}));
    assert!(refused["err"]["message"].as_str().unwrap().contains("duplicate stream 1"), "{refused}");
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1, 2]}}));
}

#[test]
fn a_port_that_vanishes_while_it_sends_ends_the_trial_with_its_name_and_what_was_sent() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.open();
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 10_000.0}));
    source.must("arm", json!({"port": "p", "send": {"duration_ns": 20_000_000_000_u64, "streams": [stream]}}));
    source.must("start", json!({}));
    std::thread::sleep(Duration::from_millis(200));
    lab.at_source(&["link", "del", "dev", "eth-a"]);
    let sent = source.must("wait", json!({"port": "p"}));
    assert_eq!((&sent["ended"], &sent["err"]["kind"]), (&json!("failed"), &json!("port_lost")), "{sent}");
    assert!(sent["err"]["message"].as_str().unwrap().contains("eth-a"), "{sent}");
    assert!(sent["streams"][0]["sent"].as_u64().unwrap() > 100, "{sent}");
    assert_eq!(source.events[0]["event"], "failed");
}

#[test]
fn the_rate_can_be_changed_and_sending_stopped_while_it_lasts() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.open();
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 10.0}));
    let plan = json!({"port": "p", "events": true, "send": {"duration_ns": 60_000_000_000_u64, "streams": [stream]}});
    source.must("arm", plan);
    source.must("start", json!({}));
    std::thread::sleep(Duration::from_millis(500));
    source.must("rate", json!({"port": "p", "stream": 1, "rate": {"pps": 2000.0}}));
    std::thread::sleep(Duration::from_secs(1));
    source.must("stop", json!({}));
    let sent = source.must("wait", json!({"port": "p"}));
    let n = sent["streams"][0]["sent"].as_u64().unwrap();
    assert_eq!(sent["ended"], "stopped");
    // Half a second at 10 and a second at 2000; a loaded machine may be late by as much again.
    assert!((1500..5000).contains(&n), "{sent}");
    assert_eq!((&source.events[0]["event"], &source.events[0]["port"]), (&json!("second"), &json!("p")));
}

#[test]
fn the_agent_ends_with_its_stdin_even_in_mid_trial() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.open();
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
    let plan = json!({"port": "p", "send": {"duration_ns": 60_000_000_000_u64, "streams": [stream]}, "receive": {"streams": [2]}});
    source.must("arm", plan);
    source.must("start", json!({}));
    let before = Instant::now();
    assert!(source.hang_up().success());
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_plan_is_refused_with_every_fault_at_once() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.open();
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 9000}), &json!({"pps": -1.0}));
    stream["destination_mac"] = json!("nonsense");
    let reply = source.ask("arm", json!({"port": "p", "send": {"streams": [stream]}}));
    assert_eq!(reply["err"]["kind"], "bad_plan");
    let message = reply["err"]["message"].as_str().unwrap();
    for part in [
        "send.streams[0].sizes: 9000",
        "send.streams[0].rate: -1",
        "send.streams[0].destination_mac",
        "nothing ends this stream",
    ] {
        assert!(message.contains(part), "{part:?} is missing in:\n{message}");
    }
}

#[test]
fn an_engine_that_is_suspended_in_mid_trial_on_one_cpu_still_accounts_for_every_frame() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::looped();
    lab.napi();
    let mac = lab.mac("source", "eth-b");
    for backend in ["xdp", "af_xdp", "af_packet"] {
        let arguments = ["forward-test", "eth-a", "eth-b", "--backend", backend, "--rate", "5kpps", "--duration", "1s"];
        let more = ["--to", "172.16.1.2", "--mac", &mac, "--json", "--quiet"];
        let mut engine = lab.engine(&["taskset", "-c", "0"], &[&arguments[..], &more].concat());
        let engine = engine.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let signal = |name: &str| {
            let pid = engine.id().to_string();
            assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
        };
        std::thread::sleep(Duration::from_millis(700));
        signal("-STOP");
        std::thread::sleep(Duration::from_secs(1));
        signal("-CONT");
        let out = engine.wait_with_output().unwrap();
        let ledger = serde_json::from_slice::<Value>(&out.stdout).unwrap()["ledger"].clone();
        assert_eq!((&ledger["intended"], &ledger["balances"]), (&json!(5000), &json!(true)), "{backend}: {ledger}");
        assert_eq!(n(&ledger["intended"]), n(&ledger["sent"]) + n(&ledger["refused"]), "{backend}: {ledger}");
        assert_eq!(ledger["lost"], ledger["lost_here"], "{backend}: {ledger}");
    }
}

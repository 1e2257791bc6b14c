//! Receiving on several queues, and where the driver has no XDP.

mod lab;

use lab::{Lab, netns_or_skip};
use serde_json::{Value, json};

fn n(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no count"))
}

#[test]
fn frames_of_two_queues_are_accounted_for_whole_by_every_back_end() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let cpus = std::thread::available_parallelism().unwrap().get();
    for backend in ["xdp", "af_xdp", "af_packet"] {
        let lab = Lab::direct_with_two_queues();
        lab.napi();
        let mut sink = lab.sink();
        assert_eq!(sink.open_with(backend)["backend"], backend);
        sink.must("arm", json!({"port": "p", "receive": {"streams": [1, 2], "absorb_udp_ports": [5001]}}));
        sink.must("start", json!({}));
        // A veth takes the queue of the sender's CPU.
        let mut sources = [1_u16, 2].map(|number| {
            let mut source = lab.source();
            source.must(
                "open",
                json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": {"isolated": true},
                       "cpu": usize::from(number) % cpus}),
            );
            let stream = lab.stream(number, &json!({"fixed_bytes": 64}), &json!({"pps": 5000.0}));
            source.must("arm", json!({"port": "p", "send": {"duration_ns": 200_000_000, "streams": [stream]}}));
            source
        });
        for source in &mut sources {
            source.must("start", json!({}));
        }
        let sent = sources.each_mut().map(|s| s.must("wait", json!({"port": "p"}))["streams"][0].clone());
        let told: Vec<_> = sent.iter().map(|s| json!({"stream": s["stream"], "frames": s["sent"]})).collect();
        let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 300_000_000}));
        for (s, r) in sent.iter().zip(received["streams"].as_array().unwrap()) {
            assert_eq!((n(&s["sent"]), n(&r["received"]), n(&r["lost"])), (1000, 1000, 0), "{backend}: {s} {r}");
            assert_eq!((n(&r["duplicated"]), &r["balances"]), (0, &json!(true)), "{backend}: {r}");
            // The CPUs of several queues have no common order of arrival.
            assert_eq!(r.get("reordered_by_three").is_none(), backend == "xdp", "{backend}: {r}");
        }
        if cpus > 1 && backend != "af_packet" {
            let counters = lab.exec("sink", &["ethtool", "-S", "eth-a"]);
            for queue in ["rx_queue_0_xdp_packets", "rx_queue_1_xdp_packets"] {
                let count = counters.lines().find_map(|l| l.trim().strip_prefix(queue)?.strip_prefix(": "));
                assert!(count.is_some_and(|c| c != "0"), "{backend}: {queue} in {counters}");
            }
        }
    }
}

#[test]
fn where_the_driver_has_no_xdp_frames_are_counted_in_the_stack_and_the_port_says_so() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    // A bridge has no XDP of its own.
    lab.at_sink(&["link", "add", "name", "br-a", "type", "bridge"]);
    lab.at_sink(&["link", "set", "dev", "br-a", "address", &lab.mac("sink", "eth-a"), "up"]);
    lab.at_sink(&["link", "set", "dev", "eth-a", "master", "br-a"]);
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open_with("af_packet");
    let opened =
        sink.must("open", json!({"port": "p", "iface": "br-a", "backend": "xdp", "guard": {"isolated": true}}));
    let notes = opened["notes"].to_string();
    assert!(notes.contains("generic XDP") && notes.contains("can only receive"), "{opened}");
    let stream = lab.stream(1, &json!({"fixed_bytes": 100}), &json!({"pps": 5000.0}));
    let (sent, received) =
        lab::trial(&mut source, &mut sink, &json!({"duration_ns": 200_000_000, "streams": [stream]}));
    let r = &received["streams"][0];
    assert_eq!(
        (n(&sent["streams"][0]["sent"]), n(&r["received"]), n(&r["lost"])),
        (1000, 1000, 0),
        "{sent} {received}"
    );
    assert_eq!((&r["corrupted"], &r["balances"]), (&json!(0), &json!(true)), "{received}");
    // It cannot send by redirection, and says which back ends can.
    let stream = lab.stream(2, &json!({"fixed_bytes": 100}), &json!({"pps": 5000.0}));
    let refused = sink.ask("arm", json!({"port": "p", "send": {"duration_ns": 1_000_000, "streams": [stream]}}));
    assert!(refused["err"]["message"].as_str().unwrap().contains("p can only receive"), "{refused}");
    let probed = sink.must("probe", json!({"iface": "br-a"}));
    let xdp = probed["backends"].as_array().unwrap().iter().find(|b| b["backend"] == "xdp").unwrap();
    assert_eq!((&xdp["can_send"], &xdp["can_receive"]), (&json!(false), &json!(true)), "{probed}");
    assert!(xdp["reason"].as_str().unwrap().contains("generic XDP"), "{xdp}");
    assert!(xdp["remedy"].as_str().unwrap().contains("af_packet"), "{xdp}");
}

#[test]
fn a_frame_that_does_not_fit_the_mtu_is_refused_by_xdp_before_anything_is_attached() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    lab.napi();
    lab.at_source(&["link", "set", "dev", "eth-a", "mtu", "500"]);
    let mut source = lab.source();
    source.open_with("xdp");
    let probed = source.must("probe", json!({"iface": "eth-a"}));
    assert_eq!(probed["backends"][0]["max_frame_bytes"], 500 + 14 + 4 + 4, "a VLAN tag fits as well: {probed}");
    let stream = lab.stream(1, &json!({"fixed_bytes": 1518}), &json!({"pps": 1000.0}));
    let refused = source.ask("arm", json!({"port": "p", "send": {"duration_ns": 1_000_000, "streams": [stream]}}));
    assert_eq!(refused["err"]["kind"], "bad_plan", "{refused}");
    let said = refused["err"].to_string();
    assert!(said.contains("1518") && said.contains("500"), "{refused}");
    assert_eq!(lab.xdp_at_source(), None);
}

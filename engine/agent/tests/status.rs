//! Tests of counters in the middle of a trial: frames that are certainly lost by then, an early end, and the cause of
//! frames that were never sent.

mod lab;

use lab::{Agent, Device, Lab, n, netns_or_skip};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

fn begin(source: &mut Agent, sink: &mut Agent, plan: &Value) {
    sink.must("arm", json!({"port": "p", "receive": {"streams": [3], "absorb_udp_ports": [5001]}}));
    source.must("arm", json!({"port": "p", "send": plan}));
    sink.must("start", json!({}));
    source.must("start", json!({}));
}

const LOOKS: u32 = 600;

fn status_soon(agent: &mut Agent) -> Value {
    sleep(Duration::from_millis(100));
    agent.must("status", json!({"port": "p"}))
}

#[test]
fn gaps_in_the_numbers_tell_what_a_device_dropped_so_far_and_a_trial_stopped_there_is_whole() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for backend in ["xdp", "af_packet"] {
        let lab = Lab::bridged();
        lab.napi();
        let (mut source, mut sink) = (lab.source(), lab.sink());
        source.open_with(backend);
        sink.open_with(backend);
        let mut device = Device::start(&lab, &["drops", "7"]);
        let stream = lab.stream(3, &json!({"fixed_bytes": 100}), &json!({"pps": 20_000.0}));
        begin(&mut source, &mut sink, &json!({"duration_ns": 600_000_000_000_u64, "streams": [stream]}));
        // If threads get no CPU for a while, counters are late, and many frames arrive between the two readings.
        let (mut there, mut here) = (Value::Null, Value::Null);
        let told = (0..LOOKS).any(|_| {
            there = status_soon(&mut sink);
            let receiving = &there["receiving"]["streams"][0];
            let (next, arrived) = (receiving["next_sequence"].as_u64(), receiving["received"].as_u64());
            next.zip(arrived).is_some_and(|(next, arrived)| {
                let lost = next.saturating_sub(arrived);
                next > 1000
                    && lost <= next / 7
                    && lost + 20 >= next / 7
                    && n(&there["receiving"]["age_ns"]) < 200_000_000
            })
        });
        assert!(told, "{backend}: a seventh is lost: {there}");
        let receiving = &there["receiving"]["streams"][0];
        let known = (0..LOOKS).any(|_| {
            here = status_soon(&mut source);
            here["sending"]["streams"][0]["numbered"].as_u64() >= receiving["next_sequence"].as_u64()
        });
        assert!(known, "{backend}: all that arrived was sent: {here} {there}");
        assert!(here.get("receiving").is_none() && there.get("sending").is_none(), "{here} {there}");
        assert_eq!((&here["sending"]["streams"][0]["stream"], &receiving["stream"]), (&json!(3), &json!(3)));

        source.must("stop", json!({"ports": ["p"]}));
        let sent = source.must("wait", json!({"port": "p"}));
        let s = &sent["streams"][0];
        assert_eq!(sent["ended"], "stopped", "{sent}");
        assert!(s["seconds"].as_f64().unwrap() < 300.0, "{sent}");
        assert_eq!(n(&s["intended"]), n(&s["sent"]) + n(&s["refused"]), "{sent}");
        let told = json!([{"stream": 3, "frames": s["sent"]}]);
        let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 200_000_000}));
        let r = &received["streams"][0];
        assert_eq!((&r["balances"], n(&r["lost"])), (&json!(true), n(&device.counts()["wronged"])), "{received}");
        assert_eq!(n(&r["lost"]), n(&s["sent"]) / 7, "{received}");
    }
}

#[test]
fn before_a_trial_a_port_has_no_counters_and_of_none_that_is_open_there_is_a_fault() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    assert_eq!(source.ask("status", json!({"port": "p"}))["err"]["kind"], "wrong_state");
    source.open();
    assert_eq!(source.must("status", json!({"port": "p"})), json!({"port": "p"}));
}

#[test]
fn what_a_full_router_does_not_take_is_refused_by_the_peer_and_used_up_its_numbers() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::routed();
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open_with("xdp");
    sink.open_with("xdp");
    let stream = lab.stream(3, &json!({"fixed_bytes": 64}), &json!({"max": true}));
    begin(&mut source, &mut sink, &json!({"duration_ns": 400_000_000, "streams": [stream]}));
    let sent = source.must("wait", json!({"port": "p"}));
    let s = &sent["streams"][0];
    assert_eq!(n(&s["backpressure"]), n(&s["refused"]), "at full speed nothing else is refused: {sent}");
    if n(&s["refused"]) > 0 {
        assert_eq!(n(&s["numbered"]), n(&s["sent"]) + n(&s["refused"]), "{sent}");
    }
    sink.must("settle", json!({"port": "p", "sent": []}));
}

#[test]
fn what_the_generator_cannot_make_in_time_is_refused_by_nobody() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut source = lab.source();
    source.must("open", json!({"port": "p", "backend": "memory"}));
    let stream = lab.stream(3, &json!({"fixed_bytes": 64}), &json!({"pps": 2e9}));
    source.must("arm", json!({"port": "p", "send": {"duration_ns": 50_000_000, "streams": [stream]}}));
    source.must("start", json!({}));
    let sent = source.must("wait", json!({"port": "p"}));
    let s = &sent["streams"][0];
    assert!(n(&s["refused"]) > 1_000_000, "{sent}");
    assert_eq!(s["backpressure"], 0, "{sent}");
}

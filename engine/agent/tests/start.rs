//! Tests of the start of a trial: at an instant of either clock, and half by half.

mod lab;

use lab::{Agent, Lab, n, netns_or_skip};
use serde_json::{Value, json};

fn arm(source: &mut Agent, sink: &mut Agent, lab: &Lab) {
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 1000.0}));
    stream["frames"] = json!(50);
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1], "absorb_udp_ports": [5001]}}));
    source.must("arm", json!({"port": "p", "send": {"streams": [stream]}}));
}

#[test]
fn the_wall_clock_names_the_same_instant_as_the_monotonic_one_and_both_at_once_are_refused() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    arm(&mut source, &mut sink, &lab);
    let time = source.must("clock", json!({}));
    let (received, replied) = (n(&time["received_monotonic_ns"]), n(&time["replied_monotonic_ns"]));
    assert!(received <= replied && replied - received < 1_000_000_000, "{time}");
    // Longer than a busy machine keeps a process off its CPU.
    let (wall, ahead) = (n(&time["realtime_ns"]), 2_000_000_000);
    let both = source.ask("start", json!({"at_realtime_ns": wall + ahead, "at_monotonic_ns": replied + ahead}));
    assert_eq!(both["err"]["kind"], "bad_request", "{both}");
    sink.must("start", json!({}));
    let started = source.must("start", json!({"at_realtime_ns": wall + ahead}));
    // The wall clock was read between the two; allow for a slewed clock, and for a CPU lost between the readings for
    // this start.
    let at = n(&started["at_monotonic_ns"]);
    assert!(at + 500_000_000 > received + ahead && at < replied + ahead + 500_000_000, "{time} {started}");
    let sent = source.must("wait", json!({"port": "p"}));
    let s = &sent["streams"][0];
    assert!(n(&s["first_monotonic_ns"]) >= n(&started["at_monotonic_ns"]), "{started} {sent}");
    let told = json!([{"stream": 1, "frames": s["sent"]}]);
    let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 100_000_000}));
    assert_eq!(received["streams"][0]["received"], 50, "{received}");
}

#[test]
fn ports_that_send_to_one_another_all_receive_before_the_first_one_sends() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut agents = [lab.source(), lab.sink()];
    let macs = [lab.mac("sink", "eth-a"), lab.mac("source", "eth-a")];
    let addresses = ["172.16.0.2", "172.16.0.3"];
    for (i, agent) in agents.iter_mut().enumerate() {
        agent.open();
        let stream = json!({"stream": i + 1, "destination_mac": macs[i], "source": addresses[i], "destination": addresses[1 - i],
            "source_port": 40_000, "destination_port": 5001, "sizes": {"fixed_bytes": 64}, "rate": {"pps": 1000.0}, "frames": 50});
        let receive = json!({"streams": [2 - i], "absorb_udp_ports": [5001]});
        agent.must("arm", json!({"port": "p", "send": {"streams": [stream]}, "receive": receive}));
    }
    for agent in &mut agents {
        agent.must("start", json!({"half": "receive"}));
        assert_eq!(agent.ask("start", json!({"half": "receive"}))["err"]["kind"], "wrong_state", "it has begun");
        assert_eq!(agent.ask("wait", json!({"port": "p"}))["err"]["kind"], "wrong_state", "nothing is sent yet");
    }
    for agent in &mut agents {
        agent.must("start", json!({"half": "send"}));
    }
    let sent: Vec<Value> = agents.iter_mut().map(|a| a.must("wait", json!({"port": "p"}))).collect();
    for (i, agent) in agents.iter_mut().enumerate() {
        let told = json!([{"stream": 2 - i, "frames": sent[1 - i]["streams"][0]["sent"]}]);
        let received = agent.must("settle", json!({"port": "p", "sent": told, "drain_ns": 100_000_000}));
        let r = &received["streams"][0];
        assert_eq!((&r["received"], &r["balances"]), (&json!(50), &json!(true)), "{received}");
    }
}

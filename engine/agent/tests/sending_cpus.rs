//! Tests of a port that sends on several CPUs at kernel speed: streams distributed over them, and one stream shared by
//! them. Every frame is accounted for as if one CPU had sent it; only the order of arrival of a shared stream is
//! undefined.

mod lab;

use lab::{Agent, Lab, n, netns_or_skip};
use serde_json::{Value, json};
use std::time::Duration;

const CPUS: [u32; 2] = [0, 1];

/// Makes a cable with `queues` queues, and opens the `xdp` back end on both ends. `None` if there is only one CPU.
fn both(queues: u32) -> Option<(Lab, Agent, Agent)> {
    if !netns_or_skip() || std::thread::available_parallelism().unwrap().get() < 2 {
        return None;
    }
    let lab = Lab::direct_with_queues(queues);
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    let open = |cpus: &[u32]| json!({"port": "p", "iface": "eth-a", "backend": "xdp", "guard": {"isolated": true}, "cpu": cpus});
    source.must("open", open(&CPUS));
    sink.must("open", open(&[]));
    Some((lab, source, sink))
}

fn assert_conserved(s: &Value, r: &Value) {
    assert_eq!(n(&s["intended"]), n(&s["sent"]) + n(&s["refused"]), "{s}");
    assert_eq!(n(&r["received"]) + n(&r["lost"]), n(&s["sent"]) + n(&r["duplicated"]), "{s}\n{r}");
    assert_eq!((&r["balances"], &r["corrupted"], &r["guessed"]), (&json!(true), &json!(0), &json!(0)), "{s}\n{r}");
    assert_eq!((n(&r["lost"]), n(&r["duplicated"])), (0, 0), "{s}\n{r}");
}

/// Checks that frames were skipped only by a thread that lost its CPU for too long.
fn assert_made_in_time(s: &Value) {
    assert!(n(&s["refused"]) == 0 || n(&s["late_max_ns"]) > 100_000_000, "{s}");
}

fn each_cpu_sends(source: &Agent) -> bool {
    let threads = source.cpus_of_threads();
    CPUS.iter().all(|cpu| threads.contains(&cpu.to_string()))
}

/// Waits until both threads send: a thread that has not begun yet moves itself to its CPU later, wherever a test has
/// moved it.
fn until_both_send(source: &Agent) {
    while !each_cpu_sends(source) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_stream_that_two_cpus_share_arrives_whole_in_the_number_that_was_asked_for() {
    let _alone = lab::alone();
    for queues in [1, 2, 4] {
        let Some((lab, mut source, mut sink)) = both(queues) else { return };
        let sizes = json!({"sequence_bytes": [64, 128, 1518]});
        for (rate, frames) in [
            (json!({"pps": 12_345.0}), None),
            (json!({"pps": 20_000.0}), Some(9_999)),
            (json!({"bursts_at": {"frames": 16, "pps": 20_000.0}}), Some(10_001)),
            (json!({"max": true}), Some(200_001)),
            (json!({"pps": 3.0}), Some(1)),
        ] {
            let mut stream = lab.stream(1, &sizes, &rate);
            stream["flows"] = json!({"count": 1000, "source_ports": 1000});
            let mut plan = json!({"duration_ns": 1_000_000_000, "streams": [stream]});
            if let Some(frames) = frames {
                plan["streams"][0]["frames"] = json!(frames);
            }
            let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
            let (s, r) = (&sent["streams"][0], &received["streams"][0]);
            assert_conserved(s, r);
            assert_eq!(n(&s["intended"]), frames.unwrap_or(12_345), "{queues} queues, {rate}: {s}");
            if rate.get("max").is_none() {
                assert_made_in_time(s);
                assert_eq!(n(&r["received_bytes"]), n(&s["sent_bytes"]), "{queues} queues, {rate}: {s}\n{r}");
                // A third of the frames has each length: the length follows from the number, whichever CPU sends it.
                let rounds = n(&s["sent"]) / 3;
                let rest: u64 = [64, 128, 1518][..usize::try_from(n(&s["sent"]) % 3).unwrap()].iter().sum();
                assert_eq!(n(&s["sent_bytes"]), rounds * (64 + 128 + 1518) + rest, "{queues} queues, {rate}: {s}");
            }
            assert!(s["gaps"].is_null(), "nobody saw the frames of both CPUs in one order: {s}");
        }
    }
}

#[test]
fn at_full_speed_two_cpus_use_up_each_number_once_whichever_is_ahead() {
    let _alone = lab::alone();
    for queues in [1, 2] {
        let Some((lab, mut source, mut sink)) = both(queues) else { return };
        for flows in [1, 500] {
            let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
            stream["flows"] = json!({"count": flows, "source_ports": flows});
            let plan = json!({"duration_ns": 500_000_000, "streams": [stream]});
            let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
            let (s, r) = (&sent["streams"][0], &received["streams"][0]);
            assert_conserved(s, r);
            assert!(n(&s["sent"]) > 20_000, "{s}");
            let numbered = s.get("numbered").map_or(n(&s["sent"]), n);
            assert_eq!(numbered, n(&s["intended"]), "a number for each frame that was tried: {s}");
        }
    }
}

#[test]
fn a_paced_stream_that_the_device_cannot_take_keeps_its_numbers_on_both_cpus() {
    let _alone = lab::alone();
    let Some((lab, mut source, mut sink)) = both(2) else { return };
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 20_000_000.0}));
    let plan = json!({"duration_ns": 500_000_000, "streams": [stream]});
    let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert_conserved(s, r);
    assert_eq!(n(&s["intended"]), 10_000_000, "{s}");
    assert!(n(&s["refused"]) > 0, "{s}");
    // A frame that came back is offered again with its number: at the end each CPU has at most one bulk of them.
    let numbered = s.get("numbered").map_or(n(&s["sent"]), n);
    assert!(numbered - n(&s["sent"]) <= 2 * 16, "{s}");
}

#[test]
fn streams_of_their_own_keep_their_order_and_their_gaps_on_the_cpu_that_has_them() {
    let _alone = lab::alone();
    let Some((lab, mut source, mut sink)) = both(2) else { return };
    let streams: Vec<_> = (1..=5)
        .map(|i| {
            let sizes = if i == 2 { json!({"sequence_bytes": [64, 1518]}) } else { json!({"fixed_bytes": 60 + 4 * i}) };
            lab.stream(i, &sizes, &json!({"pps": 1000.0 * f64::from(i)}))
        })
        .collect();
    let (sent, received) = lab::trial(&mut source, &mut sink, &json!({"duration_ns": 500_000_000, "streams": streams}));
    for (i, (s, r)) in
        sent["streams"].as_array().unwrap().iter().zip(received["streams"].as_array().unwrap()).enumerate()
    {
        assert_conserved(s, r);
        assert_eq!((n(&s["stream"]), n(&s["intended"])), (i as u64 + 1, 500 * (i as u64 + 1)), "{s}");
        assert_made_in_time(s);
        assert_eq!(n(&r["reordered"]), 0, "{s}\n{r}");
        assert_eq!(n(&s["gaps"]["count"]), n(&s["sent"]) - 1, "{s}");
    }
}

#[test]
fn a_rate_that_rises_and_is_changed_while_two_cpus_send_is_followed_by_both() {
    let _alone = lab::alone();
    let Some((lab, mut source, mut sink)) = both(2) else { return };
    let ramp = json!({"profile": [{"from_pps": 0.0, "to_pps": 20_000.0, "duration_ns": 400_000_000}]});
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &ramp);
    let (sent, received) =
        lab::trial(&mut source, &mut sink, &json!({"duration_ns": 400_000_000, "streams": [stream]}));
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert_conserved(s, r);
    // The area under the ramp.
    assert!(n(&s["intended"]).abs_diff(4000) <= 200, "{s}");

    let stream = lab.stream(2, &json!({"fixed_bytes": 64}), &json!({"pps": 10.0}));
    sink.must("arm", json!({"port": "p", "receive": {"streams": [2], "absorb_udp_ports": [5001]}}));
    source.must("arm", json!({"port": "p", "send": {"duration_ns": 60_000_000_000_u64, "streams": [stream]}}));
    sink.must("start", json!({}));
    source.must("start", json!({}));
    until_both_send(&source);
    std::thread::sleep(Duration::from_millis(500));
    source.must("rate", json!({"port": "p", "stream": 2, "rate": {"pps": 4000.0}}));
    std::thread::sleep(Duration::from_millis(500));
    assert!(each_cpu_sends(&source), "a thread stays on each CPU that was named");
    source.must("stop", json!({}));
    let sent = source.must("wait", json!({"port": "p"}));
    let received = sink.must("settle", json!({"port": "p", "sent": lab::told(&sent), "drain_ns": 300_000_000}));
    assert_eq!(sent["ended"], "stopped", "{sent}");
    assert_conserved(&sent["streams"][0], &received["streams"][0]);
    assert!(n(&sent["streams"][0]["sent"]) >= 1000, "{sent}");
}

#[test]
fn a_thread_that_somebody_takes_off_its_cpu_ends_the_trial_in_words() {
    let _alone = lab::alone();
    let Some((lab, mut source, _sink)) = both(2) else { return };
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 1000.0}));
    source.must("arm", json!({"port": "p", "send": {"duration_ns": 60_000_000_000_u64, "streams": [stream]}}));
    source.must("start", json!({}));
    until_both_send(&source);
    source.move_to(0);
    let sent = source.must("wait", json!({"port": "p"}));
    assert_eq!(sent["ended"], "failed", "{sent}");
    assert!(sent["err"]["message"].as_str().unwrap().contains("off it"), "{sent}");
}

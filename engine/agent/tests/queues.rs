//! Tests of receiving on several queues, and on drivers without XDP.

mod lab;

use lab::{Agent, Device, Lab, n, netns_or_skip};
use serde_json::{Value, json};

#[test]
fn frames_of_two_queues_are_accounted_for_whole_by_every_back_end() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let cpus = std::thread::available_parallelism().unwrap().get();
    for backend in ["xdp", "af_xdp", "af_packet"] {
        let lab = Lab::direct_with_queues(2);
        lab.napi();
        let mut sink = lab.sink();
        assert_eq!(sink.open_with(backend)["backend"], backend);
        sink.must("arm", json!({"port": "p", "receive": {"streams": [1, 2], "absorb_udp_ports": [5001]}}));
        sink.must("start", json!({}));
        // A frame gets the veth queue of the sender's CPU.
        let mut sources = [1_u16, 2].map(|number| {
            let mut source = lab.source();
            source.must(
                "open",
                json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": {"isolated": true},
                       "cpu": usize::from(number) % cpus}),
            );
            let mut stream = lab.stream(number, &json!({"fixed_bytes": 64}), &json!({"pps": 5000.0}));
            stream["frames"] = json!(1000);
            source.must("arm", json!({"port": "p", "send": {"streams": [stream]}}));
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
            // Each stream comes on one queue, which af_packet does not know; in the kernel CPUs have no common order
            // for the last three.
            assert_eq!(r["reordered"], if backend == "af_packet" { Value::Null } else { json!(0) }, "{backend}: {r}");
            assert_eq!(
                r["reordered_by_three"],
                if backend == "af_xdp" { json!(0) } else { Value::Null },
                "{backend}: {r}"
            );
        }
        if cpus > 1 && backend != "af_packet" {
            assert!(taken_by_queue(&lab, 2).iter().all(|n| *n > 0), "{backend}: {:?}", taken_by_queue(&lab, 2));
        }
    }
}

/// Returns the number of frames that an XDP program at the sink saw on each receive queue.
fn taken_by_queue(lab: &Lab, queues: u32) -> Vec<u64> {
    let counters = lab.exec("sink", &["ethtool", "-S", "eth-a"]);
    let count = |name: String| counters.lines().find_map(|l| l.trim().strip_prefix(&name)?.parse().ok());
    (0..queues).map(|q| count(format!("rx_queue_{q}_xdp_packets: ")).unwrap_or_else(|| panic!("{counters}"))).collect()
}

/// Opens `eth-a` as port `p` with a thread for each of `cpus`.
fn open_on(agent: &mut Agent, backend: &str, cpus: &[u32]) {
    let open = json!({"port": "p", "iface": "eth-a", "backend": backend, "guard": {"isolated": true}, "cpu": cpus});
    assert_eq!(agent.must("open", open)["backend"], backend);
}

/// Sends `streams` streams of `frames` frames each, and returns the counters of each: as sent, as received.
fn streams_through(lab: &Lab, source: &mut Agent, sink: &mut Agent, streams: u16, frames: u64) -> Vec<(Value, Value)> {
    let stream = |number| {
        let mut stream = lab.stream(number, &json!({"fixed_bytes": 100}), &json!({"pps": 4000.0}));
        (stream["frames"], stream["source_port"]) = (json!(frames), json!(40_000 + number));
        stream
    };
    let streams: Vec<_> = (1..=streams).map(stream).collect();
    let (sent, received) = lab::trial(source, sink, &json!({"streams": streams}));
    assert_eq!((&received["kernel_dropped"], &received["stale"]), (&json!(0), &json!(0)), "{received}");
    let each = |of: &Value| of["streams"].as_array().unwrap().clone();
    each(&sent).into_iter().zip(each(&received)).collect()
}

/// Describes a stream for the message of a failure.
fn brief(sent: &Value, received: &Value) -> String {
    let of = |v: &Value, keys: &[&str]| keys.iter().map(|k| format!("{k} {}", v[k])).collect::<Vec<_>>().join(", ");
    let keys = ["stream", "received", "lost", "duplicated", "reordered", "reordered_by_three", "corrupted", "balances"];
    format!("{} / {}", of(sent, &["intended", "sent", "refused"]), of(received, &keys))
}

/// Returns two CPUs, or the same one twice.
fn two_cpus() -> [u32; 2] {
    [0, u32::from(std::thread::available_parallelism().unwrap().get() > 1)]
}

#[test]
fn what_devices_do_to_streams_on_two_and_four_queues_comes_out_exactly() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let cpus = two_cpus();
    for (backend, queues, wrong) in [
        ("af_xdp", 2, ["drops", "7"]),
        ("af_xdp", 4, ["drops", "7"]),
        ("af_xdp", 4, ["duplicates", "11"]),
        ("af_xdp", 2, ["corrupts", "5"]),
        ("af_packet", 2, ["duplicates", "11"]),
    ] {
        let lab = Lab::bridged_with_queues(queues);
        lab.napi();
        let mut device = Device::start(&lab, &wrong);
        let (mut source, mut sink) = (lab.source(), lab.sink());
        // A sending thread for each queue, and with af_packet a ring for each of these CPUs.
        open_on(&mut source, backend, &cpus.repeat(queues as usize / 2));
        open_on(&mut sink, backend, &cpus);
        let count = u16::try_from(queues).unwrap();
        let each = streams_through(&lab, &mut source, &mut sink, count, 2000);
        let sum = |key: &str| each.iter().map(|(_, r)| n(&r[key])).sum::<u64>();
        let (sent, wronged) = (2000 * u64::from(queues), n(&device.counts()["wronged"]));
        let all: Vec<_> = each.iter().map(|(s, r)| brief(s, r)).collect();
        let at = format!("{backend}, {queues} queues, {wrong:?}: {}", all.join("; "));
        assert_eq!(wronged, sent / wrong[1].parse::<u64>().unwrap(), "{at}");
        let expected = match wrong[0] {
            "drops" => (sent - wronged, wronged, 0, 0),
            "duplicates" => (sent + wronged, 0, wronged, 0),
            _ => (sent - wronged, wronged, 0, wronged),
        };
        assert_eq!((sum("received"), sum("lost"), sum("duplicated"), sum("corrupted")), expected, "{at}");
        for (s, r) in &each {
            assert_eq!((n(&s["sent"]), n(&s["refused"])), (2000, 0), "{at}");
            assert_eq!(
                (n(&s["sent"]) + n(&r["duplicated"]), &r["balances"]),
                (n(&r["received"]) + n(&r["lost"]), &json!(true)),
                "{at}"
            );
            // Each stream keeps to its queue, where no frame overtakes; af_packet does not know that.
            let order = if backend == "af_xdp" { json!([0, 0, 0]) } else { json!([null, 0, null]) };
            assert_eq!(json!([r["reordered"], r["reordered_at_least"], r["reordered_by_three"]]), order, "{at}");
        }
        if backend == "af_xdp" {
            let taken = taken_by_queue(&lab, queues);
            let used = taken.iter().filter(|n| **n >= 1000).count();
            assert!(used >= std::thread::available_parallelism().unwrap().get().min(2), "{at}: {taken:?}");
        }
    }
}

#[test]
fn each_stream_is_sent_on_a_queue_of_its_own_where_threads_are_asked_for() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct_with_queues(4);
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    open_on(&mut source, "af_xdp", &two_cpus().repeat(2));
    open_on(&mut sink, "af_xdp", &[]);
    for (s, r) in streams_through(&lab, &mut source, &mut sink, 4, 1000) {
        assert_eq!((n(&s["sent"]), n(&r["received"]), n(&r["reordered"])), (1000, 1000, 0), "{}", brief(&s, &r));
    }
    // Frames that the host itself sends may join them.
    let taken = taken_by_queue(&lab, 4);
    assert!(taken.iter().all(|n| (1000..1100).contains(n)), "{taken:?}");
}

#[test]
fn a_stream_that_changes_queues_is_one_stream_in_one_order() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    // The queue of a frame is that of the sending CPU, and this sender is moved to and fro.
    let lab = Lab::direct_with_queues(2);
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    open_on(&mut source, "af_packet", &[]);
    open_on(&mut sink, "af_xdp", &[]);
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 5000.0}));
    stream["frames"] = json!(5000);
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1], "absorb_udp_ports": [5001]}}));
    source.must("arm", json!({"port": "p", "send": {"streams": [stream]}}));
    sink.must("start", json!({}));
    source.must("start", json!({}));
    for turn in 0..30 {
        source.move_to(two_cpus()[turn % 2]);
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    let sent = source.must("wait", json!({"port": "p"}))["streams"][0].clone();
    let told = [json!({"stream": 1, "frames": sent["sent"]})];
    let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 300_000_000}));
    let r = &received["streams"][0];
    assert_eq!((n(&r["received"]), n(&r["lost"]), n(&r["duplicated"])), (5000, 0, 0), "{r}");
    // The relative order of two queues is unknown; within one no frame is overtaken.
    if two_cpus()[1] > 0 {
        assert_eq!((&r["reordered"], n(&r["reordered_at_least"])), (&Value::Null, 0), "{r}");
    }
    assert!(n(&r["latency"]["ipdv"]["count"]) >= 4999 - 3 * 30, "{r}");
    if two_cpus()[1] > 0 {
        assert!(taken_by_queue(&lab, 2).iter().all(|n| *n > 500), "{:?}", taken_by_queue(&lab, 2));
    }
}

#[test]
fn each_queue_has_a_thread_on_the_cpu_asked_for_and_all_of_them_end_with_the_trial() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct_with_queues(4);
    lab.napi();
    let mut sink = lab.sink();
    let [first, second] = two_cpus();
    open_on(&mut sink, "af_xdp", &[second, first]);
    for _ in 0..2 {
        sink.must("arm", json!({"port": "p", "receive": {"streams": [1]}}));
        sink.must("start", json!({}));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let during = sink.cpus_of_threads();
        // The four are the newest threads.
        let asked = [second, first, second, first].map(|n| n.to_string());
        assert_eq!(during[during.len() - 4..], asked, "{during:?}");
        sink.must("settle", json!({"port": "p", "sent": []}));
        // The thread that entered their frames has ended too.
        assert_eq!(sink.cpus_of_threads(), during[..during.len() - 5], "no thread outlives the trial");
    }
    assert!(lab.exec("sink", &["ip", "-d", "link", "show", "dev", "eth-a"]).contains("prog/xdp"));
    sink.must("close", json!({"port": "p"}));
    // The kernel releases queues and program a moment after their descriptors are closed.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!lab.exec("sink", &["ip", "-d", "link", "show", "dev", "eth-a"]).contains("prog/xdp"), "still attached");
    open_on(&mut sink, "af_xdp", &[]);
}

#[test]
fn where_the_driver_has_no_xdp_frames_are_counted_in_the_stack_and_the_port_says_so() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    // A bridge has no native XDP.
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
    // It cannot send by redirection, and reports which back ends can.
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
fn more_queues_than_af_xdp_serves_are_refused_in_words() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct_with_queues(65);
    let mut sink = lab.sink();
    let open = json!({"port": "p", "iface": "eth-a", "backend": "af_xdp", "guard": {"isolated": true}});
    let refused = sink.ask("open", open);
    assert_eq!(refused["err"]["kind"], "unsupported", "{refused}");
    assert!(refused["err"]["message"].as_str().unwrap().contains("65 receive queues"), "{refused}");
    assert!(refused["err"]["remedy"].as_str().unwrap().contains("ethtool -L eth-a combined 64"), "{refused}");
    assert_eq!(
        sink.must("open", json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": {"isolated": true}}))
            ["backend"],
        "af_packet"
    );
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

/// Counts frames that the kernel dropped before a program that runs in its stack, on any CPU, or did not put on the
/// link.
fn dropped_before_the_program(lab: &Lab) -> u64 {
    let backlogs = std::fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let of_backlogs =
        backlogs.lines().map(|l| u64::from_str_radix(l.split(' ').nth(1).unwrap(), 16).unwrap()).sum::<u64>();
    let counter = |role, name: &str| {
        let text = lab.exec(role, &["cat", &format!("/sys/class/net/eth-a/statistics/{name}")]);
        text.trim().parse::<u64>().unwrap()
    };
    of_backlogs + counter("source", "tx_dropped") + counter("sink", "rx_dropped")
}

#[test]
fn three_million_frames_that_two_cpus_count_at_once_by_generic_xdp_balance_for_an_agent_on_one_cpu() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    lab.napi();
    // A bridge has no native XDP, and the kernel spreads incoming flows over two CPUs (RPS).
    lab.at_sink(&["link", "add", "name", "br0", "type", "bridge"]);
    lab.at_sink(&["link", "set", "dev", "eth-a", "master", "br0"]);
    lab.at_sink(&["link", "set", "dev", "br0", "up"]);
    lab.exec("sink", &["sh", "-c", "echo 3 > /sys/class/net/br0/queues/rx-0/rps_cpus"]);
    let (mut source, mut sink) = (lab.source(), lab.sink_on("0"));
    assert_eq!(source.open_with("xdp")["backend"], "xdp");
    let open = json!({"port": "p", "iface": "br0", "backend": "xdp", "guard": {"isolated": true}});
    assert!(sink.must("open", open)["notes"].to_string().contains("generic"));
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
    stream["flows"] = json!({"count": 64, "source_ports": 64});
    stream["frames"] = json!(3_000_000);
    let before = dropped_before_the_program(&lab);
    let (sent, received) = lab::trial(&mut source, &mut sink, &json!({"streams": [stream]}));
    let dropped = dropped_before_the_program(&lab) - before;
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert_eq!((n(&s["intended"]), n(&s["sent"]) + n(&s["refused"])), (3_000_000, 3_000_000), "{s}");
    assert_eq!(n(&r["received"]) + n(&r["lost"]), n(&s["sent"]), "{s}\n{r}");
    assert_eq!((n(&r["duplicated"]), n(&r["corrupted"]), &r["balances"]), (0, 0, &json!(true)), "{r}");
    assert_eq!(n(&r["latency"]["count"]) + n(&r["latency"]["negative"]), n(&r["received"]), "{r}");
    // Counts that two CPUs overwrote would show as an unexplained loss.
    assert!(n(&r["lost"]) <= dropped, "{dropped} were dropped: {r}");
    assert!(n(&r["received"]) > 100_000, "{s}\n{r}");
}

//! Tests specific to packet sockets: the filter in front of the ring, and several rings on a port.

mod lab;

use lab::{Lab, n, netns_or_skip};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Number of foreign frames: more than fit into the ring of 32 MiB.
const FOREIGN: u64 = 40_000;

/// A capture of one frame of 1500 bytes, of an `EtherType` for experiments, which no host answers.
fn capture_of_a_foreign_frame() -> PathBuf {
    let mut frame = vec![0xff; 1500];
    frame[0] = 0xfe; // of a single station
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    // pcap: magic, version 2.4, zone, accuracy, longest packet, Ethernet; then seconds, microseconds, kept, whole length.
    let words = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1, 0, 0, 1500, 1500];
    let path = std::env::temp_dir().join(format!("dutlab-foreign-{}.pcap", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    for word in words {
        file.write_all(&word.to_ne_bytes()).unwrap();
    }
    file.write_all(&frame).unwrap();
    path
}

#[test]
fn foreign_frames_take_no_room_of_ours_and_are_counted() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    sink.open();
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1], "absorb_udp_ports": [5001]}}));
    sink.must("start", json!({}));
    // While the ring is not emptied, 60 MB of foreign frames arrive, and ours behind them.
    sink.halt();
    let capture = capture_of_a_foreign_frame();
    let replay = json!({"path": capture, "timing": {"max": true}, "rounds": FOREIGN});
    source.must("arm", json!({"port": "p", "send": {"replay": replay}}));
    source.must("start", json!({}));
    let foreign = source.must("wait", json!({"port": "p"}))["streams"][0].clone();
    std::fs::remove_file(capture).unwrap();
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 20_000.0}));
    stream["frames"] = json!(2000);
    source.must("arm", json!({"port": "p", "send": {"streams": [stream]}}));
    source.must("start", json!({}));
    let sent = source.must("wait", json!({"port": "p"}))["streams"][0].clone();
    sink.go_on();
    let told = [json!({"stream": 1, "frames": sent["sent"]})];
    let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 300_000_000}));
    let r = &received["streams"][0];
    assert_eq!((n(&foreign["sent"]), n(&sent["sent"])), (FOREIGN, 2000), "{foreign} {sent}");
    assert_eq!((n(&r["received"]), n(&r["lost"]), n(&received["kernel_dropped"])), (2000, 0, 0), "{received}");
    // The few frames of the host itself, such as neighbour discovery, are foreign too.
    assert!((FOREIGN..FOREIGN + 50).contains(&n(&received["foreign"])), "{}", received["foreign"]);
    // The next trial counts from 0.
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1]}}));
    sink.must("start", json!({}));
    let received = sink.must("settle", json!({"port": "p", "sent": []}));
    assert!(n(&received["foreign"]) < 50, "{}", received["foreign"]);
}

#[test]
fn a_stream_whose_flows_are_spread_over_rings_is_accounted_for_as_one() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open();
    let guard = json!({"isolated": true});
    let open = json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": guard, "receive_cpu": [0, 0, 0]});
    sink.must("open", open);
    let sockets = lab.exec("sink", &["cat", "/proc/net/packet"]).lines().skip(1).count();
    assert_eq!(sockets, 3 + 1 + 1, "three rings, one that counts what is foreign, one that sends");
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"pps": 20_000.0}));
    (stream["frames"], stream["flows"]) = (json!(10_000), json!({"count": 500, "source_ports": 500}));
    sink.must("arm", json!({"port": "p", "receive": {"streams": [1], "absorb_udp_ports": [5001]}}));
    sink.must("start", json!({}));
    source.must("arm", json!({"port": "p", "send": {"streams": [stream]}}));
    source.must("start", json!({}));
    source.must("wait", json!({"port": "p"}));
    let told = [json!({"stream": 1, "frames": 10_000})];
    let received = sink.must("settle", json!({"port": "p", "sent": told, "drain_ns": 300_000_000}));
    let r = &received["streams"][0];
    assert_eq!((n(&r["received"]), n(&r["lost"]), n(&r["duplicated"])), (10_000, 0, 0), "{r}");
    assert_eq!((n(&received["foreign"]) < 50, &r["balances"]), (true, &json!(true)), "{received}");
}

//! The `xdp` back end through the real agent: every frame accounted for, over veth and through a Linux router.

mod lab;

use lab::{Lab, netns_or_skip};
use serde_json::{Value, json};

fn n(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no count"))
}

#[test]
fn at_full_speed_over_a_cable_nothing_is_lost_and_nothing_is_unaccounted_for() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    assert_eq!(source.open_with("xdp")["backend"], "xdp");
    sink.open_with("xdp");
    let stream = lab.stream(7, &json!({"fixed_bytes": 64}), &json!({"max": true}));
    let (sent, received) =
        lab::trial(&mut source, &mut sink, &json!({"duration_ns": 500_000_000, "streams": [stream]}));
    eprintln!("{sent}\n{received}");
    let (s, r) = (&sent["streams"][0], &received["streams"][0]);
    assert_eq!(n(&s["asked"]), n(&s["sent"]) + n(&s["refused"]));
    assert!(n(&s["sent"]) > 10_000, "{sent}");
    assert_eq!((&r["received"], &r["lost"], &r["balances"]), (&s["sent"], &json!(0), &json!(true)));
}

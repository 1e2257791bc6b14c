//! Tests with devices with known answers between two cables: our counters must show exactly what they do to the frames.

mod lab;

use lab::{Agent, Device, Lab, n, netns_or_skip};
use serde_json::{Value, json};

/// Sends `frames` of 100 bytes at `pps` through a device; returns the stream as sent, as received, and the device's
/// counters.
fn through(device: &[&str], backend: &str, frames: u64, pps: f64) -> (Value, Value, Value) {
    let lab = Lab::bridged();
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    assert_eq!(source.open_with(backend)["backend"], backend);
    assert_eq!(sink.open_with(backend)["backend"], backend);
    let mut device = Device::start(&lab, device);
    let mut stream = lab.stream(3, &json!({"fixed_bytes": 100}), &json!({"pps": pps}));
    stream["frames"] = json!(frames);
    let (sent, received) = trial(&mut source, &mut sink, &stream);
    assert_eq!((&sent["sent"], &sent["refused"]), (&json!(frames), &json!(0)), "{sent}");
    let counts = device.counts();
    assert_eq!(counts["seen"], frames, "{counts}");
    // Frames in = frames out, in any case.
    let (s, r) = (&sent, &received);
    assert_eq!(n(&s["sent"]) + n(&r["duplicated"]), n(&r["received"]) + n(&r["lost"]), "{received}");
    assert_eq!((&r["balances"], &r["guessed"]), (&json!(true), &json!(0)), "{received}");
    (sent, received, counts)
}

fn trial(source: &mut Agent, sink: &mut Agent, stream: &Value) -> (Value, Value) {
    let (sent, received) = lab::trial(source, sink, &json!({"streams": [stream]}));
    assert_eq!(received["stale"], 0, "{received}");
    (sent["streams"][0].clone(), received["streams"][0].clone())
}

const BACKENDS: [&str; 3] = ["xdp", "af_xdp", "af_packet"];

#[test]
fn of_a_device_that_drops_every_seventh_frame_exactly_those_are_lost() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for backend in BACKENDS {
        let (_, r, device) = through(&["drops", "7"], backend, 20_000, 40_000.0);
        assert_eq!((n(&r["lost"]), n(&device["wronged"])), (20_000 / 7, 20_000 / 7), "{backend}: {r}");
        assert_eq!(
            (&r["duplicated"], &r["reordered"], &r["corrupted"]),
            (&json!(0), &json!(0), &json!(0)),
            "{backend}"
        );
    }
}

#[test]
fn of_a_device_that_doubles_every_eleventh_frame_exactly_those_are_duplicates() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for backend in BACKENDS {
        let (_, r, _) = through(&["duplicates", "11"], backend, 20_000, 40_000.0);
        assert_eq!((n(&r["duplicated"]), n(&r["lost"])), (20_000 / 11, 0), "{backend}: {r}");
        assert_eq!(
            (&r["reordered"], n(&r["latency"]["count"])),
            (&json!(0), 20_000),
            "{backend}: duplicates have no latency"
        );
    }
}

#[test]
fn of_a_device_that_swaps_neighbours_each_later_one_is_reordered_by_one() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for backend in BACKENDS {
        let (_, r, device) = through(&["swaps", "10"], backend, 20_000, 40_000.0);
        assert_eq!(n(&device["wronged"]), 2000, "{backend}");
        // RFC 4737 section 4.2.1: the extent of a frame that was overtaken by its next neighbour is 1.
        assert_eq!((n(&r["reordered"]), n(&r["reorder_extent_max"])), (2000, 1), "{backend}: {r}");
        assert_eq!((n(&r["lost"]), n(&r["duplicated"])), (0, 0), "{backend}: {r}");
        assert_eq!((&r["reorder_extent_mean"], &r["reordered_by_three"]), (&json!(1.0), &json!(0)), "{backend}: {r}");
        // Of ten frames 0 … 7, 9, 8 the first eight make seven pairs, and 9 makes one with 10, if there is one; 8 came late.
        assert_eq!(n(&r["latency"]["ipdv"]["count"]), 8 * 2000 - 1, "{backend}: {r}");
        assert_eq!(&r["late"], &json!(0), "{backend}: {r}");
    }
}

#[test]
fn of_a_device_that_flips_a_bit_in_every_fifth_frame_exactly_those_are_corrupted_and_not_received() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for backend in BACKENDS {
        let (_, r, _) = through(&["corrupts", "5"], backend, 20_000, 40_000.0);
        assert_eq!((n(&r["corrupted"]), n(&r["received"]), n(&r["lost"])), (4000, 16_000, 4000), "{backend}: {r}");
    }
}

#[test]
fn what_a_policer_let_through_is_received_and_what_it_took_is_lost() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for backend in BACKENDS {
        let (s, r, device) = through(&["polices", "10000", "--depth", "400"], backend, 20_000, 40_000.0);
        assert_eq!(n(&r["lost"]), n(&device["wronged"]), "{backend}: {r}");
        // From the first frame to the last, at 10 000 a second, and the bucket's 400.
        let span = n(&s["last_monotonic_ns"]) - n(&s["first_monotonic_ns"]);
        let most = span as f64 / 1e9 * 10_000.0 + 400.0;
        let passed = n(&r["received"]) as f64;
        // The device reads its clock a little after us: a frame may wait for a CPU in between.
        assert!(passed <= most * 1.01 + 1.0, "{backend}: {passed} passed a policer of {most}");
        // A sender that lost its CPU for a while leaves tokens unused; with a policer of half the rate, fewer would
        // come.
        assert!(passed > most * 0.5, "{backend}: {passed} passed a policer of {most}");
    }
}

#[test]
fn a_device_that_holds_each_frame_for_300_microseconds_shows_in_the_latency() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    // One CPU spins in the device while a frame is held, so frames come one at a time. The median: on a busy machine
    // some frames also wait for a CPU, which no counter of ours can show.
    let (_, r, _) = through(&["holds", "300000"], "xdp", 1000, 1000.0);
    let latency = &r["latency"];
    assert_eq!(n(&latency["count"]), 1000, "{r}");
    assert!(n(&latency["min_ns"]) >= 300_000, "{latency}: no frame came before it was let go");
    assert!(n(&latency["p50_ns"]) <= 320_000, "{latency}: the median is within 20 µs");
}

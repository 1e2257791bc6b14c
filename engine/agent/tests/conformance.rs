//! Tests that the same frames give the same account for every receiver: each back end, native and generic, on one queue
//! and on several, on a veth, a TAP and a bridge. The expected result follows from the arrivals alone ([`expected`]),
//! by the definitions of RFC 4737. A back end states its limits in words.

mod lab;

use dutlab_port::clock;
use dutlab_units::Nanos;
use dutlab_wire::frame::{FrameRepr, Transport};
use dutlab_wire::{Mac, Probe, Seen, probe, vlan};
use lab::{Agent, Lab, Tap, cards_or_skip, n, netns_or_skip, told};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BACKENDS: [&str; 3] = ["xdp", "af_xdp", "af_packet"];
const TRIAL: u16 = 0x5eed;
const STREAM: u16 = 7;
const HOUR: i64 = 3_600_000_000_000;

/// Link on which frames arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Veth,
    /// A veth with four queues; its frames come on the queue of the last CPU.
    Queues,
    Tap,
    /// A bridge over a veth: it has no native XDP, and the kernel removes tags before it.
    Bridge,
    /// Two cards that the machine provides.
    Cards,
}

impl Link {
    /// Returns true if the driver has no XDP; for cards the machine declares it.
    fn is_generic(self) -> bool {
        self == Self::Bridge || self == Self::Cards && std::env::var("DUTLAB_CARDS_XDP").as_deref() == Ok("generic")
    }
}

/// A frame that arrives.
#[derive(Debug, Clone, Copy)]
struct Frame {
    sequence: u64,
    trial: u16,
    /// The sender's clock minus ours.
    ahead_ns: i64,
    /// Time between its sending and the request for the trial; 0: sent after the begin.
    before_ns: u64,
    tags: usize,
    /// Byte in which a bit is altered, counted from the probe.
    altered: Option<usize>,
    /// Length with FCS.
    bytes: usize,
}

impl Frame {
    const fn number(sequence: u64) -> Self {
        Self { sequence, trial: TRIAL, ahead_ns: 0, before_ns: 0, tags: 0, altered: None, bytes: 100 }
    }

    /// Returns the frame as sent at `now`, or before the instant `begin`.
    fn emit_around(&self, destination: Mac, begin: Nanos, now: Nanos) -> Vec<u8> {
        let tag = |id| vlan::Repr { tpid: vlan::CUSTOMER, id, priority: 0 };
        let tags = [tag(100), tag(200)];
        let repr = FrameRepr {
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            destination_mac: destination,
            vlans: &tags[..self.tags],
            source: [172, 16, 0, 2].into(),
            destination: [172, 16, 0, 3].into(),
            transport: Transport::Udp,
            source_port: 40_000,
            destination_port: 5001,
            ttl: 64,
            extensions: &[],
        };
        let sent = if self.before_ns > 0 { Nanos(begin.0 - self.before_ns) } else { now };
        let sent = Nanos(sent.0.wrapping_add_signed(self.ahead_ns));
        let mut b = vec![0; self.bytes - 4];
        let layout =
            repr.emit(&Probe { stream: STREAM, sequence: self.sequence, trial: self.trial, sent }, &mut b).unwrap();
        if let Some(byte) = self.altered {
            b[layout.probe_at + byte] ^= 1;
        }
        b
    }

    fn emit(&self, destination: Mac, now: Nanos) -> Vec<u8> {
        self.emit_around(destination, now, now)
    }
}

fn numbers(all: impl IntoIterator<Item = u64>) -> Vec<Frame> {
    all.into_iter().map(Frame::number).collect()
}

/// Expected result of each back end. `clock` is the plan's `sender_clock`.
struct Case {
    name: &'static str,
    frames: Vec<Frame>,
    sent: u64,
    clock: Value,
}

fn cases() -> Vec<Case> {
    let all = |change: fn(&mut Frame)| {
        let mut frames = numbers(0..40);
        frames.iter_mut().for_each(change);
        frames
    };
    // Of 60: 3 and 50 to 59 are lost, 7 comes twice, 10 after 14, 20 and 21 are swapped, 30 is damaged.
    let mut disturbed = numbers((0..50).filter(|s| ![3, 10].contains(s)));
    let at = |frames: &[Frame], s: u64| frames.iter().position(|f| f.sequence == s).unwrap();
    disturbed.insert(at(&disturbed, 9), Frame::number(7));
    disturbed.insert(at(&disturbed, 15), Frame::number(10));
    let swapped = at(&disturbed, 20);
    disturbed.swap(swapped, swapped + 1);
    let damaged = at(&disturbed, 30);
    disturbed[damaged].altered = Some(probe::LEN);
    // Two generators that were left running, and frames of this trial's number from before it. 5 to 7 are lost.
    let mut stale = Vec::new();
    for frame in numbers((0..40).filter(|s| !(5..8).contains(s))) {
        stale.push(frame);
        stale.push(Frame { trial: TRIAL - 1, ..Frame::number(frame.sequence + 3) });
        stale.push(Frame { trial: 0, ahead_ns: HOUR, ..Frame::number(frame.sequence) });
    }
    let mut early = numbers(0..40);
    early.extend(numbers(40..43).into_iter().map(|f| Frame { before_ns: 2_000_000_000, ..f }));
    // The probe itself is altered: sequence number, trial, time. The frame counts as altered, not as foreign.
    let altered: Vec<_> = (0..40)
        .map(|s| Frame {
            altered: [Some(9), Some(10), Some(11), Some(12), None][usize::try_from(s % 5).unwrap_or_default()],
            ..Frame::number(s)
        })
        .collect();
    let same = json!("same");
    // A machine may have been up for less than an hour, and its clock begins at 0.
    let behind = HOUR.min(clock::monotonic().0.cast_signed() / 2);
    let of_a_slow_clock = || numbers(0..40).into_iter().map(|f| Frame { ahead_ns: -behind, ..f }).collect::<Vec<_>>();
    let case = |name, frames, sent, clock: &Value| Case { name, frames, sent, clock: clock.clone() };
    vec![
        case("in order", numbers(0..40), 40, &same),
        case("nothing", Vec::new(), 5, &same),
        case("lost, doubled, overtaken, damaged", disturbed, 60, &same),
        case("altered within the probe", altered, 40, &same),
        case("a clock 2 h ahead, known", all(|f| f.ahead_ns = 2 * HOUR), 40, &json!({"ahead_ns": 2 * HOUR})),
        case("a clock 1 h behind, known", of_a_slow_clock(), 40, &json!({"ahead_ns": -behind})),
        case("a clock 1 h behind, unknown", of_a_slow_clock(), 40, &json!("unknown")),
        case("a clock 30 h ahead, unknown", all(|f| f.ahead_ns = 30 * HOUR), 40, &json!("unknown")),
        case("a clock 30 h ahead, known", all(|f| f.ahead_ns = 30 * HOUR), 40, &json!({"ahead_ns": 30 * HOUR})),
        case("a clock 300 days ahead, known", all(|f| f.ahead_ns = 7200 * HOUR), 40, &json!({"ahead_ns": 7200 * HOUR})),
        case("two stale generators", stale.clone(), 40, &same),
        case("two stale generators, another clock", stale, 40, &json!("unknown")),
        case("sent before the trial", early, 43, &same),
        case("one tag", all(|f| f.tags = 1), 40, &same),
        case("two tags", all(|f| f.tags = 2), 40, &same),
        case("full frames", all(|f| f.bytes = 1514), 40, &same),
    ]
}

/// Returns the account that follows from the arrivals alone.
fn expected(case: &Case, tags_missing: usize, in_order: bool) -> Value {
    let (mut seen, mut order, mut next, mut before) = (HashSet::new(), Vec::new(), 0, None);
    let (mut received, mut bytes, mut duplicated, mut corrupted, mut stale) = (0_u64, 0, 0_u64, 0, 0);
    let (mut reordered, mut extent_max, mut ipdv) = (0, 0, 0);
    for f in &case.frames {
        if f.altered.is_some() {
            corrupted += 1;
            continue;
        }
        if f.trial != TRIAL || f.before_ns > 0 {
            stale += 1;
            continue;
        }
        received += 1;
        bytes += f.bytes - 4 * tags_missing.min(f.tags);
        if !seen.insert(f.sequence) {
            duplicated += 1;
            continue;
        }
        if f.sequence < next {
            reordered += 1;
            let overtaker = order.iter().position(|s| *s > f.sequence).unwrap();
            extent_max = extent_max.max(order.len() - overtaker);
        } else {
            next = f.sequence + 1;
            ipdv += u64::from(f.sequence > 0 && before == Some(f.sequence - 1));
            before = Some(f.sequence);
        }
        order.push(f.sequence);
    }
    let lost = case.sent - (received - duplicated);
    // The order of no frames is unknown, and so is that of frames on queues that are not distinguished.
    let known = |n: usize| if in_order || received == 0 { json!(n) } else { Value::Null };
    json!({"sent": case.sent, "received": received, "received_bytes": bytes, "lost": lost, "duplicated": duplicated,
           "reordered": known(reordered), "reordered_at_least": if in_order { reordered } else { 0 },
           "reorder_extent_max": known(extent_max), "corrupted": corrupted, "guessed": 0,
           "balances": true, "stale": stale, "kernel_dropped": 0, "ipdv": ipdv})
}

/// Returns the same values from an agent's reply.
fn account(received: &Value) -> Value {
    let r = &received["streams"][0];
    let mut a = json!({"stale": received["stale"], "kernel_dropped": received["kernel_dropped"]});
    a["ipdv"] = json!(r["latency"]["ipdv"]["count"].as_u64().unwrap_or(0));
    for key in [
        "sent",
        "received",
        "received_bytes",
        "lost",
        "duplicated",
        "reordered",
        "reordered_at_least",
        "reorder_extent_max",
        "corrupted",
    ] {
        a[key] = r[key].clone();
    }
    for key in ["guessed", "balances"] {
        a[key] = r[key].clone();
    }
    a
}

/// Starts a trial, and waits until sent frames belong to it.
fn begin(sink: &mut Agent) {
    let at = Nanos(n(&sink.must("start", json!({}))["at_monotonic_ns"]));
    while clock::monotonic() <= at {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A receiving port, and the sender of its frames.
struct Rig {
    lab: Lab,
    link: Link,
    iface: &'static str,
    tap: Option<Tap>,
    source: Agent,
    capture: PathBuf,
}

impl Rig {
    fn new(link: Link, mtu: &str) -> Self {
        let lab = match link {
            Link::Queues => Lab::direct_with_queues(4),
            Link::Cards => Lab::of_cards(cards_or_skip().expect("it was looked for")),
            _ => Lab::direct(),
        };
        lab.napi();
        lab.at_source(&["link", "set", "dev", "eth-a", "mtu", mtu]);
        lab.at_sink(&["link", "set", "dev", "eth-a", "mtu", mtu]);
        let tap = (link == Link::Tap).then(|| lab.tap());
        if link == Link::Bridge {
            lab.at_sink(&["link", "add", "name", "br0", "type", "bridge"]);
            lab.at_sink(&["link", "set", "dev", "eth-a", "master", "br0"]);
            lab.at_sink(&["link", "set", "dev", "br0", "up"]);
        }
        let mut source = lab.source();
        let cpu = std::thread::available_parallelism().unwrap().get().min(4) - 1;
        source.must(
            "open",
            json!({"port": "s", "iface": "eth-a", "backend": "af_packet", "cpu": cpu, "guard": {"isolated": true}}),
        );
        let iface = match link {
            Link::Veth | Link::Queues | Link::Cards => "eth-a",
            Link::Tap => "tap0",
            Link::Bridge => "br0",
        };
        let capture = std::env::temp_dir().join(format!("dutlab-conformance-{}-{link:?}.pcap", std::process::id()));
        Self { lab, link, iface, tap, source, capture }
    }

    fn open(&self, sink: &mut Agent, backend: &str) -> Value {
        sink.ask("open", json!({"port": "p", "iface": self.iface, "backend": backend, "guard": {"isolated": true}}))
    }

    /// Sends frames to the port; returns true if all of them got onto the link.
    fn bring(&mut self, frames: &[Vec<u8>]) -> bool {
        if frames.is_empty() {
            return true;
        }
        if let Some(tap) = &mut self.tap {
            tap.write(frames);
            return true;
        }
        let dropped = || {
            n(&json!(
                self.lab
                    .exec("source", &["cat", "/sys/class/net/eth-a/statistics/tx_dropped"])
                    .trim()
                    .parse::<u64>()
                    .unwrap()
            ))
        };
        let before = dropped();
        std::fs::write(&self.capture, pcap(frames)).unwrap();
        let plan = json!({"replay": {"path": self.capture, "timing": {"speed": 1.0}}});
        self.source.must("arm", json!({"port": "s", "send": plan}));
        self.source.must("start", json!({}));
        let sent = self.source.must("wait", json!({"port": "s"}));
        n(&sent["streams"][0]["sent"]) == frames.len() as u64 && dropped() == before
    }

    fn measure(&mut self, sink: &mut Agent, case: &Case) -> Value {
        for _ in 0..8 {
            let receive =
                json!({"streams": [STREAM], "trial": TRIAL, "sender_clock": case.clock, "absorb_udp_ports": [5001]});
            sink.must("arm", json!({"port": "p", "receive": receive}));
            let asked = clock::monotonic();
            begin(sink);
            let (mac, now) = (self.lab.mac("sink", self.iface).parse().unwrap(), clock::monotonic());
            let frames: Vec<_> = case.frames.iter().map(|f| f.emit_around(mac, asked, now)).collect();
            let whole = self.bring(&frames);
            let sent = json!([{"stream": STREAM, "frames": case.sent}]);
            let received = sink.must("settle", json!({"port": "p", "sent": sent, "drain_ns": 60_000_000}));
            if whole {
                return received;
            }
        }
        panic!("{:?}, {}: the link never took all frames", self.link, case.name);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.capture);
    }
}

/// Returns a capture of these frames, 100 µs apart (pcap with microseconds, Ethernet).
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut b = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        b.extend(word.to_le_bytes());
    }
    for (micros, frame) in (0_u32..).step_by(100).zip(frames) {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [micros / 1_000_000, micros % 1_000_000, length, length] {
            b.extend(word.to_le_bytes());
        }
        b.extend(frame);
    }
    b
}

/// Runs every case on every back end of a link.
fn conforms(link: Link) {
    if !netns_or_skip() {
        return;
    }
    let mut rig = Rig::new(link, "1500");
    for backend in BACKENDS {
        let mut sink = rig.lab.sink();
        let opened = rig.open(&mut sink, backend);
        let notes = opened["ok"]["notes"].to_string();
        assert_eq!(opened["ok"]["backend"], backend, "{link:?}: {opened}");
        let generic = link.is_generic() && backend != "af_packet";
        assert_eq!(notes.contains("the driver has no XDP"), generic, "{notes}");
        if backend == "xdp" && !generic {
            assert!(notes.contains("native XDP"), "{notes}");
        }
        // A tag that is removed before XDP cannot be counted there, and the back end reports that.
        let tags_missing = usize::from(generic);
        assert!(tags_missing == 0 || notes.contains("4 bytes short"), "{notes}");
        for case in cases() {
            let received = rig.measure(&mut sink, &case);
            let what = format!("{link:?}, {backend}, {}: {received}", case.name);
            // Four queues of a veth; af_packet does not know the queue of a frame.
            let in_order = link != Link::Queues || backend != "af_packet";
            assert_eq!(account(&received), expected(&case, tags_missing, in_order), "{what}");
            let latency = &received["streams"][0]["latency"];
            if case.clock != "unknown" && latency.is_object() {
                assert_eq!(latency["negative"], 0, "{what}");
                assert!(n(&latency["max_ns"]) < 30_000_000_000, "{what}");
            }
        }
    }
}

/// Returns the frames that left the router, in order: numbers of frames of stream 1, from a capture (pcap, Ethernet).
fn captured(file: &std::path::Path) -> Vec<u64> {
    let b = std::fs::read(file).unwrap();
    let (mut at, mut numbers) = (24, Vec::new());
    while at + 16 <= b.len() {
        let length = u32::from_le_bytes(b[at + 8..at + 12].try_into().unwrap()) as usize;
        let Some(frame) = b.get(at + 16..at + 16 + length) else { break };
        if let Seen::Probe(found) = Seen::parse(frame) {
            numbers.push(found.probe.sequence);
        }
        at += 16 + length;
    }
    numbers
}

/// Counts arrivals after a higher number (RFC 4737 section 3.3).
fn reordered(numbers: &[u64]) -> u64 {
    let mut next = 0;
    let is_late = |n: &&u64| {
        let late = **n < next;
        next = next.max(**n + 1);
        late
    };
    numbers.iter().filter(is_late).count() as u64
}

#[test]
fn what_the_receiving_hosts_queues_do_to_the_order_is_never_the_devices_whatever_receives_it() {
    if !netns_or_skip() || !lab::program_or_skip("tcpdump") {
        return;
    }
    let _alone = lab::alone();
    for (queues, flows) in [(1, 64), (4, 64), (4, 1)] {
        for backend in BACKENDS {
            // A router or a capture that lost frames for lack of a CPU is no reference.
            let whole = std::iter::repeat_with(|| through_a_router(backend, queues, flows))
                .take(8)
                .find(|(numbers, r)| numbers.len() as u64 == n(&r["received"]));
            let (numbers, r) = whole.expect("a capture of all that arrived");
            let left = reordered(&numbers);
            let what = format!("{backend}, {queues} queues, {flows} flows, {left} reordered at the egress: {r}");
            assert!(numbers.len() > 1000 && n(&r["reordered_at_least"]) <= left, "{what}");
            match r["reordered"].as_u64() {
                Some(said) => assert_eq!(said, left, "{what}"),
                // The order is unknown, and so is everything that follows from it.
                None => {
                    for key in ["reorder_extent_max", "reordered_ratio", "reorder_extent_mean", "reordered_by_three"] {
                        assert!(r[key].is_null(), "{key}: {what}");
                    }
                }
            }
            // One queue has one order. With four, af_packet does not know the queue of a frame; the others know the
            // order of a flow.
            let known = queues == 1 || flows == 1 && backend != "af_packet";
            assert_eq!(r["reordered"].is_u64(), known, "{what}");
        }
    }
}

/// Sends bursts of 32 frames through a router with `queues` queues towards the sink. Returns the numbers as they left
/// the router, and the account of them.
fn through_a_router(backend: &str, queues: u32, flows: u32) -> (Vec<u64>, Value) {
    let lab = Lab::routed_with_queues(queues);
    lab.napi();
    let (mut source, mut sink) = (lab.source(), lab.sink());
    source.open_with("xdp");
    assert_eq!(sink.open_with(backend)["backend"], backend);
    let file = std::env::temp_dir().join(format!("dutlab-egress-{}.pcap", std::process::id()));
    let path = file.to_str().unwrap();
    let mut capture =
        lab.spawn("dut", &["tcpdump", "-i", "out-a", "-B", "20000", "-U", "-w", path, "udp and dst port 5001"]);
    let mut said = String::new();
    while !said.contains("listening on") {
        let mut byte = [0];
        std::io::Read::read_exact(capture.stderr.as_mut().unwrap(), &mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let rate = json!({"bursts": {"frames": 32, "period_ns": 1_600_000}});
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 100}), &rate);
    (stream["frames"], stream["flows"]) = (json!(4000), json!({"count": flows, "source_ports": flows}));
    let (_, received) = lab::trial(&mut source, &mut sink, &json!({"streams": [stream]}));
    // A capture that is ended discards frames that it has not read yet.
    let came = n(&received["streams"][0]["received"]);
    let enough = Instant::now() + Duration::from_secs(3);
    while (captured(&file).len() as u64) < came && Instant::now() < enough {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = std::process::Command::new("kill").args(["-INT", &capture.id().to_string()]).status();
    capture.wait().unwrap();
    let numbers = captured(&file);
    std::fs::remove_file(&file).unwrap();
    let mut r = received["streams"][0].clone();
    r["latency"] = Value::Null;
    (numbers, r)
}

#[test]
fn a_stream_that_several_cpus_send_has_no_order_and_a_stream_on_each_has() {
    if !netns_or_skip() || std::thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    lab.napi();
    let mut source = lab.source();
    source.must(
        "open",
        json!({"port": "p", "iface": "eth-a", "backend": "xdp", "cpu": [0, 1], "guard": {"isolated": true}}),
    );
    for backend in BACKENDS {
        let mut sink = lab.sink();
        assert_eq!(sink.open_with(backend)["backend"], backend);
        for count in [1_u16, 2] {
            let stream = |number| {
                let mut stream = lab.stream(number, &json!({"fixed_bytes": 100}), &json!({"pps": 10_000}));
                stream["frames"] = json!(4000);
                stream
            };
            let streams: Vec<_> = (1..=count).map(stream).collect();
            let (sent, received) = lab::trial(&mut source, &mut sink, &json!({"streams": streams}));
            for (s, r) in sent["streams"].as_array().unwrap().iter().zip(received["streams"].as_array().unwrap()) {
                let expected = if count == 1 { (json!(true), Value::Null) } else { (Value::Null, json!(0)) };
                assert_eq!((&s["unordered"], &r["reordered"]), (&expected.0, &expected.1), "{backend}: {s} {r}");
                assert_eq!(r["reordered_at_least"], 0, "{backend}: {s} {r}");
            }
        }
    }
}

#[test]
fn a_link_that_goes_down_is_said_by_both_ports_and_whose_end_it_was_where_it_is_known() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    for backend in BACKENDS {
        let lab = Lab::direct();
        lab.napi();
        let (mut source, mut sink) = (lab.source(), lab.sink());
        source.open();
        assert_eq!(sink.open_with(backend)["backend"], backend);
        // First no link is down, then that of the source, then that of the sink.
        for down in ["", "source", "sink"] {
            sink.must("arm", json!({"port": "p", "receive": {"streams": [1], "absorb_udp_ports": [5001]}}));
            let mut stream = lab.stream(1, &json!({"fixed_bytes": 100}), &json!({"pps": 2000}));
            stream["frames"] = json!(1000);
            let plan = json!({"through_link_loss": true, "duration_ns": 500_000_000, "streams": [stream]});
            source.must("arm", json!({"port": "p", "send": plan}));
            sink.must("start", json!({}));
            source.must("start", json!({}));
            if !down.is_empty() {
                std::thread::sleep(Duration::from_millis(100));
                lab.exec(down, &["ip", "link", "set", "dev", "eth-a", "down"]);
                std::thread::sleep(Duration::from_millis(100));
                lab.exec(down, &["ip", "link", "set", "dev", "eth-a", "up"]);
            }
            let sent = source.must("wait", json!({"port": "p"}));
            let received = sink.must("settle", json!({"port": "p", "sent": told(&sent), "drain_ns": 100_000_000}));
            for (role, said) in [("source", &sent), ("sink", &received)] {
                let what = format!("{backend}, {down:?} down, {role}: {said}");
                if down.is_empty() {
                    assert!(said["link_lost"].is_null(), "{what}");
                } else {
                    assert!(n(&said["link_lost"]["times"]) >= 1, "{what}");
                    assert_eq!(said["link_lost"]["set_down"], role == down, "{what}");
                }
            }
            if down == "sink" {
                break; // some back ends end with their port
            }
        }
    }
}

#[test]
fn streams_of_one_rate_send_together_what_their_sum_asks_for_whatever_sends_them() {
    if !netns_or_skip() {
        return;
    }
    let _alone = lab::alone();
    let lab = Lab::direct();
    lab.napi();
    for backend in BACKENDS {
        let mut source = lab.source();
        source.open_with(backend);
        // Three times 666.67 of 0.1 s: 2000, and not three times 667.
        let streams = [1, 2, 3].map(|s| lab.stream(s, &json!({"fixed_bytes": 64}), &json!({"pps": 20_000.0 / 3.0})));
        let armed = source.must("arm", json!({"port": "p", "send": {"duration_ns": 100_000_000, "streams": streams}}));
        source.must("start", json!({}));
        let sent = source.must("wait", json!({"port": "p"}));
        let sum = |of: &Value| of["streams"].as_array().unwrap().iter().map(|s| n(&s["intended"])).sum::<u64>();
        assert_eq!((sum(&armed), sum(&sent)), (2000, 2000), "{backend}: {armed} {sent}");
    }
}

#[test]
fn every_back_end_gives_the_same_account_on_a_veth() {
    conforms(Link::Veth);
}

#[test]
fn every_back_end_gives_the_same_account_on_several_queues() {
    conforms(Link::Queues);
}

#[test]
fn every_back_end_gives_the_same_account_on_a_tap() {
    conforms(Link::Tap);
}

#[test]
fn every_back_end_gives_the_same_account_on_a_bridge_where_xdp_is_generic() {
    conforms(Link::Bridge);
}

#[test]
fn every_back_end_gives_the_same_account_on_cards() {
    if cards_or_skip().is_some() {
        conforms(Link::Cards);
    }
}

#[test]
fn every_back_end_sends_what_it_says_over_cards_and_leaves_them_as_they_were() {
    let Some(cards) = cards_or_skip() else { return };
    let lab = Lab::of_cards(cards);
    lab.until_quiet();
    let before = lab.state_of_source();
    let several =
        json!({"weighted": [{"bytes": 64, "weight": 1}, {"bytes": 128, "weight": 1}, {"bytes": 1518, "weight": 1}]});
    for backend in BACKENDS {
        if backend == "xdp" && Link::Cards.is_generic() {
            continue; // such a driver takes no redirected frames, as `open` reports
        }
        for (sizes, rate) in [
            (json!({"fixed_bytes": 64}), json!({"pps": 2000})),
            (json!({"fixed_bytes": 1518}), json!({"pps": 2000})),
            (several.clone(), json!({"pps": 2000})),
            (json!({"fixed_bytes": 64}), json!({"max": true})),
        ] {
            let (mut source, mut sink) = (lab.source(), lab.sink());
            assert_eq!(source.open_with(backend)["backend"], backend);
            sink.open_with(backend);
            let program = lab.xdp_at_source();
            assert_eq!(program.is_some(), backend != "af_packet", "a card may send only while it has one");
            for trial in 0..2 {
                let stream = lab.stream(1, &sizes, &rate);
                let plan = json!({"duration_ns": 500_000_000, "streams": [stream]});
                let (sent, received) = lab::trial(&mut source, &mut sink, &plan);
                let (s, r) = (&sent["streams"][0], &received["streams"][0]);
                let what = format!("{backend}, {sizes} at {rate}, trial {trial}: {sent} {received}");
                assert_eq!(n(&s["intended"]), n(&s["sent"]) + n(&s["refused"]), "{what}");
                assert_eq!(n(&s["sent"]) + n(&r["duplicated"]), n(&r["received"]) + n(&r["lost"]), "{what}");
                assert_eq!((n(&r["corrupted"]), n(&r["duplicated"]), &r["balances"]), (0, 0, &json!(true)), "{what}");
                assert!(n(&r["received"]) > 100, "{what}");
                if rate["max"] != true {
                    assert_eq!((n(&s["intended"]), n(&r["lost"])), (1000, 0), "{what}");
                }
                assert_eq!(lab.xdp_at_source(), program, "it stays: a driver may reset the link for another");
            }
        }
    }
    assert_eq!(lab.state_of_source(), before);
}

#[test]
fn a_receiver_that_gets_no_cpu_loses_frames_by_count_and_calls_them_its_own() {
    if !netns_or_skip() {
        return;
    }
    let mut rig = Rig::new(Link::Veth, "1500");
    for backend in BACKENDS {
        let mut sink = rig.lab.sink();
        assert!(rig.open(&mut sink, backend).get("ok").is_some());
        let receive = json!({"streams": [STREAM], "trial": TRIAL, "absorb_udp_ports": [5001]});
        sink.must("arm", json!({"port": "p", "receive": receive}));
        begin(&mut sink);
        sink.halt();
        let (mac, now) = (rig.lab.mac("sink", "eth-a").parse().unwrap(), clock::monotonic());
        let frames: Vec<_> = (0..6000).map(|s| Frame::number(s).emit(mac, now)).collect();
        let whole = rig.bring(&frames);
        sink.go_on();
        let sent = json!([{"stream": STREAM, "frames": 6000}]);
        let received = sink.must("settle", json!({"port": "p", "sent": sent, "drain_ns": 200_000_000}));
        let r = &received["streams"][0];
        assert_eq!((n(&r["received"]) + n(&r["lost"]), &r["balances"]), (6000, &json!(true)), "{backend}: {received}");
        if whole {
            assert_eq!(r["lost"], received["kernel_dropped"], "{backend}: {received}");
        }
        if whole && backend == "af_xdp" {
            // Its fill ring had 4096 buffers, none of which came back: frames without a buffer were dropped here, not
            // on the way.
            assert!(n(&received["kernel_dropped"]) >= 6000 - 4096, "{received}");
        }
    }
}

/// Number of frames that fit into a peer's queue.
const ROOM: u64 = 100;

/// Sends 2000 frames within 0.4 s to a peer that takes its waiting frames whenever `takes` returns true, and at the
/// end. Returns the counters of the sender, and the numbers of the frames that came, in order.
fn into_a_peer(lab: &Lab, backend: &str, takes: impl Fn(Duration) -> bool) -> (Value, Vec<u64>) {
    let mut tap = lab.tap();
    lab.at_sink(&["link", "set", "dev", "tap0", "txqueuelen", &ROOM.to_string()]);
    let mut agent = lab.sink();
    agent.must("open", json!({"port": "s", "iface": "tap0", "backend": backend, "guard": {"isolated": true}}));
    let mut stream = lab.stream(1, &json!({"fixed_bytes": 100}), &json!({"pps": 5000}));
    stream["destination_mac"] = json!("02:00:00:00:00:99");
    let mut came = Vec::new();
    agent.must("arm", json!({"port": "s", "send": {"duration_ns": 400_000_000, "streams": [stream]}}));
    let at = Nanos(n(&agent.must("start", json!({}))["at_monotonic_ns"]));
    while clock::monotonic() < at + Nanos(450_000_000) {
        std::thread::sleep(Duration::from_millis(5));
        if takes(Duration::from_nanos(clock::monotonic().since(at).0)) {
            came.extend(tap.take());
        }
    }
    let sent = agent.must("wait", json!({"port": "s"}));
    came.extend(tap.take());
    let number = |frame: &Vec<u8>| match Seen::parse(frame) {
        Seen::Probe(found) => Some(found.probe.sequence),
        Seen::Foreign => None,
    };
    (sent["streams"][0].clone(), came.iter().filter_map(number).collect())
}

#[test]
fn what_a_peer_without_room_did_not_take_is_told_from_what_was_lost() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    for backend in BACKENDS {
        let (s, came) = into_a_peer(&lab, backend, |_| false);
        assert_eq!((n(&s["intended"]), n(&s["sent"]) + n(&s["refused"])), (2000, 2000), "{backend}: {s}");
        assert_eq!(came.len() as u64, n(&s["sent"]), "{backend}: {s}");
        assert!(n(&s["sent"]) <= ROOM && n(&s["sent"]) > 0, "{backend}: {s}");
        // The rest are frames for which the generator was late when the queue was found full.
        assert!(n(&s["backpressure"]) > n(&s["refused"]) / 2, "{backend}: {s}");
    }
}

#[test]
fn a_peer_that_takes_less_than_half_is_why_the_rest_was_refused() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    // It makes room every 130 ms; the sender is soon 100 ms late, and skips frames even when there is room.
    let taken = std::cell::Cell::new(0);
    let each_130_ms = |since: Duration| taken.replace(since.as_millis() / 130) != since.as_millis() / 130;
    let (s, came) = into_a_peer(&lab, "xdp", each_130_ms);
    assert_eq!((n(&s["intended"]), came.len() as u64), (n(&s["sent"]) + n(&s["refused"]), n(&s["sent"])), "{s}");
    assert!(n(&s["refused"]) > 500 && 10 * n(&s["backpressure"]) > 9 * n(&s["refused"]), "{s}");
}

#[test]
fn what_a_peer_has_no_room_for_is_offered_again_when_it_has() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    for backend in ["xdp", "af_packet"] {
        // It pauses three times, while 300 frames fall due, and longer if this process gets no CPU.
        let trial = || into_a_peer(&lab, backend, |since| since.as_millis() % 130 > 60);
        let (s, came) =
            std::iter::repeat_with(trial).take(20).find(|(s, _)| n(&s["sent"]) > ROOM).expect("it took none");
        assert_eq!(n(&s["intended"]), n(&s["sent"]) + n(&s["refused"]), "{backend}: {s}");
        assert_eq!(came, (0..n(&s["sent"])).collect::<Vec<_>>(), "{backend}: each number once and in order; {s}");
        assert!(s["numbered"].is_null(), "{backend}: no number is used up by a frame that was not taken; {s}");
    }
}

#[test]
fn two_generators_that_were_left_running_change_nothing_but_the_count_of_stale_frames() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.napi();
    let plan = |trial: u16, frames: u64| {
        let mut stream = lab.stream(STREAM, &json!({"fixed_bytes": 100}), &json!({"pps": 1000}));
        stream["frames"] = json!(frames);
        json!({"port": "p", "send": {"trial": trial, "streams": [stream]}})
    };
    let open = json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": {"isolated": true}});
    // The sender of the previous trial, and one without trials; they send until they are ended.
    let mut left = [TRIAL - 1, 0].map(|trial| {
        let mut agent = lab.source();
        agent.must("open", open.clone());
        agent.must("arm", plan(trial, 1_000_000_000));
        agent.must("start", json!({}));
        agent
    });
    let dropped = || lab.exec("source", &["cat", "/sys/class/net/eth-a/statistics/tx_dropped"]);
    let mut source = lab.source();
    source.must("open", open);
    for backend in BACKENDS {
        let mut sink = lab.sink();
        assert_eq!(sink.open_with(backend)["backend"], backend);
        for clock in ["same", "unknown"] {
            loop {
                let before = dropped();
                let receive =
                    json!({"streams": [STREAM], "trial": TRIAL, "sender_clock": clock, "absorb_udp_ports": [5001]});
                sink.must("arm", json!({"port": "p", "receive": receive}));
                source.must("arm", plan(TRIAL, 300));
                sink.must("start", json!({}));
                source.must("start", json!({}));
                let sent = source.must("wait", json!({"port": "p"}));
                let received = sink.must("settle", json!({"port": "p", "sent": told(&sent), "drain_ns": 200_000_000}));
                if dropped() != before {
                    continue; // the link itself had no room
                }
                let r = &received["streams"][0];
                let what = format!("{backend}, {clock}: {received}");
                let exact = ["received", "lost", "duplicated", "reordered", "corrupted"].map(|key| n(&r[key]));
                assert_eq!(exact, [300, 0, 0, 0, 0], "{what}");
                assert_eq!((&r["balances"], &received["kernel_dropped"]), (&json!(true), &json!(0)), "{what}");
                assert!(n(&received["stale"]) > 50, "{what}");
                break;
            }
        }
    }
    for agent in &mut left {
        agent.must("stop", json!({}));
        let sent = agent.must("wait", json!({"port": "p"}));
        assert!(n(&sent["streams"][0]["sent"]) > 300, "it was running: {sent}");
    }
}

#[test]
fn each_stream_is_read_by_the_clock_of_its_own_sender_by_every_back_end() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.napi();
    let mut source = lab.source();
    source.must("open", json!({"port": "p", "iface": "eth-a", "backend": "af_packet", "guard": {"isolated": true}}));
    // Stream 7 has our clock. The plan declares that of 9 a minute ahead of ours and that of 8 an hour behind; in truth
    // all have one clock.
    let streams = [7, 9, 8];
    let minute = 60 * 1_000_000_000_u64;
    for backend in BACKENDS {
        let mut sink = lab.sink();
        assert_eq!(sink.open_with(backend)["backend"], backend);
        let receive = |clocks: Value| {
            let plan = json!({"streams": streams, "trial": TRIAL, "absorb_udp_ports": [5001], "sender_clocks": clocks});
            json!({"port": "p", "receive": plan})
        };
        let clocks = json!([{"stream": 8, "clock": {"ahead_ns": -3_600_000_000_000_i64}},
            {"stream": 9, "clock": {"ahead_ns": minute}}]);
        sink.must("arm", receive(clocks));
        let each = streams.map(|number| {
            let mut stream = lab.stream(number, &json!({"fixed_bytes": 100}), &json!({"pps": 1000}));
            stream["frames"] = json!(50);
            stream
        });
        source.must("arm", json!({"port": "p", "send": {"trial": TRIAL, "streams": each}}));
        sink.must("start", json!({}));
        source.must("start", json!({}));
        let sent = source.must("wait", json!({"port": "p"}));
        let received = sink.must("settle", json!({"port": "p", "sent": told(&sent), "drain_ns": 200_000_000}));
        let latencies: Vec<_> = received["streams"].as_array().unwrap().iter().map(|s| &s["latency"]).collect();
        let least = |i: usize| n(&latencies[i]["min_ns"]);
        assert!(least(0) < minute && least(1) >= minute && least(1) < 2 * minute, "{backend}: {received}");
        assert_eq!(n(&latencies[0]["negative"]) + n(&latencies[1]["negative"]), 0, "{backend}: {received}");
        assert_eq!(
            latencies[2]["negative"], received["streams"][2]["received"],
            "{backend}: sent an hour before: {received}"
        );
        assert!(n(&received["streams"][2]["received"]) > 0, "{backend}: {received}");

        for clocks in [
            json!([{"stream": 6, "clock": "same"}]),
            json!([{"stream": 7, "clock": "same"}, {"stream": 7, "clock": "unknown"}]),
        ] {
            let refused = sink.ask("arm", receive(clocks));
            assert!(
                refused["err"]["message"].as_str().unwrap().contains("is not received, or named twice"),
                "{refused}"
            );
        }
    }
}

#[test]
fn on_one_cpu_every_frame_at_the_maximum_is_accounted_for_by_every_back_end() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::looped();
    lab.napi();
    let mac = lab.mac("source", "eth-b");
    let dropped = || {
        let text = lab.exec("source", &["cat", "/sys/class/net/eth-a/statistics/tx_dropped"]);
        text.trim().parse::<u64>().unwrap()
    };
    for backend in BACKENDS {
        let arguments =
            ["forward-test", "eth-a", "eth-b", "--backend", backend, "--rate", "max", "--duration", "300ms"];
        let more = ["--to", "172.16.1.2", "--mac", &mac, "--json", "--quiet"];
        let before = dropped();
        let out = lab.engine(&["taskset", "-c", "0"], &[&arguments[..], &more].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let ledger = serde_json::from_str::<Value>(&said).expect(&said)["ledger"].clone();
        let of = |key: &str| n(&ledger[key]);
        assert_eq!(
            (of("intended"), &ledger["balances"]),
            (of("sent") + of("refused"), &json!(true)),
            "{backend}: {ledger}"
        );
        assert!(of("sent") > 1000, "{backend}: {ledger}");
        let elsewhere = of("lost") - of("lost_here");
        assert!(elsewhere <= dropped() - before, "{backend}: {ledger}: {elsewhere} frames are lost nowhere");
    }
}

#[test]
fn a_probe_is_stale_if_it_was_sent_before_the_trial_was_asked_for_by_every_back_end() {
    if !netns_or_skip() {
        return;
    }
    let mut rig = Rig::new(Link::Veth, "1500");
    for backend in BACKENDS {
        let mut sink = rig.lab.sink();
        assert!(rig.open(&mut sink, backend).get("ok").is_some());
        loop {
            let receive = json!({"streams": [STREAM], "trial": TRIAL, "absorb_udp_ports": [5001]});
            sink.must("arm", json!({"port": "p", "receive": receive}));
            let before = clock::monotonic();
            let due = Nanos(n(&sink.must("start", json!({}))["at_monotonic_ns"]));
            // The first frame of this agent is due 5 ms after the request; one of another agent may be earlier.
            let between = Nanos(due.0 - 1_000_000);
            let mac = rig.lab.mac("sink", "eth-a").parse().unwrap();
            let mut frames: Vec<_> = (0..20).map(|s| Frame::number(s).emit(mac, between)).collect();
            frames.extend((20..27).map(|s| Frame::number(s).emit(mac, Nanos(before.0 - 1))));
            let whole = rig.bring(&frames);
            let sent = json!([{"stream": STREAM, "frames": 27}]);
            let received = sink.must("settle", json!({"port": "p", "sent": sent, "drain_ns": 60_000_000}));
            if whole {
                let r = &received["streams"][0];
                assert_eq!((n(&r["received"]), n(&received["stale"])), (20, 7), "{backend}: {received}");
                break;
            }
        }
    }
}

#[test]
fn frames_longer_than_a_page_are_refused_in_words_or_received_whole() {
    if !netns_or_skip() {
        return;
    }
    let mut rig = Rig::new(Link::Veth, "9000");
    let jumbo = Case {
        name: "jumbo",
        frames: numbers(0..40).into_iter().map(|f| Frame { bytes: 9018, ..f }).collect(),
        sent: 40,
        clock: json!("same"),
    };
    for backend in BACKENDS {
        let mut sink = rig.lab.sink();
        let opened = rig.open(&mut sink, backend);
        if backend == "xdp" {
            let err = &opened["err"];
            assert!(err["message"].as_str().unwrap().contains("MTU of 9000"), "{backend}: {opened}");
            assert!(err["remedy"].as_str().unwrap().contains("af_packet"), "{backend}: {opened}");
        } else {
            assert_eq!(account(&rig.measure(&mut sink, &jumbo)), expected(&jumbo, 0, true), "{backend}");
        }
    }
}

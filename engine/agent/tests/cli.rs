//! Tests of the command line as people use it: the real program on real interfaces, its output and its exit code.

mod lab;

use lab::{Lab, netns_or_skip, program_or_skip};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_dutlab-engine");

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn code(out: &Output) -> i32 {
    out.status.code().unwrap()
}

fn text(b: &[u8]) -> String {
    String::from_utf8(b.to_vec()).unwrap()
}

/// The one JSON object on stdout.
fn result(out: &Output) -> Value {
    let stdout = text(&out.stdout);
    assert_eq!(stdout.lines().count(), 1, "{stdout}\n{}", text(&out.stderr));
    serde_json::from_str(&stdout).unwrap()
}

/// Waits until `begun`, at most ten seconds, and then 700 ms.
fn for_a_while(begun: impl Fn() -> bool) {
    for _ in 0..500 {
        if begun() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(700));
}

/// Waits until a program has been attached for two seconds: the receiver attaches one to see its mode, then the one
/// that counts.
fn unchanged_for_seconds(attached: impl Fn() -> Option<u64>) {
    let (mut last, mut same) = (None, 0);
    for _ in 0..1000 {
        let now = attached();
        same = if now.is_some() && now == last { same + 1 } else { 0 };
        if same == 100 {
            return;
        }
        last = now;
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["send", "receive", "forward-test", "bench", "probe", "agent", "schema"] {
        let out = run(Command::new(BIN).args([command, "--help"]));
        let help = text(&out.stdout);
        assert_eq!(code(&out), 0, "{command}");
        assert!(help.contains("Example: ") && help.contains("dutlab-engine"), "{help}");
        assert!(!help.contains('\x1b'), "{command}: no colours");
    }
}

#[test]
fn wrong_words_are_refused_with_what_would_be_right() {
    let send = |more: &[&str]| {
        let out = run(Command::new(BIN).args(["send", "eth-a", "--to", "172.16.0.3"]).args(more));
        assert_eq!(code(&out), 2, "{more:?}: {}", text(&out.stderr));
        text(&out.stderr)
    };
    assert!(send(&["--rate", "1Gbit/s"]).contains("1Gbit/s-l1"), "a bit rate says its layer");
    assert!(send(&["--rate", "100"]).contains("100kpps"));
    assert!(send(&["--rate", "1kpps", "--duration", "10"]).contains("10s"));
    assert!(send(&["--rate", "1kpps", "--size", "jmix"]).contains("imix-csit"));
    assert!(send(&["--rate", "1kpps", "--mac", "nonsense"]).contains("nonsense"));
    assert!(send(&["--rate", "1kpps", "--frames", "0"]).contains('0'));
    assert!(send(&[]).contains("--rate"), "a rate must be given");
}

/// Returns the kinds of doubts without those that frames of the lab's own hosts cause.
fn without_strangers(r: &Value) -> Vec<&Value> {
    r["doubts"].as_array().unwrap().iter().map(|d| &d["kind"]).filter(|kind| *kind != "foreign_frames").collect()
}

#[test]
fn a_forward_test_through_a_router_accounts_for_every_frame() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::ring();
    let out = run(&mut lab.engine(
        &[],
        &[
            "forward-test",
            "eth-a",
            "eth-b",
            "--gateway",
            "172.16.0.1",
            "--size",
            "imix",
            "--rate",
            "3kpps",
            "--streams",
            "2",
            "--duration",
            "1200ms",
            "--drain",
            "300ms",
            "--json",
        ],
    ));
    let r = result(&out);
    assert_eq!(
        (code(&out), &r["verdict"], without_strangers(&r)),
        (0, &json!("done"), vec![]),
        "{r}\n{}",
        text(&out.stderr)
    );
    let l = &r["ledger"];
    assert_eq!(
        (&l["intended"], &l["sent"], &l["received"], &l["lost"], &l["balances"]),
        (&json!(3600), &json!(3600), &json!(3600), &json!(0), &json!(true))
    );
    assert_eq!(r["received"]["streams"].as_array().unwrap().len(), 2);
    assert!(r["received"]["streams"][1]["latency"]["ipdv"]["count"].as_u64().unwrap() > 1000);
    // Not a terminal: plain lines, one a second.
    let err = text(&out.stderr);
    assert!(err.contains("  1 s  sent ") && !err.contains('\x1b') && !err.contains('\r'), "{err:?}");
}

#[test]
fn loss_is_a_failed_test_unless_it_was_allowed_and_the_words_say_how_much() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::ring();
    let arguments = [
        "forward-test",
        "eth-a",
        "eth-b",
        "--isolated",
        "--gateway",
        "172.16.0.1",
        "--rate",
        "1kpps",
        "--frames",
        "100",
        "--drain",
        "100ms",
        "--quiet",
    ];
    lab.at_dut(&["sysctl", "-qw", "net.ipv4.ip_forward=0"]);
    let out = run(&mut lab.engine(&[], &arguments));
    let said = text(&out.stdout);
    assert_eq!(code(&out), 1, "{said}{}", text(&out.stderr));
    assert!(said.contains("loss 100.0000 %") && said.contains("failed"), "{said}");
    assert!(out.stderr.is_empty(), "--quiet: {}", text(&out.stderr));
    let out = run(lab.engine(&[], &arguments).args(["--max-loss", "100%"]));
    assert_eq!(code(&out), 0, "{}", text(&out.stdout));
}

#[test]
fn a_port_whose_driver_takes_every_frame_and_sends_none_fails_a_test_over_a_cable() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::looped();
    lab.at_source(&["link", "add", "drops", "type", "veth", "peer", "name", "nowhere"]);
    for end in ["drops", "nowhere"] {
        lab.at_source(&["link", "set", end, "up"]);
    }
    lab.at_source(&["address", "add", "172.16.2.2/24", "dev", "drops"]);
    let mac = lab.mac("source", "eth-b");
    let arguments = ["forward-test", "drops", "eth-b", "--to", "172.16.1.2", "--mac", &mac, "--isolated"];
    let load = ["--backend", "auto", "--rate", "1kpps", "--frames", "100", "--drain", "100ms", "--quiet"];
    let out = run(&mut lab.engine(&[], &[&arguments[..], &load].concat()));
    let said = text(&out.stdout);
    assert_eq!(code(&out), 1, "{said}{}", text(&out.stderr));
    assert!(said.contains("loss 100.0000 %") && said.contains("failed"), "{said}");
}

#[test]
fn what_is_sent_in_one_place_is_counted_in_another() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let receive = |more: &[&str]| {
        lab.engine_at_sink(&[&["receive", "eth-a", "--absorb", "5001", "--json", "--quiet"], more].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let rx = receive(&["--duration", "4s", "--stream", "1-4"]);
    for_a_while(|| lab.xdp_at_sink().is_some());
    let out = run(&mut lab.engine(
        &[],
        &[
            "send",
            "eth-a",
            "--to",
            "172.16.0.3",
            "--rate",
            "5kpps",
            "--frames",
            "1001",
            "--streams",
            "2",
            "--flows",
            "10",
            "--json",
        ],
    ));
    let sent = result(&out);
    assert_eq!((code(&out), &sent["verdict"]), (0, &json!("done")), "{sent}");
    let frames: Vec<_> =
        sent["sent"]["streams"].as_array().unwrap().iter().map(|s| s["sent"].as_u64().unwrap()).collect();
    assert_eq!(frames, [501, 500]);
    let rx = rx.wait_with_output().unwrap();
    let r = result(&rx);
    assert_eq!(code(&rx), 0, "{r}");
    let streams = r["received"]["streams"].as_array().unwrap();
    let counts: Vec<_> =
        streams.iter().map(|s| (s["received"].as_u64().unwrap(), s["lost"].as_u64().unwrap())).collect();
    assert_eq!(counts, [(501, 0), (500, 0)], "streams that did not come are left out");
    assert!(streams[0].get("latency").is_none(), "without --one-clock there is no latency");
    assert_eq!(r["variation"][0]["ipdv"]["count"], 500);
    assert!(r["note"].as_str().unwrap().contains("only the sender knows"));
}

#[test]
fn frames_from_before_the_receiver_began_are_missing_and_ctrl_c_is_its_usual_end() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut tx = lab
        .engine(&[], &["send", "eth-a", "--to", "172.16.0.3", "--rate", "1kpps", "--duration", "60s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for_a_while(|| lab.xdp_at_source().is_some());
    let rx = lab.engine_at_sink(&["receive", "eth-a", "--json", "--one-clock"]).stdout(Stdio::piped()).spawn().unwrap();
    unchanged_for_seconds(|| lab.xdp_at_sink());
    let interrupt = |pid: u32| run(Command::new("kill").args(["-INT", &pid.to_string()]));
    interrupt(rx.id());
    let rx = rx.wait_with_output().unwrap();
    let r = result(&rx);
    let stream = &r["received"]["streams"][0];
    assert_eq!((code(&rx), &stream["balances"]), (0, &json!(true)), "{r}");
    assert!(stream["lost"].as_u64().unwrap() > 100 && stream["received"].as_u64().unwrap() > 100, "{r}");
    assert!(stream["latency"]["p50_ns"].as_u64().unwrap() > 0);
    interrupt(tx.id());
    let _ = tx.wait();
    let out = tx.wait_with_output().unwrap();
    let sent = result(&out);
    assert_eq!((code(&out), &sent["verdict"], &sent["sent"]["ended"]), (130, &json!("interrupted"), &json!("stopped")));
    assert!(sent["sent"]["streams"][0]["sent"].as_u64().unwrap() > 500, "what was sent until then is in the result");
}

#[test]
fn ramps_bursts_sweeps_and_frames_given_whole_are_sent_as_they_were_asked_for() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let send = |more: &[&str]| {
        let argv = [&["send", "eth-a", "--backend", "af_packet", "--json", "--quiet"], more].concat();
        let out = lab.engine(&[], &argv).output().unwrap();
        assert!([0, 1].contains(&code(&out)), "{more:?}: {} {}", text(&out.stdout), text(&out.stderr));
        let said = result(&out);
        let stream = &said["sent"]["streams"][0];
        (stream["intended"].as_u64().unwrap(), stream["sent_bytes"].as_u64().unwrap(), stream["sent"].as_u64().unwrap())
    };
    let to = ["--to", "172.16.0.3", "--size", "64"];
    // 0.2 s at 1 kpps, then 0.4 s at 2 kpps on average; the duration follows from the rate.
    let (asked, ..) = send(&[&to[..], &["--rate", "1kpps:200ms,1kpps..3kpps:400ms"]].concat());
    assert_eq!(asked, 200 + 800);
    let (asked, ..) = send(&[&to[..], &["--rate", "1.6kpps", "--burst", "16", "--duration", "95ms"]].concat());
    assert_eq!(asked, 160, "ten bursts begin within 95 ms");
    let swept = ["--to", "172.16.0.3", "--size", "64..70/2", "--rate", "1kpps", "--frames", "4"];
    assert_eq!(send(&swept), (4, 64 + 66 + 68 + 70, 4));
    let share = [&to[..], &["--rate", "80%", "--speed", "672000bit/s", "--duration", "500ms"]].concat();
    assert_eq!(send(&share).0, 400, "(64 + 20) * 8 bits a frame: 80 % of 1000 frames a second");

    let frame = format!("{}{}0800{}", "02".repeat(6), "04".repeat(6), "00".repeat(60));
    let raw = ["--raw", &frame, "--probe-at", "20", "--rate", "1kpps", "--frames", "5"];
    assert_eq!(send(&raw), (5, 5 * (14 + 60 + 4), 5));
    let file = std::env::temp_dir().join(format!("dutlab-cli-{}.pcap", std::process::id()));
    let path = file.to_str().unwrap();
    let written = lab.engine(
        &[],
        &[
            "send",
            path,
            "--backend",
            "pcap",
            "--isolated",
            "--raw",
            &frame,
            "--probe-at",
            "20",
            "--rate",
            "1kpps",
            "--frames",
            "7",
            "--quiet",
        ],
    );
    assert_eq!(code(&{ written }.output().unwrap()), 0);
    let replay = send(&["--replay", path, "--replay-speed", "max", "--rounds", "3"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(replay, (21, 21 * 78, 21));

    for (wrong, why) in [
        (&["--rate", "1kpps"][..], "--to"),
        (&["--to", "172.16.0.3"], "--rate"),
        (&["--to", "172.16.0.3", "--rate", "max", "--burst", "16"], "frames per second"),
        (&["--raw", "00", "--rate", "1kpps"], "--probe-at"),
        (&["--replay", "x", "--rate", "1kpps"], "--rate"),
        (&["--replay", "/nowhere"], "/nowhere"),
    ] {
        let out = lab.engine(&[], &[&["send", "eth-a"], wrong].concat()).output().unwrap();
        assert_eq!(code(&out), 2, "{wrong:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains(why), "{wrong:?}: {}", text(&out.stderr));
    }
}

#[test]
fn ports_that_cannot_be_used_are_refused_with_a_remedy() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let send = |before: &[&str], iface: &str, more: &[&str]| {
        let base = ["send", iface, "--rate", "1kpps", "--frames", "10", "--json"];
        let out = run(&mut lab.engine(before, &[&base[..], more].concat()));
        let said = text(&out.stderr);
        (code(&out), if code(&out) == 0 { Value::Null } else { result(&out)["err"].clone() }, said)
    };
    let near = ["--to", "172.16.0.3"];
    let (exit, err, said) = send(&[], "no-such", &near);
    assert_eq!((exit, &err["kind"]), (3, &json!("no_such_interface")));
    assert!(said.contains("no-such") && said.contains("remedy: "), "{said}");
    let (exit, err, _) = send(&["setpriv", "--inh-caps=-all", "--bounding-set=-all"], "eth-a", &near);
    assert_eq!((exit, &err["kind"], &err["errno"]), (3, &json!("permission"), &json!(1)), "{err}");
    assert!(err["remedy"].as_str().unwrap().contains("CAP_NET_RAW"));
    let (exit, err, _) = send(&[], "eth-a", &["--to", "172.16.0.3", "--size", "64,1519"]);
    assert_eq!((exit, &err["kind"]), (2, &json!("bad_plan")));
    assert!(err["message"].as_str().unwrap().contains("--size: 1519 needs a longer MTU than 1500"), "{err}");
    let (exit, _, said) = send(&[], "eth-a", &["--to", "172.16.0.77"]);
    assert_eq!(exit, 3);
    assert!(said.contains("172.16.0.77 does not answer") && said.contains("--mac"), "{said}");
    let (exit, _, said) = send(&[], "eth-a", &["--to", "10.1.1.1"]);
    assert_eq!(exit, 3);
    assert!(said.contains("no route"), "{said}");
    let (exit, _, said) = send(&[], "eth-a", &["--to", "2001:db8::1"]);
    assert_eq!(exit, 3, "{said}");
    // The guard: another network's address, then the default route; --isolated insists.
    lab.at_source(&["addr", "add", "8.8.4.4/32", "dev", "eth-a"]);
    let (exit, err, said) = send(&[], "eth-a", &near);
    assert_eq!((exit, &err["kind"]), (3, &json!("guard_refused")));
    assert!(said.contains("8.8.4.4/32") && said.contains("--allow"), "{said}");
    lab.at_source(&["route", "add", "default", "via", "172.16.0.3"]);
    let (_, _, said) = send(&[], "eth-a", &near);
    assert!(said.contains("default route") && said.contains("--isolated"), "{said}");
    let (exit, _, said) = send(&[], "eth-a", &["--to", "10.1.1.1", "--isolated"]);
    assert_eq!(exit, 0, "{said}");
}

#[test]
fn ipv6_goes_to_the_mac_that_neighbour_discovery_finds() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.at_source(&["addr", "add", "2001:db8::2/64", "dev", "eth-a", "nodad"]);
    lab.at_sink(&["addr", "add", "2001:db8::3/64", "dev", "eth-a", "nodad"]);
    // Link-local addresses wait for duplicate address detection.
    std::thread::sleep(Duration::from_secs(2));
    let out = run(&mut lab.engine(
        &[],
        &["send", "eth-a", "--to", "2001:db8::3", "--size", "84", "--rate", "1kpps", "--frames", "10", "--json"],
    ));
    assert_eq!(code(&out), 0, "{}", text(&out.stderr));
    assert!(result(&out)["next_hop"].as_str().unwrap().ends_with("2001:db8::3"));
}

#[test]
fn probe_says_what_works_here_as_table_and_as_json() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let out = run(&mut lab.engine(&[], &["probe", "eth-a"]));
    assert_eq!(code(&out), 0);
    assert!(
        text(&out.stdout).lines().any(|l| l.starts_with("af_packet") && l.contains("1518")),
        "{}",
        text(&out.stdout)
    );
    assert!(text(&out.stdout).contains("times that the driver offers: software when sent; software when received"));
    lab.at_source(&["link", "set", "dev", "eth-a", "down"]);
    let out = run(&mut lab.engine(&[], &["probe", "eth-a", "--json"]));
    let r = result(&out);
    assert_eq!(code(&out), 3);
    // A veth has no clock, and gives XDP programs the time of software (since Linux 6.3).
    let times: Vec<_> = r["probed"]["times"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(times, ["software_send", "software_receive", "xdp_arrival"]);
    assert!(r["probed"]["card_clock"].is_null(), "{r}");
    let back_ends = r["probed"]["backends"].as_array().unwrap();
    let packet = back_ends.iter().find(|b| b["backend"] == "af_packet").unwrap();
    assert_eq!(packet["can_send"], false);
    assert!(packet["remedy"].as_str().unwrap().contains("ip link set dev eth-a up"), "{packet}");
}

#[test]
fn probe_measures_each_back_end_that_sends_and_names_the_fastest() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let args = ["probe", "eth-a", "--measure", "--to", "172.16.0.3", "--duration", "200ms", "--json", "--quiet"];
    let out = run(&mut lab.engine(&[], &args));
    assert_eq!(code(&out), 0, "{}", text(&out.stderr));
    let r = result(&out);
    let speeds = r["measured"]["speeds"].as_array().unwrap();
    let packet = speeds.iter().find(|s| s["backend"] == "af_packet").unwrap();
    assert!(packet["offered_pps"].as_f64().unwrap() > 1000.0, "{r}");
    let of = |s: &Value| s["offered_pps"].as_f64().unwrap();
    let fastest = speeds.iter().max_by(|a, b| of(a).total_cmp(&of(b))).unwrap();
    assert_eq!(r["measured"]["fastest"], fastest["backend"]);
    let sends = |b: &&Value| b["can_send"] == true && b["max_frame_bytes"].is_u64();
    assert_eq!(speeds.len(), r["probed"]["backends"].as_array().unwrap().iter().filter(sends).count(), "{r}");
    // Frames go only where `send` may send them.
    let args = ["probe", "eth-a", "--measure", "--to", "8.8.8.8", "--mac", "02:00:00:00:00:09"];
    assert_eq!(code(&run(&mut lab.engine(&[], &args))), 3);
}

#[test]
fn bench_measures_without_a_device_and_without_rights() {
    if !program_or_skip("setpriv") {
        return;
    }
    let out = run(Command::new("setpriv").args([
        "--inh-caps=-all",
        "--bounding-set=-all",
        BIN,
        "bench",
        "--seconds",
        "0.02",
        "--json",
    ]));
    let r = result(&out);
    assert_eq!(code(&out), 0);
    let rows = r["rows"].as_array().unwrap();
    assert!(rows.len() >= 8 && rows.iter().all(|row| row["ns_per_frame"].as_f64().unwrap() > 0.1), "{r}");
}

#[test]
fn on_a_terminal_one_line_is_written_over_and_over() {
    if !netns_or_skip() || !program_or_skip("script") {
        return;
    }
    let lab = Lab::direct();
    let command = format!("{BIN} send eth-a --to 172.16.0.3 --rate 1kpps --duration 2200ms");
    let mut script = lab.outside(&["script", "-qfec", &command, "/dev/null"]);
    let out = script.env("TERM", "xterm").env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    let said = text(&out.stdout);
    assert!(said.matches("\r\x1b[K  1 s  sent ").count() == 1 && said.contains("\r\x1b[K  2 s  sent "), "{said:?}");
    assert!(!said.contains("\x1b[3") && !said.contains("\x1b[1m"), "no colours: {said:?}");
    assert!(said.contains("done"), "{said:?}");
}

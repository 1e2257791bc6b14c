//! Separate network namespaces for tests, and agents inside them.
#![allow(dead_code, reason = "each test program uses its own part")]

mod agent;
mod device;
mod tap;

pub use agent::Agent;
pub use device::Device;
pub use tap::Tap;

use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Returns true if network namespaces can be created; panics if they cannot although they were promised.
#[must_use]
pub fn netns_or_skip() -> bool {
    let name = unique("try");
    let have = run(&["ip", "netns", "add", &name]);
    run(&["ip", "netns", "del", &name]);
    have_or_skip("netns", have)
}

/// Returns the two cards that a cable joins, if this machine provides them: `DUTLAB_CARDS=eth0,eth1`
/// (`tests/vm/test_cards.py`).
#[must_use]
pub fn cards_or_skip() -> Option<[String; 2]> {
    let named = std::env::var("DUTLAB_CARDS").ok();
    let cards = named.and_then(|names| names.split(',').map(str::to_owned).collect::<Vec<_>>().try_into().ok());
    let _ = have_or_skip("cards", cards.is_some());
    cards
}

/// Returns true if the program is in PATH; panics if it is not although it was promised.
#[must_use]
pub fn program_or_skip(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    have_or_skip(name, std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

fn have_or_skip(capability: &str, have: bool) -> bool {
    if !have {
        let promised = std::env::var("DUTLAB_PROMISED").unwrap_or_default();
        assert!(
            !promised.split(',').any(|c| c == capability || c == "all"),
            "{capability} was promised and is not here"
        );
        eprintln!("SKIPPED: no {capability}");
    }
    have
}

/// Returns a count in a reply.
#[must_use]
pub fn n(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is not a count"))
}

/// Lock for tests whose senders use a whole CPU: two of them at once would measure each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unique(role: &str) -> String {
    format!("dutlab-t{}-{}-{role}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn run(argv: &[&str]) -> bool {
    Command::new(argv[0])
        .args(&argv[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

fn cable(a: &str, a_port: &str, a_address: &str, b: &str, b_port: &str, b_address: &str) {
    cable_of(1, (a, a_port, a_address), (b, b_port, b_address));
}

/// Makes a cable with `queues` queues at both ends, each of which is a namespace, a port and its address.
fn cable_of(queues: u32, near: (&str, &str, &str), far: (&str, &str, &str)) {
    let ((a, a_port, a_address), (b, b_port, b_address)) = (near, far);
    let count = queues.to_string();
    let both = ["numrxqueues", &count, "numtxqueues", &count];
    let near = [&["-n", a, "link", "add", "name", a_port][..], &both, &["type", "veth"]].concat();
    ip(&[&near[..], &["peer", "name", b_port, "netns", b], &both].concat());
    for (ns, port, address) in [(a, a_port, a_address), (b, b_port, b_address)] {
        ip(&["-n", ns, "addr", "add", address, "dev", port]);
        ip(&["-n", ns, "link", "set", "dev", port, "up"]);
    }
}

fn ip(argv: &[&str]) {
    assert!(run(&[&["ip"][..], argv].concat()), "ip {}", argv.join(" "));
}

/// Runs a program in a namespace.
pub fn inside(ns: &str, argv: &[&str]) {
    assert!(run(&[&["ip", "netns", "exec", ns][..], argv].concat()), "{ns}: {}", argv.join(" "));
}

/// Returns true if a new namespace gives its ports link-local addresses.
fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6").is_ok_and(|s| s.trim() == "0")
}

fn mac(ns: &str, port: &str) -> String {
    let out = Command::new("ip").args(["-j", "-n", ns, "link", "show", "dev", port]).output().unwrap();
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    all[0]["address"].as_str().unwrap().to_owned()
}

fn in_namespace(ns: &str, before: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", ns]).args(before).arg(env!("CARGO_BIN_EXE_dutlab-engine")).args(arguments);
    command
}

/// Source and sink, with a Linux router or a cable between them. Removed when dropped.
pub struct Lab {
    source: String,
    dut: String,
    sink: String,
    routed: bool,
    /// Original names of its ports, if they are cards of the machine.
    cards: Option<[String; 2]>,
}

impl Lab {
    /// source → router → sink.
    #[must_use]
    pub fn routed() -> Self {
        Self::routed_with_queues(1)
    }

    /// source → router → sink, where the cable to the sink has several queues at both ends: the router spreads flows
    /// over them.
    #[must_use]
    pub fn routed_with_queues(queues: u32) -> Self {
        let lab =
            Self { source: unique("source"), dut: unique("dut"), sink: unique("sink"), routed: true, cards: None };
        for name in [&lab.source, &lab.dut, &lab.sink] {
            ip(&["netns", "add", name]);
        }
        cable(&lab.source, "eth-a", "172.16.0.2/24", &lab.dut, "in-a", "172.16.0.1/24");
        cable_of(queues, (&lab.sink, "eth-a", "172.16.10.2/24"), (&lab.dut, "out-a", "172.16.10.1/24"));
        ip(&["netns", "exec", &lab.dut, "sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        let mac = mac(&lab.sink, "eth-a");
        let neighbour = ["neigh", "replace", "172.16.10.2", "lladdr", &mac, "dev", "out-a", "nud", "permanent"];
        ip(&[&["-n", lab.dut.as_str()][..], &neighbour].concat());
        lab
    }

    /// source → sink.
    #[must_use]
    pub fn direct() -> Self {
        let lab =
            Self { source: unique("source"), dut: String::new(), sink: unique("sink"), routed: false, cards: None };
        for name in [&lab.source, &lab.sink] {
            ip(&["netns", "add", name]);
        }
        cable(&lab.source, "eth-a", "172.16.0.2/24", &lab.sink, "eth-a", "172.16.0.3/24");
        lab
    }

    /// source → sink over a cable between two cards.
    #[must_use]
    pub fn of_cards(cards: [String; 2]) -> Self {
        let source = unique("source");
        let sink = unique("sink");
        for (ns, card, address) in [(&source, &cards[0], "172.16.0.2/24"), (&sink, &cards[1], "172.16.0.3/24")] {
            ip(&["netns", "add", ns]);
            ip(&["link", "set", "dev", card, "netns", ns, "name", "eth-a"]);
            ip(&["-n", ns, "addr", "add", address, "dev", "eth-a"]);
            ip(&["-n", ns, "link", "set", "dev", "eth-a", "up"]);
        }
        Self { source, dut: String::new(), sink, routed: false, cards: Some(cards) }
    }

    /// source → sink, over a cable whose ends have several queues each. A frame arrives on the queue on which it was
    /// sent: without `af_xdp`, that of the sending CPU.
    #[must_use]
    pub fn direct_with_queues(queues: u32) -> Self {
        let lab =
            Self { source: unique("source"), dut: String::new(), sink: unique("sink"), routed: false, cards: None };
        for name in [&lab.source, &lab.sink] {
            ip(&["netns", "add", name]);
        }
        cable_of(queues, (&lab.source, "eth-a", "172.16.0.2/24"), (&lab.sink, "eth-a", "172.16.0.3/24"));
        lab
    }

    /// source → cable → a namespace that does not forward → cable → sink: room for a [`Device`].
    #[must_use]
    pub fn bridged() -> Self {
        Self::bridged_with_queues(1)
    }

    /// As [`bridged`](Self::bridged), with several queues at each port. A frame that a [`Device`] passes arrives on a
    /// queue of the CPU that the device ran on.
    #[must_use]
    pub fn bridged_with_queues(queues: u32) -> Self {
        let lab =
            Self { source: unique("source"), dut: unique("dut"), sink: unique("sink"), routed: false, cards: None };
        for name in [&lab.source, &lab.dut, &lab.sink] {
            ip(&["netns", "add", name]);
        }
        cable_of(queues, (&lab.source, "eth-a", "172.16.0.2/24"), (&lab.dut, "in-a", "172.16.1.1/24"));
        cable_of(queues, (&lab.sink, "eth-a", "172.16.0.3/24"), (&lab.dut, "out-a", "172.16.2.1/24"));
        if queues > 1 {
            let cpus = std::thread::available_parallelism().unwrap().get();
            for queue in 0..queues as usize {
                let file = format!("/sys/class/net/out-a/queues/tx-{queue}/xps_cpus");
                lab.at_dut(&["sh", "-c", &format!("echo {:x} > {file}", 1 << (queue % cpus.min(2)))]);
            }
        }
        lab
    }

    /// One namespace with both ends of a cable, `eth-a` and `eth-b`.
    #[must_use]
    pub fn looped() -> Self {
        let lab =
            Self { source: unique("source"), dut: String::new(), sink: String::new(), routed: false, cards: None };
        ip(&["netns", "add", &lab.source]);
        cable(&lab.source, "eth-a", "172.16.0.2/24", &lab.source, "eth-b", "172.16.1.2/24");
        lab
    }

    /// Makes the router write its own address into what it forwards.
    pub fn translates(&self) {
        let rules = "add table ip t; add chain ip t c { type nat hook postrouting priority 100; }; add rule ip t c oifname out-a masquerade";
        inside(&self.dut, &["nft", rules]);
    }

    /// Returns the id of the XDP program on the source's port.
    #[must_use]
    pub fn xdp_at_source(&self) -> Option<u64> {
        Self::xdp_at(&self.source)
    }

    /// Returns the id of the XDP program on the sink's port.
    #[must_use]
    pub fn xdp_at_sink(&self) -> Option<u64> {
        Self::xdp_at(&self.sink)
    }

    fn xdp_at(namespace: &str) -> Option<u64> {
        let out = Command::new("ip").args(["-j", "-n", namespace, "link", "show", "dev", "eth-a"]).output().unwrap();
        let all: Value = serde_json::from_slice(&out.stdout).unwrap();
        all[0]["xdp"]["prog"]["id"].as_u64()
    }

    /// Waits until the kernel has detached the program from the source's port; panics if it does not.
    pub fn until_detached(&self) {
        for _ in 0..200 {
            if self.xdp_at_source().is_none() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("two seconds after its process, the program {:?} is still attached", self.xdp_at_source());
    }

    /// Makes a TAP device `tap0` in the sink and brings it up, until it is dropped.
    #[must_use]
    pub fn tap(&self) -> Tap {
        Tap::at_sink(self)
    }

    /// Attaches a program that drops everything to the source's port, until it is dropped.
    #[must_use]
    pub fn drops_at_source(&self) -> Device {
        Device::run(&self.source, &["drop", "eth-a"])
    }

    /// Turns GRO on everywhere, so that every veth takes redirected frames (NAPI).
    pub fn napi(&self) {
        let looped = if self.sink.is_empty() { &self.source } else { &self.sink };
        let far = if self.sink.is_empty() { "eth-b" } else { "eth-a" };
        for (ns, port) in [(&self.source, "eth-a"), (looped, far), (&self.dut, "in-a"), (&self.dut, "out-a")] {
            if !ns.is_empty() {
                self::inside(ns, &["ethtool", "-K", port, "gro", "on"]);
            }
        }
    }

    /// One namespace with both ports, `eth-a` and `eth-b`, and a router between them.
    #[must_use]
    pub fn ring() -> Self {
        let lab = Self { source: unique("tester"), dut: unique("dut"), sink: String::new(), routed: true, cards: None };
        for name in [&lab.source, &lab.dut] {
            ip(&["netns", "add", name]);
        }
        cable(&lab.source, "eth-a", "172.16.0.2/24", &lab.dut, "in-a", "172.16.0.1/24");
        cable(&lab.source, "eth-b", "172.16.10.2/24", &lab.dut, "out-a", "172.16.10.1/24");
        ip(&["netns", "exec", &lab.dut, "sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        lab
    }

    /// Returns a command that runs the engine with these arguments in the source; `before` precedes the engine's name.
    #[must_use]
    pub fn engine(&self, before: &[&str], arguments: &[&str]) -> Command {
        in_namespace(&self.source, before, arguments)
    }

    /// Returns a command that runs the engine with these arguments in the sink.
    #[must_use]
    pub fn engine_at_sink(&self, arguments: &[&str]) -> Command {
        in_namespace(&self.sink, &[], arguments)
    }

    /// Returns a command that runs any program in the source.
    #[must_use]
    pub fn outside(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.source]).args(argv);
        command
    }

    /// Runs `ip` inside of the sink.
    pub fn at_sink(&self, argv: &[&str]) {
        ip(&[&["-n", self.sink.as_str()][..], argv].concat());
    }

    /// Runs a command in the DUT.
    pub fn at_dut(&self, argv: &[&str]) {
        assert!(run(&[&["ip", "netns", "exec", self.dut.as_str()][..], argv].concat()), "{}", argv.join(" "));
    }

    /// Runs `ip` inside of the source.
    pub fn at_source(&self, argv: &[&str]) {
        ip(&[&["-n", self.source.as_str()][..], argv].concat());
    }

    /// Runs a program in the source; returns its output, and whether it succeeded.
    #[must_use]
    pub fn run_at_source(&self, argv: &[&str]) -> (bool, String) {
        let out = Command::new("ip").args(["netns", "exec", &self.source]).args(argv).output().unwrap();
        (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Runs a program in the sink; returns its output, and whether it succeeded.
    #[must_use]
    pub fn run_at_sink(&self, argv: &[&str]) -> (bool, String) {
        let out = Command::new("ip").args(["netns", "exec", &self.sink]).args(argv).output().unwrap();
        (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Waits until the kernel has finished setting up the source's port: it has a carrier, and the address that comes
    /// with it. Panics if that never happens.
    pub fn until_quiet(&self) {
        let give_up = Instant::now() + Duration::from_secs(30);
        loop {
            let out =
                Command::new("ip").args(["-j", "-n", &self.source, "addr", "show", "dev", "eth-a"]).output().unwrap();
            let port = &serde_json::from_slice::<Value>(&out.stdout).unwrap()[0];
            let of_ipv6 = |a: &Value| a["family"] == "inet6" && a["tentative"] != true;
            if port["operstate"] == "UP" && (!has_ipv6() || port["addr_info"].as_array().unwrap().iter().any(of_ipv6)) {
                return;
            }
            assert!(Instant::now() < give_up, "after 30 s, {port}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns everything that an engine could leave behind in the source: links with promiscuity and programs,
    /// sockets, processes.
    #[must_use]
    pub fn state_of_source(&self) -> String {
        let ns = self.source.as_str();
        let said = |argv: &[&str]| {
            let out = Command::new(argv[0]).args(&argv[1..]).output().unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        let inside = |file: &str| said(&["ip", "netns", "exec", ns, "cat", file]);
        [
            said(&["ip", "-d", "-n", ns, "link", "show"]),
            said(&["ip", "-n", ns, "addr", "show"]),
            said(&["ip", "netns", "pids", ns]),
            inside("/proc/net/packet"),
            inside("/proc/net/udp"),
            inside("/proc/net/udp6"),
        ]
        .join("--\n")
    }

    fn namespace(&self, role: &str) -> &str {
        match role {
            "source" => &self.source,
            "dut" => &self.dut,
            "sink" => &self.sink,
            other => panic!("no role {other}"),
        }
    }

    /// Runs a command in `role`'s namespace, and returns its output.
    pub fn exec(&self, role: &str, argv: &[&str]) -> String {
        let out = Command::new("ip").args(["netns", "exec", self.namespace(role)]).args(argv).output().unwrap();
        assert!(out.status.success(), "{role}: {}: {}", argv.join(" "), String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Starts a command in `role`'s namespace, with its output in pipes.
    pub fn spawn(&self, role: &str, argv: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.namespace(role)]).args(argv);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The MAC of a port.
    #[must_use]
    pub fn mac(&self, role: &str, port: &str) -> String {
        mac(self.namespace(role), port)
    }

    /// Adds IPv6 to a routed lab: the source is `2001:db8:0::2`, the sink `2001:db8:10::2`.
    pub fn add_ipv6(&self) {
        for (role, port, address) in [
            ("source", "eth-a", "2001:db8:0::2/64"),
            ("dut", "in-a", "2001:db8:0::1/64"),
            ("dut", "out-a", "2001:db8:10::1/64"),
            ("sink", "eth-a", "2001:db8:10::2/64"),
        ] {
            self.exec(role, &["ip", "addr", "add", address, "dev", port, "nodad"]);
        }
        self.exec("dut", &["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"]);
        let mac = self.mac("sink", "eth-a");
        let neighbour = ["neigh", "replace", "2001:db8:10::2", "lladdr", &mac, "dev", "out-a", "nud", "permanent"];
        self.exec("dut", &[&["ip"][..], &neighbour].concat());
    }

    /// An agent in the source.
    #[must_use]
    pub fn source(&self) -> Agent {
        Agent::start(&self.source)
    }

    /// An agent in the sink.
    #[must_use]
    pub fn sink(&self) -> Agent {
        Agent::start(&self.sink)
    }

    /// An agent in the sink that may use one CPU only.
    #[must_use]
    pub fn sink_on(&self, cpu: &str) -> Agent {
        Agent::start_on(&self.sink, cpu)
    }

    /// A stream from source to sink.
    #[must_use]
    pub fn stream(&self, number: u16, sizes: &Value, rate: &Value) -> Value {
        let (mac, destination) = if self.sink.is_empty() {
            ("02:00:00:00:00:99".to_owned(), "172.16.1.2")
        } else if self.routed {
            (mac(&self.dut, "in-a"), "172.16.10.2")
        } else {
            (mac(&self.sink, "eth-a"), "172.16.0.3")
        };
        json!({"stream": number, "destination_mac": mac, "source": "172.16.0.2", "destination": destination,
               "source_port": 40_000, "destination_port": 5001, "sizes": sizes, "rate": rate})
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for (ns, card) in [&self.source, &self.sink].into_iter().zip(self.cards.iter().flatten()) {
            run(&["ip", "-n", ns, "link", "set", "dev", "eth-a", "netns", "1", "name", card]);
        }
        for name in [&self.source, &self.dut, &self.sink].into_iter().filter(|n| !n.is_empty()) {
            run(&["ip", "netns", "del", name]);
        }
    }
}

/// Runs one trial: returns the reply to `wait` for the first stream, and the reply to `settle`.
#[must_use]
pub fn trial(source: &mut Agent, sink: &mut Agent, send: &Value) -> (Value, Value) {
    let numbers: Vec<_> = send["streams"].as_array().unwrap().iter().map(|s| s["stream"].clone()).collect();
    sink.must("arm", json!({"port": "p", "receive": {"streams": numbers, "absorb_udp_ports": [5001]}}));
    source.must("arm", json!({"port": "p", "send": send}));
    sink.must("start", json!({}));
    source.must("start", json!({}));
    let sending = source.must("wait", json!({"port": "p"}));
    let received = sink.must("settle", json!({"port": "p", "sent": told(&sending), "drain_ns": 300_000_000}));
    (sending, received)
}

/// Returns the receiver's argument for a sender's reply to `wait`: refused frames may have used up numbers, and several
/// CPUs may have sent.
#[must_use]
pub fn told(sending: &Value) -> Vec<Value> {
    let of = |s: &Value| {
        let mut one = json!({"stream": s["stream"], "frames": s["sent"]});
        for key in ["numbered", "unordered"].into_iter().filter(|key| !s[key].is_null()) {
            one[key] = s[key].clone();
        }
        one
    };
    sending["streams"].as_array().unwrap().iter().map(of).collect()
}

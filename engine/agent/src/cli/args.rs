//! Arguments of the command line.

use super::quantity;
use super::rate::{self, Asked};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use dutlab_port::network::Network;
use dutlab_protocol::plan::{self, ReplayTiming, Sizes};
use dutlab_protocol::request::Backend;
use dutlab_tcp::tls::Version;
use dutlab_units::Nanos;
use dutlab_wire::Mac;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Sends and receives test frames and accounts for every one of them.
///
/// Exit codes: 0 done, 1 measured but failed or doubtful, 2 wrong input, 3 port or machine not usable, 130 interrupted.
#[derive(Parser)]
#[command(name = "dutlab-engine", version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Send numbered, stamped frames out of a port
    #[command(after_help = "Example: dutlab-engine send eth1 --to 172.16.10.2 --size 64 --rate 100kpps --duration 10s")]
    Send(Send),
    /// Count our frames on a port: received, duplicated, reordered, missing
    #[command(after_help = "Example: dutlab-engine receive eth2 --duration 12s")]
    Receive(Receive),
    /// Send on one port, receive on another of this machine, and account for every frame
    #[command(
        after_help = "Example: dutlab-engine forward-test eth1 eth2 --gateway 172.16.0.1 --size imix --rate 1Gbit/s-l1 --duration 10s"
    )]
    ForwardTest(ForwardTest),
    /// Show rates of every port and stream while a trial runs, from what `--events` writes or an agent says
    #[command(
        after_help = "Example: dutlab-engine send eth1 --to 172.16.10.2 --rate 100kpps --events >(dutlab-engine watch)"
    )]
    Watch(Watch),
    /// What this CPU alone can do, without a device
    #[command(after_help = "Example: dutlab-engine bench --seconds 1 --cpu 1")]
    Bench(Bench),
    /// What each back end can do on a port, and why not; how fast each sends
    #[command(
        after_help = "Example: dutlab-engine probe eth1\n         dutlab-engine probe eth1 --measure --to 172.16.10.2"
    )]
    Probe(Probe),
    /// Obey a controller: JSON lines on stdin and stdout
    #[command(after_help = "Example: echo '{\"id\":1,\"op\":\"hello\"}' | dutlab-engine agent")]
    Agent,
    /// Print the JSON Schema of the protocol that `agent` speaks
    #[command(after_help = "Example: dutlab-engine schema > protocol.schema.json")]
    Schema,
    /// Begin TCP connections at a rate, ask over each, and say what became of every one (RFC 3511, RFC 9411)
    #[command(
        after_help = "Example: dutlab-engine tcp-client --from 172.16.0.2 --to 172.16.10.2 --rate 1000 --count 5000"
    )]
    TcpClient(TcpClient),
    /// Answer TCP connections until stdin ends
    #[command(after_help = "Example: dutlab-engine tcp-server 172.16.10.2 --ports 20000-20015")]
    TcpServer(TcpServer),
    /// Read and write a drive at given instants (a Poisson process); latency counts from the instant, not from the call
    #[command(after_help = "Example: dutlab-engine drive-load /dev/nvme0n1 --rate 5000 --duration 30s")]
    DriveLoad(DriveLoad),
    /// What tests and benches hold the engine against
    #[command(subcommand, hide = true)]
    Yardstick(crate::yardstick::Yardstick),
}

#[derive(Args)]
pub struct Send {
    /// The port to send from
    #[arg(value_name = "IFACE")]
    pub iface: String,
    /// Where the frames go; not needed for frames that are given whole
    #[arg(long, value_name = "IP", required_unless_present_any = ["raw", "replay"])]
    pub to: Option<IpAddr>,
    #[command(flatten)]
    pub given: Given,
    #[command(flatten)]
    pub traffic: Traffic,
    /// Trial number in the probes, 0 to 65535: distinguishes them from those of another running sender
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub trial: u16,
    #[command(flatten)]
    pub port: Port,
    #[command(flatten)]
    pub events: Events,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct Receive {
    /// The port to receive on
    #[arg(value_name = "IFACE")]
    pub iface: String,
    /// The streams that are counted, as in 1, 1-8 or 1,5; frames of others are foreign
    #[arg(long, value_name = "NUMBERS", default_value = "1-8")]
    pub stream: String,
    /// End after this time; without it, Ctrl-C ends
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub duration: Option<Nanos>,
    /// The sender runs on this machine (in any network namespace): show one-way latency
    #[arg(long)]
    pub one_clock: bool,
    /// Count probes of this trial only, as the sender was given it; others are stale
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub trial: u16,
    /// Take UDP datagrams for this port from the host's own stack, so that it does not answer them
    #[arg(long, value_name = "PORT")]
    pub absorb: Vec<u16>,
    #[command(flatten)]
    pub port: Port,
    #[command(flatten)]
    pub events: Events,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct ForwardTest {
    /// The port to send from: it faces the DUT's input
    #[arg(value_name = "IN")]
    pub input: String,
    /// The port to receive on: it faces the DUT's output
    #[arg(value_name = "OUT")]
    pub output_port: String,
    /// Where the frames go [default: the address of OUT]
    #[arg(long, value_name = "IP")]
    pub to: Option<IpAddr>,
    /// How long frames are waited for after the last one was sent (RFC 2544 section 23: 2 s)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = quantity::duration)]
    pub drain: Nanos,
    /// More loss than this is a failure
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = quantity::percent)]
    pub max_loss: f64,
    #[command(flatten)]
    pub traffic: Traffic,
    #[command(flatten)]
    pub port: Port,
    /// The back end of OUT [default: that of IN]
    #[arg(long, value_parser = named::<Backend>())]
    pub receive_backend: Option<Backend>,
    /// The CPUs that receive [default: those that send]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub receive_cpu: Vec<u32>,
    #[command(flatten)]
    pub events: Events,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct Watch {
    /// A file or FIFO with JSON lines [default: stdin]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Args)]
pub struct Bench {
    /// How long each row is measured
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub seconds: f64,
    /// The CPU to measure
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct Probe {
    /// The port
    #[arg(value_name = "IFACE")]
    pub iface: String,
    /// Send as fast as possible by each back end in turn, and name the fastest
    #[arg(long, requires = "to")]
    pub measure: bool,
    #[command(flatten)]
    pub measured: Measured,
    #[command(flatten)]
    pub output: Output,
}

/// How `probe --measure` sends.
#[derive(Args)]
#[command(next_help_heading = "With --measure")]
pub struct Measured {
    /// Where the frames go
    #[arg(long, value_name = "IP", requires = "measure")]
    pub to: Option<IpAddr>,
    /// MAC of the next hop; without it the kernel's neighbour table is asked
    #[arg(long, value_name = "MAC", requires = "measure")]
    pub mac: Option<Mac>,
    /// Bytes with FCS
    #[arg(long, value_name = "BYTES", requires = "measure", default_value = "64", value_parser = quantity::sizes)]
    pub size: Sizes,
    /// How long each back end sends
    #[arg(long, value_name = "TIME", requires = "measure", default_value = "1s", value_parser = quantity::duration)]
    pub duration: Nanos,
    /// The CPUs that send
    #[arg(long, value_name = "N,N", requires = "measure", value_delimiter = ',')]
    pub cpu: Vec<u32>,
    /// Nothing else is on this link: send even if the port carries the default route or another network's address
    #[arg(long, requires = "measure")]
    pub isolated: bool,
    /// Networks that belong to the testbed [default: those of private and test addresses]
    #[arg(long, value_name = "NETWORK", requires = "measure")]
    pub allow: Vec<Network>,
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct TcpClient {
    /// Addresses of this host, one or several
    #[arg(long, value_name = "IP,IP", value_delimiter = ',', required = true)]
    pub from: Vec<IpAddr>,
    /// Address of the server
    #[arg(long, value_name = "IP")]
    pub to: IpAddr,
    /// Ports of the server
    #[arg(long, value_name = "FIRST-LAST", default_value = "20000-20015", value_parser = quantity::ports)]
    pub ports: RangeInclusive<u16>,
    /// Which of all addresses and ports come first: another number begins with others
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first: u64,
    /// New connections a second
    #[arg(long, value_name = "N", value_parser = quantity::per_second)]
    pub rate: f64,
    /// How many connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    pub count: u64,
    /// Requests over each connection, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub requests: u32,
    /// Length of a request with its head; as short as can be where that is longer
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub request_bytes: usize,
    /// Length of a response's body; 1024:60,102400:40 for several, by weight
    #[arg(long, value_name = "BYTES", default_value = "1024", value_parser = quantity::objects)]
    pub response_bytes: quantity::Objects,
    /// Keep all open until the last has been answered, then ask over each once more
    #[arg(long)]
    pub hold: bool,
    /// A handshake or an answer that takes longer has failed
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = quantity::duration)]
    pub timeout: Nanos,
    /// End connections with RST instead of FIN
    #[arg(long)]
    pub reset: bool,
    /// Whom requests and TLS name as the server [default: its address]
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Speak HTTP/2; without TLS a server must know that (RFC 9113 section 3.3)
    #[arg(long)]
    pub http2: bool,
    /// Speak TLS: 1.2, 1.3, or any of them
    #[arg(long, value_name = "VERSION", value_parser = quantity::tls)]
    pub tls: Option<Version>,
    /// Resume the sessions of earlier connections
    #[arg(long, requires = "tls")]
    pub resume: bool,
}

#[derive(Args)]
pub struct TcpServer {
    /// Address of this host
    #[arg(value_name = "IP")]
    pub address: IpAddr,
    /// Ports that it listens on
    #[arg(long, value_name = "FIRST-LAST", default_value = "20000-20015", value_parser = quantity::ports)]
    pub ports: RangeInclusive<u16>,
    /// How many connections may be open at once
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub connections: u64,
    /// Speak TLS with a certificate made for it: 1.2, 1.3, or any of them
    #[arg(long, value_name = "VERSION", value_parser = quantity::tls)]
    pub tls: Option<Version>,
    /// Let clients resume sessions
    #[arg(long, requires = "tls")]
    pub resume: bool,
}

#[derive(Args)]
pub struct DriveLoad {
    /// Block device or file
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// I/Os a second
    #[arg(long, value_name = "N", value_parser = quantity::per_second)]
    pub rate: f64,
    /// Time in which I/Os are due and count
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub duration: Nanos,
    /// Time before it, whose I/Os do not count
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub ramp: Option<Nanos>,
    /// Bytes of an I/O
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(512..=64 << 20))]
    pub block: u32,
    /// Bytes of the path that are used [default: all of a file; needed for a device]
    #[arg(long, value_name = "BYTES")]
    pub size: Option<u64>,
    /// Places in order, not at random
    #[arg(long)]
    pub sequential: bool,
    /// Share of reads; below 100 the contents are lost, and `--overwrite` is needed
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub reads: u8,
    /// Permit writes
    #[arg(long)]
    pub overwrite: bool,
    /// Most I/Os under way at once, each in a thread
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: u32,
    /// Seed of instants and places
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What is sent.
#[derive(Args)]
#[command(next_help_heading = "Traffic")]
pub struct Traffic {
    /// Source address [default: the port's own]
    #[arg(long, value_name = "IP")]
    pub from: Option<IpAddr>,
    /// MAC of the next hop; without it the kernel's neighbour table is asked
    #[arg(long, visible_alias = "gateway-mac", value_name = "MAC")]
    pub mac: Option<Mac>,
    /// The next hop [default: what the routing table says]
    #[arg(long, value_name = "IP", conflicts_with = "mac")]
    pub gateway: Option<IpAddr>,
    /// Bytes with FCS and any tags: 64, 64,594,1518 (in this order), 64:7,594:4 (by weight), 64..1518/2 (one of each, in steps), aaafg (RFC 6985),
    /// imix, imix-csit, …
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = quantity::sizes)]
    pub size: Sizes,
    /// 100kpps, 1Gbit/s-l1 (with preamble and gap), 1Gbit/s-l2, 80% of the link's speed, max; of all streams together. Over time, in
    /// steps and ramps: 100kpps:2s,100kpps..1Mpps:10s,1Mpps:30s
    #[arg(long, value_name = "RATE", value_parser = rate::rate)]
    pub rate: Option<Asked>,
    /// Send so many frames at once, at a mean of --rate (RFC 2544 section 21)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: Option<u32>,
    /// The link's speed, where the interface does not say the true one
    #[arg(long, value_name = "SPEED", value_parser = quantity::speed)]
    pub speed: Option<f64>,
    /// How long to send [default: 10s, or as long as --frames or a rate over time takes]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub duration: Option<Nanos>,
    /// Go on when the link loses its carrier, as while the device at its other end is reset: frames due meanwhile are refused
    #[arg(long)]
    pub through_link_loss: bool,
    /// How many frames to send, of all streams together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub frames: Option<u64>,
    /// How many streams share the rate
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub streams: u16,
    /// Number of the first stream
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub first_stream: u16,
    /// Flows in each stream, by source port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub flows: u32,
    /// What the probe travels in
    #[arg(long, value_parser = named::<plan::Transport>(), default_value = "udp")]
    pub transport: plan::Transport,
    /// Source port of the first flow
    #[arg(long, value_name = "PORT", default_value_t = 40_000)]
    pub source_port: u16,
    /// Destination port
    #[arg(long, value_name = "PORT", default_value_t = 5001)]
    pub destination_port: u16,
    /// VLAN tag; twice for two, the outer one first
    #[arg(long, value_name = "ID")]
    pub vlan: Vec<u16>,
    /// Time to live, or hop limit
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub ttl: u8,
    /// A field that varies by frame: source-port=1024..65535, vlan-id=100..1/3 (down, in steps of 3), ttl=64,128 (in turn),
    /// source-address=random:10.0.0.1..10.0.255.254/seed=7, bits@60.4+12=0..4095 (byte, bit and width). Behind the values
    /// /every=16 keeps each for 16 frames, /phase=3 begins at the one of that place. May be repeated
    #[arg(long, value_name = "FIELD=VALUES", value_parser = super::vary::vary)]
    pub vary: Vec<plan::Vary>,
}

impl Default for Traffic {
    fn default() -> Self {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            traffic: Traffic,
        }
        Only::parse_from([""]).traffic
    }
}

/// Frames that are given whole.
#[derive(Args)]
#[command(next_help_heading = "Frames given whole")]
pub struct Given {
    /// A frame without FCS in hexadecimal, from its destination MAC on; several are sent one after another. The probe is written into it
    #[arg(long, value_name = "HEX", requires = "probe_at", conflicts_with = "replay")]
    pub raw: Vec<String>,
    /// Where in each of them the probe is: an even number of bytes from the start
    #[arg(long, value_name = "BYTES", requires = "raw")]
    pub probe_at: Option<u16>,
    /// Send the frames of a capture (pcap, of Ethernet) in their own time; as they are, unless --with-probe
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "frames", "streams", "burst", "size"])]
    pub replay: Option<String>,
    /// So many times as fast as captured, or max
    #[arg(long, value_name = "TIMES", requires = "replay", value_parser = rate::replay, default_value = "1")]
    pub replay_speed: ReplayTiming,
    /// How often the capture is sent
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Write the probe over the start of each payload of the capture that is long enough: a receiver accounts for these frames
    #[arg(long, requires = "replay")]
    pub with_probe: bool,
    /// Send frames that are too short for the probe unchanged, counted under this number; otherwise they are refused
    #[arg(long, value_name = "N", requires = "with_probe")]
    pub unprobed_stream: Option<u16>,
}

/// How ports are used.
#[derive(Args)]
#[command(next_help_heading = "Port")]
pub struct Port {
    /// Nothing else is on this link: send even if the port carries the default route or another network's address
    #[arg(long)]
    pub isolated: bool,
    /// Networks that belong to the testbed [default: those of private and test addresses]
    #[arg(long, value_name = "NETWORK")]
    pub allow: Vec<Network>,
    /// How frames get in and out
    #[arg(long, value_parser = named::<Backend>(), default_value = "auto")]
    pub backend: Backend,
    /// The CPUs that send, or receive: each has a separate sending thread; with `af_xdp` each receive queue has its thread on one of them
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub cpu: Vec<u32>,
}

/// What others may look at meanwhile.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct Events {
    /// Write what each port and stream has come to as JSON lines, once a second, into this file or FIFO: for `dutlab-engine watch`
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
}

/// Where words go.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// One JSON object on stdout instead of words
    #[arg(long)]
    pub json: bool,
    /// No line a second on stderr
    #[arg(long)]
    pub quiet: bool,
}

/// Parses the names of a protocol type without their descriptions, so that the help of an option stays one line.
fn named<T: ValueEnum + Clone + std::marker::Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    let names = T::value_variants().iter().filter_map(|v| Some(v.to_possible_value()?.help(None::<&str>)));
    PossibleValuesParser::new(names).try_map(|name| T::from_str(&name, false))
}

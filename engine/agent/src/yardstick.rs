//! References for our counting and our speed: devices with a known fault, and the bare kernel. For tests and benches;
//! not part of any measurement.
//!
//! Each prints `{"ready":true}` when it is ready, answers each line on stdin with its counters, and ends with stdin. A
//! translator deletes its connections at the line `forget`.

use clap::{Args, Subcommand, ValueEnum};
use dutlab_port::af_packet::{Bursts, TxRing};
use dutlab_port::iface::Interface;
use dutlab_port::{Batch, BurstSender, Fill, PortError};
use dutlab_xdp::reference::{BareDrop, Device, Wrong, bare_send};
use serde_json::{Value, json};
use std::io::BufRead;
use std::process::ExitCode;

/// A yardstick.
#[derive(Subcommand)]
pub enum Yardstick {
    /// Sends what enters one interface out of another, with one deliberate wrong. UDP over IPv4 only.
    Device(DeviceArguments),
    /// Drops and counts every frame, and does nothing else.
    Drop {
        /// Interface.
        iface: String,
    },
    /// Sends copies of one frame without a probe, as fast as the kernel goes, and says what CPU time that took.
    Send {
        /// Interface.
        iface: String,
        /// How many.
        frames: u32,
        /// How many the kernel prepares at a time.
        #[arg(long, default_value_t = 32)]
        batch: u32,
        /// Length without FCS.
        #[arg(long, default_value_t = 60)]
        bytes: usize,
    },
    /// The same through a packet socket.
    Packet {
        /// Interface.
        iface: String,
        /// How many.
        frames: u64,
        /// By which calls.
        way: Way,
    },
}

/// A device.
#[derive(Args)]
pub struct DeviceArguments {
    /// Frames enter here.
    from: String,
    /// And leave here.
    to: String,
    /// What it does wrong.
    wrong: Kind,
    /// Every which frame; frames a second (polices); new connections a second (translates); nanoseconds after the send time (holds).
    n: u64,
    /// Frames that a policer lets through at once, or new connections that a translator takes.
    #[arg(long, default_value_t = 1)]
    depth: u32,
    /// Connections that a translator knows at once.
    #[arg(long, default_value_t = 64_000)]
    most: u32,
}

/// Call that hands frames to a packet socket.
#[derive(Clone, Copy, ValueEnum)]
pub enum Way {
    /// Messages, as the back end `af_packet` does.
    Sendmmsg,
    /// A ring that is shared with the kernel.
    TxRing,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Drops,
    Duplicates,
    Swaps,
    Polices,
    Holds,
    Corrupts,
    Translates,
}

/// Runs a yardstick.
pub fn run(yardstick: &Yardstick) -> ExitCode {
    match measure(yardstick) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("dutlab-engine: {e}; {}", e.remedy().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn measure(yardstick: &Yardstick) -> Result<(), PortError> {
    match yardstick {
        Yardstick::Device(d) => {
            let wrong = match d.wrong {
                Kind::Drops => Wrong::Drops(d.n),
                Kind::Duplicates => Wrong::Duplicates(d.n),
                Kind::Swaps => Wrong::Swaps(d.n),
                Kind::Polices => Wrong::Polices { pps: d.n, depth: d.depth },
                Kind::Holds => Wrong::Holds(d.n),
                Kind::Corrupts => Wrong::Corrupts(d.n),
                Kind::Translates => Wrong::Translates { per_s: d.n, depth: d.depth, most: d.most },
            };
            let mut device = Device::between(&d.from, &d.to, wrong)?;
            answer(|asked| {
                if asked == "forget" {
                    device.forget();
                }
                let (seen, wronged) = device.counts();
                json!({"seen": seen, "wronged": wronged})
            });
        }
        Yardstick::Drop { iface } => {
            let drop = BareDrop::attach(iface)?;
            answer(|_| json!({"dropped": drop.count()}));
        }
        Yardstick::Send { iface, frames, batch, bytes } => {
            let before = cpu_ns();
            bare_send(iface, &vec![0; *bytes], *frames, *batch)?;
            println!("{}", json!({"frames": frames, "cpu_ns": cpu_ns() - before}));
        }
        Yardstick::Packet { iface, frames, way } => {
            let iface = Interface::read(iface)?;
            let mut tx: Box<dyn BurstSender> = match way {
                Way::Sendmmsg => Box::new(Bursts::open(&iface)?),
                Way::TxRing => Box::new(TxRing::open(&iface)?),
            };
            let before = cpu_ns();
            copies(tx.as_mut(), *frames)?;
            println!("{}", json!({"frames": frames, "cpu_ns": cpu_ns() - before}));
        }
    }
    Ok(())
}

/// Sends copies of a shortest frame that is written once into each buffer.
fn copies(tx: &mut dyn BurstSender, frames: u64) -> Result<(), PortError> {
    let mut left = frames;
    while left > 0 {
        let want = left.min(tx.burst_max() as u64);
        left -= tx.send(usize::try_from(want).unwrap_or(1), &mut Same)?.sent as u64;
    }
    tx.flush()
}

/// Frames of 60 zero bytes.
struct Same;

impl Fill for Same {
    fn fill(&mut self, _: usize, batch: &mut Batch<'_>) {
        for i in 0..batch.len() {
            let buffer = batch.buffer(i);
            if *buffer.length != 60 {
                buffer.bytes[..60].fill(0);
                *buffer.length = 60;
            }
        }
    }
}

fn answer(mut counters: impl FnMut(&str) -> Value) {
    println!("{}", json!({"ready": true}));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        println!("{}", counters(line.trim()));
    }
}

/// CPU time of this thread, as the scheduler counts it (proc(5), `schedstat`).
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

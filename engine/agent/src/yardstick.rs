//! What our counting and our speed are held against: devices with a known wrong, and the bare kernel. For tests and
//! benches; not part of any measurement.
//!
//! Each says `{"ready":true}` when it is in place, answers each line on stdin with its counters, and ends with stdin.

use clap::{Args, Subcommand, ValueEnum};
use dutlab_port::xdp::XdpError;
use dutlab_port::xdp::reference::{BareDrop, Device, Wrong, bare_send};
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
    /// Every which frame; frames a second (polices); nanoseconds after the send time (holds).
    n: u64,
    /// Frames that a policer lets through at once.
    #[arg(long, default_value_t = 1)]
    depth: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Drops,
    Duplicates,
    Swaps,
    Polices,
    Holds,
    Corrupts,
}

/// Runs one.
pub fn run(yardstick: &Yardstick) -> ExitCode {
    match measure(yardstick) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("dutlab-engine: {e}; {}", e.why.remedy());
            ExitCode::FAILURE
        }
    }
}

fn measure(yardstick: &Yardstick) -> Result<(), XdpError> {
    match yardstick {
        Yardstick::Device(d) => {
            let wrong = match d.wrong {
                Kind::Drops => Wrong::Drops(d.n),
                Kind::Duplicates => Wrong::Duplicates(d.n),
                Kind::Swaps => Wrong::Swaps(d.n),
                Kind::Polices => Wrong::Polices { pps: d.n, depth: d.depth },
                Kind::Holds => Wrong::Holds(d.n),
                Kind::Corrupts => Wrong::Corrupts(d.n),
            };
            let device = Device::between(&d.from, &d.to, wrong)?;
            answer(|| {
                let (seen, wronged) = device.counts();
                json!({"seen": seen, "wronged": wronged})
            });
        }
        Yardstick::Drop { iface } => {
            let drop = BareDrop::attach(iface)?;
            answer(|| json!({"dropped": drop.count()}));
        }
        Yardstick::Send { iface, frames, batch, bytes } => {
            let before = cpu_ns();
            bare_send(iface, &vec![0; *bytes], *frames, *batch)?;
            println!("{}", json!({"frames": frames, "cpu_ns": cpu_ns() - before}));
        }
    }
    Ok(())
}

fn answer(counters: impl Fn() -> Value) {
    println!("{}", json!({"ready": true}));
    for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
        println!("{}", counters());
    }
}

/// CPU time of this thread, as the scheduler counts it (proc(5), `schedstat`).
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

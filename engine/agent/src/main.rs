//! `dutlab-engine`: sends and receives frames and accounts for every one of them.
//!
//! - [`agent`], [`session`]: the conversation with a controller
//! - [`trial`]: what a port does in one
//! - [`ports`]: opening ports; [`kernel_speed`]: those of the `xdp` back end
//! - [`lower`]: from plans to templates and paces
//! - [`write`]: from templates to frames
//! - [`send`], [`receive`]: the threads of a trial
//! - [`memory_bench`]: what the writer's path can do on this CPU
//! - [`report`]: from counters to the words of the protocol
#![forbid(unsafe_code)]

mod agent;
mod kernel_speed;
mod live;
mod lower;
mod memory_bench;
mod ports;
mod receive;
mod report;
mod send;
mod session;
mod trial;
mod write;
mod yardstick;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Sends and receives test frames and accounts for every one of them.
#[derive(Parser)]
#[command(name = "dutlab-engine", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Obey a controller: JSON lines on stdin and stdout. Example: echo '{"id":1,"op":"hello"}' | dutlab-engine agent
    Agent,
    /// Print the JSON Schema of the protocol that `agent` speaks.
    Schema,
    /// What tests and benches hold the engine against.
    #[command(subcommand, hide = true)]
    Yardstick(yardstick::Yardstick),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Agent => agent::serve(),
        Command::Schema => schema(),
        Command::Yardstick(y) => yardstick::run(&y),
    }
}

fn schema() -> ExitCode {
    match serde_json::to_string_pretty(&dutlab_protocol::schema()) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("dutlab-engine: the schema cannot be written: {e}");
            ExitCode::FAILURE
        }
    }
}

//! `dutlab-engine`: sends and receives frames and accounts for every one of them.
//!
//! - [`session`]: the conversation with a controller
//! - [`ports`]: opening ports
//! - [`lower`]: from plans to templates and paces
//! - [`write`]: from templates to frames
//! - [`send`], [`receive`]: the threads of a trial
//! - [`memory_bench`]: what the writer's path can do on this CPU
//! - [`report`]: from counters to the words of the protocol
#![forbid(unsafe_code)]

mod live;
mod lower;
mod memory_bench;
mod ports;
mod receive;
mod report;
mod send;
mod session;
mod write;

use clap::{Parser, Subcommand};
use dutlab_port::{clock, signal};
use dutlab_units::Nanos;
use session::{Input, Session};
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

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
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Agent => agent(),
        Command::Schema => schema(),
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

/// Serves one controller until stdin ends or a signal comes.
fn agent() -> ExitCode {
    let (inputs, input) = mpsc::channel();
    let signals = match signal::Termination::block() {
        Ok(signals) => signals,
        Err(e) => {
            eprintln!("dutlab-engine: signals cannot be handled: {e}");
            return ExitCode::FAILURE;
        }
    };
    let to_session = inputs.clone();
    std::thread::spawn(move || {
        signals.wait();
        let _ = to_session.send(Input::End);
    });
    let to_session = inputs.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if to_session.send(Input::Line(line)).is_err() {
                return;
            }
        }
        let _ = to_session.send(Input::End);
    });
    let mut session = Session::new(std::io::stdout(), inputs);
    loop {
        let wait = session.next().since(clock::monotonic()).min(Nanos(3_600_000_000_000));
        match input.recv_timeout(Duration::from_nanos(wait.0)) {
            Ok(input) => {
                if !session.handle(input) {
                    break;
                }
            }
            Err(RecvTimeoutError::Timeout) => session.due(clock::monotonic()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    ExitCode::SUCCESS
}

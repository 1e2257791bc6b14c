//! `dutlab-engine`: sends and receives frames and accounts for every one of them.
//!
//! - [`agent`], [`session`]: the conversation with a controller
//! - [`cli`]: the command line for people
//! - [`connections`]: both ends of TCP connections
//! - [`drive_load`]: reads and writes on a drive, in an open loop
//! - [`trial`]: a port in one trial
//! - [`ports`]: opening ports; [`kernel_speed`]: those of the `xdp` back end
//! - [`lower`]: from plans to templates and paces
//! - [`write`]: from templates to frames
//! - [`send`], [`receive`]: the threads of a trial; [`held`]: reasons why frames were not sent; [`live`]: readings
//!   during it
//! - [`report`]: from counters to messages of the protocol
#![forbid(unsafe_code)]

mod agent;
mod cli;
mod connections;
mod drive_load;
mod guard;
mod handed;
mod held;
mod kernel_speed;
mod live;
mod lower;
mod ports;
mod receive;
mod report;
mod send;
mod session;
mod share;
mod times;
mod trial;
mod write;
mod yardstick;

use clap::Parser;
use cli::args::{Arguments, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    abort_on_panic();
    match Arguments::parse().command {
        Command::Agent => agent::serve(),
        Command::DriveLoad(a) => drive_load::run(&a),
        Command::Schema => schema(),
        Command::TcpClient(a) => connections::connect(&a),
        Command::TcpServer(a) => connections::serve(&a),
        Command::Watch(w) => cli::watch::run(&w),
        Command::Yardstick(y) => yardstick::run(&y),
        command => cli::run(&command),
    }
}

/// End the process when any thread panics: a trial that lost one of its threads has no result.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

fn schema() -> ExitCode {
    let schema = dutlab_protocol::schema(|generator| {
        generator.subschema_for::<connections::TcpClientDone>();
        generator.subschema_for::<drive_load::DriveLoadDone>();
        generator.subschema_for::<dutlab_protocol::Doubt>();
        generator.subschema_for::<connections::TcpServerReady>();
        generator.subschema_for::<connections::TcpServerSeen>();
        generator.subschema_for::<connections::TcpFailed>();
    });
    match serde_json::to_string_pretty(&schema) {
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

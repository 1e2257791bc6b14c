//! Command line of the engine, for people who need no lab.
//!
//! - [`args`]: the arguments; [`quantity`]: rates, sizes, durations in words; [`vary`]: fields that vary
//! - [`traffic`]: from the arguments to a plan, with the next hop's MAC
//! - [`send`], [`receive`], [`forward_test`], [`bench`], [`probe`], [`watch`]: the commands
//! - [`drive`]: waiting, Ctrl-C and the line once a second; [`events`]: the same state for programs
//! - [`verdict`], [`exit`]: reliability of a result, and the end of the command
//! - [`words`], [`table`]: results for people
//!
//! The result goes to stdout, everything else to stderr. There are no colours, so `NO_COLOR` is honoured.

pub mod args;
mod bench;
mod drive;
mod events;
mod exit;
mod forward_test;
mod probe;
mod quantity;
mod rate;
mod receive;
mod send;
mod table;
mod traffic;
mod vary;
mod verdict;
pub mod watch;
mod words;

use args::{Command, Output};
use exit::{Exit, Refused};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Runs a command that measures.
pub fn run(command: &Command) -> ExitCode {
    let (done, name, output): (Result<Exit, Refused>, _, _) = match command {
        Command::Send(a) => (send::run(a), "send", &a.output),
        Command::Receive(a) => (receive::run(a), "receive", &a.output),
        Command::ForwardTest(a) => (forward_test::run(a), "forward-test", &a.output),
        Command::Bench(a) => (bench::run(a), "bench", &a.output),
        Command::Probe(a) => (probe::run(a), "probe", &a.output),
        // `main` runs it.
        Command::Agent
        | Command::Schema
        | Command::Watch(_)
        | Command::TcpClient(_)
        | Command::TcpServer(_)
        | Command::DriveLoad(_)
        | Command::Yardstick(_) => {
            return ExitCode::FAILURE;
        }
    };
    let exit = done.unwrap_or_else(|refused| {
        eprintln!("dutlab-engine {name}: {refused}");
        if output.json {
            let result = serde_json::json!({"command": name, "verdict": "refused", "err": refused});
            print(output, &result, String::new);
        }
        refused.exit
    });
    exit.into()
}

/// Writes a result: one JSON object on one line, or words.
fn print(output: &Output, result: &impl Serialize, words: impl FnOnce() -> String) {
    let text = if output.json {
        serde_json::to_string(result).map_or_else(|e| format!("{{\"error\":\"{e}\"}}\n"), |t| t + "\n")
    } else {
        words()
    };
    // A reader that is gone needs no result.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::args::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_line_does_not_contradict_itself() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_of_the_reference_page_is_understood() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/engine-cli.md");
        let page = std::fs::read_to_string(page).unwrap();
        let lines: Vec<_> = page.lines().filter_map(|l| l.strip_prefix("$ dutlab-engine ")).collect();
        assert!(lines.len() >= 5, "{lines:?}");
        for line in lines {
            let words = std::iter::once("dutlab-engine").chain(line.split_whitespace());
            if let Err(e) = Arguments::try_parse_from(words) {
                panic!("{line}: {e}");
            }
        }
    }
}

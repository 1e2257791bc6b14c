//! Loop of `dutlab-engine agent`: stdin, signals and the clock drive one [`Session`].

use crate::session::{Input, Session};
use dutlab_port::{clock, signal};
use dutlab_units::Nanos;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Longest time from a signal to the end of the agent, even if its output is not read.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// The longest wait for an input, when nothing is due.
const LONG: Nanos = Nanos(3_600_000_000_000);

/// Serves one controller until stdin ends or a signal comes.
pub fn serve() -> ExitCode {
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
        // The session may be blocked on a pipe that is not read. Its attachments end with the process.
        std::thread::sleep(LAST_WORDS);
        std::process::exit(1);
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
        let wait = session.next().since(clock::monotonic()).min(LONG);
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

//! Runs a trial for a person: waits for its end or for Ctrl-C, and shows the state once a second.

use super::args::{self, Output};
use super::events::Events;
use super::exit::Refused;
use super::quantity::{si, span};
use crate::trial::Port;
use dutlab_port::{clock, signal};
use dutlab_protocol::event::{Event, Second};
use dutlab_units::Nanos;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time between two lines.
const SECOND: Nanos = Nanos(1_000_000_000);

/// Event that ends a wait.
enum Happened {
    Sent,
    Signal,
}

/// Reason why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Sending has ended.
    Sent,
    /// The time is over.
    Time,
    /// Ctrl-C, or another signal that requests the end.
    Interrupted,
}

/// Relation of the clocks of sender and receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// They are the same: latency is valid.
    Shared,
    /// They may differ.
    Unknown,
}

/// Waits and shows the state.
pub struct Drive {
    happened: mpsc::Receiver<Happened>,
    tell: mpsc::Sender<Happened>,
    view: View,
}

impl Drive {
    /// Starts to listen for signals. A second Ctrl-C ends the program at once.
    pub fn new(output: &Output, events: &args::Events, clocks: Clocks) -> Result<Self, Refused> {
        let (tell, happened) = mpsc::channel();
        let signals = signal::Termination::block()
            .map_err(|e| Refused::unusable(format!("signals cannot be handled: {e}"), "report this"))?;
        let signalled = tell.clone();
        std::thread::spawn(move || {
            signals.wait();
            let _ = signalled.send(Happened::Signal);
            signals.wait();
            std::process::exit(130);
        });
        Ok(Self { happened, tell, view: View::new(output, events, clocks)? })
    }

    /// Returns the function that a port calls when it has sent all.
    pub fn when_sent(&self) -> impl FnOnce() + Send + 'static {
        let tell = self.tell.clone();
        move || drop(tell.send(Happened::Sent))
    }

    /// Waits for the end of sending or for a signal, at most until `end`.
    pub fn wait(&mut self, ports: &[&Port], begin: Nanos, end: Nanos) -> Why {
        loop {
            let now = clock::monotonic();
            if now >= end {
                return Why::Time;
            }
            let next = self.view.next(begin).min(end);
            match self.happened.recv_timeout(Duration::from_nanos(next.since(now).0)) {
                Ok(Happened::Sent) => return Why::Sent,
                Ok(Happened::Signal) => return Why::Interrupted,
                // This value owns a sender, so the channel has one.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let now = clock::monotonic();
                    if now >= self.view.next(begin) {
                        self.view.show(ports, begin, now);
                    }
                }
            }
        }
    }

    /// Clears the line.
    pub fn end(&mut self) {
        self.view.end();
    }
}

/// Status line: one that is overwritten on a terminal, one per second elsewhere; on stderr.
struct View {
    clocks: Clocks,
    on: bool,
    terminal: bool,
    shown: u64,
    before: Option<(Nanos, u64, u64)>,
    events: Option<Events>,
}

impl View {
    fn new(output: &Output, events: &args::Events, clocks: Clocks) -> Result<Self, Refused> {
        let terminal = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let events = events.events.as_deref().map(Events::open).transpose()?;
        Ok(Self { clocks, on: !output.quiet, terminal, shown: 0, before: None, events })
    }

    fn next(&self, begin: Nanos) -> Nanos {
        begin + Nanos(SECOND.0 * (self.shown + 1))
    }

    fn show(&mut self, ports: &[&Port], begin: Nanos, now: Nanos) {
        self.shown = now.since(begin).0 / SECOND.0;
        let seconds: Vec<_> = ports.iter().filter_map(|p| p.second(now)).collect();
        if let Some(events) = &self.events {
            for second in &seconds {
                events.write(&Event::Second(second.clone()));
            }
            for port in ports {
                events.write(&Event::Status(port.status(now)));
            }
        }
        let (sent, received) = seconds.iter().fold((0, 0), |(s, r), e| (s + e.sent, r + e.received));
        let before = self.before.replace((now, sent, received)).unwrap_or((begin, 0, 0));
        if !self.on || seconds.is_empty() {
            return;
        }
        let elapsed = now.since(before.0).seconds();
        let mut line =
            line(self.shown, &seconds, (sent - before.1) as f64 / elapsed, (received - before.2) as f64 / elapsed);
        if self.clocks == Clocks::Shared
            && let Some(mean) = seconds.iter().find_map(|s| s.latency_mean_ns)
        {
            line = format!("{line}  latency {}", span(mean));
        }
        let mut err = std::io::stderr().lock();
        let _ = if self.terminal { write!(err, "\r\x1b[K{line}") } else { writeln!(err, "{line}") };
        let _ = err.flush();
    }

    fn end(&mut self) {
        if self.on && self.terminal && self.shown > 0 {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(second: u64, seconds: &[Second], offered_pps: f64, received_pps: f64) -> String {
    let sum = |of: fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>();
    let mut words = vec![format!("{second:>3} s")];
    let (sent, received) = (sum(|s| s.sent), sum(|s| s.received));
    if sent > 0 {
        words.push(format!("sent {sent} ({})", si(offered_pps, "pps")));
    }
    if received > 0 || sent == 0 {
        words.push(format!("received {received} ({})", si(received_pps, "pps")));
    }
    for (what, n) in [
        ("duplicated", sum(|s| s.duplicated)),
        ("reordered", sum(|s| s.reordered)),
        ("no room", sum(|s| s.kernel_dropped)),
    ] {
        if n > 0 {
            words.push(format!("{what} {n}"));
        }
    }
    words.join("  ")
}

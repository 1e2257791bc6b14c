//! `dutlab-engine watch`: rates of every port and stream of a running trial, from the event lines of other programs.

use super::args;
use super::quantity::{si, span};
use super::table::table;
use dutlab_protocol::event::{Event, Second};
use dutlab_protocol::status::Status;
use dutlab_units::ETH_L1_OVERHEAD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::ExitCode;

/// Maximum number of streams on a screen; those with the most frames come first.
const MOST_STREAMS: usize = 20;

/// Reads until the end of the input; the last state stays on the screen.
pub fn run(a: &args::Watch) -> ExitCode {
    let input: Box<dyn BufRead> = match a.file.as_ref().map(File::open) {
        None => Box::new(std::io::stdin().lock()),
        Some(Ok(file)) => Box::new(BufReader::new(file)),
        Some(Err(e)) => {
            let file = a.file.as_ref().map_or(String::new(), |f| f.display().to_string());
            eprintln!(
                "dutlab-engine watch: {file}: {e}\n  remedy: name what `--events` writes to, or leave it out for stdin"
            );
            return ExitCode::from(2);
        }
    };
    let is_screen = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
    let mut board = Board::default();
    let mut out = std::io::stdout().lock();
    for line in input.split(b'\n') {
        let Ok(line) = line else { break };
        let Some(text) = board.hear(&line, is_screen) else { continue };
        // The screen is overwritten from its upper left corner; the rest of each line and all lines below are cleared.
        let shown = if is_screen { format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n")) } else { text };
        if out.write_all(shown.as_bytes()).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    if board.ports.is_empty() && board.streams.is_empty() {
        eprintln!(
            "dutlab-engine watch: no line said what a trial counts ({} lines were something else)\n  \
             remedy: give it what `send --events`, or an agent, writes",
            board.strange
        );
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

/// A running total and its rate between the last two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Meter {
    at_ns: u64,
    total: u64,
    /// Rate per second; `None` after the first reading.
    rate: Option<f64>,
}

impl Meter {
    fn see(&mut self, at_ns: u64, total: u64) {
        if self.at_ns != 0 && at_ns > self.at_ns && total >= self.total {
            self.rate = Some((total - self.total) as f64 * 1e9 / (at_ns - self.at_ns) as f64);
        } else if total < self.total {
            self.rate = None; // another trial
        }
        (self.at_ns, self.total) = (at_ns, total);
    }

    fn words(&self, unit: &str) -> [String; 2] {
        if self.at_ns == 0 {
            return ["–".into(), "–".into()];
        }
        [self.total.to_string(), self.rate.map_or_else(|| "–".into(), |r| si(r, unit))]
    }

    fn rate(&self) -> f64 {
        self.rate.unwrap_or(0.0)
    }
}

/// State of a port.
#[derive(Debug, Default)]
struct PortRow {
    sent: Meter,
    sent_bits: Meter,
    received: Meter,
    received_bits: Meter,
    latency: [Option<f64>; 2],
    failed: Option<String>,
}

/// State of a stream.
#[derive(Debug, Default)]
struct StreamRow {
    sent: Meter,
    received: Meter,
    duplicated: u64,
    reordered: u64,
    latencies: (u64, u64),
    latency: Option<f64>,
}

/// State of everything that was received.
#[derive(Debug, Default)]
struct Board {
    ports: BTreeMap<String, PortRow>,
    streams: BTreeMap<(String, u16), StreamRow>,
    /// Number of lines that are not about a trial.
    strange: u64,
}

impl Board {
    /// Processes a line; returns new text to show, if any: the whole state for a screen, else only what is new.
    fn hear(&mut self, line: &[u8], is_screen: bool) -> Option<String> {
        let heard = serde_json::from_slice(line).ok().and_then(|v| self.take(v));
        let Some(line) = heard else {
            self.strange += u64::from(!line.is_empty());
            return None;
        };
        Some(if is_screen { self.screen() } else { line })
    }

    /// Records an event, or an agent's reply to `status`; returns it as lines.
    fn take(&mut self, line: Value) -> Option<String> {
        if let Some(reply) = line.get("ok").filter(|ok| ok.get("sending").or_else(|| ok.get("receiving")).is_some()) {
            return serde_json::from_value(reply.clone()).ok().map(|s: Status| self.status(&s));
        }
        match serde_json::from_value(line).ok()? {
            Event::Second(s) => Some(self.second(&s)),
            Event::Status(s) => Some(self.status(&s)),
            Event::Failed(f) => {
                let (port, why) = (plain(&f.port), plain(&f.err.message));
                self.ports.entry(port.clone()).or_default().failed = Some(why.clone());
                Some(format!("{port}: failed: {why}\n"))
            }
        }
    }

    fn second(&mut self, s: &Second) -> String {
        let name = plain(&s.port);
        let row = self.ports.entry(name.clone()).or_default();
        let bits = |bytes: u64, frames: u64| 8 * (bytes + u64::from(ETH_L1_OVERHEAD) * frames);
        let at = s.monotonic_ns;
        if s.sent > 0 || row.sent.at_ns > 0 {
            row.sent.see(at, s.sent);
            row.sent_bits.see(at, bits(s.sent_bytes, s.sent));
        }
        if s.received > 0 || row.received.at_ns > 0 {
            row.received.see(at, s.received);
            row.received_bits.see(at, bits(s.received_bytes, s.received));
        }
        row.latency = [s.latency_mean_ns, s.latency_max_ns.map(|ns| ns as f64)];
        let mut words = vec![name];
        for (what, meter, wire) in
            [("sent", &row.sent, &row.sent_bits), ("received", &row.received, &row.received_bits)]
        {
            if meter.at_ns > 0 {
                let [total, rate] = meter.words("pps");
                words.push(format!("{what} {total} ({rate}, {} on the wire)", wire.words("bit/s")[1]));
            }
        }
        if let Some(mean) = s.latency_mean_ns {
            words.push(format!("latency {}", span(mean)));
        }
        words.join("  ") + "\n"
    }

    fn status(&mut self, s: &Status) -> String {
        let name = plain(&s.port);
        for of in s.sending.iter().flat_map(|half| &half.streams) {
            let row = self.streams.entry((name.clone(), of.stream)).or_default();
            row.sent.see(s.sending.as_ref().map_or(0, |half| half.monotonic_ns), of.sent);
        }
        for of in s.receiving.iter().flat_map(|half| &half.streams) {
            if of.received == 0 && !self.streams.contains_key(&(name.clone(), of.stream)) {
                continue; // a receiver that waits for many streams does not fill the screen
            }
            let row = self.streams.entry((name.clone(), of.stream)).or_default();
            row.received.see(s.receiving.as_ref().map_or(0, |half| half.monotonic_ns), of.received);
            (row.duplicated, row.reordered) = (of.duplicated, of.reordered);
            let (count, sum) = row.latencies;
            let new = of.latency_count.saturating_sub(count);
            row.latency = (new > 0).then(|| of.latency_sum_ns.saturating_sub(sum) as f64 / new as f64);
            row.latencies = (of.latency_count, of.latency_sum_ns);
        }
        let of_port = self.streams.iter().filter(|((port, _), _)| *port == name);
        let lines = of_port.map(|((port, stream), row)| {
            let [sent, sending, received, receiving, ..] = stream_words(row);
            format!("{port}  stream {stream}  sent {sent} ({sending})  received {received} ({receiving})\n")
        });
        lines.collect::<Vec<_>>().concat()
    }

    /// Returns the whole state.
    fn screen(&self) -> String {
        let by_port: Vec<_> = self
            .ports
            .iter()
            .map(|(name, row)| {
                let mut words = vec![name.clone()];
                for (frames, bits) in [(&row.sent, &row.sent_bits), (&row.received, &row.received_bits)] {
                    words.extend(frames.words("pps"));
                    words.push(bits.words("bit/s")[1].clone());
                }
                words.extend(row.latency.map(|ns| ns.map_or_else(|| "–".into(), span)));
                words
            })
            .collect();
        let head = ["port", "sent", "rate", "wire (L1)", "received", "rate", "wire (L1)", "latency", "max"];
        let mut parts = vec![table(&head, &by_port)];
        let failed = self.ports.iter().filter_map(|(name, row)| Some((name, row.failed.as_ref()?)));
        parts.extend(failed.map(|(name, why)| format!("{name}: failed: {why}\n")));
        let mut busy: Vec<_> = self.streams.iter().collect();
        busy.sort_by(|(_, a), (_, b)| {
            (b.sent.rate() + b.received.rate()).total_cmp(&(a.sent.rate() + a.received.rate()))
        });
        let more = busy.len().saturating_sub(MOST_STREAMS);
        busy.truncate(MOST_STREAMS);
        busy.sort_by_key(|(key, _)| *key);
        let rows: Vec<_> = busy
            .iter()
            .map(|((port, stream), row)| [vec![port.clone(), stream.to_string()], stream_words(row).to_vec()].concat())
            .collect();
        if !rows.is_empty() {
            let head = ["port", "stream", "sent", "rate", "received", "rate", "twice", "reordered", "latency"];
            parts.push(format!("\n{}", table(&head, &rows)));
        }
        if more > 0 {
            parts.push(format!("and {more} streams with less traffic\n"));
        }
        parts.concat()
    }
}

fn stream_words(row: &StreamRow) -> [String; 7] {
    let ([sent, sending], [received, receiving]) = (row.sent.words("pps"), row.received.words("pps"));
    let latency = row.latency.map_or_else(|| "–".into(), span);
    [sent, sending, received, receiving, row.duplicated.to_string(), row.reordered.to_string(), latency]
}

/// Removes characters that would move a terminal's cursor from foreign text.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn second(at_s: u64, sent: u64) -> Vec<u8> {
        let line = json!({"event": "second", "port": "source", "monotonic_ns": at_s * 1_000_000_000, "sent": sent, "sent_bytes": 64 * sent,
            "received": 0, "received_bytes": 0, "duplicated": 0, "reordered": 0, "kernel_dropped": 0});
        line.to_string().into_bytes()
    }

    fn status(at_s: u64, received: u64, reply: bool) -> Vec<u8> {
        let half = json!({"monotonic_ns": at_s * 1_000_000_000, "age_ns": 0, "streams": [
            {"stream": 7, "received": received, "duplicated": 1, "reordered": 2, "next_sequence": received, "latency_count": received,
                "latency_sum_ns": received * 2000},
            {"stream": 8, "received": 0, "duplicated": 0, "reordered": 0, "next_sequence": 0, "latency_count": 0, "latency_sum_ns": 0}]});
        let line = if reply {
            json!({"id": 4, "ok": {"port": "sink", "receiving": half}})
        } else {
            json!({"event": "status", "port": "sink", "receiving": half})
        };
        line.to_string().into_bytes()
    }

    #[test]
    fn rates_are_those_between_two_readings_of_a_port_and_of_each_stream() {
        let mut board = Board::default();
        board.hear(&second(10, 1000), false);
        let line = board.hear(&second(12, 5000), false).unwrap();
        // 2000 frames a second of 84 bytes on the wire.
        assert_eq!(line, "source  sent 5000 (2.00 kpps, 1.34 Mbit/s on the wire)\n");
        board.hear(&status(10, 100, false), false);
        let line = board.hear(&status(11, 400, true), false).unwrap();
        assert_eq!(line, "sink  stream 7  sent – (–)  received 400 (300 pps)\n");
        let screen = board.hear(&status(12, 900, false), true).unwrap();
        let rows: Vec<Vec<&str>> = screen.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[1][..3], ["source", "5000", "2.00"]);
        assert_eq!(rows[4], ["sink", "7", "–", "–", "900", "500", "pps", "1", "2", "2", "µs"]);
        assert!(!screen.contains(" 8 "), "a stream of which nothing came is not shown");
    }

    #[test]
    fn a_new_trial_begins_anew_and_what_is_no_event_is_counted_not_shown() {
        let mut board = Board::default();
        board.hear(&second(10, 1000), false);
        let line = board.hear(&second(11, 10), false).unwrap();
        assert!(line.contains("sent 10 (–"), "{line}");
        for strange in [&b"not JSON"[..], b"{}", b"{\"id\":1,\"ok\":{}}", b"[1]", b"\xff", b""] {
            assert_eq!(board.hear(strange, true), None);
        }
        assert_eq!(board.strange, 5);
    }

    #[test]
    fn a_failure_is_shown_without_what_moves_a_cursor() {
        let mut board = Board::default();
        let failed = json!({"event": "failed", "port": "so\u{1b}[2Jurce", "err": {"kind": "port_lost", "message": "eth-a is\u{7} gone"}});
        let line = board.hear(failed.to_string().as_bytes(), false).unwrap();
        assert_eq!(line, "so[2Jurce: failed: eth-a is gone\n");
        assert!(board.screen().contains("failed: eth-a is gone"));
    }

    #[test]
    fn a_screen_has_the_busiest_streams_and_says_how_many_more_there_are() {
        let mut board = Board::default();
        for at in [1, 2] {
            let streams: Vec<_> =
                (1..=50).map(|n| json!({"stream": n, "sent": at * n * 10, "numbered": at * n * 10})).collect();
            let line = json!({"event": "status", "port": "p", "sending": {"monotonic_ns": at * 1_000_000_000, "age_ns": 0, "streams": streams}});
            board.hear(line.to_string().as_bytes(), true);
        }
        let screen = board.screen();
        assert!(screen.contains("and 30 streams with less traffic"), "{screen}");
        let rows = screen.lines().filter(|l| l.starts_with("p "));
        let shown: Vec<u16> = rows.filter_map(|l| l.split_whitespace().nth(1)?.parse().ok()).collect();
        assert_eq!(shown, (31..=50).collect::<Vec<_>>());
    }
}

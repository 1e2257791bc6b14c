//! Both ends of TCP connections, for a controller: one line of JSON when the end is ready, and one with its results.

use crate::cli::args::{TcpClient, TcpServer};
use dutlab_port::clock::monotonic;
use dutlab_tcp::client::{self, Plan};
use dutlab_tcp::poll::allow_sockets;
use dutlab_tcp::report::Report;
use dutlab_tcp::server::{Served, Server};
use dutlab_tcp::tls;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

/// Longest delay of a request on stdin.
const TURN: Duration = Duration::from_millis(20);
/// Number of open files that are not sockets.
const OTHER_FILES: u64 = 64;
/// Counters of a host's TCP in the kernel (RFC 4022, and the kernel's snmp.h) that explain failures.
const COUNTED: [&str; 6] =
    ["OutRsts", "RetransSegs", "EstabResets", "ListenOverflows", "ListenDrops", "SyncookiesSent"];

/// Output of `tcp-client` at its end.
#[derive(Serialize, JsonSchema)]
pub struct TcpClientDone {
    /// Results of its connections.
    connections: Report,
    /// Number of files that it may have open.
    sockets_allowed: u64,
    /// Increase of each of the kernel's counters; counters that the kernel does not have are missing.
    tcp: BTreeMap<String, u64>,
}

/// Output of `tcp-server` once it listens.
#[derive(Serialize, JsonSchema)]
pub struct TcpServerReady {
    /// Always true.
    ready: bool,
    /// Number of files that it may have open.
    sockets_allowed: u64,
}

/// Answer of `tcp-server` to a line on stdin.
#[derive(Serialize, JsonSchema)]
pub struct TcpServerSeen {
    /// Counters of the server.
    served: Served,
    /// Increase of the kernel's counters since the previous line, as in the client's output.
    tcp: BTreeMap<String, u64>,
}

/// Output of `tcp-client` or `tcp-server` when it cannot continue.
#[derive(Serialize, JsonSchema)]
pub struct TcpFailed {
    /// Reason of the failure.
    error: String,
}

/// Begins connections; prints their results.
pub fn connect(asked: &TcpClient) -> ExitCode {
    let name = asked.server_name.clone().unwrap_or_else(|| asked.to.to_string());
    let tls = match asked.tls.map(|version| tls::Client::new(version, asked.resume, &name)).transpose() {
        Ok(tls) => tls,
        Err(e) => return failed(&e),
    };
    let plan = Plan {
        from: asked.from.clone(),
        to: asked.to,
        ports: asked.ports.clone(),
        first: asked.first,
        rate_per_s: asked.rate,
        count: asked.count,
        requests: asked.requests,
        request_bytes: asked.request_bytes,
        objects: asked.response_bytes.0.clone(),
        host: asked.server_name.clone(),
        http2: asked.http2,
        tls: if asked.http2 { tls.map(tls::Client::for_http2) } else { tls },
        hold: asked.hold,
        timeout: asked.timeout,
        resets: asked.reset,
    };
    let sockets = allow_sockets(plan.count + OTHER_FILES);
    let before = counters();
    match client::run(&plan, monotonic) {
        Ok(report) => {
            say(&TcpClientDone { connections: report, sockets_allowed: sockets, tcp: risen(&before) });
            ExitCode::SUCCESS
        }
        Err(e) => failed(&format!("epoll: {e}")),
    }
}

/// Answers connections until stdin ends; answers a line on stdin with the counters since the previous line.
pub fn serve(asked: &TcpServer) -> ExitCode {
    let sockets = allow_sockets(asked.connections + OTHER_FILES);
    let tls = match asked.tls.map(|version| tls::Server::new(version, asked.resume)).transpose() {
        Ok(tls) => tls,
        Err(e) => return failed(&e),
    };
    let mut server = match Server::listening(asked.address, asked.ports.clone(), tls) {
        Ok(server) => server,
        Err((address, e)) => return failed(&format!("{address}: {e}")),
    };
    let mut before = counters();
    say(&TcpServerReady { ready: true, sockets_allowed: sockets });
    let (said, lines) = channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| said.send(line))
    });
    loop {
        match lines.try_recv() {
            Ok(_) => {
                say(&TcpServerSeen { served: server.served(), tcp: risen(&before) });
                before = counters();
            }
            Err(TryRecvError::Disconnected) => return ExitCode::SUCCESS,
            Err(TryRecvError::Empty) => {}
        }
        if let Err(e) = server.turn(TURN) {
            return failed(&format!("epoll: {e}"));
        }
    }
}

fn say(what: &impl Serialize) {
    println!("{}", serde_json::to_string(what).expect("numbers and texts"));
}

fn failed(why: &str) -> ExitCode {
    say(&TcpFailed { error: why.into() });
    eprintln!("dutlab-engine: {why}");
    ExitCode::from(3)
}

/// Returns the kernel's counters of this network namespace.
fn counters() -> BTreeMap<String, u64> {
    let texts = ["/proc/net/snmp", "/proc/net/netstat"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    texts.iter().flat_map(|text| table(text)).filter(|(name, _)| COUNTED.contains(&name.as_str())).collect()
}

/// Parses names on a line, and their values on the next (`proc_pid_net(5)`).
fn table(text: &str) -> Vec<(String, u64)> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|two| two[0].split(' ').zip(two[1].split(' ')));
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

fn risen(before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = |name: &str, now: u64| now - before.get(name).copied().unwrap_or(0);
    counters().into_iter().map(|(name, now)| (name.clone(), since(&name, now))).collect()
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn names_and_values_stand_on_two_lines() {
        let text = "Tcp: ActiveOpens OutRsts MaxConn\nTcp: 5 7 -1\nUdp: InDatagrams\nUdp: 9\n";
        assert_eq!(table(text), [("ActiveOpens".into(), 5), ("OutRsts".into(), 7), ("InDatagrams".into(), 9)]);
    }
}

//! A test's side of the conversation with an agent.

use super::run;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// An agent and the pipe to it. It is ended when this is dropped.
pub struct Agent {
    child: Child,
    requests: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    id: u64,
    /// Events that came between replies.
    pub events: Vec<Value>,
}

impl Agent {
    /// Starts an agent that is root only in a new user namespace, after `make` was run there.
    #[must_use]
    pub fn unprivileged(make: &str) -> Self {
        let script = format!("{make} && exec {} agent", env!("CARGO_BIN_EXE_dutlab-engine"));
        Self::spawn(Command::new("unshare").args(["--user", "--map-root-user", "--net", "sh", "-c", &script]))
    }

    pub(super) fn start(ns: &str) -> Self {
        Self::spawn(Command::new("ip").args(["netns", "exec", ns, env!("CARGO_BIN_EXE_dutlab-engine"), "agent"]))
    }

    /// Starts an agent that may use one CPU only.
    pub(super) fn start_on(ns: &str, cpu: &str) -> Self {
        let engine = env!("CARGO_BIN_EXE_dutlab-engine");
        Self::spawn(Command::new("ip").args(["netns", "exec", ns, "taskset", "-c", cpu, engine, "agent"]))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (requests, lines) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, requests, lines, id: 0, events: Vec::new() }
    }

    /// Sends a request, and does not wait for a reply.
    pub fn tell(&mut self, op: &str, mut request: Value) {
        self.id += 1;
        request["id"] = json!(self.id);
        request["op"] = json!(op);
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
    }

    /// Kills it; returns true if it was alive until then.
    pub fn kill(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.child.kill().unwrap();
        self.child.wait().unwrap().signal() == Some(9)
    }

    /// Sends SIGTERM, and waits for its end.
    pub fn terminate(&mut self) -> std::process::ExitStatus {
        assert!(run(&["kill", "-TERM", &self.child.id().to_string()]));
        self.child.wait().unwrap()
    }

    /// Sends it a signal and waits for its end.
    pub fn signal(&mut self, name: &str) {
        assert!(run(&["kill", "-s", name, &self.child.id().to_string()]));
        self.child.wait().unwrap();
    }

    /// Sends a request, and returns the whole reply.
    pub fn ask(&mut self, op: &str, mut request: Value) -> Value {
        self.id += 1;
        request["id"] = json!(self.id);
        request["op"] = json!(op);
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the agent ended without a reply to {request}");
            let said: Value = serde_json::from_str(&line).unwrap();
            if said.get("event").is_some() {
                self.events.push(said);
            } else {
                assert_eq!(said["id"], self.id);
                return said;
            }
        }
    }

    /// Sends a request that must succeed.
    pub fn must(&mut self, op: &str, arguments: Value) -> Value {
        let reply = self.ask(op, arguments);
        assert!(reply.get("ok").is_some(), "{op}: {reply}");
        reply["ok"].clone()
    }

    /// Opens `eth-a` as port `p` with the back end whose frames are all visible to tcpdump and to the host.
    pub fn open(&mut self) {
        self.open_with("af_packet");
    }

    /// Halts it (SIGSTOP), until [`go_on`](Self::go_on).
    pub fn halt(&self) {
        assert!(run(&["kill", "-STOP", &self.child.id().to_string()]));
    }

    /// Continues it (SIGCONT).
    pub fn go_on(&self) {
        assert!(run(&["kill", "-CONT", &self.child.id().to_string()]));
    }

    /// Moves all its threads to a CPU.
    pub fn move_to(&self, cpu: u32) {
        assert!(run(&["taskset", "-a", "-p", "-c", &cpu.to_string(), &self.child.id().to_string()]));
    }

    /// Returns the CPUs that each of its threads may run on, as in `Cpus_allowed_list` of proc(5), the first thread
    /// first.
    #[must_use]
    pub fn cpus_of_threads(&self) -> Vec<String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut threads: Vec<u32> = std::fs::read_dir(&tasks)
            .unwrap()
            .map(|t| t.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        threads.sort_unstable();
        let statuses = threads.iter().filter_map(|t| std::fs::read_to_string(format!("{tasks}/{t}/status")).ok());
        let allowed =
            |s: String| s.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:").map(|c| c.trim().to_owned()));
        statuses.filter_map(allowed).collect()
    }

    /// Opens `eth-a` as port `p` with the back end of this name.
    pub fn open_with(&mut self, backend: &str) -> Value {
        self.open_guarded(backend, &json!({"allow": ["172.16.0.0/12"]}))
    }

    /// Opens `eth-a` by `backend`, where this guard allows it.
    pub fn open_guarded(&mut self, backend: &str, guard: &Value) -> Value {
        self.must("open", json!({"port": "p", "iface": "eth-a", "backend": backend, "guard": guard}))
    }

    /// Returns the peak memory of the agent in bytes (`VmHWM`, proc(5)).
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        // `ip netns exec` becomes the agent, so both have the same process id.
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Closes the agent's stdin, and waits for its end.
    pub fn hang_up(&mut self) -> std::process::ExitStatus {
        self.requests = None;
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.requests = None;
        if std::thread::panicking() {
            let _ = self.child.kill(); // it may be halted, and would never end
        }
        let _ = self.child.wait();
    }
}

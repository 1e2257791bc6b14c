//! Devices with known answers, and a port that drops everything.

use super::Lab;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A device with a known fault, from `in-a` to `out-a` of the namespace in the middle. Removed when dropped.
pub struct Device {
    child: Child,
    requests: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Device {
    /// Starts the device.
    #[must_use]
    pub fn start(lab: &Lab, wrong: &[&str]) -> Self {
        Self::run(&lab.dut, &[&["device", "in-a", "out-a"][..], wrong].concat())
    }

    pub(super) fn run(ns: &str, yardstick: &[&str]) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", ns, env!("CARGO_BIN_EXE_dutlab-engine"), "yardstick"])
            .args(yardstick)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (requests, lines) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut device = Self { child, requests, lines };
        assert_eq!(device.line(), json!({"ready": true}));
        device
    }

    /// Returns its counters.
    pub fn counts(&mut self) -> Value {
        writeln!(self.requests.as_mut().unwrap()).unwrap();
        self.line()
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "the device ended");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.wait();
    }
}

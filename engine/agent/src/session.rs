//! Conversation of the agent: requests in, replies and events out. [`crate::trial`] contains the work of the ports.

use crate::ports;
use crate::report::fault;
use crate::trial::{Port, lead, wrong_state};
use dutlab_port::{clock, cpu};
use dutlab_protocol::event::Failed;
use dutlab_protocol::reply::{Answer, Clock, Done, Hello, Outcome, Started};
use dutlab_protocol::request::{Op, Settle, Start};
use dutlab_protocol::{ErrorKind, Event, Fault, PROTOCOL, Reply, Request};
use dutlab_units::Nanos;
use dutlab_wire::FourTuple;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc;

/// Time from `start` to the first frame when no instant is given, in which all threads get ready.
pub const LEAD: Nanos = Nanos(5_000_000);

/// External event for a session.
pub enum Input {
    /// A line from the controller.
    Line(String),
    /// The controller is gone, or a signal requests the end.
    End,
    /// The sending thread of this port has ended.
    Sent(String),
}

/// A conversation with a controller.
pub struct Session<W: Write> {
    out: W,
    inputs: mpsc::Sender<Input>,
    ports: BTreeMap<String, Port>,
    /// Learned addresses of ports that are closed.
    learned: BTreeMap<String, Vec<FourTuple>>,
    /// Requests that wait until a port has sent all.
    waits: Vec<(String, u64)>,
    /// Settlements that wait for their drain to pass.
    drains: Vec<(Nanos, u64, Settle)>,
    /// Time at which the next `second` events are due.
    tick: Nanos,
}

type Answered = Result<Answer, Fault>;

impl<W: Write> Session<W> {
    /// Makes a conversation that writes to `out`; `inputs` leads to the caller of [`handle`](Self::handle).
    pub fn new(out: W, inputs: mpsc::Sender<Input>) -> Self {
        let (ports, learned, waits, drains) = (BTreeMap::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Self { out, inputs, ports, learned, waits, drains, tick: Nanos::NEVER }
    }

    /// Handles an input; returns true if the conversation continues.
    pub fn handle(&mut self, input: Input) -> bool {
        match input {
            Input::Line(line) => self.line(&line),
            Input::Sent(port) => self.sending_ended(&port),
            Input::End => return false,
        }
        true
    }

    /// Returns the time of the next call of [`due`](Self::due).
    #[must_use]
    pub fn next(&self) -> Nanos {
        self.drains.iter().map(|(at, ..)| *at).fold(self.tick, Nanos::min)
    }

    /// Handles everything that is due by `now`: settlements whose drain has passed, events of the second.
    pub fn due(&mut self, now: Nanos) {
        let (over, drains) = std::mem::take(&mut self.drains).into_iter().partition(|(at, ..)| *at <= now);
        self.drains = drains;
        for (_, id, settle) in over {
            let answer = self.settle(&settle);
            self.reply(Some(id), answer);
        }
        if now >= self.tick {
            self.tick = self.tick + Nanos(1_000_000_000);
            self.seconds(now);
        }
    }

    fn line(&mut self, line: &str) {
        let received = clock::monotonic();
        if line.trim().is_empty() {
            return;
        }
        match Request::parse(line) {
            Err(bad) => self.reply(bad.id, Err(fault(ErrorKind::BadRequest, bad.what, None))),
            Ok(Request { id, op: Op::Wait(wait) }) => {
                self.waits.push((wait.port.clone(), id));
                self.answer_waits(&wait.port);
            }
            Ok(Request { id, op: Op::Settle(settle) }) if settle.drain_ns > 0 => {
                let now = clock::monotonic();
                if let Some(port) = self.ports.get_mut(&settle.port) {
                    port.drain(now);
                }
                self.drains.push((now + Nanos(settle.drain_ns), id, settle));
            }
            Ok(Request { id, op }) => {
                let answer = self.operation(op, received);
                self.reply(Some(id), answer);
            }
        }
    }

    fn operation(&mut self, op: Op, received: Nanos) -> Answered {
        let done = Ok(Answer::Done(Done {}));
        match op {
            Op::Hello(_) => Ok(Answer::Hello(hello())),
            Op::Clock(_) => Ok(Answer::Clock(time(received))),
            Op::Probe(p) => ports::probe(&p.iface).map(Answer::Probed),
            Op::Open(o) => {
                if self.ports.contains_key(&o.port) {
                    return Err(wrong_state(
                        format!("{} is open already", o.port),
                        "close it first, or choose another name",
                    ));
                }
                let (open, opened) = ports::open(&o)?;
                let learned = self.learned.remove(&o.port).unwrap_or_default();
                self.ports.insert(o.port, Port::new(open).knowing(learned));
                Ok(Answer::Opened(opened))
            }
            Op::Arm(arm) => {
                self.port(&arm.port)?.arm(arm.send.as_ref(), arm.receive.as_ref(), arm.events).map(Answer::Armed)
            }
            Op::Start(start) => self.start(&start),
            Op::Rate(change) => {
                self.port(&change.port)?.change_rate(change.stream, &change.rate)?;
                done
            }
            Op::Status(ask) => Ok(Answer::Status(self.port(&ask.port)?.status(clock::monotonic()))),
            Op::Settle(settle) => self.settle(&settle),
            Op::Stop(stop) => {
                for name in self.named(&stop.ports)? {
                    self.port(&name)?.stop_sending();
                }
                done
            }
            Op::Close(close) => {
                let learned = self.port(&close.port)?.take_learned();
                self.ports.remove(&close.port);
                self.learned.insert(close.port.clone(), learned);
                self.answer_waits(&close.port);
                done
            }
            // `line` answers it, when sending has ended.
            Op::Wait(_) => {
                Err(wrong_state("wait is answered elsewhere".into(), "report this as a fault of the engine"))
            }
        }
    }

    fn port(&mut self, name: &str) -> Result<&mut Port, Fault> {
        let known: Vec<_> = self.ports.keys().cloned().collect();
        self.ports.get_mut(name).ok_or_else(|| {
            let what = format!("no port is called {name}; open: {}", known.join(", "));
            wrong_state(what, "open it first")
        })
    }

    /// Returns the ports of a list; all of them if it is empty.
    fn named(&mut self, ports: &[String]) -> Result<Vec<String>, Fault> {
        for name in ports {
            self.port(name)?;
        }
        Ok(if ports.is_empty() { self.ports.keys().cloned().collect() } else { ports.to_vec() })
    }

    fn start(&mut self, start: &Start) -> Answered {
        let mut names = self.named(&start.ports)?;
        if start.ports.is_empty() {
            names.retain(|n| self.ports[n].is_armed(start.half));
        }
        if let Some(name) = names.iter().find(|n| !self.ports[*n].is_armed(start.half)) {
            return Err(wrong_state(format!("{name} is not armed"), "arm it first"));
        }
        if names.is_empty() {
            return Err(wrong_state("no port is armed".into(), "arm one first"));
        }
        let given = instant_of(start)?;
        // Receivers first, so that no frame comes too early. Attaching one may take longer than LEAD.
        let begin = given.unwrap_or_else(clock::monotonic);
        for (i, name) in names.iter().enumerate() {
            if let Err(fault) = self.port(name)?.begin_receiver(start.half, begin) {
                for begun in &names[..i] {
                    self.port(begun)?.abandon_receiver(start.half);
                }
                return Err(fault);
            }
        }
        let lead = LEAD.max(lead(names.iter().filter_map(|n| self.ports.get(n)), start.half));
        let at = given.unwrap_or_else(|| clock::monotonic() + lead);
        for name in &names {
            let (inputs, ended) = (self.inputs.clone(), Input::Sent(name.clone()));
            // The session ends only after its threads, so it receives this or does not need it any more.
            self.port(name)?.start(start.half, at, move || drop(inputs.send(ended)));
        }
        if self.tick == Nanos::NEVER && names.iter().any(|n| self.ports[n].has_events()) {
            self.tick = at + Nanos(1_000_000_000);
        }
        Ok(Answer::Started(Started { at_monotonic_ns: at.0 }))
    }

    fn settle(&mut self, ask: &Settle) -> Answered {
        self.port(&ask.port)?.settle(&ask.sent).map(Answer::Received)
    }

    /// Handles the end of a port's sending thread: takes its half back, and answers waiting requests.
    fn sending_ended(&mut self, name: &str) {
        let Some(sent) = self.ports.get_mut(name).and_then(Port::take_sender_back) else { return };
        if let Some(err) = sent.err.clone() {
            self.say(&Event::Failed(Failed { port: name.to_owned(), err }));
        }
        self.answer_waits(name);
    }

    /// Answers waiting requests for `name`, unless it is still sending.
    fn answer_waits(&mut self, name: &str) {
        let answer = match self.port(name).and_then(|p| p.outcome().map(Option::<&_>::cloned)) {
            Ok(None) => return,
            Ok(Some(sent)) => Ok(Answer::Sent(sent)),
            Err(fault) => Err(fault),
        };
        let (answered, waits) = std::mem::take(&mut self.waits).into_iter().partition(|(port, _)| port == name);
        self.waits = waits;
        for (_, id) in answered {
            self.reply(Some(id), answer.clone());
        }
    }

    /// Sends the counters of each port with events. Stops the ticks when no trial runs any more.
    fn seconds(&mut self, now: Nanos) {
        let events: Vec<_> =
            self.ports.values().filter(|p| p.has_events()).filter_map(|p| p.second(now)).map(Event::Second).collect();
        for event in &events {
            self.say(event);
        }
        if events.is_empty() {
            self.tick = Nanos::NEVER;
        }
    }

    fn reply(&mut self, id: Option<u64>, answer: Answered) {
        let outcome = answer.map_or_else(Outcome::Err, Outcome::Ok);
        self.say(&Reply { id, outcome });
    }

    /// Writes a line. If the reader is gone, stdin ends too, which ends the agent.
    fn say<T: serde::Serialize>(&mut self, line: &T) {
        if let Ok(mut text) = serde_json::to_vec(line) {
            text.push(b'\n');
            let _ = self.out.write_all(&text).and_then(|()| self.out.flush());
        }
    }
}

impl<W: Write> Drop for Session<W> {
    fn drop(&mut self) {
        // All at once, so that their ends overlap; each port then joins its threads.
        for port in self.ports.values_mut() {
            port.stop_sending();
        }
    }
}

/// Returns the time of a start; `None`: now.
fn instant_of(start: &Start) -> Result<Option<Nanos>, Fault> {
    match (start.at_monotonic_ns, start.at_realtime_ns) {
        (Some(_), Some(_)) => {
            Err(fault(ErrorKind::BadRequest, "start: give at_monotonic_ns or at_realtime_ns, not both", None))
        }
        (at, None) => Ok(at.map(Nanos)),
        (None, Some(at)) => {
            // Read directly one after the other: the difference is below a microsecond, unless this thread loses its
            // CPU.
            let (wall, now) = (clock::realtime(), clock::monotonic());
            Ok(Some(Nanos(now.0.saturating_add_signed(
                i64::try_from(at).unwrap_or(i64::MAX).saturating_sub(i64::try_from(wall.0).unwrap_or(i64::MAX)),
            ))))
        }
    }
}

fn time(received: Nanos) -> Clock {
    Clock {
        received_monotonic_ns: received.0,
        realtime_ns: clock::realtime().0,
        replied_monotonic_ns: clock::monotonic().0,
    }
}

fn hello() -> Hello {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL,
        monotonic_ns: clock::monotonic().0,
        realtime_ns: clock::realtime().0,
        kernel: kernel.trim().to_owned(),
        cpus: cpu::allowed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::OpenPort;
    use dutlab_port::{Counted, CountingReceiver, PortError, Receiver, Watch};
    use dutlab_protocol::request::{Backend, Cpus, Guard, Open};
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// A receiver that counts how often it was begun and not ended.
    struct Counting {
        begun: Arc<AtomicI32>,
        refuses: bool,
    }

    impl CountingReceiver for Counting {
        fn begin(&mut self, _: &Watch) -> Result<(), PortError> {
            if self.refuses {
                let busy = std::io::Error::from_raw_os_error(16);
                return Err(PortError::from_call("bpf(BPF_LINK_CREATE)", "eth-b", busy));
            }
            self.begun.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn read(&mut self) -> Result<Counted, PortError> {
            Ok(Counted::default())
        }

        fn end(&mut self) -> Result<Counted, PortError> {
            self.begun.fetch_sub(1, Ordering::Relaxed);
            Ok(Counted::default())
        }
    }

    fn port(name: &str, refuses: bool, begun: &Arc<AtomicI32>) -> Port {
        let open = Open {
            port: name.into(),
            iface: "memory".into(),
            backend: Backend::Memory,
            cpu: Cpus::default(),
            receive_cpu: Cpus::default(),
            guard: Guard::default(),
        };
        let receiver = Receiver::Counting(Box::new(Counting { begun: Arc::clone(begun), refuses }));
        let (open, _) = ports::open(&open).unwrap();
        Port::new(OpenPort { receiver: Some(receiver), ..open })
    }

    #[test]
    fn start_tells_that_a_counting_receiver_cannot_begin_and_undoes_those_that_did() {
        let (inputs, _input) = mpsc::channel();
        let mut session = Session::new(Vec::new(), inputs);
        let begun = Arc::default();
        session.ports.insert("a".into(), port("a", false, &begun));
        session.ports.insert("b".into(), port("b", true, &begun));
        for (id, name) in ["a", "b"].into_iter().enumerate() {
            let arm = json!({"id": id, "op": "arm", "port": name, "receive": {"streams": [1]}});
            assert!(session.handle(Input::Line(arm.to_string())));
        }
        session.handle(Input::Line(json!({"id": 9, "op": "start"}).to_string()));
        let said = String::from_utf8(session.out.clone()).unwrap();
        let reply: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&reply["id"], &reply["err"]["kind"], &reply["err"]["errno"]),
            (&json!(9), &json!("syscall"), &json!(16))
        );
        assert!(reply["err"]["message"].as_str().unwrap().contains("BPF_LINK_CREATE"), "{reply}");
        assert_eq!(begun.load(Ordering::Relaxed), 0, "what had begun was ended");
        assert!(session.ports.values().all(|p| p.is_armed(None)), "nothing was changed");
    }
}

//! The agent's conversation: requests in, replies and events out, ports and trials in between.

use crate::live::Live;
use crate::lower::{self, Lowered};
use crate::ports::{self, OpenPort};
use crate::report::{self, fault, port_fault};
use crate::{receive, send};
use dutlab_port::af_packet::Absorb;
use dutlab_port::{Receiver, Watch, clock, cpu};
use dutlab_protocol::event::{Failed, Second};
use dutlab_protocol::plan::ReceivePlan;
use dutlab_protocol::reply::{Answer, Armed, Done, Hello, Outcome, Started};
use dutlab_protocol::request::{Arm, ChangeRate, Op, Settle, Start};
use dutlab_protocol::totals::Sent;
use dutlab_protocol::{ErrorKind, Event, Fault, PROTOCOL, Reply, Request};
use dutlab_units::Nanos;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// From `start` to the first frame when no instant is given: time for all threads to get ready.
const LEAD: Nanos = Nanos(5_000_000);

/// What happens to a session from outside.
pub enum Input {
    /// A line from the controller.
    Line(String),
    /// The controller is gone, or a signal says to end.
    End,
    /// The sending thread of this port has ended.
    Sent(String),
}

/// A conversation.
pub struct Session<W: Write> {
    out: W,
    inputs: mpsc::Sender<Input>,
    ports: BTreeMap<String, Port>,
    /// Settlements that wait for their drain to pass.
    drains: Vec<(Nanos, u64, Settle)>,
    /// When the next `second` events are due.
    tick: Nanos,
}

struct Port {
    open: OpenPort,
    trial: Option<Trial>,
}

/// What a port does from `arm` until it is armed again.
struct Trial {
    events: bool,
    begun: bool,
    live: Arc<Live>,
    send: Option<Sending>,
    receive: Option<Receiving>,
}

struct Sending {
    plan: Lowered,
    stop: Arc<AtomicBool>,
    changes: Option<mpsc::Sender<send::Change>>,
    thread: Option<JoinHandle<send::Done>>,
    /// Requests that wait for the end.
    waiting: Vec<u64>,
    outcome: Option<Sent>,
}

struct Receiving {
    plan: ReceivePlan,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<receive::Done>>,
    _absorb: Option<Absorb>,
}

type Answered = Result<Answer, Fault>;

impl<W: Write> Session<W> {
    /// A conversation that writes to `out`; `inputs` leads back to whoever calls [`handle`](Self::handle).
    pub fn new(out: W, inputs: mpsc::Sender<Input>) -> Self {
        Self { out, inputs, ports: BTreeMap::new(), drains: Vec::new(), tick: Nanos::NEVER }
    }

    /// Takes an input; says whether the conversation goes on.
    pub fn handle(&mut self, input: Input) -> bool {
        match input {
            Input::Line(line) => self.line(&line),
            Input::Sent(port) => self.sending_ended(&port),
            Input::End => return false,
        }
        true
    }

    /// When [`due`](Self::due) wants to be called next.
    #[must_use]
    pub fn next(&self) -> Nanos {
        self.drains.iter().map(|(at, ..)| *at).fold(self.tick, Nanos::min)
    }

    /// Does what is due by `now`: settlements whose drain has passed, events of the second.
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
        if line.trim().is_empty() {
            return;
        }
        match Request::parse(line) {
            Err(bad) => self.reply(bad.id, Err(fault(ErrorKind::BadRequest, bad.what, None))),
            Ok(Request { id, op: Op::Wait(wait) }) => self.wait(id, &wait.port),
            Ok(Request { id, op: Op::Settle(settle) }) if settle.drain_ns > 0 => {
                self.drains.push((clock::monotonic() + Nanos(settle.drain_ns), id, settle));
            }
            Ok(Request { id, op }) => {
                let answer = self.operation(op);
                self.reply(Some(id), answer);
            }
        }
    }

    fn operation(&mut self, op: Op) -> Answered {
        match op {
            Op::Hello(_) => Ok(Answer::Hello(hello())),
            Op::Probe(p) => ports::probe(&p.iface).map(Answer::Probed),
            Op::Open(o) => {
                if self.ports.contains_key(&o.port) {
                    return Err(wrong_state(
                        format!("{} is open already", o.port),
                        "close it first, or choose another name",
                    ));
                }
                let (open, opened) = ports::open(&o)?;
                self.ports.insert(o.port, Port { open, trial: None });
                Ok(Answer::Opened(opened))
            }
            Op::Arm(arm) => self.arm(&arm),
            Op::Start(start) => self.start(&start),
            Op::Rate(change) => self.change_rate(&change),
            Op::Settle(settle) => self.settle(&settle),
            Op::Stop(stop) => {
                for name in self.named(&stop.ports)? {
                    self.port(&name)?.stop_sending();
                }
                Ok(Answer::Done(Done {}))
            }
            Op::Close(close) => {
                self.port(&close.port)?.end();
                self.ports.remove(&close.port);
                Ok(Answer::Done(Done {}))
            }
            // Answered by `line`, when sending has ended.
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

    /// The ports of a list, all of them when it is empty.
    fn named(&mut self, ports: &[String]) -> Result<Vec<String>, Fault> {
        for name in ports {
            self.port(name)?;
        }
        Ok(if ports.is_empty() { self.ports.keys().cloned().collect() } else { ports.to_vec() })
    }

    fn arm(&mut self, arm: &Arm) -> Answered {
        let port = self.port(&arm.port)?;
        if port.trial.as_ref().is_some_and(Trial::is_running) {
            return Err(wrong_state(format!("{} is in a trial", arm.port), "wait and settle, or close the port"));
        }
        let send = match &arm.send {
            None => None,
            Some(plan) => {
                let plan =
                    lower::lower(plan, &port.open.iface).map_err(|what| fault(ErrorKind::BadPlan, what, None))?;
                Some(Sending::new(plan))
            }
        };
        // The finished trial lets its UDP ports go, before the new one takes them.
        if let Some(trial) = &mut port.trial {
            trial.receive = None;
        }
        let receive = arm.receive.as_ref().map(|plan| Receiving::new(plan, &port.open)).transpose()?;
        if send.is_none() && receive.is_none() {
            return Err(fault(ErrorKind::BadPlan, "arm: give `send`, `receive` or both", None));
        }
        let streams = send.as_ref().map_or_else(Vec::new, |s| s.plan.armed());
        port.trial = Some(Trial { events: arm.events, begun: false, live: Arc::default(), send, receive });
        Ok(Answer::Armed(Armed { armed: arm.port.clone(), streams }))
    }

    fn start(&mut self, start: &Start) -> Answered {
        let names: Vec<_> = self
            .named(&start.ports)?
            .into_iter()
            .filter(|n| !start.ports.is_empty() || self.ports[n].trial.as_ref().is_some_and(|t| !t.begun))
            .collect();
        for name in &names {
            match &self.ports[name].trial {
                Some(trial) if !trial.begun => {}
                _ => return Err(wrong_state(format!("{name} is not armed"), "arm it first")),
            }
        }
        if names.is_empty() {
            return Err(wrong_state("no port is armed".into(), "arm one first"));
        }
        // Receivers first, so that no frame comes too early.
        let mut begun = Ok(());
        for name in &names {
            begun = begun.and_then(|()| self.port(name)?.begin_receiver());
        }
        begun?;
        let now = clock::monotonic();
        let at = start.at_monotonic_ns.map_or(now + LEAD, Nanos);
        for name in &names {
            let inputs = self.inputs.clone();
            self.port(name)?.start(at, inputs);
        }
        if self.tick == Nanos::NEVER && names.iter().any(|n| self.ports[n].trial.as_ref().is_some_and(|t| t.events)) {
            self.tick = at + Nanos(1_000_000_000);
        }
        Ok(Answer::Started(Started { at_monotonic_ns: at.0 }))
    }

    fn change_rate(&mut self, change: &ChangeRate) -> Answered {
        let sending = self.port(&change.port)?.trial.as_ref().and_then(|t| t.send.as_ref());
        let sending =
            sending.ok_or_else(|| wrong_state(format!("{} sends nothing", change.port), "arm it with `send`"))?;
        let streams = &sending.plan.plan.streams;
        let index = streams.iter().position(|s| s.stream == change.stream).ok_or_else(|| {
            fault(ErrorKind::BadRequest, format!("{} sends no stream {}", change.port, change.stream), None)
        })?;
        let profile = lower::lower_rate(&change.rate, sending.plan.means[index])
            .map_err(|what| fault(ErrorKind::BadRequest, format!("rate: {what}"), None))?;
        match &sending.changes {
            Some(changes) if changes.send(send::Change { index, profile }).is_ok() => Ok(Answer::Done(Done {})),
            _ => Err(wrong_state(format!("{} is not sending", change.port), "start it first")),
        }
    }

    fn wait(&mut self, id: u64, name: &str) {
        let answer = match self.port(name) {
            Err(fault) => Err(fault),
            Ok(port) => match port.trial.as_mut().and_then(|t| t.begun.then_some(t.send.as_mut()).flatten()) {
                None => Err(wrong_state(format!("{name} is not sending"), "arm it with `send` and start it first")),
                Some(Sending { outcome: Some(sent), .. }) => Ok(Answer::Sent(sent.clone())),
                Some(sending) => {
                    sending.waiting.push(id);
                    return;
                }
            },
        };
        self.reply(Some(id), answer);
    }

    /// The sending thread of a port is through: takes its half back, and answers those who wait.
    fn sending_ended(&mut self, name: &str) {
        let Some(port) = self.ports.get_mut(name) else { return };
        let Some((sent, waiting)) = port.take_sender_back() else { return };
        if let Some(err) = &sent.err {
            let event = Event::Failed(Failed { port: name.to_owned(), err: err.clone() });
            self.say(&event);
        }
        for id in waiting {
            self.reply(Some(id), Ok(Answer::Sent(sent.clone())));
        }
    }

    fn settle(&mut self, ask: &Settle) -> Answered {
        let port = self.port(&ask.port)?;
        let receiving = port.trial.as_mut().filter(|t| t.begun).and_then(|t| t.receive.as_mut());
        let thread = receiving.and_then(|r| {
            r.stop.store(true, Ordering::Relaxed);
            Some((r.thread.take()?, r.plan.streams.clone()))
        });
        let Some((thread, streams)) = thread else {
            return Err(wrong_state(
                format!("{} is not receiving", ask.port),
                "arm it with `receive` and start it first",
            ));
        };
        if let Some(stray) = ask.sent.iter().find(|s| !streams.contains(&s.stream)) {
            // The trial has ended all the same: its counters would not be true any more.
            let what = format!("{} does not receive stream {}", ask.port, stray.stream);
            port.open.receiver = thread.join().ok().map(|d| d.receiver);
            return Err(fault(ErrorKind::BadRequest, what, None));
        }
        let Ok(done) = thread.join() else {
            return Err(fault(
                ErrorKind::PortLost,
                "the receiving thread panicked",
                Some("report this as a fault of the engine"),
            ));
        };
        let received = report::received(&ask.port, &streams, &ask.sent, &done);
        port.open.receiver = Some(done.receiver);
        Ok(Answer::Received(received))
    }

    /// Says what each port with events has counted so far. Stops the ticks when no trial runs any more.
    fn seconds(&mut self, now: Nanos) {
        let mut running = false;
        let mut events = Vec::new();
        for (name, port) in &self.ports {
            let Some(trial) = port.trial.as_ref().filter(|t| t.events && t.is_running()) else { continue };
            running = true;
            let live = &trial.live;
            events.push(Event::Second(Second {
                port: name.clone(),
                monotonic_ns: now.0,
                sent: live.sent.get(),
                sent_bytes: live.sent_bytes.get(),
                received: live.received.get(),
                received_bytes: live.received_bytes.get(),
                duplicated: live.duplicated.get(),
                reordered: live.reordered.get(),
                kernel_dropped: live.kernel_dropped.get(),
            }));
        }
        for event in &events {
            self.say(event);
        }
        if !running {
            self.tick = Nanos::NEVER;
        }
    }

    fn reply(&mut self, id: Option<u64>, answer: Answered) {
        let outcome = answer.map_or_else(Outcome::Err, Outcome::Ok);
        self.say(&Reply { id, outcome });
    }

    /// Writes a line. If nobody reads any more, stdin ends too, and that ends the agent.
    fn say<T: serde::Serialize>(&mut self, line: &T) {
        if let Ok(mut text) = serde_json::to_vec(line) {
            text.push(b'\n');
            let _ = self.out.write_all(&text).and_then(|()| self.out.flush());
        }
    }
}

impl<W: Write> Drop for Session<W> {
    fn drop(&mut self) {
        for port in self.ports.values_mut() {
            port.stop_sending();
        }
        for port in self.ports.values_mut() {
            port.end();
        }
    }
}

impl Trial {
    /// Whether a thread of this trial still runs, or has not been settled.
    fn is_running(&self) -> bool {
        self.begun
            && (self.send.as_ref().is_some_and(|s| s.thread.is_some())
                || self.receive.as_ref().is_some_and(|r| r.thread.is_some()))
    }
}

impl Sending {
    fn new(plan: Lowered) -> Self {
        Self { plan, stop: Arc::default(), changes: None, thread: None, waiting: Vec::new(), outcome: None }
    }
}

impl Receiving {
    fn new(plan: &ReceivePlan, port: &OpenPort) -> Result<Self, Fault> {
        if plan.streams.is_empty() {
            return Err(fault(ErrorKind::BadPlan, "receive.streams: give at least one stream", None));
        }
        let absorb = (!plan.absorb_udp_ports.is_empty() && port.iface.index != 0)
            .then(|| Absorb::open(&port.iface.name, &plan.absorb_udp_ports))
            .transpose()
            .map_err(|e| port_fault(&e))?;
        Ok(Self { plan: plan.clone(), stop: Arc::default(), thread: None, _absorb: absorb })
    }
}

impl Port {
    /// Throws away what the receiver holds from before the trial.
    fn begin_receiver(&mut self) -> Result<(), Fault> {
        match (self.trial.as_ref().and_then(|t| t.receive.as_ref()), &mut self.open.receiver) {
            (Some(_), Some(Receiver::Burst(rx))) => rx.begin().map_err(|e| port_fault(&e)),
            (Some(_), None) => Err(wrong_state(format!("{} cannot receive", self.open.name), "open it again")),
            _ => Ok(()),
        }
    }

    fn start(&mut self, at: Nanos, inputs: mpsc::Sender<Input>) {
        let Some(trial) = &mut self.trial else { return };
        trial.begun = true;
        if let (Some(receiving), Some(mut receiver)) = (&mut trial.receive, self.open.receiver.take()) {
            let watch = Watch { streams: receiving.plan.streams.clone(), begin: at };
            let job = receive::Job {
                watch,
                cpu: self.open.receive_cpu,
                stop: Arc::clone(&receiving.stop),
                live: Arc::clone(&trial.live),
            };
            receiving.thread = Some(std::thread::spawn(move || {
                if let Receiver::Counting(rx) = &mut receiver {
                    // A failure shows again when the counters are read.
                    let _ = rx.begin(&job.watch);
                }
                receive::run(receiver, &job)
            }));
        }
        if let (Some(sending), Some(sender)) = (&mut trial.send, self.open.sender.take()) {
            sending.plan.plan.start = at;
            sending.plan.plan.end = at + sending.plan.duration;
            let (tell, changes) = mpsc::channel();
            sending.changes = Some(tell);
            let job = send::Job {
                plan: sending.plan.clone(),
                cpu: self.open.send_cpu,
                stop: Arc::clone(&sending.stop),
                changes,
                live: Arc::clone(&trial.live),
            };
            let name = self.open.name.clone();
            sending.thread = Some(std::thread::spawn(move || {
                let done = send::run(sender, job);
                // The session ends only after its threads, so it hears this or needs it no more.
                let _ = inputs.send(Input::Sent(name));
                done
            }));
        }
    }

    /// Takes the sending half back from a thread that has ended; returns what it sent and who waits to hear it.
    fn take_sender_back(&mut self) -> Option<(Sent, Vec<u64>)> {
        let sending = self.trial.as_mut()?.send.as_mut()?;
        let done = sending.thread.take()?.join().ok()?;
        let sent = report::sent(&self.open.name, &sending.plan, &done);
        self.open.sender = Some(done.sender);
        sending.changes = None;
        sending.outcome = Some(sent.clone());
        Some((sent, std::mem::take(&mut sending.waiting)))
    }

    fn stop_sending(&mut self) {
        if let Some(sending) = self.trial.as_ref().and_then(|t| t.send.as_ref()) {
            sending.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Ends all threads of the port.
    fn end(&mut self) {
        self.stop_sending();
        let Some(trial) = &mut self.trial else { return };
        if let Some(receiving) = &mut trial.receive {
            receiving.stop.store(true, Ordering::Relaxed);
            if let Some(thread) = receiving.thread.take() {
                let _ = thread.join();
            }
        }
        if let Some(thread) = trial.send.as_mut().and_then(|s| s.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn wrong_state(what: String, remedy: &str) -> Fault {
    fault(ErrorKind::WrongState, what, Some(remedy))
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

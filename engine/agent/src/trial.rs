//! A port from `arm` until it is armed again: its two threads, and the halves that they borrow.
//!
//! Independent of lines and request numbers, so the agent's conversation and the command line both use it.

use crate::live::Live;
use crate::lower::{self, Lowered};
use crate::ports::OpenPort;
use crate::report::{self, fault, port_fault};
use crate::share::Share;
use crate::{receive, send};
use dutlab_port::af_packet::Absorb;
use dutlab_port::iface::Interface;
use dutlab_port::link_watch::LinkWatch;
use dutlab_port::missed::Missed;
use dutlab_port::{Receiver, Sender, Watch, WatchedStream, clock};
use dutlab_protocol::event::Second;
use dutlab_protocol::plan::{Rate, ReceivePlan, SendPlan, SenderClock};
use dutlab_protocol::reply::Armed;
use dutlab_protocol::request::{Half, StreamSent};
use dutlab_protocol::status::Status;
use dutlab_protocol::totals::{Received, Sent};
use dutlab_protocol::{ErrorKind, Fault};
use dutlab_units::Nanos;
use dutlab_wire::FourTuple;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Maximum number of streams that a port accounts for: each takes half a megabyte for its ledger and its histograms.
const MOST_STREAMS: usize = 1024;
/// Time to load a plan into the kernel, and for the kernel to fill a pool of pages. A sender that takes longer begins
/// later.
const KERNEL_LEAD: Nanos = Nanos(60_000_000);
/// Time to load plans for several ports that begin at one instant, even if one of them takes long.
const KERNEL_LEAD_TOGETHER: Nanos = Nanos(150_000_000);

/// Returns the least time from `start` to the first frame of these ports.
#[must_use]
pub fn lead<'a>(ports: impl IntoIterator<Item = &'a Port>, half: Option<Half>) -> Nanos {
    match ports.into_iter().filter(|p| p.loads_a_plan(half)).count() {
        0 => Nanos::ZERO,
        1 => KERNEL_LEAD,
        _ => KERNEL_LEAD_TOGETHER,
    }
}

/// A port and its trial. Ends the trial's threads when dropped.
pub struct Port {
    open: OpenPort,
    trial: Option<Trial>,
    /// Addresses and ports that it learned.
    learned: Vec<FourTuple>,
}

struct Trial {
    events: bool,
    live: Arc<Live>,
    send: Option<Sending>,
    receive: Option<Receiving>,
}

struct Sending {
    begun: bool,
    plan: Lowered,
    stop: Arc<AtomicBool>,
    changes: Option<mpsc::Sender<send::Change>>,
    link: Option<LinkWatch>,
    thread: Option<JoinHandle<send::Done>>,
    outcome: Option<Sent>,
}

struct Receiving {
    begun: bool,
    /// Time at which the trial was requested; earlier probes are stale.
    begin: Nanos,
    plan: ReceivePlan,
    /// Counter of drops in the port's hardware; `None` if there is no device.
    missed: Option<Missed>,
    link: Option<LinkWatch>,
    end: Arc<receive::End>,
    thread: Option<JoinHandle<receive::Done>>,
    _absorb: Option<Absorb>,
}

impl Trial {
    /// Returns true if a thread of this trial still runs, or has not been settled.
    fn is_running(&self) -> bool {
        self.send.as_ref().is_some_and(|s| s.thread.is_some())
            || self.receive.as_ref().is_some_and(|r| r.thread.is_some())
    }

    /// Returns its sending part, if that is in `half` and has not begun.
    fn to_send(&self, half: Option<Half>) -> Option<&Sending> {
        self.send.as_ref().filter(|s| half != Some(Half::Receive) && !s.begun)
    }

    /// Returns its receiving part, if that is in `half` and has not begun.
    fn to_receive(&self, half: Option<Half>) -> Option<&Receiving> {
        self.receive.as_ref().filter(|r| half != Some(Half::Send) && !r.begun)
    }
}

impl Receiving {
    fn new(plan: &ReceivePlan, port: &OpenPort) -> Result<Self, Fault> {
        if plan.streams.is_empty() {
            return Err(fault(ErrorKind::BadPlan, "receive.streams: give at least one stream", None));
        }
        if plan.streams.len() > MOST_STREAMS {
            let what =
                format!("receive.streams: {} streams; a port accounts for {MOST_STREAMS} at most", plan.streams.len());
            return Err(fault(
                ErrorKind::BadPlan,
                what,
                Some("give the traffic fewer streams, each with several flows"),
            ));
        }
        let mut once = HashSet::new();
        if let Some(twice) = plan.streams.iter().find(|s| !once.insert(**s)) {
            return Err(fault(ErrorKind::BadPlan, format!("receive.streams: duplicate stream {twice}"), None));
        }
        // A stream that can be removed from the set has no clock yet.
        if let Some(of) = plan.sender_clocks.iter().find(|of| !once.remove(&of.stream)) {
            let what = format!("receive.sender_clocks: stream {} is not received, or named twice", of.stream);
            return Err(fault(ErrorKind::BadPlan, what, Some("name each stream of `streams` once at most")));
        }
        if let Some(of) = plan.learn.filter(|of| !plan.streams.contains(of)) {
            return Err(fault(ErrorKind::BadPlan, format!("receive.learn: stream {of} is not received"), None));
        }
        if plan.learn.is_some() && matches!(port.receiver, Some(Receiver::Counting(_))) {
            let what = format!("receive.learn: {} counts frames in the kernel, where their addresses stay", port.name);
            return Err(fault(ErrorKind::Unsupported, what, Some("open the port with the back end af_packet")));
        }
        let absorb = (!plan.absorb_udp_ports.is_empty() && port.iface.index != 0)
            .then(|| Absorb::open(&port.iface.name, &plan.absorb_udp_ports))
            .transpose()
            .map_err(|e| port_fault(&e))?;
        Ok(Self {
            begun: false,
            begin: Nanos::NEVER,
            plan: plan.clone(),
            missed: None,
            link: None,
            end: Arc::default(),
            thread: None,
            _absorb: absorb,
        })
    }

    /// Returns the streams to watch, for any back end.
    fn watch(&self) -> Watch {
        let watched = |&id: &u16| match self.plan.clock_of(id) {
            SenderClock::Same => WatchedStream { id, begin: self.begin, sender_ahead: 0 },
            SenderClock::AheadNs(sender_ahead) => WatchedStream { id, begin: Nanos::ZERO, sender_ahead },
            SenderClock::Unknown => WatchedStream { id, begin: Nanos::ZERO, sender_ahead: 0 },
        };
        let streams = self.plan.streams.iter().map(watched).collect();
        Watch { streams, trial: self.plan.trial, unverified: self.plan.unverified }
    }
}

impl Port {
    /// Makes a port without a trial.
    #[must_use]
    pub const fn new(open: OpenPort) -> Self {
        Self { open, trial: None, learned: Vec::new() }
    }

    /// Sets the addresses that an earlier port of this name had learned.
    #[must_use]
    pub fn knowing(mut self, learned: Vec<FourTuple>) -> Self {
        self.learned = learned;
        self
    }

    /// Takes the learned addresses.
    pub fn take_learned(&mut self) -> Vec<FourTuple> {
        std::mem::take(&mut self.learned)
    }

    /// Gives the port a plan.
    pub fn arm(
        &mut self,
        send: Option<&SendPlan>,
        receive: Option<&ReceivePlan>,
        events: bool,
    ) -> Result<Armed, Fault> {
        let name = &self.open.name;
        if self.trial.as_ref().is_some_and(Trial::is_running) {
            return Err(wrong_state(format!("{name} is in a trial"), "wait and settle, or close the port"));
        }
        if send.is_some() && self.open.sender.is_none() {
            return Err(wrong_state(
                format!("{name} can only receive"),
                "open it with a back end that `probe` says can send",
            ));
        }
        send.map_or(Ok(()), |plan| self.open.reach.check(plan, &self.learned))?;
        let send = send
            .map(|plan| {
                lower::lower(plan, &self.open.iface, &self.learned)
                    .map_err(|what| fault(ErrorKind::BadPlan, what, None))
            })
            .transpose()?;
        send.as_ref().map_or(Ok(()), |plan| self.open.reach.check_frames(plan))?;
        let send = send.map(|plan| Sending {
            begun: false,
            plan,
            stop: Arc::default(),
            changes: None,
            link: None,
            thread: None,
            outcome: None,
        });
        // The finished trial releases its UDP ports before the new one takes them.
        if let Some(trial) = &mut self.trial {
            trial.receive = None;
        }
        let receive = receive.map(|plan| Receiving::new(plan, &self.open)).transpose()?;
        if send.is_none() && receive.is_none() {
            return Err(fault(ErrorKind::BadPlan, "arm: give `send`, `receive` or both", None));
        }
        let armed = Armed { armed: name.clone(), streams: send.as_ref().map_or_else(Vec::new, |s| s.plan.armed()) };
        self.trial = Some(Trial { events, live: Arc::default(), send, receive });
        Ok(armed)
    }

    /// Returns true if it is armed and this half, or either, is not yet started.
    #[must_use]
    pub fn is_armed(&self, half: Option<Half>) -> bool {
        self.trial.as_ref().is_some_and(|t| t.to_send(half).is_some() || t.to_receive(half).is_some())
    }

    /// Returns true if its trial requested events.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.trial.as_ref().is_some_and(|t| t.events)
    }

    /// Discards frames that the receiver holds from before the trial; a receiver that counts in the kernel counts from
    /// now on. Probes sent before `begin` will be stale.
    pub fn begin_receiver(&mut self, half: Option<Half>, begin: Nanos) -> Result<(), Fault> {
        let receiving = self.trial.as_mut().filter(|t| t.to_receive(half).is_some()).and_then(|t| t.receive.as_mut());
        let Some(receiving) = receiving else { return Ok(()) };
        receiving.begin = begin;
        match &mut self.open.receiver {
            Some(Receiver::Burst(queues)) => queues.iter_mut().try_for_each(|rx| rx.begin()),
            Some(Receiver::Counting(rx)) => rx.begin(&receiving.watch()),
            None => return Err(wrong_state(format!("{} cannot receive", self.open.name), "open it again")),
        }
        .map_err(|e| port_fault(&e))?;
        let iface = &self.open.iface;
        let missed = (iface.index != 0).then(|| Missed::begin(&iface.name, iface.index)).transpose();
        let missed = missed.map_err(|e| port_fault(&e))?;
        receiving.missed = missed;
        receiving.link = link_of(iface);
        Ok(())
    }

    /// Undoes [`begin_receiver`](Self::begin_receiver) when another port of the same start failed.
    pub fn abandon_receiver(&mut self, half: Option<Half>) {
        let begun = self.trial.as_ref().is_some_and(|t| t.to_receive(half).is_some());
        if let (true, Some(Receiver::Counting(rx))) = (begun, &mut self.open.receiver) {
            // The controller gets the failure that led here.
            let _ = rx.end();
        }
    }

    /// Returns true if it begins to send a plan that must be loaded into the kernel first.
    fn loads_a_plan(&self, half: Option<Half>) -> bool {
        let sends = self.trial.as_ref().is_some_and(|t| t.to_send(half).is_some());
        sends && matches!(self.open.sender, Some(Sender::Plan(_)))
    }

    /// Starts the threads; the first frame is due at `at`. `ended` is called when sending has ended.
    pub fn start(&mut self, half: Option<Half>, at: Nanos, ended: impl FnOnce() + Send + 'static) {
        let Some(trial) = &mut self.trial else { return };
        let receives = trial.to_receive(half).is_some().then(|| self.open.receiver.take()).flatten();
        let sends = trial.to_send(half).is_some().then(|| self.open.sender.take()).flatten();
        if let (Some(receiving), Some(receiver)) = (&mut trial.receive, receives) {
            receiving.begun = true;
            let job = receive::Job {
                watch: receiving.watch(),
                learn: receiving.plan.learn,
                cpus: self.open.receive_cpus.clone(),
                missed: receiving.missed.clone(),
                end: Arc::clone(&receiving.end),
                live: Arc::clone(&trial.live),
            };
            receiving.thread = Some(std::thread::spawn(move || receive::run(receiver, &job)));
        }
        if let (Some(sending), Some(sender)) = (&mut trial.send, sends) {
            sending.begun = true;
            sending.plan.plan.start = at;
            sending.plan.plan.end = at + sending.plan.duration;
            sending.link = link_of(&self.open.iface);
            let (tell, changes) = mpsc::channel();
            sending.changes = Some(tell);
            let job = send::Job {
                plan: sending.plan.clone(),
                share: Share::WHOLE,
                cpus: self.open.send_cpus.clone(),
                stop: Arc::clone(&sending.stop),
                changes,
                live: Arc::clone(&trial.live),
                spare: self.open.auto.then(|| self.open.iface.clone()),
            };
            sending.thread = Some(std::thread::spawn(move || {
                let done = send::run(sender, job);
                ended();
                done
            }));
        }
    }

    /// Changes the rate of a stream that is being sent.
    pub fn change_rate(&mut self, stream: u16, rate: &Rate) -> Result<(), Fault> {
        let name = &self.open.name;
        let sending = self.trial.as_ref().and_then(|t| t.send.as_ref());
        let sending = sending.ok_or_else(|| wrong_state(format!("{name} sends nothing"), "arm it with `send`"))?;
        let index = sending.plan.plan.streams.iter().position(|s| s.stream == stream);
        let index =
            index.ok_or_else(|| fault(ErrorKind::BadRequest, format!("{name} sends no stream {stream}"), None))?;
        let (profile, _) = lower::rate_of(rate, sending.plan.means[index], &self.open.iface)
            .map_err(|what| fault(ErrorKind::BadRequest, what, None))?;
        match &sending.changes {
            Some(changes) if changes.send(send::Change { index, profile }).is_ok() => Ok(()),
            _ => Err(wrong_state(format!("{name} is not sending"), "start it first")),
        }
    }

    /// Returns the result of sending; `None` while sending continues.
    pub fn outcome(&self) -> Result<Option<&Sent>, Fault> {
        let sending = self.trial.as_ref().and_then(|t| t.send.as_ref()).filter(|s| s.begun);
        sending.map(|s| s.outcome.as_ref()).ok_or_else(|| {
            let what = format!("{} is not sending", self.open.name);
            wrong_state(what, "arm it with `send` and start it first")
        })
    }

    /// Takes the sending half back from a thread that has ended, and returns its result.
    pub fn take_sender_back(&mut self) -> Option<&Sent> {
        let sending = self.trial.as_mut()?.send.as_mut()?;
        let done = sending.thread.take()?.join().ok()?;
        let mut sent = report::sent(&self.open.name, &sending.plan, &done);
        sent.link_lost = sending.link.take().and_then(|link| report::link_lost(link.end()));
        self.open.sender = Some(done.sender);
        sending.changes = None;
        Some(sending.outcome.insert(sent))
    }

    /// Makes frames that arrive from `now` on count as late.
    pub fn drain(&mut self, now: Nanos) {
        if let Some(receiving) = self.trial.as_ref().and_then(|t| t.receive.as_ref()) {
            receiving.end.drain(now);
        }
    }

    /// Ends receiving, and returns the counters, settled with `sent`. The trial ends even when `sent` is refused,
    /// because its counters would no longer be valid.
    pub fn settle(&mut self, sent: &[StreamSent]) -> Result<Received, Fault> {
        let name = &self.open.name;
        let receiving = self.trial.as_mut().and_then(|t| t.receive.as_mut());
        let Some((thread, receiving)) = receiving.and_then(|r| Some((r.thread.take()?, r))) else {
            let remedy = "arm it with `receive` and start it first";
            return Err(wrong_state(format!("{name} is not receiving"), remedy));
        };
        // Before the end: some drivers reset their link when a program is detached.
        let link_lost = receiving.link.take().and_then(|link| report::link_lost(link.end()));
        receiving.end.stop();
        let Ok(done) = thread.join() else {
            let remedy = Some("report this as a fault of the engine");
            return Err(fault(ErrorKind::PortLost, "the receiving thread panicked", remedy));
        };
        let streams = &receiving.plan.streams;
        let received = match sent.iter().find(|s| !streams.contains(&s.stream)) {
            None => Ok(Received { link_lost, ..report::received(name, streams, sent, &done) }),
            Some(stray) => {
                let what = format!("{name} does not receive stream {}", stray.stream);
                Err(fault(ErrorKind::BadRequest, what, None))
            }
        };
        if let receive::Tally::Here(account) = done.tally
            && let Some(learned) = account.into_tuples()
        {
            self.learned = learned;
        }
        self.open.receiver = Some(done.receiver);
        received
    }

    /// Returns the counters so far, if the trial runs.
    #[must_use]
    pub fn second(&self, now: Nanos) -> Option<Second> {
        let trial = self.trial.as_ref().filter(|t| t.is_running())?;
        Some(trial.live.second(&self.open.name, now))
    }

    /// Returns the counters of each stream since the trial began.
    #[must_use]
    pub fn status(&self, now: Nanos) -> Status {
        let name = &self.open.name;
        let Some(trial) = &self.trial else {
            return Status { port: name.clone(), sending: None, receiving: None };
        };
        let sent =
            trial.send.as_ref().map_or_else(Vec::new, |s| s.plan.plan.streams.iter().map(|s| s.stream).collect());
        let received = trial.receive.as_ref().map_or_else(Vec::new, |r| r.plan.streams.clone());
        trial.live.status(name, now, &sent, &received)
    }

    /// Makes the sending thread end soon.
    pub fn stop_sending(&mut self) {
        if let Some(sending) = self.trial.as_ref().and_then(|t| t.send.as_ref()) {
            sending.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop_sending();
        let Some(trial) = &mut self.trial else { return };
        if let Some(receiving) = &mut trial.receive {
            receiving.end.drain(clock::monotonic());
            receiving.end.stop();
            if let Some(thread) = receiving.thread.take() {
                let _ = thread.join();
            }
        }
        if let Some(thread) = trial.send.as_mut().and_then(|s| s.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Watches the link of a port that is a device, if the kernel counts its losses.
fn link_of(iface: &Interface) -> Option<LinkWatch> {
    (iface.index != 0).then(|| LinkWatch::begin(&iface.name, iface.index).ok()).flatten()
}

/// Makes the fault of an operation that does not fit the state of the port.
pub fn wrong_state(what: String, remedy: &str) -> Fault {
    fault(ErrorKind::WrongState, what, Some(remedy))
}

//! Opening ports: facts, guard, back end.

use crate::guard::Reach;
use crate::kernel_speed;
use crate::report::{fault, guard_fault, port_fault};
use crate::times;
use dutlab_port::af_packet::{Bursts, Ring, Rings};
use dutlab_port::iface::{Interface, LeadsOut};
use dutlab_port::memory::{Sink, pipe};
use dutlab_port::network::{BadNetwork, Network};
use dutlab_port::{PortError, Receiver, Sender, clock, cpu, pcap};
use dutlab_protocol::reply::{BackendAbility, Opened, Probed};
use dutlab_protocol::request::{Backend, Open};
use dutlab_protocol::{ErrorKind, Fault};
use dutlab_units::FCS;
use dutlab_wire::Mac;
use dutlab_xdp::af_xdp;

/// Headers and FCS, which the MTU does not include.
const AROUND_MTU: u32 = 14 + 4;

/// An open port.
pub struct OpenPort {
    /// Name that the controller uses.
    pub name: String,
    /// Facts of its interface.
    pub iface: Interface,
    /// Its sending half; absent while a trial uses it, or when the back end cannot send.
    pub sender: Option<Sender>,
    /// Its receiving half; absent while a trial uses it, or when the back end cannot receive.
    pub receiver: Option<Receiver>,
    /// True if another back end may send a plan that this one cannot.
    pub auto: bool,
    /// Allowed destinations.
    pub reach: Reach,
    /// CPUs of the sending threads.
    pub send_cpus: Vec<u32>,
    /// CPUs of the receiving threads.
    pub receive_cpus: Vec<u32>,
}

/// Opens a port, if it is not part of a network in use.
pub fn open(ask: &Open) -> Result<(OpenPort, Opened), Fault> {
    check_cpus(ask)?;
    if ask.backend == Backend::Memory {
        return Ok(memory(ask));
    }
    if ask.backend == Backend::Pcap {
        return pcap(ask).map_err(|e| port_fault(&e));
    }
    let iface = Interface::read(&ask.iface).map_err(|e| port_fault(&e))?;
    let mut reach = Reach::Isolated;
    if !ask.guard.isolated {
        let allow: Vec<Network> = ask
            .guard
            .allow
            .iter()
            .map(|n| n.parse().map_err(|e: BadNetwork| fault(ErrorKind::BadRequest, format!("guard.allow: {e}"), None)))
            .collect::<Result<_, _>>()?;
        iface.not_in_use(&allow).map_err(|e| guard_fault(&e))?;
        reach = Reach::Networks(allow);
    }
    if !iface.up {
        return Err(port_fault(&PortError::Down { iface: iface.name }));
    }
    let threads = Threads { send: ask.cpu.list(), receive: receive_cpus(ask).len().max(1) };
    let taken = take(ask.backend, &iface, threads).map_err(|e| port_fault(&e))?;
    let mut opened = opened(&ask.port, &iface, taken.backend);
    opened.notes = taken.notes;
    opened.notes.push(taken.times);
    Ok((OpenPort { reach, ..port(ask, iface, taken.sender, taken.receiver) }, opened))
}

/// Threads that may serve each half of a port: one per requested CPU, or a single one.
#[derive(Debug, Clone, Copy)]
struct Threads<'a> {
    /// CPUs of these threads.
    send: &'a [u32],
    receive: usize,
}

impl Threads<'_> {
    fn that_send(&self) -> usize {
        self.send.len().max(1)
    }
}

/// Result of opening a back end.
struct Taken {
    backend: Backend,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    notes: Vec<String>,
    /// Description of the sources of its times, for readers of its latencies.
    times: String,
}

/// Opens an interface with the requested back end; `auto`: with the first that can both send and receive.
fn take(backend: Backend, iface: &Interface, threads: Threads<'_>) -> Result<Taken, PortError> {
    match backend {
        Backend::AfPacket => af_packet(iface, threads),
        Backend::AfXdp => af_xdp(iface, threads),
        Backend::Auto => {
            let mut notes = Vec::new();
            for (name, open) in AUTO {
                match open(iface, threads) {
                    Ok(mut taken) if taken.sender.is_some() && taken.receiver.is_some() => {
                        taken.notes.extend(notes);
                        return Ok(taken);
                    }
                    Ok(taken) => notes.push(format!("not {name}: {}", taken.notes.join("; "))),
                    Err(e) => notes.push(format!("not {name}: {e}{}", remedy(&e))),
                }
            }
            af_packet(iface, threads).map(|mut taken| {
                taken.notes.extend(notes);
                taken
            })
        }
        Backend::Xdp => xdp(iface, threads),
        Backend::Memory | Backend::Pcap => Err(PortError::Unsupported {
            iface: iface.name.clone(),
            what: format!("the back end {backend:?} uses no interface"),
            remedy: "use auto, or name no interface".into(),
        }),
    }
}

/// Function that opens a back end.
type OpenBackend = fn(&Interface, Threads<'_>) -> Result<Taken, PortError>;

/// Back ends that `auto` tries before `af_packet`, fastest first.
const AUTO: [(&str, OpenBackend); 2] = [("xdp", xdp), ("af_xdp", af_xdp)];

fn remedy(e: &PortError) -> String {
    e.remedy().map_or_else(String::new, |r| format!(" ({r})"))
}

/// Live frames and counting in the kernel.
fn xdp(iface: &Interface, threads: Threads<'_>) -> Result<Taken, PortError> {
    let halves = kernel_speed::open(iface, threads.send)?;
    Ok(Taken {
        backend: Backend::Xdp,
        sender: halves.sender,
        receiver: Some(halves.receiver),
        notes: halves.notes,
        times: "times are software's: as a program in the kernel writes a frame, and as one sees it arrive".into(),
    })
}

fn af_xdp(iface: &Interface, threads: Threads<'_>) -> Result<Taken, PortError> {
    kernel_speed::has_our_clock(iface)?;
    let opened = af_xdp::open(iface, threads.that_send())?;
    let mut notes = opened.notes;
    let receiver = match opened.receivers {
        Ok(queues) => Some(Receiver::Burst(queues.into_iter().map(|q| Box::new(q) as _).collect())),
        Err(e) => {
            notes.push(format!("this port can only send: {e}{}", remedy(&e)));
            None
        }
    };
    let sender = Some(Sender::Burst(opened.senders.into_iter().map(|tx| Box::new(tx) as _).collect()));
    let times = opened.times.unwrap_or_else(|| {
        "times are software's: before the engine hands a frame over, and as a program in the kernel sees it arrive"
            .into()
    });
    Ok(Taken { backend: Backend::AfXdp, sender, receiver, notes, times })
}

fn af_packet(iface: &Interface, threads: Threads<'_>) -> Result<Taken, PortError> {
    let senders =
        (0..threads.that_send()).map(|_| Ok(Box::new(Bursts::open(iface)?) as _)).collect::<Result<_, PortError>>()?;
    let Rings { rings, card } = Ring::open(iface, threads.receive)?;
    let sender = Some(Sender::Burst(senders));
    let receiver = Some(Receiver::Burst(rings.into_iter().map(|ring| Box::new(ring) as _).collect()));
    let (notes, times) = match card {
        Ok(times) => (Vec::new(), times),
        Err(why) => (vec![format!("times of the card are not used: {why}")], None),
    };
    let times = times.unwrap_or_else(|| {
        "times are software's: before the engine hands a frame over, and as the kernel's stack takes it in".into()
    });
    Ok(Taken { backend: Backend::AfPacket, sender, receiver, notes, times })
}

fn port(ask: &Open, iface: Interface, sender: Option<Sender>, receiver: Option<Receiver>) -> OpenPort {
    OpenPort {
        name: ask.port.clone(),
        iface,
        sender,
        receiver,
        auto: ask.backend == Backend::Auto,
        reach: Reach::Isolated,
        send_cpus: ask.cpu.list().to_vec(),
        receive_cpus: receive_cpus(ask).to_vec(),
    }
}

fn receive_cpus(ask: &Open) -> &[u32] {
    if ask.receive_cpu.is_empty() { ask.cpu.list() } else { ask.receive_cpu.list() }
}

fn opened(name: &str, iface: &Interface, backend: Backend) -> Opened {
    Opened {
        port: name.to_owned(),
        iface: iface.name.clone(),
        backend,
        mac: Mac(iface.mac).to_string(),
        mtu_bytes: iface.mtu,
        addresses: iface.addresses.iter().map(ToString::to_string).collect(),
        notes: Vec::new(),
    }
}

/// Returns a port without a device, which takes every frame and never receives one.
fn memory(ask: &Open) -> (OpenPort, Opened) {
    let iface = no_interface("memory");
    let opened = opened(&ask.port, &iface, Backend::Memory);
    let (_, nothing) = pipe(0, clock::monotonic);
    let sender = Some(Sender::Burst(vec![Box::new(Sink::default())]));
    (port(ask, iface, sender, Some(Receiver::Burst(vec![Box::new(nothing)]))), opened)
}

/// A port that writes every frame into a new file, which `iface` names.
fn pcap(ask: &Open) -> Result<(OpenPort, Opened), PortError> {
    let file = pcap::File::create(&ask.iface)?;
    let iface = no_interface(&ask.iface);
    let mut opened = opened(&ask.port, &iface, Backend::Pcap);
    opened.notes.push("this port can only send; to send a capture, give `replay` in the plan of another port".into());
    Ok((port(ask, iface, Some(Sender::Burst(vec![Box::new(file)])), None), opened))
}

/// Returns facts for a port that is not an interface: it takes every frame.
fn no_interface(name: &str) -> Interface {
    Interface {
        name: name.to_owned(),
        index: 0,
        mac: [2, 0, 0, 0, 0, 0],
        mtu: 9216,
        up: true,
        carrier: true,
        addresses: Vec::new(),
        leads_out: LeadsOut::No,
        shared_with: Vec::new(),
    }
}

fn check_cpus(ask: &Open) -> Result<(), Fault> {
    let allowed = cpu::allowed();
    match ask.cpu.list().iter().chain(ask.receive_cpu.list()).find(|c| !allowed.contains(c)) {
        None => Ok(()),
        Some(c) => {
            let what = format!("CPU {c} is not among those that the engine may run on: {allowed:?}");
            Err(fault(ErrorKind::BadRequest, what, Some("name one of those, or leave `cpu` out")))
        }
    }
}

/// Returns the abilities of each back end on an interface, best first. Each back end is opened for the test, and closed
/// again.
pub fn probe(name: &str) -> Result<Probed, Fault> {
    let iface = Interface::read(name).map_err(|e| port_fault(&e))?;
    let page = af_xdp::longest() + u32::from(FCS);
    let backends = vec![
        kernel_speed::ability(&iface),
        ability(&iface, Backend::AfXdp, af_xdp, page),
        ability(&iface, Backend::AfPacket, af_packet, u32::MAX),
        without_device(Backend::Memory, true, "uses no device: shows what the CPU alone can do", None),
        without_device(
            Backend::Pcap,
            false,
            "writes what is sent into a new file, which `iface` names, and receives nothing",
            Some("to send a capture, give `replay` in the plan of a port with another back end"),
        ),
    ];
    let (times, card_clock) = times::offered(&iface);
    Ok(Probed { iface: iface.name, backends, times, card_clock })
}

fn ability(iface: &Interface, backend: Backend, open: OpenBackend, longest: u32) -> BackendAbility {
    let cannot = |e: &PortError| BackendAbility {
        backend,
        can_send: false,
        can_receive: false,
        max_frame_bytes: None,
        reason: Some(e.to_string()),
        remedy: e.remedy(),
    };
    if !iface.up {
        return cannot(&PortError::Down { iface: iface.name.clone() });
    }
    match open(iface, Threads { send: &[], receive: 1 }) {
        Ok(taken) => BackendAbility {
            backend,
            can_send: taken.sender.is_some(),
            can_receive: taken.receiver.is_some(),
            max_frame_bytes: Some((iface.mtu + AROUND_MTU).min(longest)),
            reason: (!taken.notes.is_empty()).then(|| taken.notes.join("; ")),
            remedy: (!iface.carrier).then(|| "it has no carrier: plug the cable in, or bring the other end up".into()),
        },
        Err(e) => cannot(&e),
    }
}

fn without_device(backend: Backend, can_receive: bool, reason: &str, remedy: Option<&str>) -> BackendAbility {
    BackendAbility {
        backend,
        can_send: true,
        can_receive,
        max_frame_bytes: None,
        reason: Some(reason.into()),
        remedy: remedy.map(Into::into),
    }
}

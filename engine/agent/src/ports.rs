//! Opening ports: facts, guard, back end.

use crate::kernel_speed;
use crate::report::{fault, guard_fault, port_fault};
use dutlab_port::af_packet::{Bursts, Ring};
use dutlab_port::iface::{Interface, Network};
use dutlab_port::memory::{Sink, pipe};
use dutlab_port::{Receiver, Sender, clock, cpu};
use dutlab_protocol::reply::{BackendAbility, Opened, Probed};
use dutlab_protocol::request::{Backend, Open};
use dutlab_protocol::{ErrorKind, Fault};
use dutlab_wire::Mac;

/// Headers and FCS that the MTU does not count.
const AROUND_MTU: u32 = 14 + 4;

/// A port that was opened.
pub struct OpenPort {
    /// What the controller calls it.
    pub name: String,
    /// Facts of its interface.
    pub iface: Interface,
    /// Its sending half; absent while a trial uses it, or when the back end cannot send.
    pub sender: Option<Sender>,
    /// Its receiving half, likewise.
    pub receiver: Option<Receiver>,
    /// Whether another back end may send a plan that this one cannot.
    pub auto: bool,
    /// CPU of the sending thread.
    pub send_cpu: Option<u32>,
    /// CPU of the receiving thread.
    pub receive_cpu: Option<u32>,
}

/// Opens a port, if it is not part of a network in use.
pub fn open(ask: &Open) -> Result<(OpenPort, Opened), Fault> {
    check_cpus(ask)?;
    if ask.backend == Backend::Memory {
        return Ok(memory(ask));
    }
    let iface = Interface::read(&ask.iface).map_err(|e| port_fault(&e))?;
    if !ask.guard.isolated {
        let allow: Vec<Network> = ask
            .guard
            .allow
            .iter()
            .map(|n| {
                n.parse().map_err(|e: dutlab_port::iface::BadNetwork| {
                    fault(ErrorKind::BadRequest, format!("guard.allow: {e}"), None)
                })
            })
            .collect::<Result<_, _>>()?;
        iface.not_in_use(&allow).map_err(|e| guard_fault(&e))?;
    }
    if !iface.up {
        return Err(port_fault(&dutlab_port::PortError::Down { iface: iface.name }));
    }
    let mut notes = Vec::new();
    match ask.backend {
        Backend::Auto | Backend::Xdp => match kernel_speed::open(&iface) {
            Ok(halves) => {
                let mut opened = opened(&ask.port, &iface, Backend::Xdp);
                opened.notes = halves.notes;
                return Ok((port(ask, iface, halves.sender, halves.receiver), opened));
            }
            Err(e) if ask.backend == Backend::Xdp => return Err(port_fault(&e)),
            Err(e) => notes.push(format!("not xdp: {e}; {}", e.remedy().unwrap_or_default())),
        },
        Backend::AfPacket => {}
        other => {
            let what = format!("the back end {other:?} is not built into this engine");
            return Err(fault(ErrorKind::Unsupported, what, Some("use auto or af_packet")));
        }
    }
    let sender = Bursts::open(&iface).map_err(|e| port_fault(&e))?;
    let receiver = Ring::open(&iface).map_err(|e| port_fault(&e))?;
    let mut opened = opened(&ask.port, &iface, Backend::AfPacket);
    opened.notes = notes;
    Ok((port(ask, iface, Sender::Burst(Box::new(sender)), Receiver::Burst(Box::new(receiver))), opened))
}

fn port(ask: &Open, iface: Interface, sender: Sender, receiver: Receiver) -> OpenPort {
    OpenPort {
        name: ask.port.clone(),
        iface,
        sender: Some(sender),
        receiver: Some(receiver),
        auto: ask.backend == Backend::Auto,
        send_cpu: ask.cpu,
        receive_cpu: ask.receive_cpu.or(ask.cpu),
    }
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

/// A port without a device, which takes every frame and never has one.
fn memory(ask: &Open) -> (OpenPort, Opened) {
    let iface = Interface {
        name: "memory".into(),
        index: 0,
        mac: [2, 0, 0, 0, 0, 0],
        mtu: 9216,
        up: true,
        addresses: Vec::new(),
        default_route: false,
    };
    let opened = opened(&ask.port, &iface, Backend::Memory);
    let (_, nothing) = pipe(0, clock::monotonic);
    let port = port(ask, iface, Sender::Burst(Box::new(Sink::default())), Receiver::Burst(Box::new(nothing)));
    (port, opened)
}

fn check_cpus(ask: &Open) -> Result<(), Fault> {
    let allowed = cpu::allowed();
    match [ask.cpu, ask.receive_cpu].into_iter().flatten().find(|c| !allowed.contains(c)) {
        None => Ok(()),
        Some(c) => {
            let what = format!("CPU {c} is not among those that the engine may run on: {allowed:?}");
            Err(fault(ErrorKind::BadRequest, what, Some("name one of those, or leave `cpu` out")))
        }
    }
}

/// What each back end can do on an interface.
pub fn probe(name: &str) -> Result<Probed, Fault> {
    let iface = Interface::read(name).map_err(|e| port_fault(&e))?;
    let why_not = if iface.up { None } else { Some(dutlab_port::PortError::Down { iface: iface.name.clone() }) };
    let send = why_not.map_or_else(|| Bursts::open(&iface).err(), Some);
    let able = send.is_none();
    Ok(Probed {
        iface: iface.name.clone(),
        backends: vec![
            kernel_speed::ability(&iface),
            BackendAbility {
                backend: Backend::AfPacket,
                can_send: able,
                can_receive: able,
                max_frame_bytes: Some(iface.mtu + AROUND_MTU),
                reason: send.as_ref().map(ToString::to_string),
                remedy: send.as_ref().and_then(dutlab_port::PortError::remedy),
            },
            BackendAbility {
                backend: Backend::Memory,
                can_send: true,
                can_receive: true,
                max_frame_bytes: None,
                reason: Some("uses no device: shows what the CPU alone can do".into()),
                remedy: None,
            },
        ],
    })
}

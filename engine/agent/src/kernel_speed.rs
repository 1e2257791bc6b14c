//! `xdp` back end: check that it works on an interface, and its halves.

use dutlab_port::iface::{Interface, tags_note};
use dutlab_port::promiscuous::Promiscuous;
use dutlab_port::{PortError, Receiver, Sender, clock};
use dutlab_protocol::reply::BackendAbility;
use dutlab_protocol::request::Backend;
use dutlab_units::FCS;
use dutlab_xdp::{self as xdp, AttachMode, Why, XdpCounter, XdpTransmitter};
use std::sync::Arc;

/// Result of `open`.
pub struct Halves {
    /// Sends whole plans; `None`: the driver takes no redirected frames, so the port can only receive.
    pub sender: Option<Sender>,
    /// Counts in the kernel.
    pub receiver: Receiver,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Describes the mode of reception for the record.
const fn mode(mode: AttachMode) -> &'static str {
    match mode {
        AttachMode::Native => "receives by native XDP, in the driver",
        AttachMode::Generic => {
            "the driver has no XDP: receiving goes through the kernel's generic XDP, several times slower"
        }
    }
}

/// Refuses a process with a different clock: programs in the kernel read the kernel's clock.
pub fn has_our_clock(iface: &Interface) -> Result<(), PortError> {
    match clock::shift() {
        0 => Ok(()),
        ns => Err(PortError::Unsupported {
            iface: iface.name.clone(),
            what: format!("a program in the kernel reads a clock from which this time namespace is {ns} ns away"),
            remedy: "use af_packet, or run the engine outside the time namespace".into(),
        }),
    }
}

/// Opens both halves, or only the receiving one if the driver can never send. A fault that the user can fix (a veth's
/// peer without NAPI, a permission) is an error. A card takes frames for every MAC from now on, and keeps a program
/// attached if its driver has XDP; on other interfaces no program is attached before a trial begins. The port sends on
/// all named CPUs.
pub fn open(iface: &Interface, send_cpus: &[u32]) -> Result<Halves, PortError> {
    has_our_clock(iface)?;
    let can = xdp::probe(&iface.name)?;
    let mut notes = Vec::new();
    let sends = match can.send {
        Ok(()) => true,
        Err(e) if matches!(e.why, Why::NoRedirect { .. }) => {
            notes.push(format!("this port can only receive: {e}"));
            false
        }
        Err(e) => return Err(e.into()),
    };
    let attached = can.receive?;
    notes.push(mode(attached).into());
    notes.extend(xdp::down_note(can.down));
    notes.extend(tags_note(&iface.name, attached == AttachMode::Generic));
    if !can.refusals_known {
        notes.push("this kernel tells no BTF: frames that the driver refuses count as lost on the way".into());
    }
    let every_mac = Promiscuous::of_card(&iface.name, iface.index)?;
    let kept = can.kept.map(Arc::new);
    Ok(Halves {
        sender: sends.then(|| Sender::Plan(Box::new(XdpTransmitter::new(&iface.name, kept.clone(), send_cpus)))),
        receiver: Receiver::Counting(Box::new(XdpCounter::new(&iface.name, kept, every_mac))),
        notes,
    })
}

/// Returns the abilities of the back end on an interface.
pub fn ability(iface: &Interface) -> BackendAbility {
    let mut ability = BackendAbility {
        backend: Backend::Xdp,
        can_send: false,
        can_receive: false,
        max_frame_bytes: None,
        reason: None,
        remedy: None,
    };
    let mut refuse = |e: PortError| {
        ability.reason.get_or_insert_with(|| e.to_string());
        ability.remedy = ability.remedy.take().or_else(|| e.remedy());
    };
    match has_our_clock(iface).and_then(|()| xdp::probe(&iface.name).map_err(PortError::from)) {
        Err(e) => refuse(e),
        Ok(can) => {
            let (send, receive) = (can.send.map_err(PortError::from), can.receive.map_err(PortError::from));
            let able = (send.is_ok(), receive.is_ok());
            let generic = matches!(receive, Ok(AttachMode::Generic));
            [send.err(), receive.err()].into_iter().flatten().for_each(&mut refuse);
            (ability.can_send, ability.can_receive) = able;
            ability.max_frame_bytes = u32::try_from(can.longest_frame).ok().map(|n| n + u32::from(FCS));
            if generic {
                let generic = mode(AttachMode::Generic);
                ability.reason = Some(ability.reason.map_or(generic.into(), |why| format!("{why}; {generic}")));
            }
        }
    }
    ability
}

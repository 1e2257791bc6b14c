//! `AF_XDP`: frames go between our memory and the driver, past the kernel's stack (`Documentation/networking/af_xdp.rst`
//! of the kernel). Without a copy where the driver can, with one elsewhere.
//!
//! One socket with a memory of its own for each receive queue, so that each can be served by another thread; the
//! first of them send as well. An XDP program takes only frames with our probe out of
//! the host's traffic and stamps them; it hangs on the interface by a link, which the kernel undoes when this process
//! ends, however it ends. A frame must fit a page: no jumbo frames. Needs `CAP_NET_RAW`, `CAP_NET_ADMIN`, `CAP_BPF`.
//!
//! The rings are our own (`rings`): the frames of a burst are written in place, and a buffer that comes back still holds
//! its template, which a crate that hands out packets one by one would hide.

mod memory;
mod program;
mod receive;
mod rings;
mod send;
mod socket;

pub use receive::Rx;
pub use send::Tx;

use dutlab_port::PortError;
use dutlab_port::ethtool;
use dutlab_port::iface::Interface;
use memory::Umem;
use program::Program;
use socket::Socket;
use std::sync::Arc;

/// Frames that wait to be sent at most; a power of two.
const SEND_FRAMES: u32 = 1024;
/// Frames that wait to be received at most, on each queue; a power of two. At a million a second, 4 ms.
const RECEIVE_FRAMES: u32 = 4096;
/// What the kernel keeps free in front of each received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;
/// A buffer is a page at most.
const PAGE: u32 = 4096;
/// Ethernet header and two tags, which the MTU does not count.
const HEADERS: u32 = 14 + 8;
/// More queues than this are not used.
const QUEUES: u32 = 64;

/// A port that was opened.
pub struct Opened {
    /// Its send queues, at least one.
    pub senders: Vec<Tx>,
    /// Its receive queues, or why it has none: the XDP program could not be attached.
    pub receivers: Result<Vec<Rx>, PortError>,
    /// Whether the driver works without a copy.
    pub zero_copy: bool,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// The longest frame in bytes without FCS.
#[must_use]
pub const fn longest() -> u32 {
    PAGE - HEADROOM
}

/// Opens sockets on all receive queues of `iface`, and attaches the program that feeds them. The first sockets send as
/// well: `senders` of them, at least one, if there are as many queues.
pub fn open(iface: &Interface, senders: usize) -> Result<Opened, PortError> {
    let frame = iface.mtu + HEADERS;
    if frame > longest() {
        return Err(PortError::Unsupported {
            iface: iface.name.clone(),
            what: format!("AF_XDP takes no frames longer than a page, and the MTU of {} allows them", iface.mtu),
            remedy: format!(
                "lower it to {} (ip link set dev {} mtu {0}), or use the af_packet back end",
                longest() - HEADERS,
                iface.name
            ),
        });
    }
    let chunk = if frame + HEADROOM <= PAGE / 2 { PAGE / 2 } else { PAGE };
    // A driver that does not say has one.
    let queues = ethtool::queues(&iface.name);
    let count = |of: fn(ethtool::Queues) -> u32| queues.map_or(1, of).clamp(1, QUEUES);
    let (receive, send) = (count(|q| q.receive), count(|q| q.send));
    let mut notes = Vec::new();
    let mut sockets = Vec::new();
    for queue in 0..receive {
        let sends = if queue == 0 || (queue as usize) < senders && queue < send { SEND_FRAMES } else { 0 };
        let umem = Umem::map(&iface.name, chunk, RECEIVE_FRAMES + sends)?;
        sockets.push(Socket::open(iface, queue, Arc::new(umem), sends)?);
    }
    let copies = (0..).zip(&sockets).find_map(|(queue, s): (u32, _)| Some((queue, s.copies_because.as_ref()?)));
    let zero_copy = copies.is_none();
    notes.push(match copies {
        None => "AF_XDP without a copy: the driver reads and writes our memory".into(),
        Some((queue, why)) => {
            format!("AF_XDP with a copy of each frame: zero-copy on queue {queue} was refused (bind: {why})")
        }
    });
    let mut senders = Vec::new();
    let mut queues = Vec::new();
    for socket in sockets {
        let (tx, rx) = socket.halves();
        senders.extend(tx.map(|half| Tx::new(iface, half)));
        queues.push(rx);
    }
    let receivers = Program::attach(iface, queues.iter().map(receive::Queue::descriptor));
    let receivers = receivers.map_err(PortError::from).map(|program| {
        notes.extend(program.notes());
        let program = Arc::new(program);
        let numbered = (0..).zip(queues);
        numbered.map(|(number, queue)| Rx::new(&iface.name, number, queue, Arc::clone(&program))).collect()
    });
    Ok(Opened { senders, receivers, zero_copy, notes })
}

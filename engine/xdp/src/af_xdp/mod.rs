//! `AF_XDP`: frames are exchanged between our memory and the driver, past the kernel's stack
//! (`Documentation/networking/af_xdp.rst` of the kernel). Without a copy where the driver can, with one elsewhere.
//!
//! Each receive queue has one socket with its own memory, so that each can be served by another thread; the first of
//! them send as well. An XDP program takes only frames with our probe out of the host's traffic and stamps them. It is
//! attached to the interface by a link, which the kernel removes when this process ends, however it ends. A frame that
//! is longer than a page takes several buffers (`XDP_USE_SG`, Linux 6.6). Needs `CAP_NET_RAW`, `CAP_NET_ADMIN`,
//! `CAP_BPF`.
//!
//! The rings are implemented here (`rings`): the frames of a burst are written in place, and a buffer that comes back
//! still holds its template, which a crate that hands out packets one by one would hide.

mod memory;
mod program;
mod receive;
mod rings;
mod send;
mod socket;
mod timed;

pub use receive::Rx;
pub use send::Tx;

use crate::{down_note, probe, system};
use dutlab_port::PortError;
use dutlab_port::card_times::CardTimes;
use dutlab_port::ethtool;
use dutlab_port::feeds;
use dutlab_port::iface::Interface;
use dutlab_port::link;
use dutlab_port::speed::{self, Speed};
use memory::Umem;
use program::{Kind, Program};
use socket::Socket;
use std::io;
use std::sync::Arc;

/// Maximum number of frames that wait to be sent; a power of two.
const SEND_FRAMES: u32 = 1024;
/// Minimum and maximum number of frames that wait to be received, on each queue: powers of two. The minimum is 4 ms at
/// a million a second.
const RECEIVE_FRAMES: (u32, u32) = (4096, 1 << 16);
/// Time, in seconds, for which a receiver may be away from a queue that gets all frames of its link, at the rate of the
/// shortest ones.
const RECEIVE_S: f64 = 0.002;
/// Bits of a shortest frame on the wire (RFC 2544: 64 bytes, 20 around them).
const SHORTEST_BITS: f64 = 84.0 * 8.0;
/// Limit of the memory for the frames of a port, if they are more than the minimum.
const MEMORY: u64 = 256 << 20;
/// Bytes that the kernel keeps free in front of each received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;
/// Largest size of a buffer: a page.
const PAGE: u32 = 4096;
/// Maximum number of buffers for one frame.
const PAGES: u32 = 3;
/// Ethernet header and two tags, which the MTU does not include.
const HEADERS: u32 = 14 + 8;
/// Number of queues that the program supports (`engine/xdp/bpf/afxdp.bpf.c`).
const QUEUES: u32 = 64;

/// An open port.
pub struct Opened {
    /// Its send queues, at least one.
    pub senders: Vec<Tx>,
    /// Its receive queues, or the reason why it has none: the XDP program could not be attached.
    pub receivers: Result<Vec<Rx>, PortError>,
    /// True if the driver works without a copy.
    pub zero_copy: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Note on the card's times, where frames have them.
    pub times: Option<String>,
}

/// Returns the length of the longest frame in bytes without FCS.
#[must_use]
pub const fn longest() -> u32 {
    PAGES * PAGE - HEADROOM
}

/// Returns the length of the longest frame that one buffer holds.
const fn longest_of_a_page() -> u32 {
    PAGE - HEADROOM
}

/// Returns the number of frames that must be able to wait on each of `queues` of a link of `bps`, any of which may get
/// all frames.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float becomes the nearest integer that there is"
)]
fn waiting(bps: f64, queues: u32, chunk: u32) -> u32 {
    let (least, most) = RECEIVE_FRAMES;
    within(((bps / SHORTEST_BITS * RECEIVE_S) as u32).clamp(least, most).next_power_of_two(), queues, chunk)
}

/// Returns the required number of buffers on each of `queues`, or the next smaller power of two that fits into memory.
fn within(wanted: u32, queues: u32, chunk: u32) -> u32 {
    let least = RECEIVE_FRAMES.0;
    let bytes = |frames: u32| u64::from(frames) * u64::from(queues) * u64::from(chunk);
    std::iter::successors(Some(wanted), |n| Some(n / 2)).find(|n| *n == least || bytes(*n) <= MEMORY).unwrap_or(least)
}

/// Opens sockets on all receive queues of `iface`, and attaches the program that feeds them. The first `senders` of the
/// sockets (at least one) send as well, if there are as many queues.
pub fn open(iface: &Interface, senders: usize) -> Result<Opened, PortError> {
    let frame = iface.mtu + HEADERS;
    if frame > longest() {
        return Err(PortError::Unsupported {
            iface: iface.name.clone(),
            what: format!(
                "AF_XDP takes frames of {PAGES} pages at most, and the MTU of {} allows longer ones",
                iface.mtu
            ),
            remedy: format!(
                "lower it to {} (ip link set dev {} mtu {0}), or use the af_packet back end",
                longest() - HEADERS,
                iface.name
            ),
        });
    }
    let chunk = if frame + HEADROOM <= PAGE / 2 { PAGE / 2 } else { PAGE };
    let pages = if frame <= longest_of_a_page() { 1 } else { PAGES };
    // A driver that does not report its queues has one.
    let queues = ethtool::queues(&iface.name);
    let count = |of: fn(ethtool::Queues) -> u32| queues.map_or(1, of).max(1);
    let (receive, send) = (count(|q| q.receive), count(|q| q.send));
    if receive > QUEUES {
        return Err(PortError::Unsupported {
            iface: iface.name.clone(),
            what: format!(
                "it has {receive} receive queues, and AF_XDP is served on {QUEUES} at most: what came on the others would be lost"
            ),
            remedy: format!(
                "give it fewer (ethtool -L {} combined {QUEUES}, or rx), or use the xdp or af_packet back end",
                iface.name
            ),
        });
    }
    let frames = match speed::of(&iface.name) {
        Speed::Bps(bps) => waiting(bps, receive, chunk),
        Speed::Unknown(_) => RECEIVE_FRAMES.0,
    };
    // As many frames can wait if each takes several buffers.
    let frames = if pages > 1 { within((frames * pages).next_power_of_two(), receive, chunk) } else { frames };
    let mut notes = Vec::new();
    let mut sockets = Vec::new();
    let mut huge = true;
    for queue in 0..receive {
        let sends = if queue == 0 || (queue as usize) < senders && queue < send { SEND_FRAMES } else { 0 };
        let umem = Umem::map(&iface.name, chunk, frames, (sends, pages))?;
        huge &= umem.huge;
        sockets.push(Socket::open(iface, queue, Arc::new(umem))?);
    }
    let copies = (0..).zip(&sockets).find_map(|(queue, s): (u32, _)| Some((queue, s.copies_because.as_ref()?)));
    let zero_copy = copies.is_none();
    notes.push(match copies {
        None => "AF_XDP without a copy: the driver reads and writes our memory".into(),
        Some((queue, why)) => {
            format!("AF_XDP with a copy of each frame: zero-copy on queue {queue} was refused (bind: {why})")
        }
    });
    notes.extend(sockets.iter().find_map(|s| s.busy_polling.as_ref()).map(|polling| match polling {
        Ok(()) => "busy polling is on: the engine's own calls run the card's queues".to_owned(),
        Err(why) => format!("busy polling was refused (setsockopt: {why})"),
    }));
    if pages > 1 {
        notes.push("a frame longer than a page takes several buffers".into());
    }
    if huge {
        notes.push("the frames lie in huge pages".into());
    }
    let mut senders = Vec::new();
    let mut queues = Vec::new();
    for socket in sockets {
        let (tx, rx) = socket.halves();
        senders.extend(tx.map(|half| Tx::new(iface, half)));
        queues.push(rx);
    }
    let mut times = None;
    // True if the driver gives the card's times to programs. They are useful only if the clock can be read.
    let asked = link::xdp_times(iface.index).is_ok_and(|times| times.arrival);
    match if asked { card_times(&iface.name, &mut queues) } else { Ok(None) } {
        Ok(note) => times = note,
        Err(why) => notes.push(format!("times of the card are not used: {why}")),
    }
    let kind = Kind { long: pages > 1, timed: times.is_some() };
    let receivers = Program::attach(iface, kind, queues.iter().map(receive::Queue::descriptor));
    let facts = system::Interface::find(&iface.name)?;
    if facts.is_card() {
        // A driver may reset the link for a program, and for memory of user space.
        notes.extend(down_note(probe::wait_for(&facts, iface.carrier)?));
    }
    let receivers = receivers.map(|program| {
        notes.extend(program.notes());
        let program = Arc::new(program);
        let (numbered, feeds) = ((0..).zip(queues), feeds::of(iface.index));
        numbered.map(|(number, queue)| Rx::new(&iface.name, (number, feeds), queue, Arc::clone(&program))).collect()
    });
    Ok(Opened { senders, receivers, zero_copy, notes, times })
}

/// Gives each queue the card's clock; returns a note on it, or `None` if the card has none.
fn card_times(iface: &str, queues: &mut [receive::Queue]) -> io::Result<Option<String>> {
    let Some(first) = CardTimes::of(iface)? else { return Ok(None) };
    let note = first.note();
    let more = (1..queues.len()).map(|_| CardTimes::again(iface)).collect::<io::Result<Vec<_>>>()?;
    queues.iter_mut().zip(std::iter::once(first).chain(more)).for_each(|(queue, card)| queue.card = Some(card));
    Ok(Some(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_link_has_longer_queues_within_the_memory_of_a_port() {
        // 2 ms of the shortest frames: 2976 at 1 Gb/s, 29 762 at 10, 297 619 at 100.
        for (gbps, queues, frames) in [
            (0.0, 1, 4096),
            (1.0, 1, 4096),
            (2.5, 1, 8192),
            (10.0, 1, 32_768),
            (10.0, 4, 32_768),
            (10.0, 8, 16_384),
            (100.0, 1, 65_536),
            (100.0, 64, 4096),
        ] {
            assert_eq!(waiting(gbps * 1e9, queues, 2048), frames, "{gbps} Gb/s on {queues}");
        }
        // Four buffers for each of 4096 frames take 64 MiB.
        for (queues, buffers) in [(1, 16_384), (4, 16_384), (5, 8192), (64, 4096)] {
            assert_eq!(within(4 * 4096, queues, 4096), buffers, "{queues}");
        }
    }
}

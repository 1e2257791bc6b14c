//! Receiving from a `TPACKET_V3` ring (`Documentation/networking/packet_mmap.rst` of the kernel).

use super::fanout::Fanout;
use super::filter::{self, Side};
use super::strangers::Strangers;
use crate::card_clock::Ahead;
use crate::card_times::{self, CardTimes};
use crate::clock;
use crate::error::PortError;
use crate::feeds;
use crate::iface::Interface;
use crate::mapping::Mapping;
use crate::port::{Arrived, BurstReceiver, By, Order, Stamped};
use crate::promiscuous;
use crate::sys::{self, ETH_P_ALL};
use dutlab_units::Nanos;
use rustix::event::PollFlags;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A block is handed over when it is full, or after [`RETIRE_MS`].
const BLOCK: u32 = 1 << 18;
/// 32 MiB: at a million short frames a second, a quarter of a second.
const BLOCKS: u32 = 128;
/// The shortest time after which the kernel hands over a block that is not full.
const RETIRE_MS: u32 = 1;
/// Frame size. The kernel checks it but does not use it: in version 3 frames are packed.
const FRAME: u32 = 1 << 11;

/// `PACKET_TIMESTAMP` of `linux/if_packet.h`, and `TP_STATUS_TS_RAW_HARDWARE`.
const PACKET_TIMESTAMP: i32 = 17;
const STAMPED_BY_CARD: u32 = 1 << 31;

/// The receiving half of an `AF_PACKET` port.
pub struct Ring {
    fd: OwnedFd,
    iface: String,
    memory: Mapping,
    /// The block that the kernel hands over next.
    block: u32,
    /// Frames dropped since `begin`, as of the last query.
    dropped: u64,
    /// Frames that the kernel put into the ring since it exists, as of the last query, and frames taken out of it.
    put: u64,
    taken: u64,
    /// Counter of the frames that the filter keeps away; only the first ring of a port has it.
    strangers: Option<Strangers>,
    /// The card's clock, where the card stamps.
    card: Option<CardTimes>,
    /// Sources of the frames' times since the trial began.
    stamped: Stamped,
    /// Order of its frames relative to the link.
    order: Order,
}

/// The receiving half of a port.
pub struct Rings {
    /// Its rings.
    pub rings: Vec<Ring>,
    /// Note on the card's times, where frames have them; `None` if the card has none. An error says why they are not
    /// used.
    pub card: io::Result<Option<String>>,
}

/// Current offsets from the clocks of stamps to ours.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    /// `CLOCK_REALTIME` less ours.
    realtime: Nanos,
    /// Offset of the card's clock, where it is known.
    card: Option<Ahead>,
    now: Nanos,
}

impl Clocks {
    /// Arrival time of a frame, and its source. The stamp is of the card's clock if its status says so, else of
    /// `CLOCK_REALTIME`. A frame whose card time cannot be valid gets the current time.
    fn arrival(self, status: u32, stamp: Nanos) -> (Nanos, By) {
        if status & STAMPED_BY_CARD == 0 {
            return (stamp - self.realtime, By::Kernel);
        }
        card_times::ours(stamp, self.card, self.now).map_or((self.now, By::Engine), |at| (at, By::Card))
    }
}

impl Ring {
    /// Opens `count` rings, at least one, that share the frames of `iface`; all frames of a flow go to the same ring.
    /// Takes frames for other stations too. The card stamps frames where it can. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface, count: usize) -> Result<Rings, PortError> {
        let mut rings: Vec<_> = (0..count.max(1)).map(|_| Self::one(iface)).collect::<Result<_, _>>()?;
        if rings.len() > 1 {
            let mut group = Fanout::new();
            rings.iter().try_for_each(|ring| group.join(&ring.fd, &ring.iface))?;
        }
        rings[0].strangers = Some(Strangers::open(iface)?);
        let card = CardTimes::of(&iface.name).and_then(|first| {
            let Some(first) = first else { return Ok(None) };
            let note = first.note();
            Self::use_card(&mut rings, first).map(|()| Some(note))
        });
        Ok(Rings { rings, card })
    }

    /// Makes all rings use the card's times, or none.
    fn use_card(rings: &mut [Self], first: CardTimes) -> io::Result<()> {
        let mut all = vec![first];
        while let Some(more) = rings.get(all.len()) {
            all.push(CardTimes::again(&more.iface)?);
        }
        let wanted = libc::SOF_TIMESTAMPING_RAW_HARDWARE.cast_signed();
        for ring in &*rings {
            sys::set_option(&ring.fd, libc::SOL_PACKET, PACKET_TIMESTAMP, &wanted)?;
        }
        rings.iter_mut().zip(all).for_each(|(ring, card)| ring.card = Some(card));
        Ok(())
    }

    fn one(iface: &Interface) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let fd = sys::packet_socket(name)?;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(|e| PortError::from_call("setsockopt(PACKET_VERSION)", name, e))?;
        // Since Linux 4.20. Without it, frames that this port sends would be counted as received.
        let _ = sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        filter::attach(&fd, Side::Ours).map_err(|e| PortError::from_call("setsockopt(SO_ATTACH_FILTER)", name, e))?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK,
            tp_block_nr: BLOCKS,
            tp_frame_size: FRAME,
            tp_frame_nr: BLOCK / FRAME * BLOCKS,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(|e| PortError::from_call("setsockopt(PACKET_RX_RING)", name, e))?;
        let memory = Mapping::new(BLOCK as usize * BLOCKS as usize, Some((fd.as_fd(), 0)))
            .map_err(|e| PortError::from_call("mmap", name, e))?;
        let ring = Self {
            fd,
            iface: name.to_owned(),
            memory,
            block: 0,
            dropped: 0,
            put: 0,
            taken: 0,
            strangers: None,
            card: None,
            stamped: Stamped::default(),
            order: feeds::of(iface.index).order(),
        };
        promiscuous::join(&ring.fd, name, iface.index)?;
        sys::bind_packet(&ring.fd, iface.index, ETH_P_ALL, name)?;
        Ok(ring)
    }

    /// Returns the next block, if the kernel has handed it over.
    fn ready(&self) -> Option<Block<'_>> {
        // SAFETY: `block` is below BLOCKS, so this is inside of the mapping, which lives as long as `self`.
        let start = unsafe { self.memory.start().add(self.block as usize * BLOCK as usize) };
        let block = Block { start, ring: std::marker::PhantomData };
        (block.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0).then_some(block)
    }

    /// Waits until the kernel hands over a block, for at most `wait`.
    fn wait(&self, wait: Nanos) -> Result<(), PortError> {
        if sys::wait(&self.fd, wait, &self.iface)?.contains(PollFlags::ERR) {
            sys::pending_error(&self.fd, "poll", &self.iface)?;
        }
        Ok(())
    }

    /// Adds the kernel's counts since the last call, which resets its counters.
    fn count(&mut self) -> Result<(), PortError> {
        let mut s = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        sys::get_option(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut s)
            .map_err(|e| PortError::from_call("getsockopt(PACKET_STATISTICS)", &self.iface, e))?;
        // Dropped frames are included in `tp_packets`.
        self.put += u64::from(s.tp_packets.saturating_sub(s.tp_drops));
        self.dropped += u64::from(s.tp_drops);
        Ok(())
    }
}

/// A block that belongs to us until it is returned to the kernel.
struct Block<'a> {
    start: NonNull<u8>,
    ring: std::marker::PhantomData<&'a Ring>,
}

impl<'a> Block<'a> {
    fn header(&self) -> NonNull<libc::tpacket_block_desc> {
        self.start.cast()
    }

    fn status(&self) -> &'a AtomicU32 {
        // SAFETY: the word is inside of the mapping and aligned; kernel and we access it atomically only.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header().as_ptr()).hdr.bh1.block_status) }
    }

    fn give_back(self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Number of frames in the block.
    fn count(&self) -> usize {
        // SAFETY: the block is ours (its status was read with Acquire), and the kernel filled in its header.
        unsafe { (*self.header().as_ptr()).hdr.bh1.num_pkts as usize }
    }

    /// Calls `take` for each frame, and counts the source of its time.
    fn each(&self, clocks: Clocks, stamped: &mut Stamped, take: &mut dyn FnMut(Arrived<'_>)) -> usize {
        let count = self.count();
        // SAFETY: as for the count.
        let mut at = unsafe { (*self.header().as_ptr()).hdr.bh1.offset_to_first_pkt as usize };
        for _ in 0..count {
            assert!(at + size_of::<libc::tpacket3_hdr>() <= BLOCK as usize, "a frame outside of its block");
            // SAFETY: inside of the block, as just checked; the kernel aligns frames to TPACKET_ALIGNMENT (16).
            let header = unsafe { self.start.add(at).cast::<libc::tpacket3_hdr>().read() };
            let (mac, kept) = (at + usize::from(header.tp_mac), header.tp_snaplen as usize);
            assert!(mac + kept <= BLOCK as usize, "a frame longer than its block");
            // SAFETY: inside of the block, as just checked; nothing writes to it while it is ours.
            let bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(mac), kept) };
            let stamp = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
            let tag = if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 { 4 } else { 0 };
            let (arrived, by) = clocks.arrival(header.tp_status, Nanos(stamp));
            stamped.enter(by);
            take(Arrived { bytes, length: header.tp_len + tag, at: arrived });
            at += header.tp_next_offset as usize;
        }
        count
    }
}

impl BurstReceiver for Ring {
    fn begin(&mut self) -> Result<(), PortError> {
        // The kernel hands over partly filled blocks within RETIRE_MS; later frames are recognised by their send time.
        while let Some(block) = self.ready() {
            let count = block.count();
            block.give_back();
            self.taken += count as u64;
            self.block = (self.block + 1) % BLOCKS;
        }
        if let Some(strangers) = &mut self.strangers {
            strangers.begin()?;
        }
        self.count()?;
        self.dropped = 0;
        self.stamped = Stamped::default();
        if let Some(card) = &mut self.card {
            card.begin(clock::monotonic());
        }
        Ok(())
    }

    fn receive(&mut self, wait: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> Result<usize, PortError> {
        if self.ready().is_none() {
            self.wait(wait)?;
        }
        let (mut count, mut stamped) = (0, self.stamped);
        // At most one round, so that the caller can read its clock.
        for _ in 0..BLOCKS {
            let now = clock::monotonic();
            let card = self.card.as_mut().and_then(|card| card.ahead(now));
            let Some(block) = self.ready() else { break };
            count += block.each(Clocks { realtime: clock::realtime_offset(), card, now }, &mut stamped, take);
            if stamped.card > self.stamped.card {
                stamped.card_error = stamped.card_error.max(card.map_or(Nanos::ZERO, |ahead| ahead.error));
            }
            block.give_back();
            self.block = (self.block + 1) % BLOCKS;
        }
        self.taken += count as u64;
        self.stamped = stamped;
        Ok(count)
    }

    fn stamped(&self) -> Stamped {
        self.stamped
    }

    fn order(&self) -> Order {
        self.order
    }

    fn holds_frames(&mut self) -> Result<bool, PortError> {
        self.count()?;
        Ok(self.put > self.taken)
    }

    fn dropped(&mut self) -> Result<u64, PortError> {
        self.count()?;
        Ok(self.dropped)
    }

    fn passed(&mut self) -> Result<u64, PortError> {
        self.strangers.as_mut().map_or(Ok(0), Strangers::count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_time_of_whoever_the_kernel_says_stamped_it() {
        let ahead = Ahead { ns: 7_000, error: Nanos(100) };
        let clocks = Clocks { realtime: Nanos(1_000_000_000_000), card: Some(ahead), now: Nanos(50_000_000_000) };
        // TP_STATUS_USER alone, and with TP_STATUS_TS_SOFTWARE: the ring's own, or the stack's.
        for status in [1, 1 | 1 << 29] {
            let stamped = clocks.arrival(status, Nanos(1_049_000_000_000));
            assert_eq!(stamped, (Nanos(49_000_000_000), By::Kernel));
        }
        let by_card = 1 | STAMPED_BY_CARD;
        assert_eq!(clocks.arrival(by_card, Nanos(49_000_007_000)), (Nanos(49_000_000_000), By::Card));
        let unread = Clocks { card: None, ..clocks };
        assert_eq!(unread.arrival(by_card, Nanos(49_000_007_000)), (clocks.now, By::Engine));
    }
}

//! Receiving from a `TPACKET_V3` ring (`Documentation/networking/packet_mmap.rst` of the kernel).

use crate::clock;
use crate::error::PortError;
use crate::iface::Interface;
use crate::port::{Arrived, BurstReceiver};
use crate::sys;
use dutlab_units::Nanos;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A block is handed over when it is full, or after [`RETIRE_MS`].
const BLOCK: u32 = 1 << 18;
/// 32 MiB: at a million short frames a second, a quarter of a second.
const BLOCKS: u32 = 128;
/// The shortest time after which the kernel hands over a block that is not full.
const RETIRE_MS: u32 = 1;
/// Only checked by the kernel, not used: in version 3 frames lie as close as they fit.
const FRAME: u32 = 1 << 11;

/// Every protocol; the constant of `linux/if_ether.h`, in the width that the address has.
const ETH_P_ALL: u16 = 3;

/// The receiving half of an `AF_PACKET` port.
pub struct Ring {
    fd: OwnedFd,
    iface: String,
    memory: NonNull<u8>,
    /// The block that the kernel hands over next.
    block: u32,
    /// Frames dropped since `begin`, as far as they were asked for.
    dropped: u64,
}

// SAFETY: `memory` is a mapping that belongs to this value alone, wherever it goes.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring on `iface`, and takes frames for other stations too. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0, name)?;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(|e| PortError::from_call("setsockopt(PACKET_VERSION)", name, e))?;
        // Since Linux 4.20. Without it our own frames would be looked at as well: slower, but they count as foreign.
        let _ = sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
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
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), Self::LENGTH, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(PortError::last("mmap", name));
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(|| PortError::last("mmap", name))?;
        let ring = Self { fd, iface: name.to_owned(), memory, block: 0, dropped: 0 };
        #[expect(clippy::cast_possible_truncation, reason = "1")]
        let membership = libc::packet_mreq {
            mr_ifindex: iface.index.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        sys::set_option(&ring.fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
            .map_err(|e| PortError::from_call("setsockopt(PACKET_ADD_MEMBERSHIP)", name, e))?;
        sys::bind_packet(&ring.fd, iface.index, ETH_P_ALL, name)?;
        Ok(ring)
    }

    const LENGTH: usize = BLOCK as usize * BLOCKS as usize;

    /// The block that is next, if the kernel has handed it over.
    fn ready(&self) -> Option<Block<'_>> {
        // SAFETY: `block` is below BLOCKS, so this is inside of the mapping, which lives as long as `self`.
        let start = unsafe { self.memory.add(self.block as usize * BLOCK as usize) };
        let block = Block { start, ring: std::marker::PhantomData };
        (block.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0).then_some(block)
    }

    /// Waits until the kernel hands over a block, or `wait` is over.
    fn wait(&self, wait: Nanos) -> Result<(), PortError> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN | libc::POLLERR, revents: 0 };
        let ms = i32::try_from(wait.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: `poll` is one pollfd.
        let status = unsafe { libc::poll(&raw mut poll, 1, ms) };
        if status < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EINTR) => Ok(()),
                _ => Err(PortError::from_call("poll", &self.iface, error)),
            };
        }
        if poll.revents & libc::POLLERR != 0 {
            sys::pending_error(&self.fd, "poll", &self.iface)?;
        }
        Ok(())
    }

    /// Frames dropped since the last call: the kernel sets the counter to 0.
    fn statistics(&self) -> Result<u64, PortError> {
        let mut s = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        #[expect(clippy::cast_possible_truncation, reason = "12 bytes")]
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `s`.
        let status = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut s).cast(),
                &raw mut length,
            )
        };
        if status == 0 {
            Ok(u64::from(s.tp_drops))
        } else {
            Err(PortError::last("getsockopt(PACKET_STATISTICS)", &self.iface))
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this length, and no block outlives `self`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), Self::LENGTH) };
    }
}

/// A block that belongs to us until it is given back.
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

    /// Calls `take` for each frame. `offset` is what turns the kernel's stamps into our clock.
    fn each(&self, offset: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> usize {
        // SAFETY: the block is ours (its status was read with Acquire), and the kernel filled in its header.
        let (count, first) = unsafe {
            let h = &(*self.header().as_ptr()).hdr.bh1;
            (h.num_pkts, h.offset_to_first_pkt)
        };
        let mut at = first as usize;
        for _ in 0..count {
            assert!(at + size_of::<libc::tpacket3_hdr>() <= BLOCK as usize, "a frame outside of its block");
            // SAFETY: inside of the block, as just checked; the kernel aligns frames to TPACKET_ALIGNMENT (16).
            let header = unsafe { self.start.add(at).cast::<libc::tpacket3_hdr>().read() };
            let (mac, kept) = (at + usize::from(header.tp_mac), header.tp_snaplen as usize);
            assert!(mac + kept <= BLOCK as usize, "a frame longer than its block");
            // SAFETY: inside of the block, as just checked; nobody writes to it while it is ours.
            let bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(mac), kept) };
            let stamp = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
            let tag = if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 { 4 } else { 0 };
            take(Arrived { bytes, length: header.tp_len + tag, at: Nanos(stamp) - offset });
            at += header.tp_next_offset as usize;
        }
        count as usize
    }
}

impl BurstReceiver for Ring {
    fn begin(&mut self) -> Result<(), PortError> {
        // What lies in blocks that are not full yet is handed over within RETIRE_MS; what comes later is told apart by
        // its send time.
        while let Some(block) = self.ready() {
            block.give_back();
            self.block = (self.block + 1) % BLOCKS;
        }
        self.dropped = 0;
        self.statistics().map(drop)
    }

    fn receive(&mut self, wait: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> Result<usize, PortError> {
        if self.ready().is_none() {
            self.wait(wait)?;
        }
        let mut count = 0;
        // At most one round, so that the caller gets to look at its clock.
        for _ in 0..BLOCKS {
            let Some(block) = self.ready() else { break };
            count += block.each(clock::realtime_offset(), take);
            block.give_back();
            self.block = (self.block + 1) % BLOCKS;
        }
        Ok(count)
    }

    fn dropped(&mut self) -> Result<u64, PortError> {
        self.dropped += self.statistics()?;
        Ok(self.dropped)
    }
}

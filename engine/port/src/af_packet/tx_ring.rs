//! Sending from a ring that is shared with the kernel (`PACKET_TX_RING`). No back end uses it: it is the comparison for
//! `sendmmsg` on the same frames ([`Bursts`](super::Bursts)).

use crate::batch::{Batch, Fill, Slot};
use crate::error::PortError;
use crate::iface::Interface;
use crate::mapping::Mapping;
use crate::port::{BurstSender, Handed};
use crate::sys;
use rustix::io::Errno;
use rustix::net::{self, SendFlags};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames in a call, as many as `sendmmsg` gets.
const BURST: usize = 32;
/// Frames in the ring.
const FRAMES: u32 = 1024;
/// Bytes of a frame's slot in the ring, header included.
const STRIDE: u32 = 2048;
/// Offset of a frame behind its header: `TPACKET2_HDRLEN` less the address that only receivers get.
#[expect(clippy::cast_possible_truncation, reason = "32")]
const HEADER: u32 = (libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>()) as u32;

/// Sending half of a port with such a ring.
pub struct TxRing {
    fd: OwnedFd,
    iface: String,
    memory: Mapping,
    slots: Box<[Slot]>,
    order: Box<[u32]>,
    next: u32,
}

impl TxRing {
    /// Opens a ring on `iface`. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let fd = sys::packet_socket(name)?;
        let fail = |call: &'static str| move |e: io::Error| PortError::from_call(call, name, e);
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(fail("setsockopt(PACKET_VERSION)"))?;
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
            .map_err(fail("setsockopt(PACKET_QDISC_BYPASS)"))?;
        let request = libc::tpacket_req {
            tp_block_size: FRAMES * STRIDE,
            tp_block_nr: 1,
            tp_frame_size: STRIDE,
            tp_frame_nr: FRAMES,
        };
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &request)
            .map_err(fail("setsockopt(PACKET_TX_RING)"))?;
        let memory = Mapping::new(FRAMES as usize * STRIDE as usize, Some((fd.as_fd(), 0))).map_err(fail("mmap"))?;
        sys::bind_packet(&fd, iface.index, 0, name)?;
        let slots = (0..FRAMES).map(|i| Slot { start: i * STRIDE + HEADER, ..Slot::default() }).collect();
        Ok(Self { fd, iface: name.to_owned(), memory, slots, order: (0..FRAMES).collect(), next: 0 })
    }

    fn header(&self, index: u32) -> *mut libc::tpacket2_hdr {
        // SAFETY: `index` is below FRAMES, so this is inside of the mapping.
        unsafe { self.memory.start().add(index as usize * STRIDE as usize).as_ptr().cast() }
    }

    fn status(&self, index: u32) -> &AtomicU32 {
        // SAFETY: the word is inside of the mapping and aligned; kernel and we access it atomically only.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header(index)).tp_status) }
    }
}

impl BurstSender for TxRing {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        let room = (self.next..FRAMES).take(want.min(BURST));
        let free = room.take_while(|i| self.status(*i).load(Ordering::Acquire) == libc::TP_STATUS_AVAILABLE).count();
        let first = self.next as usize;
        // SAFETY: frames that are available are ours, only these are touched, and the mapping lives as long as `self`.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.memory.start().as_ptr(), self.memory.length()) };
        let order = &self.order[first..first + free];
        fill.fill(0, &mut Batch::new(memory, &mut self.slots, order, (STRIDE - HEADER) as usize));
        for index in self.next..self.next + u32::try_from(free).unwrap_or(0) {
            // SAFETY: the frame is ours until its status changes.
            unsafe { (*self.header(index)).tp_len = self.slots[index as usize].length };
            self.status(index).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            self.next = (index + 1) % FRAMES;
        }
        // Without data: the call sends the frames of the ring.
        match net::send(&self.fd, &[], SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => Ok(Handed { sent: free, refused: 0 }),
            Err(e) => Err(PortError::from_call("send", &self.iface, e.into())),
        }
    }
}

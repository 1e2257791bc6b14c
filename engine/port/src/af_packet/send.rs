//! Sending through a packet socket.

use crate::batch::{Batch, Fill, Slot};
use crate::error::PortError;
use crate::iface::Interface;
use crate::port::{BurstSender, Handed};
use crate::stall::Stall;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames in a call. Larger bursts make the call no cheaper, and the frames' send times less accurate.
const BURST: usize = 32;
/// Limit of the bytes that wait in the kernel, in its accounting (`skb->truesize`).
const KERNEL_BUFFER: i32 = 8 << 20;
/// Ethernet header and two tags, on top of the MTU.
const HEADERS: usize = 14 + 8;

/// The sending half of an `AF_PACKET` port.
pub struct Bursts {
    fd: OwnedFd,
    iface: String,
    stall: Stall,
    stride: usize,
    frames: Box<[u8]>,
    slots: Box<[Slot]>,
    order: Box<[u32]>,
    parts: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers in `parts` and `messages` point into `frames` and `parts`, boxes that this value owns and never
// replaces; they move with it.
unsafe impl Send for Bursts {}

impl Bursts {
    /// Opens a socket on `iface`. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let fd = sys::packet_socket(name)?;
        sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)
            .map_err(|e| PortError::from_call("setsockopt(PACKET_QDISC_BYPASS)", name, e))?;
        // The forced form needs CAP_NET_ADMIN in the first user namespace; without it the system's limit applies.
        if sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &KERNEL_BUFFER).is_err() {
            sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &KERNEL_BUFFER)
                .map_err(|e| PortError::from_call("setsockopt(SO_SNDBUF)", name, e))?;
        }
        sys::bind_packet(&fd, iface.index, 0, name)?;
        let stride = iface.mtu as usize + HEADERS;
        let mut frames = vec![0_u8; stride * BURST].into_boxed_slice();
        let mut parts: Box<[libc::iovec]> = frames
            .chunks_exact_mut(stride)
            .map(|f| libc::iovec { iov_base: f.as_mut_ptr().cast(), iov_len: 0 })
            .collect();
        let messages = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: mmsghdr is numbers and pointers, for which all zeroes (no name, no control) is a valid value.
                let mut m: libc::mmsghdr = unsafe { std::mem::zeroed() };
                m.msg_hdr.msg_iov = part;
                m.msg_hdr.msg_iovlen = 1;
                m
            })
            .collect();
        #[expect(clippy::cast_possible_truncation, reason = "32 frames of at most 64 KiB")]
        let (slots, order) = (Slot::every(stride as u32, BURST as u32), (0..BURST as u32).collect());
        Ok(Self { fd, iface: name.to_owned(), stall: Stall::new(iface), stride, frames, slots, order, parts, messages })
    }
}

impl BurstSender for Bursts {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn go_through_link_loss(&mut self, yes: bool) {
        self.stall.go_through_link_loss(yes);
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        let want = want.min(BURST);
        fill.fill(0, &mut Batch::new(&mut self.frames, &mut self.slots, &self.order[..want], self.stride));
        for (part, slot) in self.parts.iter_mut().zip(&self.slots).take(want) {
            assert!(slot.length as usize <= self.stride, "a frame longer than its buffer");
            part.iov_len = slot.length as usize;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most BURST")]
        let count = want as libc::c_uint;
        // SAFETY: the first `count` messages each point to one part, which points to a chunk of `frames` that is at
        // least as long as the part: checked above. The kernel reads them and writes only `msg_len`.
        let sent =
            unsafe { libc::sendmmsg(self.fd.as_raw_fd(), self.messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        if sent >= 0 {
            self.stall.moved();
            return Ok(Handed { sent: sent.unsigned_abs() as usize, refused: 0 });
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(Handed::default()),
            // No room in the socket, or in the card's queue: the frame was not taken and may be tried again, unless
            // this is how a card without carrier refuses.
            Some(libc::EAGAIN | libc::ENOBUFS) => {
                self.stall.refused(&self.iface, "sendmmsg", error)?;
                Ok(Handed::default())
            }
            _ => Err(PortError::from_call("sendmmsg", &self.iface, error)),
        }
    }
}

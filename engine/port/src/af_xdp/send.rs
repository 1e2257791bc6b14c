//! Sending.

use super::RECEIVE_FRAMES;
use super::socket::{SendHalf, room};
use crate::batch::{Batch, Fill, Slot};
use crate::clock;
use crate::error::PortError;
use crate::iface::Interface;
use crate::port::{BurstSender, Handed};
use crate::stall::Stall;
use dutlab_units::Nanos;
use std::io;
use std::os::fd::AsRawFd;

/// Frames in a burst: twice what the kernel takes in one call when it copies.
const BURST: usize = 64;
/// Calls without any progress after which the rest is left for the next burst.
const TRIES: u32 = 16;
/// How long the last frames are waited for.
const FLUSH: Nanos = Nanos(50_000_000);

/// The sending half of an `AF_XDP` port.
pub struct Tx {
    half: SendHalf,
    iface: String,
    stall: Stall,
    /// One for each of our buffers; `start` counts from the first of them.
    slots: Box<[Slot]>,
    /// Buffers that hold no frame that is still to leave.
    free: Vec<u32>,
    /// Bytes of the memory that lie in front of our buffers.
    before: usize,
}

impl Tx {
    pub(super) fn new(iface: &Interface, half: SendHalf) -> Self {
        let (chunk, frames) = (half.umem.chunk, half.frames);
        Self {
            iface: iface.name.clone(),
            stall: Stall::new(iface),
            slots: Slot::every(chunk, frames),
            free: (0..frames).collect(),
            before: chunk as usize * RECEIVE_FRAMES as usize,
            half,
        }
    }

    /// Takes back the buffers of frames that have left.
    fn reclaim(&mut self) {
        let chunk = u64::from(self.half.umem.chunk);
        for _ in 0..self.half.completion.ready() {
            let index = self.half.completion.take() / chunk - u64::from(RECEIVE_FRAMES);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an address that we put in, so below our buffers' number"
            )]
            self.free.push(index as u32);
        }
        self.half.completion.release();
    }

    /// Has the kernel take what waits. With a copy it works only while it is called, on a few frames at a time.
    fn wake(&mut self) -> Result<(), PortError> {
        let (mut left, mut tries) = (self.half.tx.waiting(), 0);
        while left > 0 && tries < TRIES && (!self.half.zero_copy || self.half.tx.needs_wakeup()) {
            // SAFETY: no data and no address: the call only wakes the kernel up.
            let status = unsafe {
                libc::sendto(self.half.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            if status < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    // More to do than one call does, or no room for a moment.
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {}
                    // The driver threw a frame away: for want of a carrier, or the frame is missed where it should arrive.
                    Some(libc::EBUSY) => self.stall.carrier(&self.iface, "sendto", error)?,
                    _ => return Err(PortError::from_call("sendto", &self.iface, error)),
                }
            }
            if self.half.zero_copy {
                break;
            }
            let now_left = self.half.tx.waiting();
            tries = if now_left < left { 0 } else { tries + 1 };
            left = now_left;
        }
        Ok(())
    }
}

impl BurstSender for Tx {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        self.reclaim();
        let want = want.min(BURST).min(self.free.len()).min(self.half.tx.room() as usize);
        if want == 0 {
            self.wake()?;
            self.stall.check(&self.iface, "sendto")?;
            return Ok(Handed::default());
        }
        let chunk = self.half.umem.chunk;
        let kept = self.free.len() - want;
        let memory = &self.half.umem.memory;
        // SAFETY: our buffers are the last ones of the memory; those that are in `free` are not the kernel's, only these
        // are touched, and no other part of this process touches any of ours.
        let ours = unsafe {
            std::slice::from_raw_parts_mut(memory.start().add(self.before).as_ptr(), memory.length() - self.before)
        };
        let order = &self.free[kept..];
        fill.fill(0, &mut Batch::new(ours, &mut self.slots, order, room(chunk) as usize));
        for index in order {
            let slot = self.slots[*index as usize];
            assert!(slot.length <= room(chunk), "a frame longer than its buffer");
            let addr = self.before as u64 + u64::from(slot.start);
            self.half.tx.put(libc::xdp_desc { addr, len: slot.length, options: 0 });
        }
        self.free.truncate(kept);
        self.half.tx.publish();
        self.wake()?;
        if self.half.tx.waiting() == 0 {
            self.stall.moved();
        }
        Ok(Handed { sent: want, refused: 0 })
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let end = clock::monotonic() + FLUSH;
        while self.half.tx.waiting() > 0 && clock::monotonic() < end {
            self.wake()?;
            std::thread::yield_now();
        }
        Ok(())
    }
}

//! Sending half of an `AF_XDP` port.

use super::socket::SendHalf;
use dutlab_port::PortError;
use dutlab_port::batch::{Batch, Fill, Slot};
use dutlab_port::clock;
use dutlab_port::iface::Interface;
use dutlab_port::link;
use dutlab_port::port::{BurstSender, Handed, Unsent};
use dutlab_port::stall::Stall;
use dutlab_units::Nanos;
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{self, SendFlags};

/// Frames in a burst: twice the number that the kernel takes in one call when it copies.
const BURST: usize = 64;
/// Number of calls without any progress after which the rest is left for the next burst.
const TRIES: u32 = 16;
/// Longest wait for the last frames, in total and without progress.
const FLUSH: Nanos = Nanos(1_000_000_000);
const FLUSH_STILL: Nanos = Nanos(50_000_000);

/// The sending half of an `AF_XDP` port.
pub struct Tx {
    half: SendHalf,
    iface: String,
    stall: Stall,
    /// One slot for each of our buffers; `start` counts from the first of them.
    slots: Box<[Slot]>,
    /// Buffers without a frame that is still to leave.
    free: Vec<u32>,
    /// Bytes of the memory in front of our buffers.
    before: usize,
    /// Number of entries of the ring that the kernel has taken, by the results of its calls: it updates its own count
    /// only when a frame left.
    taken: u32,
    /// Entries up to here were given up by `flush`; their result belongs to no trial.
    given_up: u32,
    /// Number of the next frame, counted without end. Frames before it were counted as sent; those of a failed call
    /// were not.
    frames: u32,
    handed: u32,
    /// Content of each entry of the ring.
    entries: Box<[Entry]>,
    /// Frames that the driver dropped, or that `flush` gave up.
    unsent: Vec<Entry>,
}

/// The end of a frame, or an earlier part of it, which has no length.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// The frame's number.
    number: u32,
    /// Its length.
    length: u32,
}

impl Tx {
    pub(super) fn new(iface: &Interface, half: SendHalf) -> Self {
        let (chunk, frames, pages) = (half.umem.chunk, half.umem.send, half.umem.pages);
        Self {
            iface: iface.name.clone(),
            stall: Stall::new(iface),
            slots: Slot::every(chunk * pages, frames),
            free: (0..frames).collect(),
            before: chunk as usize * half.umem.receive as usize,
            taken: half.tx.put_so_far(),
            given_up: half.tx.put_so_far(),
            frames: 0,
            handed: 0,
            unsent: Vec::new(),
            entries: vec![Entry::default(); half.umem.send_entries() as usize].into_boxed_slice(),
            half,
        }
    }

    /// Takes back the buffers of frames that have left.
    fn reclaim(&mut self) {
        let (chunk, first) = (u64::from(self.half.umem.chunk), u64::from(self.half.umem.receive));
        let pages = self.half.umem.pages;
        for _ in 0..self.half.completion.ready() {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an address that we put in, so below our buffers' number"
            )]
            let buffer = (self.half.completion.take() / chunk - first) as u32;
            if pages == 1 {
                self.free.push(buffer);
                continue;
            }
            let (index, part) = (buffer / pages, buffer % pages);
            // A frame has left when its last part has.
            if part + 1 == self.parts(self.slots[index as usize].length) {
                self.free.push(index);
            }
        }
        self.half.completion.release();
    }

    /// Returns the number of buffers, and entries of the ring, that a frame takes.
    fn parts(&self, length: u32) -> u32 {
        length.div_ceil(self.half.umem.chunk).max(1)
    }

    fn entry(&self, number: u32) -> Entry {
        self.entries[number as usize % self.entries.len()]
    }

    /// Number of entries that the kernel has not taken yet.
    fn waiting(&self) -> u32 {
        self.half.tx.put_so_far().wrapping_sub(self.taken)
    }

    /// Makes the kernel take the waiting entries. With a copy it works only while it is called, on a few frames at a
    /// time.
    fn wake(&mut self) -> Result<(), PortError> {
        self.see_taken();
        let mut tries = 0;
        while self.waiting() > 0 && tries < TRIES && (!self.half.zero_copy || self.half.tx.needs_wakeup()) {
            let before = self.taken;
            // Without data the call only wakes the kernel.
            let error = net::send(&self.half.fd, &[], SendFlags::DONTWAIT).err();
            self.see_taken();
            let mut left = self.taken.wrapping_sub(before);
            if let Some(error) = error {
                match error {
                    // More work than one call does, or the ring is full for a moment.
                    Errno::AGAIN | Errno::NOBUFS | Errno::INTR => {}
                    Errno::BUSY => {
                        if !self.half.zero_copy {
                            left = self.note_thrown_away(left);
                        }
                        if left == 0 {
                            self.stall.refused(&self.iface, "sendto", error.into())?;
                        }
                    }
                    _ => return Err(failed(&self.iface, error)),
                }
            }
            if left > 0 {
                self.stall.moved();
            }
            if self.half.zero_copy {
                break;
            }
            tries = if self.taken == before { tries + 1 } else { 0 };
        }
        Ok(())
    }

    /// Adopts the kernel's count of taken entries, if that is ahead.
    fn see_taken(&mut self) {
        let shown = self.half.tx.consumed();
        // Both are at most a ring's size behind the entries that were put in.
        if shown.wrapping_sub(self.taken) <= self.waiting() {
            self.taken = shown;
        }
    }

    /// Records that the driver dropped a frame, and returns how many of `taken_now` left. The kernel
    /// (`__xsk_generic_xmit` of net/xdp/xsk.c) ends its call with EBUSY at such a frame, so it is the last that was
    /// taken. The kernel updates its count only if another frame of the call left before it.
    fn note_thrown_away(&mut self, taken_now: u32) -> u32 {
        if taken_now == 0 {
            // To the end of the frame, for any number of parts.
            let earlier =
                (0..self.waiting()).take_while(|n| self.entry(self.taken.wrapping_add(*n)).length == 0).count();
            self.taken = self.taken.wrapping_add(1 + u32::try_from(earlier).unwrap_or(0));
        }
        let last = self.taken.wrapping_sub(1);
        self.note_unsent(last);
        taken_now.saturating_sub(self.parts(self.entry(last).length))
    }

    fn note_unsent(&mut self, number: u32) {
        let entry = self.entry(number);
        if number.wrapping_sub(self.given_up) < 1 << 31 && entry.length > 0 {
            self.unsent.push(entry);
        }
    }
}

/// Makes the error of `sendto`. Drivers also return `ENXIO` if they have no such queue, or no program on it: then no
/// frame was lost.
fn failed(iface: &str, error: Errno) -> PortError {
    let source = error.into();
    match error {
        Errno::NXIO if link::named(iface).is_ok_and(|l| l.up) => {
            PortError::Syscall { call: "sendto", iface: iface.to_owned(), source }
        }
        _ => PortError::from_call("sendto", iface, source),
    }
}

impl BurstSender for Tx {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn go_through_link_loss(&mut self, yes: bool) {
        self.stall.go_through_link_loss(yes);
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        self.reclaim();
        let (chunk, longest, pages) = (self.half.umem.chunk, self.half.umem.longest(), self.half.umem.pages);
        let want = want.min(BURST).min(self.free.len()).min((self.half.tx.room() / pages) as usize);
        if want == 0 {
            self.wake()?;
            self.stall.check(&self.iface, "sendto")?;
            return Ok(Handed::default());
        }
        let kept = self.free.len() - want;
        let memory = &self.half.umem.memory;
        // SAFETY: our buffers are the last ones of the memory; those that are in `free` are not the kernel's, only these
        // are touched, and no other part of this process touches any of ours.
        let ours = unsafe {
            std::slice::from_raw_parts_mut(memory.start().add(self.before).as_ptr(), memory.length() - self.before)
        };
        let order = &self.free[kept..];
        fill.fill(0, &mut Batch::new(ours, &mut self.slots, order, longest as usize));
        for index in order {
            let slot = self.slots[*index as usize];
            assert!(slot.length <= longest, "a frame longer than its buffer");
            let mut addr = self.before as u64 + u64::from(slot.start);
            let mut left = slot.length;
            loop {
                let (length, last) = (left.min(chunk), left <= chunk);
                let entry = self.half.tx.put_so_far() as usize % self.entries.len();
                self.entries[entry] = Entry { number: self.frames, length: if last { slot.length } else { 0 } };
                let options = if last { XdpDescOptions::empty() } else { XdpDescOptions::XDP_PKT_CONTD };
                self.half.tx.put(XdpDesc { addr, len: length, options });
                if last {
                    break;
                }
                left -= length;
                addr += u64::from(length);
            }
            self.frames = self.frames.wrapping_add(1);
        }
        self.free.truncate(kept);
        self.half.tx.publish();
        self.wake()?;
        self.handed = self.frames;
        Ok(Handed { sent: want, refused: 0 })
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let mut now = clock::monotonic();
        let (end, mut moved, mut left) = (now + FLUSH, now, self.waiting());
        while left > 0 && now < end && now.since(moved) < FLUSH_STILL {
            self.wake()?;
            std::thread::yield_now();
            now = clock::monotonic();
            if self.waiting() != left {
                (left, moved) = (self.waiting(), now);
            }
        }
        for ago in (0..left).rev() {
            let entry = self.half.tx.put_so_far().wrapping_sub(1 + ago);
            self.note_unsent(entry);
        }
        self.given_up = self.half.tx.put_so_far();
        Ok(())
    }

    fn take_unsent(&mut self, each: &mut dyn FnMut(Unsent)) {
        for entry in self.unsent.drain(..) {
            let ago = self.handed.wrapping_sub(entry.number).wrapping_sub(1);
            if ago < 1 << 31 {
                each(Unsent { ago: u64::from(ago), length: entry.length });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_port::ErrorKind;

    #[test]
    fn an_interface_that_is_there_and_up_was_not_lost_whatever_a_driver_answers() {
        assert_eq!(failed("dutlab-none", Errno::NXIO).kind(), ErrorKind::Lost);
        assert_eq!(failed("lo", Errno::NETDOWN).kind(), ErrorKind::Lost);
        if link::named("lo").unwrap().up {
            assert_eq!(failed("lo", Errno::NXIO).kind(), ErrorKind::Syscall);
        }
    }
}

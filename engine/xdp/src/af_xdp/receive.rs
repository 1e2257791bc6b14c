//! Receiving.

use super::memory::Umem;
use super::program::Program;
use super::rings::{Consumer, Producer};
use dutlab_port::PortError;
use dutlab_port::clock;
use dutlab_port::port::{Arrived, BurstReceiver};
use dutlab_port::sys;
use dutlab_units::Nanos;
use rustix::net::sockopt::xdp_statistics;
use rustix::net::xdp::XdpDesc;
use rustix::net::{self, RecvFlags};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Frames that are taken before the kernel gets their buffers back.
const TURN: u32 = 256;
/// What our program writes in front of a frame: this number, then the time (`engine/xdp/bpf/afxdp.bpf.c`).
const STAMPED: u64 = 0x646c_2d73_7461_6d70;
/// Bytes of both.
const STAMP: usize = 16;

/// The receiving half of the socket of one queue. Its buffers are the first ones of the memory.
pub struct Queue {
    fd: Arc<OwnedFd>,
    umem: Arc<Umem>,
    rx: Consumer<XdpDesc>,
    fill: Producer<u64>,
    /// Whether our program could stamp every frame so far.
    stamps: bool,
}

impl Queue {
    pub(super) const fn new(fd: Arc<OwnedFd>, umem: Arc<Umem>, rx: Consumer<XdpDesc>, fill: Producer<u64>) -> Self {
        Self { fd, umem, rx, fill, stamps: true }
    }

    /// The socket's descriptor.
    pub(super) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes frames that are there, at most [`TURN`].
    fn drain(&mut self, take: &mut dyn FnMut(Arrived<'_>)) -> u32 {
        let count = self.rx.ready().min(TURN);
        let (mut now, mut stamps) = (None, self.stamps);
        for _ in 0..count {
            let desc = self.rx.take();
            let (start, bytes) = (self.umem.memory.start(), self.frame(&desc));
            let stamped = stamp(start, &desc);
            stamps &= stamped.is_some();
            let at = stamped.unwrap_or_else(|| *now.get_or_insert_with(clock::monotonic));
            take(Arrived { bytes, length: desc.len, at });
            // The kernel takes any address inside of a buffer for the buffer.
            self.fill.put(desc.addr);
        }
        self.stamps = stamps;
        if count > 0 {
            self.rx.release();
            self.fill.publish();
        }
        count
    }

    fn frame(&self, desc: &XdpDesc) -> &[u8] {
        let (from, length) = (usize::try_from(desc.addr).unwrap_or(usize::MAX), desc.len as usize);
        assert!(
            from.checked_add(length).is_some_and(|end| end <= self.umem.memory.length()),
            "a frame outside of the memory"
        );
        // SAFETY: inside of the mapping, as just checked; the kernel gave us this buffer, and gets it back only later.
        unsafe { std::slice::from_raw_parts(self.umem.memory.start().add(from).as_ptr(), length) }
    }

    /// Has a sleeping kernel look at the buffers that it got back.
    fn wake(&self) {
        if self.fill.needs_wakeup() {
            // Without a buffer the call only wakes the kernel up. What it says does not matter.
            let _ = net::recv(&self.fd, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Frames dropped for want of room since the socket was opened.
    fn dropped(&self, iface: &str) -> Result<u64, PortError> {
        let s = xdp_statistics(&self.fd)
            .map_err(|e| PortError::from_call("getsockopt(XDP_STATISTICS)", iface, e.into()))?;
        Ok(s.rx_dropped + s.rx_ring_full.unwrap_or(0))
    }
}

/// When a frame arrived, if our program could say.
fn stamp(memory: std::ptr::NonNull<u8>, desc: &XdpDesc) -> Option<Nanos> {
    let from = usize::try_from(desc.addr).ok()?.checked_sub(STAMP)?;
    // SAFETY: within the memory, since the frame behind it is; the kernel wrote it before the frame was ready.
    let [stamped, at] = unsafe { memory.add(from).cast::<[u64; 2]>().read_unaligned() };
    (stamped == STAMPED).then_some(Nanos(at))
}

/// One receive queue of an `AF_XDP` port.
pub struct Rx {
    iface: String,
    /// Its number.
    number: u32,
    queue: Queue,
    /// Attached for as long as a queue of the port is there.
    program: Arc<Program>,
    /// Frames that had been dropped when the trial began.
    dropped: u64,
    /// Frames that had been left to the host when the trial began.
    passed: u64,
}

impl Rx {
    pub(super) fn new(iface: &str, number: u32, queue: Queue, program: Arc<Program>) -> Self {
        Self { iface: iface.to_owned(), number, queue, program, dropped: 0, passed: 0 }
    }

    fn wait(&self, wait: Nanos) -> Result<(), PortError> {
        // A socket whose interface is gone reports nothing here; it has to be asked.
        if sys::wait(&self.queue.fd, wait, &self.iface)?.is_empty() {
            sys::pending_error(&self.queue.fd, "poll", &self.iface)?;
        }
        Ok(())
    }

    fn drain(&mut self, take: &mut dyn FnMut(Arrived<'_>)) -> usize {
        let count = self.queue.drain(take) as usize;
        self.queue.wake();
        count
    }
}

impl BurstReceiver for Rx {
    fn begin(&mut self) -> Result<(), PortError> {
        while self.drain(&mut |_| {}) > 0 {}
        self.passed = self.program.passed(self.number)?;
        self.dropped = self.queue.dropped(&self.iface)?;
        Ok(())
    }

    fn receive(&mut self, wait: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> Result<usize, PortError> {
        let count = self.drain(take);
        if count > 0 || wait == Nanos::ZERO {
            return Ok(count);
        }
        self.wait(wait)?;
        Ok(self.drain(take))
    }

    fn stamps(&self) -> bool {
        self.queue.stamps
    }

    fn dropped(&mut self) -> Result<u64, PortError> {
        Ok(self.queue.dropped(&self.iface)?.saturating_sub(self.dropped))
    }

    fn passed(&mut self) -> Result<u64, PortError> {
        Ok(self.program.passed(self.number)?.saturating_sub(self.passed))
    }
}

//! Receiving half of an `AF_XDP` port.

use super::memory::Umem;
use super::program::Program;
use super::rings::{Consumer, Producer};
use dutlab_port::PortError;
use dutlab_port::card_clock::Ahead;
use dutlab_port::card_times::{self, CardTimes};
use dutlab_port::clock;
use dutlab_port::feeds::Feeds;
use dutlab_port::port::{Arrived, BurstReceiver, By, Order, Stamped};
use dutlab_port::sys;
use dutlab_units::Nanos;
use rustix::net::sockopt::xdp_statistics;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{self, RecvFlags};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Number of frames to take before the kernel gets their buffers back.
const TURN: u32 = 256;
/// Mark that our program writes in front of a frame, before the kernel's time and the card's time
/// (`engine/xdp/bpf/afxdp.bpf.c`).
const STAMPED: u64 = 0x646c_2d73_7461_6d70;
/// Bytes of the mark and both times.
const STAMP: usize = 24;
/// No frame has a time yet.
const NONE: Stamped = Stamped { card: 0, kernel: 0, engine: 0, card_error: Nanos::ZERO };

/// The receiving half of the socket of one queue. Its buffers are the first ones of the memory.
pub struct Queue {
    fd: Arc<OwnedFd>,
    umem: Arc<Umem>,
    rx: Consumer<XdpDesc>,
    fill: Producer<u64>,
    /// Sources of the frames' times since the trial began.
    stamped: Stamped,
    /// A frame whose last buffer has not arrived yet.
    long: Long,
    /// True if the kernel polls the card's queue within our calls.
    polls_busily: bool,
    /// The card's clock, where the driver gives its times to our program.
    pub card: Option<CardTimes>,
}

/// A frame in several buffers, reassembled.
#[derive(Default)]
struct Long {
    bytes: Vec<u8>,
    stamp: Option<Stamp>,
}

impl Queue {
    pub(super) fn new(
        fd: Arc<OwnedFd>,
        umem: Arc<Umem>,
        rx: Consumer<XdpDesc>,
        fill: Producer<u64>,
        polls_busily: bool,
    ) -> Self {
        Self { fd, umem, rx, fill, stamped: NONE, long: Long::default(), polls_busily, card: None }
    }

    /// Returns the socket's descriptor.
    pub(super) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes waiting frames, of at most [`TURN`] buffers; returns their number.
    fn drain(&mut self, take: &mut dyn FnMut(Arrived<'_>)) -> u32 {
        let count = self.rx.ready().min(TURN);
        if count == 0 {
            return 0;
        }
        let mut times = Times::new(self.card.as_mut(), self.stamped);
        let (mut long, mut frames) = (std::mem::take(&mut self.long), 0);
        for _ in 0..count {
            let desc = self.rx.take();
            let (start, bytes) = (self.umem.memory.start(), self.frame(&desc));
            let (first, last) = (long.bytes.is_empty(), !desc.options.contains(XdpDescOptions::XDP_PKT_CONTD));
            let stamp = if first { stamp(start, &desc) } else { long.stamp };
            if first && last {
                take(Arrived { bytes, length: desc.len, at: times.of(stamp) });
                frames += 1;
            } else {
                long.bytes.extend_from_slice(bytes);
                long.stamp = stamp;
                if last {
                    let length = u32::try_from(long.bytes.len()).unwrap_or(u32::MAX);
                    take(Arrived { bytes: &long.bytes, length, at: times.of(stamp) });
                    long.bytes.clear();
                    frames += 1;
                }
            }
            // For the kernel, any address inside a buffer denotes the buffer.
            self.fill.put(desc.addr);
        }
        self.stamped = times.stamped;
        self.long = long;
        self.rx.release();
        self.fill.publish();
        frames
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

    /// Makes a sleeping kernel check the buffers that it got back, or one that polls within our calls look for frames.
    fn wake(&self) {
        if self.polls_busily || self.fill.needs_wakeup() {
            // Without a buffer the call only wakes the kernel. Its result does not matter.
            let _ = net::recv(&self.fd, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Returns the number of frames dropped for lack of room since the socket was opened.
    fn dropped(&self, iface: &str) -> Result<u64, PortError> {
        let s = xdp_statistics(&self.fd)
            .map_err(|e| PortError::from_call("getsockopt(XDP_STATISTICS)", iface, e.into()))?;
        Ok(s.rx_dropped + s.rx_ring_full.unwrap_or(0))
    }
}

/// Arrival time of a frame, as written by our program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    /// By the kernel's clock, which is also ours.
    kernel: Nanos,
    /// By the card's clock; 0 if the driver did not give it.
    card: Nanos,
}

/// Reads the stamp of our program, if it could write one.
fn stamp(memory: std::ptr::NonNull<u8>, desc: &XdpDesc) -> Option<Stamp> {
    let from = usize::try_from(desc.addr).ok()?.checked_sub(STAMP)?;
    // SAFETY: within the memory, since the frame behind it is; the kernel wrote it before the frame was ready.
    let [stamped, kernel, card] = unsafe { memory.add(from).cast::<[u64; 3]>().read_unaligned() };
    (stamped == STAMPED).then_some(Stamp { kernel: Nanos(kernel), card: Nanos(card) })
}

/// Times of frames that are taken together.
struct Times {
    /// How far the card's clock is ahead, if known.
    ahead: Option<Ahead>,
    /// Time at which a frame was taken; read when it is first needed.
    now: Option<Nanos>,
    stamped: Stamped,
}

impl Times {
    fn new(card: Option<&mut CardTimes>, stamped: Stamped) -> Self {
        let now = card.is_some().then(clock::monotonic);
        let ahead = card.zip(now).and_then(|(card, now)| card.ahead(now));
        Self { ahead, now, stamped }
    }

    fn of(&mut self, stamp: Option<Stamp>) -> Nanos {
        let (at, by) = match stamp {
            Some(Stamp { kernel, card: Nanos(0) }) => (kernel, By::Kernel),
            Some(Stamp { kernel, card }) => {
                let by_card = card_times::ours(card, self.ahead, self.now());
                by_card.map_or((kernel, By::Kernel), |at| (at, By::Card))
            }
            None => (self.now(), By::Engine),
        };
        if by == By::Card {
            let error = self.ahead.map_or(Nanos::ZERO, |ahead| ahead.error);
            self.stamped.card_error = self.stamped.card_error.max(error);
        }
        self.stamped.enter(by);
        at
    }

    fn now(&mut self) -> Nanos {
        *self.now.get_or_insert_with(clock::monotonic)
    }
}

/// One receive queue of an `AF_XDP` port.
pub struct Rx {
    iface: String,
    /// Its number.
    number: u32,
    /// Queues that feed the port.
    feeds: Feeds,
    queue: Queue,
    /// Attached program, shared by all queues of the port.
    program: Arc<Program>,
    /// Number of frames that had been dropped when the trial began.
    dropped: u64,
    /// Number of frames that had been left to the host when the trial began.
    passed: u64,
}

impl Rx {
    pub(super) fn new(iface: &str, (number, feeds): (u32, Feeds), queue: Queue, program: Arc<Program>) -> Self {
        Self { iface: iface.to_owned(), number, feeds, queue, program, dropped: 0, passed: 0 }
    }

    fn wait(&self, wait: Nanos) -> Result<(), PortError> {
        // A socket whose interface is gone reports nothing here; its error must be read.
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
        self.queue.stamped = NONE;
        if let Some(card) = &mut self.queue.card {
            card.begin(clock::monotonic());
        }
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
        self.queue.stamped.engine == 0
    }

    fn order(&self) -> Order {
        self.feeds.order_of_queue(self.number)
    }

    fn stamped(&self) -> Stamped {
        self.queue.stamped
    }

    fn dropped(&mut self) -> Result<u64, PortError> {
        Ok(self.queue.dropped(&self.iface)?.saturating_sub(self.dropped))
    }

    fn passed(&mut self) -> Result<u64, PortError> {
        Ok(self.program.passed(self.number)?.saturating_sub(self.passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_time_of_the_card_where_that_can_be_else_of_the_kernel_else_when_it_was_taken() {
        let ahead = Ahead { ns: 7_000, error: Nanos(100) };
        let now = Nanos(50_000_000_000);
        let mut times = Times { ahead: Some(ahead), now: Some(now), stamped: NONE };
        let kernel = Nanos(49_000_000_300);
        let stamp = |card| Some(Stamp { kernel, card: Nanos(card) });
        assert_eq!(times.of(stamp(49_000_007_000)), Nanos(49_000_000_000));
        assert_eq!(times.of(stamp(0)), kernel, "the driver did not say");
        assert_eq!(times.of(stamp(60_000_000_000)), kernel, "from the future");
        assert_eq!(times.of(None), now);
        assert_eq!(times.stamped, Stamped { card: 1, kernel: 2, engine: 1, card_error: Nanos(100) });
    }
}

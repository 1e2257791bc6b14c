//! Port without a device. [`Sink`] discards sent frames, which measures the CPU alone. [`pipe`] makes the two halves of
//! one queue, for tests of higher layers.

use crate::batch::{Batch, Fill, Slot, fill_one};
use crate::error::PortError;
use crate::port::{Arrived, BurstReceiver, BurstSender, Handed};
use dutlab_units::{FrameSize, Nanos};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Frames in a burst. Enough that the cost per burst (a reading of the clock, a look at the schedule) is small compared
/// to the frames; few enough that the pages of all buffers fit in the CPU's TLB (64 entries on common CPUs).
const BURST: usize = 64;
/// Distance between buffers. Not a power of two, so that the buffers spread over all sets of the cache; a whole number
/// of cache lines.
const STRIDE: usize = FrameSize::MAX.without_fcs().next_multiple_of(128) + 64;

/// Sender that discards all frames.
#[derive(Debug)]
pub struct Sink {
    memory: Box<[u8]>,
    slots: Box<[Slot]>,
    order: Box<[u32]>,
}

impl Default for Sink {
    #[expect(clippy::cast_possible_truncation, reason = "about 600 kB")]
    fn default() -> Self {
        Self {
            memory: vec![0; STRIDE * BURST].into_boxed_slice(),
            slots: Slot::every(STRIDE as u32, BURST as u32),
            order: (0..BURST as u32).collect(),
        }
    }
}

impl BurstSender for Sink {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        let sent = want.min(BURST);
        fill.fill(0, &mut Batch::new(&mut self.memory, &mut self.slots, &self.order[..sent], STRIDE));
        // Simulates a device that reads the frames: the compiler must not omit any byte.
        std::hint::black_box((&mut self.memory, &mut self.slots));
        Ok(Handed { sent, refused: 0 })
    }
}

#[derive(Debug, Default)]
struct Queue {
    frames: Mutex<VecDeque<(Vec<u8>, Nanos)>>,
    arrived: Condvar,
}

/// The sending half of a [`pipe`].
#[derive(Debug)]
pub struct PipeSender {
    queue: Arc<Queue>,
    room: usize,
    clock: fn() -> Nanos,
}

/// The receiving half of a [`pipe`].
#[derive(Debug)]
pub struct PipeReceiver {
    queue: Arc<Queue>,
}

/// Makes a queue for at most `room` frames, which arrive at the time that `clock` gives when they are sent.
#[must_use]
pub fn pipe(room: usize, clock: fn() -> Nanos) -> (PipeSender, PipeReceiver) {
    let queue = Arc::new(Queue::default());
    (PipeSender { queue: Arc::clone(&queue), room, clock }, PipeReceiver { queue })
}

impl BurstSender for PipeSender {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        let mut frames = self.queue.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = want.min(BURST).min(self.room - frames.len().min(self.room));
        for i in 0..sent {
            let mut buffer = vec![0; FrameSize::MAX.without_fcs()];
            let length = fill_one(fill, i, &mut buffer);
            buffer.truncate(length);
            frames.push_back((buffer, (self.clock)()));
        }
        self.queue.arrived.notify_one();
        Ok(Handed { sent, refused: 0 })
    }
}

impl BurstReceiver for PipeReceiver {
    fn begin(&mut self) -> Result<(), PortError> {
        self.queue.frames.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    fn receive(&mut self, wait: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> Result<usize, PortError> {
        let frames = self.queue.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut frames, _) = self
            .queue
            .arrived
            .wait_timeout_while(frames, Duration::from_nanos(wait.0), |f| f.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let here: Vec<_> = frames.drain(..).collect();
        drop(frames);
        for (bytes, at) in &here {
            #[expect(clippy::cast_possible_truncation, reason = "no frame is longer than 9238 bytes")]
            take(Arrived { bytes, length: bytes.len() as u32, at: *at });
        }
        Ok(here.len())
    }

    fn dropped(&mut self) -> Result<u64, PortError> {
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_of_a_pipe_as_they_went_in_and_a_full_one_takes_no_more() {
        let (mut tx, mut rx) = pipe(3, || Nanos(5));
        let mut fill = |i: usize, b: &mut [u8]| {
            b[0] = u8::try_from(i).unwrap();
            i + 1
        };
        assert_eq!(tx.send(4, &mut fill).unwrap(), Handed { sent: 3, refused: 0 });
        assert_eq!(tx.send(4, &mut fill).unwrap(), Handed { sent: 0, refused: 0 });
        let mut seen = Vec::new();
        let n = rx.receive(Nanos(0), &mut |a| seen.push((a.bytes.to_vec(), a.length, a.at))).unwrap();
        assert_eq!(n, 3);
        assert_eq!(seen[2], (vec![2, 0, 0], 3, Nanos(5)));
    }
}

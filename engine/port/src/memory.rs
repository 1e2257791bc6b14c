//! A port without a device. [`Sink`] swallows what is sent: what the CPU alone can do. [`pipe`] is two halves of one
//! queue, for tests of what stands above.

use crate::error::PortError;
use crate::port::{Arrived, BurstReceiver, BurstSender, Handed};
use dutlab_units::{FrameSize, Nanos};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Frames in a burst.
const BURST: usize = 64;

/// Swallows frames.
#[derive(Debug)]
pub struct Sink {
    buffers: Vec<Vec<u8>>,
}

impl Default for Sink {
    fn default() -> Self {
        Self { buffers: vec![vec![0; FrameSize::MAX.without_fcs()]; BURST] }
    }
}

impl BurstSender for Sink {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn send(&mut self, want: usize, fill: &mut dyn FnMut(usize, &mut [u8]) -> usize) -> Result<Handed, PortError> {
        let sent = want.min(BURST);
        for (i, buffer) in self.buffers[..sent].iter_mut().enumerate() {
            let length = fill(i, buffer);
            std::hint::black_box(&buffer[..length]);
        }
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

/// A queue with room for `room` frames, which arrive at the instant that `clock` says when they are sent.
#[must_use]
pub fn pipe(room: usize, clock: fn() -> Nanos) -> (PipeSender, PipeReceiver) {
    let queue = Arc::new(Queue::default());
    (PipeSender { queue: Arc::clone(&queue), room, clock }, PipeReceiver { queue })
}

impl BurstSender for PipeSender {
    fn burst_max(&self) -> usize {
        BURST
    }

    fn send(&mut self, want: usize, fill: &mut dyn FnMut(usize, &mut [u8]) -> usize) -> Result<Handed, PortError> {
        let mut frames = self.queue.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = want.min(BURST).min(self.room - frames.len().min(self.room));
        for i in 0..sent {
            let mut buffer = vec![0; FrameSize::MAX.without_fcs()];
            let length = fill(i, &mut buffer);
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

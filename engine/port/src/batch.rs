//! The buffers of a burst. One call fills them all: a call for each frame would cost more than the frame.
//!
//! Buffers are reused. Each [`Slot`] records the content of its buffer, so that a writer only needs to write what
//! changes from frame to frame.

/// State of one buffer of a back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Offset of the buffer in the back end's memory.
    pub start: u32,
    /// Length of the frame in it, without FCS.
    pub length: u32,
    /// Number of the template that the frame was made from, unique in this process; 0: unknown. The buffer differs from
    /// the template only in what changes from frame to frame.
    pub holds: u64,
}

impl Slot {
    /// The slots of a memory that is cut into buffers of `stride` bytes.
    #[must_use]
    pub fn every(stride: u32, count: u32) -> Box<[Self]> {
        (0..count).map(|i| Self { start: i * stride, ..Self::default() }).collect()
    }
}

/// Buffers to be filled with the next frames of a burst.
#[derive(Debug)]
pub struct Batch<'a> {
    memory: &'a mut [u8],
    slots: &'a mut [Slot],
    order: &'a [u32],
    room: usize,
}

/// One buffer of a batch.
#[derive(Debug)]
pub struct Buffer<'a> {
    /// The buffer.
    pub bytes: &'a mut [u8],
    /// Length of the frame in it; the writer sets it.
    pub length: &'a mut u32,
    /// Template number, see [`Slot::holds`]; the writer sets it.
    pub holds: &'a mut u64,
}

impl<'a> Batch<'a> {
    /// The buffers `slots[order[0]]`, `slots[order[1]]`, … of `room` bytes each.
    ///
    /// # Panics
    /// If a slot's buffer is not inside of `memory`, when it is used.
    #[must_use]
    pub const fn new(memory: &'a mut [u8], slots: &'a mut [Slot], order: &'a [u32], room: usize) -> Self {
        Self { memory, slots, order, room }
    }

    /// Number of frames wanted.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if no frame is wanted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The buffer of frame `i` of this batch.
    #[inline]
    #[must_use]
    pub fn buffer(&mut self, i: usize) -> Buffer<'_> {
        let slot = &mut self.slots[self.order[i] as usize];
        let bytes = &mut self.memory[slot.start as usize..][..self.room];
        Buffer { bytes, length: &mut slot.length, holds: &mut slot.holds }
    }
}

/// Writes frames into buffers.
pub trait Fill {
    /// Writes frames `first`, `first + 1`, … of the burst, one into each buffer of `batch`, and sets their lengths.
    fn fill(&mut self, first: usize, batch: &mut Batch<'_>);
}

/// Simple form: `f(i, buffer)` writes frame i and returns its length.
impl<F: FnMut(usize, &mut [u8]) -> usize> Fill for F {
    fn fill(&mut self, first: usize, batch: &mut Batch<'_>) {
        for i in 0..batch.len() {
            let buffer = batch.buffer(i);
            let length = self(first + i, buffer.bytes);
            assert!(length <= buffer.bytes.len(), "a frame longer than its buffer");
            *buffer.holds = 0;
            #[expect(clippy::cast_possible_truncation, reason = "at most the buffer's length, a few thousand bytes")]
            let length = length as u32;
            *buffer.length = length;
        }
    }
}

/// Makes `fill` write frame `first` of a burst into `bytes`; returns its length.
pub fn fill_one(fill: &mut dyn Fill, first: usize, bytes: &mut [u8]) -> usize {
    let mut slot = [Slot::default()];
    let room = bytes.len();
    fill.fill(first, &mut Batch::new(bytes, &mut slot, &[0], room));
    slot[0].length as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_gets_the_buffer_that_the_order_names() {
        let mut memory = [0_u8; 30];
        let mut slots = Slot::every(10, 3);
        slots[2].holds = 7;
        let mut number = |i: usize, b: &mut [u8]| {
            b[0] = u8::try_from(i).unwrap();
            i
        };
        number.fill(4, &mut Batch::new(&mut memory, &mut slots, &[2, 0], 8));
        assert_eq!((memory[20], memory[0], memory[10]), (4, 5, 0));
        assert_eq!(slots[2], Slot { start: 20, length: 4, holds: 0 });
        assert_eq!((fill_one(&mut number, 5, &mut memory), memory[0]), (5, 5));
    }
}

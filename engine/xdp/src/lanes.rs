//! What the sending programs share with this process in mapped memory: how far each lane has come, and what it shall do.

use crate::contract::{self, Control, GAP_STEPS_LOG2, Lane, Refusals, Stream};
use crate::error::{Why, XdpError};
use crate::histogram::Histogram;
use crate::live::Words;
use crate::plan::Pace;
use crate::rows::{Part, Row};
use crate::shared::{SharedArray, load, load32, load64, store32, store64};
use aya::Ebpf;
use std::ptr::addr_of_mut;

/// A gap that ends after 18 minutes: whoever pauses a lane moves its last frame on before that.
const PAUSE_Q24: u64 = u64::MAX - (1 << 24);

/// Where a part of a stream is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) part: Part,
    pub(crate) row: usize,
    /// Among those of the row.
    pub(crate) lane: usize,
}

/// The maps of a sender, by lane: a part of a stream on one CPU.
pub(crate) struct Lanes {
    control: SharedArray<Control>,
    streams: SharedArray<Stream>,
    refusals: SharedArray<Refusals>,
    gaps: SharedArray<u64>,
    /// The next number of each stream that CPUs share.
    numbers: SharedArray<u64>,
    cells: Vec<Cell>,
    /// Lanes of each row in the maps.
    width: usize,
}

impl Lanes {
    /// Maps them, with `first` as each stream is before its first frame.
    pub(crate) fn map(bpf: &Ebpf, rows: &[Row], width: usize, first: &[Stream]) -> Result<Self, XdpError> {
        let (count, buckets) = (rows.len(), contract::buckets(GAP_STEPS_LOG2));
        let lanes = Self {
            control: SharedArray::map(bpf, "control", count)?,
            streams: SharedArray::map(bpf, "streams", count * width)?,
            refusals: SharedArray::map(bpf, "refusals", count)?,
            gaps: SharedArray::map(bpf, "gaps", count * width * buckets)?,
            numbers: SharedArray::map(bpf, "numbers", first.len())?,
            cells: cells(rows),
            width,
        };
        for cell in &lanes.cells {
            lanes.streams.set(cell.row * width + cell.lane, first[cell.part.stream]);
        }
        Ok(lanes)
    }

    /// The row and the part of each.
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Sets all of a row, before its program runs.
    pub(crate) fn begin(&self, row: usize, control: &Control) {
        self.control.set(row, *control);
    }

    /// The words of a row that its thread writes.
    pub(crate) fn words(&self, row: usize) -> Words {
        Words { halt: self.addr_of_halt(row), tid: self.addr_of_tid(row) }
    }

    /// Why the program of a row no longer sends: `HALT_*`.
    pub(crate) fn halted(&self, row: usize) -> u32 {
        // SAFETY: the mapping's own word.
        unsafe { load32(self.addr_of_halt(row)) }
    }

    /// Has the program of a row halt.
    pub(crate) fn halt(&self, row: usize, why: u32) {
        // SAFETY: the mapping's own word.
        unsafe { store32(self.addr_of_halt(row), why) };
    }

    /// Where a lane is.
    pub(crate) fn standing(&self, lane: usize) -> Standing {
        let l = self.lane(lane);
        Standing { taken: self.stream(lane).sequence + l.at.missed, last_due_ns: l.at.last_ns }
    }

    /// Sets the distance of a paced lane's frames (`None`: a pause), and when the last one was due if that is to be
    /// forgotten. Holds from the next frame on.
    pub(crate) fn steer(&self, lane: usize, gap_ns: Option<f64>, last_due_ns: Option<u64>) {
        let gap = gap_ns.map_or(PAUSE_Q24, |g| {
            Pace::Every { gap_ns: g.clamp(1.0, 5e11) }.gap_and_burst().map_or(PAUSE_Q24, |g| g.0)
        });
        let Cell { row, lane, .. } = self.cells[lane];
        // SAFETY: `pointer` and the index into `lanes` are checked; both words are the mapping's. The program may store
        // a due time of its own at the same moment: then one frame leaves a gap too early.
        unsafe {
            if let Some(last) = last_due_ns {
                store64(&raw mut (*self.control.pointer(row)).lanes[lane].at.last_ns, last);
            }
            store64(&raw mut (*self.control.pointer(row)).lanes[lane].gap_q24, gap);
        }
    }

    /// Changes a lane's pace while it runs; it holds from the next frame on, counted from the last one's due time. A lane
    /// that began at full speed cannot be paced later, nor one with bursts go without.
    ///
    /// # Errors
    /// When there is no such lane or no such pace.
    pub(crate) fn set_pace(&self, lane: usize, pace: Pace) -> Result<(), Why> {
        let Some(&Cell { row, lane: in_row, .. }) = self.cells.get(lane) else {
            return Err(Why::Plan(format!("lane {lane} of {}", self.cells.len())));
        };
        let (gap, burst) = pace.gap_and_burst()?;
        let now = self.lane(lane);
        if gap == 0 || now.gap_q24 == 0 || burst != now.burst {
            return Err(Why::Plan("only the distance of a paced lane's frames or bursts can change".into()));
        }
        // SAFETY: `in_row` is below the array's length, and the pointer is the mapping's.
        unsafe { store64(addr_of_mut!((*self.control.pointer(row)).lanes[in_row].gap_q24), gap) };
        Ok(())
    }

    /// How far it has come.
    pub(crate) fn lane(&self, lane: usize) -> Lane {
        let Cell { row, lane, .. } = self.cells[lane];
        // SAFETY: the index is checked, and the lane is the mapping's; this process writes whole words of it only.
        unsafe { load(&raw const (*self.control.pointer(row)).lanes[lane]) }
    }

    /// What its stream has come to on its CPU.
    pub(crate) fn stream(&self, lane: usize) -> Stream {
        let Cell { row, lane, .. } = self.cells[lane];
        self.streams.get(row * self.width + lane)
    }

    /// A program's state. The thread writes `halt`, half of a word, so it cannot be copied as a whole.
    pub(crate) fn state(&self, row: usize) -> Control {
        let c = self.control.pointer(row);
        // SAFETY: fields of the mapped value.
        let (halt, [end_ns, begun_ns, ended_ns, now_ns]) = unsafe {
            let (end, begun) = (&raw const (*c).end_ns, &raw const (*c).begun_ns);
            let (ended, now) = (&raw const (*c).ended_ns, &raw const (*c).now_ns);
            (load32(&raw const (*c).halt), [end, begun, ended, now].map(|at| load64(at)))
        };
        let mut state = Control { halt, end_ns, begun_ns, ended_ns, now_ns, ..Control::default() };
        for (i, cell) in self.cells.iter().enumerate().filter(|(_, cell)| cell.row == row) {
            state.lanes[cell.lane] = self.lane(i);
        }
        state
    }

    /// What was refused on a CPU. The thread writes `tid`, likewise.
    pub(crate) fn refusals(&self, row: usize) -> Refusals {
        let r = self.refusals.pointer(row);
        // SAFETY: fields of the mapped value.
        unsafe {
            let (by_driver, before) = (load64(&raw const (*r).by_driver), load64(&raw const (*r).before));
            Refusals { by_driver, before, last_error: load32(&raw const (*r).last_error), ..Refusals::default() }
        }
    }

    /// The next number of the stream that a cell is a part of, where CPUs share it.
    pub(crate) fn next_number(&self, cell: &Cell) -> u64 {
        self.numbers.get(cell.part.stream)
    }

    /// Times from frame to frame of a cell.
    pub(crate) fn gaps(&self, cell: &Cell) -> Histogram {
        let buckets = contract::buckets(GAP_STEPS_LOG2);
        let first = (cell.row * self.width + cell.lane) * buckets;
        Histogram::new(GAP_STEPS_LOG2, self.gaps.range(first, buckets).collect())
    }

    fn addr_of_halt(&self, row: usize) -> *mut u32 {
        // SAFETY: a field of the mapped value.
        unsafe { addr_of_mut!((*self.control.pointer(row)).halt) }
    }

    fn addr_of_tid(&self, row: usize) -> *mut u32 {
        // SAFETY: a field of the mapped value.
        unsafe { addr_of_mut!((*self.refusals.pointer(row)).tid) }
    }
}

/// Where a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Frames offered to the device and not taken back, and frames skipped.
    pub(crate) taken: u64,
    /// When the last of them was due.
    pub(crate) last_due_ns: u64,
}

fn cells(rows: &[Row]) -> Vec<Cell> {
    let of = |(row, r): (usize, &Row)| {
        r.parts.iter().enumerate().map(move |(lane, part)| Cell { part: *part, row, lane }).collect::<Vec<_>>()
    };
    rows.iter().enumerate().flat_map(of).collect()
}

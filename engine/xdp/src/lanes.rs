//! Mapped memory that the sending programs share with this process: the progress of each lane, and its instructions.

use crate::contract::{self, Control, GAP_STEPS_LOG2, Lane, Refusals};
use crate::error::{Why, XdpError};
use crate::histogram::Histogram;
use crate::live::Words;
use crate::plan::Pace;
use crate::rows::{Part, Row};
use crate::shared::{SharedArray, load, load32, load64, store32, store64};
use aya::Ebpf;
use std::ptr::addr_of_mut;

/// A gap that ends after 18 minutes. A paused lane's last frame must be moved on before that.
const PAUSE_Q24: u64 = u64::MAX - (1 << 24);

/// Place where a part of a stream is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) part: Part,
    pub(crate) row: usize,
    /// Index among the lanes of the row.
    pub(crate) lane: usize,
}

/// Maps of a sender, by lane: a part of a stream on one CPU.
pub(crate) struct Lanes {
    control: SharedArray<Control>,
    refusals: SharedArray<Refusals>,
    gaps: SharedArray<u64>,
    /// Next number of each stream that CPUs share.
    numbers: SharedArray<u64>,
    cells: Vec<Cell>,
    /// Number of lanes of each row in the maps.
    width: usize,
}

impl Lanes {
    /// Maps them, for so many `streams`.
    pub(crate) fn map(bpf: &Ebpf, rows: &[Row], width: usize, streams: usize) -> Result<Self, XdpError> {
        let (count, buckets) = (rows.len(), contract::buckets(GAP_STEPS_LOG2));
        Ok(Self {
            control: SharedArray::map(bpf, "control", count)?,
            refusals: SharedArray::map(bpf, "refusals", count)?,
            gaps: SharedArray::map(bpf, "gaps", count * width * buckets)?,
            numbers: SharedArray::map(bpf, "numbers", streams)?,
            cells: cells(rows),
            width,
        })
    }

    /// Returns the row and the part of each lane.
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Sets all values of a row, before its program runs.
    pub(crate) fn begin(&self, row: usize, control: &Control) {
        self.control.set(row, *control);
    }

    /// Returns the words of a row that its thread writes.
    pub(crate) fn words(&self, row: usize) -> Words {
        Words { halt: self.addr_of_halt(row), tid: self.addr_of_tid(row) }
    }

    /// Returns the reason why the program of a row has stopped sending: `HALT_*`.
    pub(crate) fn halted(&self, row: usize) -> u32 {
        // SAFETY: the mapping's own word.
        unsafe { load32(self.addr_of_halt(row)) }
    }

    /// Makes the program of a row halt.
    pub(crate) fn halt(&self, row: usize, why: u32) {
        // SAFETY: the mapping's own word.
        unsafe { store32(self.addr_of_halt(row), why) };
    }

    /// Returns the position of a lane.
    pub(crate) fn standing(&self, lane: usize) -> Standing {
        let l = self.lane(lane);
        Standing { taken: l.stream.sequence + l.at.missed, last_due_ns: l.at.last_ns }
    }

    /// Sets the gap of a paced lane (`None`: a pause), and a new due time of its last frame, if given. Takes effect
    /// with the next frame.
    pub(crate) fn steer(&self, lane: usize, gap_ns: Option<f64>, last_due_ns: Option<u64>) {
        let gap = gap_ns.map_or(PAUSE_Q24, |g| {
            Pace::Every { gap_ns: g.clamp(1.0, 5e11) }.gap_and_burst().map_or(PAUSE_Q24, |g| g.0)
        });
        let Cell { row, lane, .. } = self.cells[lane];
        // SAFETY: `pointer` and the index into `lanes` are checked; both words belong to the mapping. The program may
        // store its own due time at the same moment: then one frame leaves a gap too early.
        unsafe {
            if let Some(last) = last_due_ns {
                store64(&raw mut (*self.control.pointer(row)).lanes[lane].at.last_ns, last);
            }
            store64(&raw mut (*self.control.pointer(row)).lanes[lane].gap_q24, gap);
        }
    }

    /// Changes a lane's pace while it runs. The change takes effect with the next frame, counted from the last one's
    /// due time. A lane that began at full speed cannot be paced later, and one with bursts cannot continue without.
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

    /// Returns the progress of a lane.
    pub(crate) fn lane(&self, lane: usize) -> Lane {
        let Cell { row, lane, .. } = self.cells[lane];
        // SAFETY: the index is checked, and the lane belongs to the mapping; this process writes only whole words of
        // it.
        unsafe { load(&raw const (*self.control.pointer(row)).lanes[lane]) }
    }

    /// Returns a program's state. The thread writes `halt`, half of a word, so it cannot be copied as a whole.
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

    /// Returns the refusals on a CPU. The thread writes `tid`, half of a word.
    pub(crate) fn refusals(&self, row: usize) -> Refusals {
        let r = self.refusals.pointer(row);
        // SAFETY: fields of the mapped value.
        unsafe {
            let (by_driver, before) = (load64(&raw const (*r).by_driver), load64(&raw const (*r).before));
            Refusals { by_driver, before, last_error: load32(&raw const (*r).last_error), ..Refusals::default() }
        }
    }

    /// Returns the next number of the stream that a cell is a part of, if CPUs share it.
    pub(crate) fn next_number(&self, cell: &Cell) -> u64 {
        self.numbers.get(cell.part.stream)
    }

    /// Returns the gaps between frames of a cell.
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

/// Position of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Frames offered to the device and not taken back, and frames skipped.
    pub(crate) taken: u64,
    /// Due time of the last of them.
    pub(crate) last_due_ns: u64,
}

fn cells(rows: &[Row]) -> Vec<Cell> {
    let of = |(row, r): (usize, &Row)| {
        r.parts.iter().enumerate().map(move |(lane, part)| Cell { part: *part, row, lane }).collect::<Vec<_>>()
    };
    rows.iter().enumerate().flat_map(of).collect()
}

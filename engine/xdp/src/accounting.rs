//! The receiver's program with its maps, loaded and not attached, and the shelf of those that are not in use.
//!
//! The verifier takes a fifth of a second of CPU time for this program, more than all other work around a short trial.
//! So a loaded program stays loaded after its trial, and serves the next one that differs from it only in values.

use crate::contract::{self, COARSE_LOG2, FINE_LOG2, Ledger, NO_STREAM, Others, Tally};
use crate::error::{Why, XdpError};
use crate::setup::small;
use crate::shared::SharedArray;
use crate::{objects, system};
use aya::maps::Array;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, Program, Xdp};
use aya::{Ebpf, EbpfLoader};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows of totals from which on latencies are coarse, to save memory (30 kB a row, not 216).
const FINE_ROWS: usize = 256;
/// Frames of one poll that share a reading of the clock.
const CLOCK_USES: u32 = 16;
const OBSERVER: &str = "end_of_poll";
/// Limit of the memory that the maps of unused programs take.
const SHELF_BYTES: usize = 32 << 20;

/// Constants of the program and sizes of its maps: a trial of another shape needs another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the program by itself")]
pub(crate) struct Shape {
    /// Number of streams that are accounted for.
    pub(crate) streams: usize,
    /// Their greatest number, if they are not consecutive.
    pub(crate) scattered_to: Option<u16>,
    /// Rows of totals per stream: 1, or one per CPU where several may receive.
    pub(crate) cpus: usize,
    /// True if several CPUs may receive.
    pub(crate) shared: bool,
    /// Number of receive queues that are counted separately.
    pub(crate) queues: u32,
    /// True if the same queue is a separate way on each CPU.
    pub(crate) by_cpu: bool,
    /// True if transport checksums are verified.
    pub(crate) verify: bool,
    /// True if the clock is read for each frame.
    pub(crate) clock_for_each_frame: bool,
}

impl Shape {
    pub(crate) fn rows(&self) -> usize {
        self.streams * self.cpus
    }

    pub(crate) fn steps_log2(&self) -> u32 {
        if self.rows() <= FINE_ROWS { FINE_LOG2 } else { COARSE_LOG2 }
    }

    /// Name of its program.
    fn program(&self) -> &'static str {
        if self.shared { "account_shared" } else { "account_alone" }
    }

    /// Number of ways of a stream: see `ways` of `receiver.bpf.c`.
    pub(crate) fn ways(&self) -> usize {
        self.queues as usize * if self.by_cpu { self.cpus } else { 1 }
    }

    fn latencies(&self) -> usize {
        self.rows() * contract::buckets(self.steps_log2())
    }
}

/// Values that change between trials of one shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial<'a> {
    /// Number in its probes.
    pub(crate) number: u16,
    /// Its streams.
    pub(crate) streams: &'a [u16],
}

/// A loaded program and its maps.
pub(crate) struct Accounting {
    pub(crate) shape: Shape,
    pub(crate) tallies: SharedArray<Tally>,
    pub(crate) ledgers: SharedArray<Ledger>,
    pub(crate) latencies: SharedArray<u64>,
    pub(crate) others: SharedArray<Others>,
    pub(crate) ways: SharedArray<u64>,
    ids: Option<SharedArray<u32>>,
    /// True if frames share readings of the clock, for which the program observes polls.
    observes: bool,
    observing: Option<BtfTracePointLink>,
    bpf: Ebpf,
}

impl Accounting {
    /// Returns a program that can be attached to account for a trial; until that begins, all its frames are stale.
    ///
    /// # Errors
    /// The refusal of the kernel; `iface` is for the message.
    pub(crate) fn take(iface: &str, shape: Shape, trial: &Trial<'_>) -> Result<OnLoan, XdpError> {
        let kept = {
            let mut all = shelf();
            all.iter().position(|a| a.shape == shape).map(|i| all.remove(i))
        };
        let mut accounting = OnLoan {
            retired: false,
            held: Some(match kept {
                Some(accounting) => accounting,
                None => Self::load(shape).map_err(|e| XdpError { iface: iface.into(), ..e })?,
            }),
        };
        accounting.prepare(trial).map_err(|e| XdpError { iface: iface.into(), ..e })?;
        Ok(accounting)
    }

    fn load(shape: Shape) -> Result<Self, XdpError> {
        let btf = system::kernel_types();
        let (verify, by_cpu) = (u8::from(shape.verify), u8::from(shape.by_cpu));
        let use_ids = u8::from(shape.scattered_to.is_some());
        // Without the observer of polls, it is unknown when a reading of the clock is too old.
        let clock_uses = if shape.clock_for_each_frame || btf.is_none() { 1 } else { CLOCK_USES };
        let (count, cpu_count) = (small(shape.streams), small(shape.cpus));
        let coarse = u8::from(shape.steps_log2() == COARSE_LOG2);
        let mut loader = EbpfLoader::new();
        loader
            .btf(btf)
            .override_global("verify", &verify, true)
            .override_global("use_ids", &use_ids, true)
            .override_global("cpus", &cpu_count, true)
            .override_global("stream_count", &count, true)
            .override_global("coarse", &coarse, true)
            .override_global("queues", &shape.queues, true)
            .override_global("by_cpu", &by_cpu, true)
            .override_global("clock_uses", &clock_uses, true)
            .map_max_entries("tallies", small(shape.rows()))
            .map_max_entries("ledgers", count)
            .map_max_entries("latencies", small(shape.latencies()))
            .map_max_entries("others", cpu_count)
            .map_max_entries("ways", small(shape.streams * shape.ways()));
        let ids = shape.scattered_to.map(|most| usize::from(most) + 1);
        if let Some(ids) = ids {
            loader.map_max_entries("ids", small(ids));
        }
        let mut bpf = loader.load(objects::RECEIVER).map_err(|e| XdpError::load("", "bpf(BPF_MAP_CREATE)", &e))?;
        let load_failed = |e| XdpError::load("", "bpf(BPF_PROG_LOAD)", &e);
        if let Some(btf) = btf.filter(|_| clock_uses > 1) {
            program::<BtfTracePoint>(&mut bpf, OBSERVER)?.load("napi_poll", btf).map_err(load_failed)?;
        }
        program::<Xdp>(&mut bpf, shape.program())?.load().map_err(load_failed)?;
        Ok(Self {
            shape,
            tallies: SharedArray::map(&bpf, "tallies", shape.rows())?,
            ledgers: SharedArray::map(&bpf, "ledgers", shape.streams)?,
            latencies: SharedArray::map(&bpf, "latencies", shape.latencies())?,
            others: SharedArray::map(&bpf, "others", shape.cpus)?,
            ways: SharedArray::map(&bpf, "ways", shape.streams * shape.ways())?,
            ids: ids.map(|len| SharedArray::map(&bpf, "ids", len)).transpose()?,
            observes: clock_uses > 1,
            observing: None,
            bpf,
        })
    }

    /// Sets the values of a trial.
    fn prepare(&mut self, trial: &Trial<'_>) -> Result<(), XdpError> {
        let streams = trial.streams;
        self.ignore_all();
        if let Some(ids) = &self.ids {
            (0..ids.len()).for_each(|i| ids.set(i, NO_STREAM));
            for (number, id) in (0..).zip(streams) {
                ids.set(usize::from(*id), number);
            }
        }
        let first = streams.first().map_or(0, |id| u64::from(*id));
        let asked = [first, u64::from(trial.number.to_be())];
        let missing = || XdpError::new("", "map", Why::Other("the object has no map .bss".into()));
        let failed = |e| XdpError::load("", "bpf(BPF_MAP_UPDATE_ELEM)", &e);
        let mut map = Array::<_, [u64; 2]>::try_from(self.bpf.map_mut(".bss").ok_or_else(missing)?).map_err(failed)?;
        map.set(0, asked, 0).map_err(failed)?;
        if self.observes {
            let observer = program::<BtfTracePoint>(&mut self.bpf, OBSERVER)?;
            let failed = |e| XdpError::load("", "bpf(BPF_RAW_TRACEPOINT_OPEN)", &e);
            let link = observer.attach().map_err(failed)?;
            self.observing = Some(observer.take_link(link).map_err(failed)?);
        }
        Ok(())
    }

    /// Makes every frame of ours stale from now on.
    pub(crate) fn ignore_all(&self) {
        for i in 0..self.tallies.len() {
            self.tallies.set(i, Tally { begin_ns: u64::MAX, ..Tally::default() });
        }
    }

    /// Returns the program to attach.
    pub(crate) fn program(&mut self) -> Result<&mut Xdp, XdpError> {
        program(&mut self.bpf, self.shape.program())
    }

    fn bytes(&self) -> usize {
        let ids = self.ids.as_ref().map_or(0, SharedArray::bytes);
        self.tallies.bytes()
            + self.ledgers.bytes()
            + self.latencies.bytes()
            + self.others.bytes()
            + self.ways.bytes()
            + ids
    }
}

fn program<'a, P>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P, XdpError>
where
    &'a mut P: TryFrom<&'a mut Program>,
{
    let missing = || XdpError::new("", "load", Why::Other(format!("the object has no program {name}")));
    bpf.program_mut(name).and_then(|p| p.try_into().ok()).ok_or_else(missing)
}

/// A program in use. It returns to the shelf when dropped; it must then be on no interface and not be running.
pub(crate) struct OnLoan {
    held: Option<Accounting>,
    /// True if it must not be used again.
    retired: bool,
}

impl OnLoan {
    /// Keeps it from returning to the shelf.
    pub(crate) fn retire(&mut self) {
        self.retired = true;
    }
}

impl Deref for OnLoan {
    type Target = Accounting;

    fn deref(&self) -> &Accounting {
        self.held.as_ref().expect("it is given back by drop only")
    }
}

impl DerefMut for OnLoan {
    fn deref_mut(&mut self) -> &mut Accounting {
        self.held.as_mut().expect("it is given back by drop only")
    }
}

impl Drop for OnLoan {
    fn drop(&mut self) {
        let Some(mut accounting) = self.held.take() else { return };
        accounting.observing = None;
        if self.retired {
            return;
        }
        let mut all = shelf();
        all.push(accounting);
        while all.iter().map(Accounting::bytes).sum::<usize>() > SHELF_BYTES {
            all.remove(0);
        }
    }
}

/// Unused programs, the most recently used last.
fn shelf() -> MutexGuard<'static, Vec<Accounting>> {
    static SHELF: Mutex<Vec<Accounting>> = Mutex::new(Vec::new());
    // A thread that panicked while it held the lock left complete programs behind.
    SHELF.lock().unwrap_or_else(PoisonError::into_inner)
}

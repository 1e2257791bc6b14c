//! Sender: on each CPU a thread inside one long live-frame call, controlled and read through shared memory.

use crate::contract::{Control, HALT_ALL_SENT, HALT_ASKED, HALT_NO, HALT_TIME_UP, Refusals};
use crate::error::{Why, XdpError};
use crate::lanes::{Cell, Lanes};
use crate::live::Call;
use crate::plan::{Pace, XdpPlan};
use crate::rows::{Part, Row};
use crate::sent::{SendEnd, SendReport, SentLane, backlog};
use crate::setup::{
    self, Facts, batch, control_of, end_of, fill, fill_payload, is_paced, observe, program_for, small, tables,
};
use crate::system;
use aya::Ebpf;
use aya::programs::Xdp;
use dutlab_port::clock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Setup time of a call, about 25 ms (a pool of pages), with a margin; the first frame is due after that.
const SETUP_NS: u64 = 50_000_000;
/// Longest delay up to which a paced frame that found no room is offered again; `pace.h` skips later frames.
const HELD_MOST_NS: u64 = 100_000_000;
/// A thread that sends, and its CPU.
struct Worker {
    cpu: Option<u32>,
    tid: Arc<AtomicI32>,
    call: Option<Call>,
    thread: Option<JoinHandle<Result<(), XdpError>>>,
}

/// Sender of one trial. Dropping it stops it and waits for its threads.
pub(crate) struct XdpSender {
    iface: String,
    lanes: Lanes,
    start_ns: u64,
    end_ns: u64,
    facts: system::Interface,
    refusals_known: bool,
    /// A frame that the device refuses stays refused; its number is used up.
    refused_for_good: bool,
    through_link_loss: bool,
    workers: Vec<Worker>,
}

impl XdpSender {
    /// Loads everything that is needed to send on `iface`, which is in the calling thread's network namespace. Sends
    /// nothing yet.
    ///
    /// # Errors
    /// When the plan, the interface, the permission or the kernel does not allow it; nothing is left behind then.
    pub(crate) fn prepare(iface: &str, plan: &XdpPlan) -> Result<Self, XdpError> {
        plan.check().map_err(|why| XdpError::new(iface, "plan", why))?;
        let facts = system::Interface::find(iface)?;
        let longest = plan.templates().map(crate::template::Template::len).max().unwrap_or(0);
        facts.can_send(longest)?;

        let t = tables(plan);
        // The head is copied as a whole before the frame is cut to its length, so the page holds at least the head.
        let cut_each = facts.keeps_what_drivers_wrote();
        let data_len = longest.max(plan.copied_head()) + usize::from(cut_each);
        let mut page = vec![0; data_len];
        for f in plan.templates() {
            page[..f.len()].copy_from_slice(f.bytes());
        }
        let keeps_log = program_for(plan, &t) == "send_any";
        // A card only reads the page. Behind a veth the DUT owns the page, and may leave it altered.
        let rewrite = facts.driver == "veth" || facts.driver == "unknown";
        let told = Facts { ifindex: facts.index, log: keeps_log, rewrite, cut_each, data_len: small(data_len) };
        let mut bpf = setup::load(iface, plan, &t, &told)?;
        let maps = |e: XdpError| XdpError { iface: iface.into(), ..e };
        let lanes = Lanes::map(&bpf, &plan.rows, plan.width(), t.streams.len()).map_err(maps)?;
        fill_rows(&bpf, &plan.rows).map_err(maps)?;
        fill_payload(&mut bpf, page.get(plan.copied_head()..).unwrap_or(&[])).map_err(maps)?;
        fill(&bpf, "shapes", &t.shapes).map_err(maps)?;
        fill(&bpf, "orders", &t.orders).map_err(maps)?;
        fill(&bpf, "flows4", &t.flows4).map_err(maps)?;
        fill(&bpf, "flows6", &t.flows6).map_err(maps)?;
        let program = program_for(plan, &t);
        let loaded: &mut Xdp = bpf
            .program_mut(program)
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| XdpError::new(iface, "load", Why::Other(format!("the object has no program {program}"))))?;
        loaded.load().map_err(|e| XdpError::load(iface, "bpf(BPF_PROG_LOAD)", &e))?;
        let refusals_known = observe(&mut bpf);

        // Loading took time. A plan that is shifted stays whole; one that begins at once must catch up.
        let start_ns = (clock::monotonic().0 + SETUP_NS).max(plan.start_ns);
        for (i, row) in plan.rows.iter().enumerate() {
            lanes.begin(i, &control_of(plan, &t, row, start_ns).map_err(|why| XdpError::new(iface, "plan", why))?);
        }
        system::install_wake_signal().map_err(|e| XdpError::system(iface, "sigaction", e))?;

        let bpf = Arc::new(bpf);
        let worker = |(i, row): (usize, &Row)| {
            let (bpf, page) = (Arc::clone(&bpf), page.clone());
            let call = Call {
                iface: iface.into(),
                bpf,
                program,
                page,
                batch: batch(plan),
                cpu: row.cpu,
                words: lanes.words(i),
            };
            Worker { cpu: row.cpu, tid: Arc::default(), call: Some(call), thread: None }
        };
        let workers = plan.rows.iter().enumerate().map(worker).collect();
        Ok(Self {
            iface: iface.into(),
            lanes,
            start_ns,
            end_ns: end_of(plan, start_ns),
            facts,
            refusals_known,
            refused_for_good: !keeps_log && !is_paced(plan),
            through_link_loss: plan.through_link_loss,
            workers,
        })
    }

    /// Starts the sending threads, once. A thread without a CPU may run on the CPUs of the calling thread.
    ///
    /// # Errors
    /// When no thread can be created.
    pub(crate) fn launch(&mut self) -> Result<(), XdpError> {
        for worker in &mut self.workers {
            let Some(call) = worker.call.take() else { continue };
            let tid = Arc::clone(&worker.tid);
            let thread = thread::Builder::new().name(format!("send-{}", self.iface)).spawn(move || call.run(&tid));
            worker.thread = Some(thread.map_err(|e| XdpError::system(&self.iface, "pthread_create", e))?);
        }
        Ok(())
    }

    /// Returns the parts of streams that are sent, in the order of [`report`](Self::report). Other functions call the
    /// index of a part a lane.
    pub(crate) fn parts(&self) -> impl ExactSizeIterator<Item = Part> + '_ {
        self.lanes.cells().iter().map(|c| c.part)
    }

    /// Returns the name of the interface.
    pub(crate) fn iface(&self) -> &str {
        &self.iface
    }

    /// Returns the start and the end of the time in which frames are due: later than planned if loading took too long.
    pub(crate) fn span_ns(&self) -> (u64, u64) {
        (self.start_ns, self.end_ns)
    }

    /// Returns the counters and controls of its lanes.
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Changes a lane's pace while it runs, see [`Lanes::set_pace`].
    ///
    /// # Errors
    /// When there is no such lane or no such pace.
    pub(crate) fn set_pace(&self, lane: usize, pace: Pace) -> Result<(), XdpError> {
        self.lanes.set_pace(lane, pace).map_err(|why| XdpError::new(&self.iface, "set_pace", why))
    }

    /// Returns the state of sending. Also ends the call when the program has nothing more to send, so it must be called
    /// regularly.
    ///
    /// # Errors
    /// `PortVanished` when the interface is gone; the sender has stopped then.
    pub(crate) fn poll(&mut self) -> Result<SendEnd, XdpError> {
        let over = |row: usize, w: &Worker| {
            self.lanes.halted(row) != HALT_NO || w.thread.as_ref().is_some_and(JoinHandle::is_finished)
        };
        let ended: Vec<_> = (0..).zip(&self.workers).filter(|(row, w)| over(*row, w)).map(|(row, _)| row).collect();
        for row in &ended {
            if let Err(e) = self.finish(*row) {
                // The others should not find out one by one.
                let _ = self.stop();
                return Err(e);
            }
        }
        let wrong = || {
            if system::index_of(&self.iface) != Some(self.facts.index) {
                return Some(XdpError::new(&self.iface, "if_nametoindex", Why::PortVanished));
            }
            self.cut_off().or_else(|| self.moved())
        };
        if ended.len() < self.workers.len()
            && let Some(e) = wrong()
        {
            self.stop()?;
            return Err(e);
        }
        Ok(self.end())
    }

    /// Ends sending now and waits for the threads, which takes some milliseconds.
    ///
    /// # Errors
    /// The error of a call.
    pub(crate) fn stop(&mut self) -> Result<(), XdpError> {
        for row in 0..self.workers.len() {
            if self.lanes.halted(row) == HALT_NO {
                self.lanes.halt(row, HALT_ASKED);
            }
        }
        (0..self.workers.len()).map(|row| self.finish(row)).fold(Ok(()), Result::and)
    }

    /// Returns an error if a thread was moved off its CPU: its frames are counted only there.
    fn moved(&self) -> Option<XdpError> {
        let moved = |w: &&Worker| match (w.cpu, w.tid.load(Ordering::Acquire)) {
            (Some(cpu), tid) if tid != 0 && w.thread.is_some() => !system::is_pinned_to(tid, cpu),
            _ => false,
        };
        let cpu = self.workers.iter().find(moved)?.cpu?;
        let what = format!(
            "somebody took the thread that sends on CPU {cpu} off it: leave the engine's threads where they are"
        );
        Some(XdpError::new(&self.iface, "sched_getaffinity", Why::Other(what)))
    }

    /// Returns an error if the device takes no frames at all any more: it is down, a veth's peer is, or a card has no
    /// queue for the sending CPU (`mlx5e_xdp_xmit` returns ENXIO then). Never for a plan that continues through link
    /// loss: only the last refusal is known, and the link may be back.
    fn cut_off(&self) -> Option<XdpError> {
        if self.through_link_loss {
            return None;
        }
        (0..self.workers.len()).find_map(|row| self.cut_off_in(row))
    }

    fn cut_off_in(&self, row: usize) -> Option<XdpError> {
        let errno = self.lanes.refusals(row).last_error.cast_signed();
        let why = match errno {
            libc::ENXIO if self.facts.is_card() && self.facts.is_up() => Why::NoTransmitQueue {
                driver: self.facts.driver.clone(),
                cpu: system::cpu_of(self.workers[row].tid.load(Ordering::Acquire)),
            },
            libc::ENETDOWN | libc::ENXIO | libc::ENODEV => Why::PortVanished,
            _ => return None,
        };
        let source = Some(io::Error::from_raw_os_error(errno));
        Some(XdpError { source, ..XdpError::new(&self.iface, "bpf_redirect", why) })
    }

    /// Returns Running until no CPU sends any more; then the reason why one of them ended before its frames did, if
    /// any.
    fn end(&self) -> SendEnd {
        let halted = || (0..self.workers.len()).map(|row| self.lanes.halted(row));
        match halted().find(|why| *why == HALT_NO).or_else(|| halted().find(|why| *why != HALT_ALL_SENT)) {
            Some(HALT_NO) => SendEnd::Running,
            Some(HALT_TIME_UP) => SendEnd::TimeUp,
            None => SendEnd::AllSent,
            Some(_) => SendEnd::Stopped,
        }
    }

    /// Interrupts a call until its thread has ended: a signal that comes before the call begins is lost.
    fn finish(&mut self, row: usize) -> Result<(), XdpError> {
        let worker = &mut self.workers[row];
        let Some(thread) = worker.thread.take() else { return Ok(()) };
        while !thread.is_finished() {
            let tid = worker.tid.load(Ordering::Acquire);
            if tid != 0 {
                system::wake(tid);
            }
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().unwrap_or_else(|_| {
            Err(XdpError::new(&self.iface, "thread", Why::Other("the sending thread panicked".into())))
        })
    }

    /// Returns the counters so far; final once sending has ended.
    pub(crate) fn report(&self) -> SendReport {
        let rows: Vec<_> = (0..self.workers.len()).map(|row| self.row_so_far(row)).collect();
        let lane = |cell: &Cell| {
            let (control, refusals, behind) = &rows[cell.row];
            let lane = &control.lanes[cell.lane];
            let stream = &lane.stream;
            let backlog = backlog(control, cell.lane, self.end_ns);
            let shared = cell.part.of > 1;
            SentLane {
                part: cell.part,
                numbered: if shared { self.lanes.next_number(cell) } else { stream.sequence },
                offered: stream.sequence,
                refused: if self.refused_for_good { refusals.by_driver + refusals.before } else { stream.refused },
                offered_bytes: stream.bytes,
                missed: lane.at.missed + backlog,
                kept_out: lane.at.kept_out + if *behind { backlog } else { 0 },
                last_ns: match lane.at.sent_at_ns {
                    // If no gaps are kept, the last reading of the clock suffices: it is at most a few frames old.
                    0 => control.now_ns,
                    at => at,
                },
                late_max_ns: lane.late_max_ns,
                gaps: self.lanes.gaps(cell),
            }
        };
        let lanes = self.lanes.cells().iter().map(lane).collect();
        let instants = |of: fn(&Control) -> u64| rows.iter().map(move |(c, ..)| of(c)).filter(|n| *n != 0);
        SendReport {
            begun_ns: instants(|c| c.begun_ns).min(),
            ended_ns: instants(|c| c.ended_ns).max(),
            lanes,
            refusals_known: self.refusals_known,
        }
    }

    /// Returns the state of a row, its refusals, and whether its device blocks frames.
    fn row_so_far(&self, row: usize) -> (Control, Refusals, bool) {
        let mut control = self.lanes.state(row);
        let behind = control.lanes.iter().any(|l| l.behind_ns > 0);
        if self.workers[row].thread.is_some() {
            // The frames that the program would skip if the device made room now.
            control.ended_ns = if behind { clock::monotonic().0.saturating_sub(HELD_MOST_NS) } else { 0 };
        }
        (control, self.lanes.refusals(row), behind)
    }
}

impl Drop for XdpSender {
    fn drop(&mut self) {
        // The trial is over either way; a caller that needs the error calls `stop`.
        let _ = self.stop();
    }
}

/// Writes the row of each CPU into the program's map.
fn fill_rows(bpf: &Ebpf, rows: &[Row]) -> Result<(), XdpError> {
    if rows.len() > 1 {
        let mut of_cpu = vec![u32::MAX; system::possible_cpus()?];
        for (i, row) in rows.iter().enumerate() {
            if let Some(at) = row.cpu.and_then(|cpu| of_cpu.get_mut(cpu as usize)) {
                *at = small(i);
            }
        }
        fill(bpf, "rows", &of_cpu)?;
    }
    Ok(())
}

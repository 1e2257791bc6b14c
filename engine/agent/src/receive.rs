//! Receiving thread of a port.

mod frames;

use crate::live::{Live, StreamArrivals};
use dutlab_measure::Account;
use dutlab_port::missed::Missed;
use dutlab_port::{Counted, CountingReceiver, PortError, Receiver, Stamped, Watch, clock, cpu};
use dutlab_units::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Longest wait for frames, so that a stop is noticed.
const WAIT: Nanos = Nanos(10_000_000);
/// Number of waits between readings of the kernel's counters.
const READ_ROUNDS: u32 = 5;

/// Job of a receiving thread.
pub struct Job {
    /// Streams to watch.
    pub watch: Watch,
    /// The stream whose addresses and ports are kept.
    pub learn: Option<u16>,
    /// CPUs to run on: the thread of each queue on one of them, in turn. Empty: on any.
    pub cpus: Vec<u32>,
    /// Counter of drops in the port's hardware; `None` if there is no device.
    pub missed: Option<Missed>,
    /// End of receiving.
    pub end: Arc<End>,
    /// Counters for live views.
    pub live: Arc<Live>,
}

/// Control of the end of receiving: first frames count as late, then no more are taken.
#[derive(Debug)]
pub struct End {
    late_from: AtomicU64,
    stop: AtomicBool,
    /// Thread that sleeps meanwhile.
    sleeper: Mutex<Option<Thread>>,
}

impl Default for End {
    fn default() -> Self {
        Self { late_from: AtomicU64::new(u64::MAX), stop: AtomicBool::new(false), sleeper: Mutex::default() }
    }
}

impl End {
    /// Makes frames that arrive at `now` or later count as late.
    pub fn drain(&self, now: Nanos) {
        self.late_from.store(now.0, Ordering::Relaxed);
        self.wake();
    }

    /// Ends receiving soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn sleeper(&self) -> MutexGuard<'_, Option<Thread>> {
        // A thread that panicked while it held the lock left a valid value behind.
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(thread) = &*self.sleeper() {
            thread.unpark();
        }
    }

    fn late_from(&self) -> Nanos {
        Nanos(self.late_from.load(Ordering::Relaxed))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Counters, kept here or in the kernel.
pub enum Tally {
    /// Counted here, frame by frame.
    Here(Box<Account>),
    /// Counted by the back end.
    Kernel {
        /// Final counters.
        counted: Counted,
        /// Counters a moment after frames began to be late; `None`: they never did.
        before_late: Option<Counted>,
    },
}

/// Result of a receiving thread.
pub struct Done {
    /// The receiving half, for the next trial.
    pub receiver: Receiver,
    /// Counters of the received frames.
    pub tally: Tally,
    /// Frames dropped for lack of room by the kernel, or by the port's hardware before it; `None`: unknown.
    pub dropped: Option<u64>,
    /// Frames without a probe that the back end left to the host.
    pub passed: u64,
    /// Sources of the frames' times.
    pub stamped: Stamped,
    /// Reason of the end, if the port failed.
    pub error: Option<PortError>,
}

/// Receives until the stop. The receiver has begun already.
pub fn run(mut receiver: Receiver, job: &Job) -> Done {
    let (tally, (dropped, passed), error) = match &mut receiver {
        Receiver::Burst(queues) => {
            let blank = Account::new(Nanos::ZERO, &job.watch.ids()).of_trial(job.watch.trial).learning(job.learn);
            let mut account = job
                .watch
                .streams
                .iter()
                .fold(blank, |all, one| all.with_sender_clock_of(one.id, one.begin, one.sender_ahead));
            let outcome = frames::receive(queues, job, &mut account);
            // A counter that cannot be read is not 0: the failure is reported, and the count stays unknown.
            let dropped = queues.iter_mut().map(|rx| rx.dropped()).sum::<Result<u64, _>>();
            let passed = queues.iter_mut().map(|rx| rx.passed()).sum::<Result<u64, _>>();
            let counts = (dropped.as_ref().ok().copied(), passed.as_ref().map_or(0, |n| *n));
            (Tally::Here(Box::new(account)), counts, outcome.err().or(dropped.err()).or(passed.err()))
        }
        Receiver::Counting(rx) => match counts(rx.as_mut(), job) {
            Ok((counted, before_late)) => {
                let dropped = counted.dropped;
                (Tally::Kernel { counted, before_late }, (dropped, 0), None)
            }
            Err(e) => (Tally::Kernel { counted: Counted::default(), before_late: None }, (None, 0), Some(e)),
        },
    };
    let stamped = match (&receiver, &tally) {
        (Receiver::Burst(queues), _) => queues.iter().fold(Stamped::default(), |all, rx| all.and(rx.stamped())),
        (_, Tally::Kernel { counted, .. }) => counted.stamped,
        _ => Stamped::default(),
    };
    let missed = job.missed.as_ref().map_or(Ok(0), Missed::count);
    let dropped = dropped.zip(missed.as_ref().ok()).map(|(kernel, hardware)| kernel + hardware);
    Done { receiver, tally, dropped, passed, stamped, error: error.or(missed.err()) }
}

fn publish(live: &Live, now: Nanos, account: &mut Account, dropped: u64) {
    live.latency_max.raise(account.take_latency_max().0);
    live.kernel_dropped.set(dropped);
    let streams = account.streams().iter().map(|s| StreamArrivals {
        received: s.ledger.received(),
        bytes: s.bytes,
        duplicated: s.ledger.duplicated(),
        reordered: s.ledger.reordered(),
        next: s.ledger.next(),
        latency_count: s.latency.count(),
        latency_sum: u64::try_from(s.latency.sum_ns()).unwrap_or(u64::MAX),
    });
    live.arrived(now, streams);
}

/// Returns the final counters, and the counters when frames began to be late.
fn counts(rx: &mut dyn CountingReceiver, job: &Job) -> Result<(Counted, Option<Counted>), PortError> {
    cpu::pin_to_nth(&job.cpus, 0);
    let mut rounds = 0_u32;
    let mut before_late = None;
    *job.end.sleeper() = Some(std::thread::current());
    while !job.end.is_stopped() {
        std::thread::park_timeout(Duration::from_nanos(WAIT.0));
        if before_late.is_none() && job.end.late_from() != Nanos(u64::MAX) {
            before_late = Some(rx.read()?);
        }
        // Reading all maps costs more than reading a flag.
        rounds += 1;
        if rounds.is_multiple_of(READ_ROUNDS) {
            let now = clock::monotonic();
            publish_counted(&job.live, now, &rx.read()?);
        }
    }
    let counted = rx.end()?;
    publish_counted(&job.live, clock::monotonic(), &counted);
    Ok((counted, before_late))
}

fn publish_counted(live: &Live, now: Nanos, c: &Counted) {
    live.kernel_dropped.set(c.dropped.unwrap_or(0));
    let streams = c.streams.iter().map(|s| StreamArrivals {
        received: s.received,
        bytes: s.bytes,
        duplicated: s.duplicated,
        reordered: s.reordered,
        next: s.next,
        latency_count: s.latency.iter().map(|(_, n)| n).sum(),
        latency_sum: u64::try_from(s.latency_sum).unwrap_or(u64::MAX),
    });
    live.arrived(now, streams);
}

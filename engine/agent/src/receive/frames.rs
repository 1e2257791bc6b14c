//! Reception of frames that we account for one by one: those of one queue on this thread, those of several on a thread
//! each.
//!
//! Parsing a frame and verifying its checksums is most of the work; the thread of its queue does it. There is only one
//! ledger. It gets the frames of all queues in the order of their arrival, so that order, duplicates and latency are as
//! exact as on one queue.

use super::{Job, WAIT, publish};
use dutlab_measure::{Account, Arrival, InOrder};
use dutlab_port::{Arrived, BurstReceiver, Order, PortError, clock, cpu};
use dutlab_units::Nanos;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Length of each wait, after the stop, for frames that the kernel still holds.
const LAST_WAIT: Nanos = Nanos(5_000_000);
/// Longest wait, after the stop, for frames that have arrived and are not handed over. A ring hands over its last block
/// by a timer, 2 ms later; but the timer's CPU may be busy, or be taken away from a virtual machine.
const HELD: Nanos = Nanos(2_000_000_000);
/// Latest end of receiving after the stop, even if foreign frames continue.
const LAST: Nanos = Nanos(100_000_000);
/// Time after which a queue's thread passes on its frames, so that a thread is not woken for each frame.
const PASS_ON: Nanos = Nanos(5_000_000);
/// Number of frames after which a queue's thread passes them on at once.
const BATCH: usize = 1024;
/// If a look at the queue gives fewer frames than this, its thread sleeps for [`NAP`] before the next look: many
/// threads that are woken for each frame would take more time than the frames. Not where frames get their time only
/// now; and a queue holds thousands.
const FEW: usize = 64;
/// Sleep of a queue's thread, see [`FEW`].
const NAP: Duration = Duration::from_micros(200);
/// Number of batches in the channel; at this limit a queue's thread waits, and its queue drops frames, which is
/// counted.
const ON_THE_WAY: usize = 64;
/// Time for which an empty queue may still hand over frames that arrived before: the kernel stamps a frame before it
/// shows it.
const UNSEEN: Nanos = Nanos(10_000_000);

/// Receives until the stop. The receivers have begun already.
pub fn receive(queues: &mut [Box<dyn BurstReceiver>], job: &Job, account: &mut Account) -> Result<(), PortError> {
    match queues {
        [one] => {
            cpu::pin_to_nth(&job.cpus, 0);
            take_all(one.as_mut(), job, &mut Here { job, account })
        }
        several => on_threads(several, job, account),
    }
}

fn on_threads(queues: &mut [Box<dyn BurstReceiver>], job: &Job, account: &mut Account) -> Result<(), PortError> {
    let mut merge = Merge { job, account, order: InOrder::new(queues.len()), dropped: vec![0; queues.len()] };
    let (tell, batches) = sync_channel(ON_THE_WAY);
    thread::scope(|scope| {
        let threads: Vec<_> = queues
            .iter_mut()
            .enumerate()
            .map(|(number, rx)| {
                let mut queue = Queue::new(number, tell.clone());
                scope.spawn(move || {
                    cpu::pin_to_nth(&job.cpus, number);
                    take_all(rx.as_mut(), job, &mut queue)
                })
            })
            .collect();
        drop(tell);
        merge.run(&batches);
        // All have ended: they dropped their ends of the channel.
        let ends = threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ends.fold(Ok(()), Result::and)
    })
}

/// Consumer of the frames of a queue.
trait Taker {
    /// True if other threads serve other queues at the same time.
    const IS_ONE_OF_SEVERAL: bool;

    /// Takes a frame that arrived.
    fn take(&mut self, arrival: Arrival);

    /// Records the end of a look at the queue, which began at `from`, ended at `now` and gave `count` frames.
    fn looked(&mut self, from: Nanos, now: Nanos, count: usize);

    /// Records the number of frames dropped for lack of room since the trial began.
    fn dropped(&mut self, now: Nanos, count: u64);
}

/// Takes frames until receiving has been ended, and no more frames come.
fn take_all<T: Taker>(rx: &mut dyn BurstReceiver, job: &Job, taker: &mut T) -> Result<(), PortError> {
    let mut last = None;
    let mut counted = Nanos::ZERO;
    let mut from = clock::monotonic();
    let order = rx.order();
    loop {
        let wait = if last.is_some() { LAST_WAIT } else { WAIT };
        let n = rx.receive(wait, &mut |a| taker.take(read(&a, order)))?;
        let now = clock::monotonic();
        taker.looked(from, now, n);
        if T::IS_ONE_OF_SEVERAL && (1..FEW).contains(&n) && rx.stamps() {
            thread::sleep(NAP);
        }
        if now.since(counted) >= WAIT {
            counted = now;
            taker.dropped(now, rx.dropped()?);
        }
        match last {
            None if job.end.is_stopped() => last = Some(now),
            Some(stopped) if n > 0 && now.since(stopped) > LAST => break,
            Some(stopped) if n == 0 && (now.since(stopped) > HELD || !rx.holds_frames()?) => break,
            _ => {}
        }
        from = now;
    }
    taker.dropped(clock::monotonic(), rx.dropped()?);
    Ok(())
}

#[inline]
fn read(a: &Arrived<'_>, order: Order) -> Arrival {
    let arrival = Arrival::read(a.bytes, a.length, a.at);
    match order {
        Order::Link => arrival,
        Order::Queue(number) => arrival.on(Some(number.into())),
        Order::Flow => arrival.on_its_flow(),
        Order::Nothing => arrival.on(None),
    }
}

/// Enters frames into the account as they arrive.
struct Here<'a> {
    job: &'a Job,
    account: &'a mut Account,
}

impl Taker for Here<'_> {
    const IS_ONE_OF_SEVERAL: bool = false;

    #[inline]
    fn take(&mut self, arrival: Arrival) {
        self.account.drain(self.job.end.late_from());
        self.account.arrive(&arrival);
    }

    fn looked(&mut self, _: Nanos, _: Nanos, _: usize) {}

    fn dropped(&mut self, now: Nanos, count: u64) {
        publish(&self.job.live, now, self.account, count);
    }
}

/// Frames that a queue's thread passes on.
struct Batch {
    queue: usize,
    arrivals: Vec<Arrival>,
    /// No earlier frame is to come.
    until: Nanos,
    /// Frames that the queue has dropped so far.
    dropped: u64,
}

/// Passes the frames of a queue on, in batches.
struct Queue {
    batch: Batch,
    tell: SyncSender<Batch>,
    passed_on: Nanos,
}

impl Queue {
    fn new(queue: usize, tell: SyncSender<Batch>) -> Self {
        let batch = Batch { queue, arrivals: Vec::with_capacity(BATCH), until: Nanos::ZERO, dropped: 0 };
        Self { batch, tell, passed_on: Nanos::ZERO }
    }

    fn pass_on(&mut self) {
        let arrivals = std::mem::replace(&mut self.batch.arrivals, Vec::with_capacity(BATCH));
        // The receiver of the channel reads until all queues have ended.
        let _ = self.tell.send(Batch { arrivals, ..self.batch });
    }
}

impl Taker for Queue {
    const IS_ONE_OF_SEVERAL: bool = true;

    #[inline]
    fn take(&mut self, arrival: Arrival) {
        self.batch.until = arrival.at();
        self.batch.arrivals.push(arrival);
        if self.batch.arrivals.len() >= BATCH {
            self.pass_on();
        }
    }

    fn looked(&mut self, from: Nanos, now: Nanos, count: usize) {
        if count == 0 {
            self.batch.until = self.batch.until.max(from - UNSEEN);
        }
        if now.since(self.passed_on) >= PASS_ON {
            self.passed_on = now;
            self.pass_on();
        }
    }

    fn dropped(&mut self, _: Nanos, count: u64) {
        self.batch.dropped = count;
    }
}

/// A queue that has ended in any way does not delay the others.
impl Drop for Queue {
    fn drop(&mut self) {
        self.batch.until = Nanos::NEVER;
        self.pass_on();
    }
}

/// The account of several queues.
struct Merge<'a> {
    job: &'a Job,
    account: &'a mut Account,
    order: InOrder<Arrival>,
    dropped: Vec<u64>,
}

impl Merge<'_> {
    /// Enters the frames that all queues pass on, until the queues have ended.
    fn run(&mut self, batches: &Receiver<Batch>) {
        let mut published = Nanos::ZERO;
        for Batch { queue, arrivals, until, dropped } in batches {
            for arrival in arrivals {
                self.order.arrive(queue, arrival.at(), arrival);
            }
            self.order.until(queue, until);
            self.dropped[queue] = dropped;
            self.order.release(|arrival| {
                self.account.drain(self.job.end.late_from());
                self.account.arrive(&arrival);
            });
            let now = clock::monotonic();
            if now.since(published) >= WAIT {
                published = now;
                self.publish(now);
            }
        }
        self.publish(clock::monotonic());
    }

    fn publish(&mut self, now: Nanos) {
        publish(&self.job.live, now, self.account, self.dropped.iter().sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_port::Watch;
    use dutlab_wire::Probe;
    use dutlab_wire::frame::FrameRepr;
    use std::sync::Arc;

    /// A queue whose only frame has arrived, and is handed over late.
    struct Late {
        looks: u32,
        frame: Option<Vec<u8>>,
    }

    impl BurstReceiver for Late {
        fn begin(&mut self) -> Result<(), PortError> {
            Ok(())
        }

        fn receive(&mut self, _: Nanos, take: &mut dyn FnMut(Arrived<'_>)) -> Result<usize, PortError> {
            self.looks = self.looks.saturating_sub(1);
            let Some(bytes) = self.frame.take_if(|_| self.looks == 0) else { return Ok(0) };
            take(Arrived { bytes: &bytes, length: 60, at: Nanos(9) });
            Ok(1)
        }

        fn holds_frames(&mut self) -> Result<bool, PortError> {
            Ok(self.frame.is_some())
        }

        fn dropped(&mut self) -> Result<u64, PortError> {
            Ok(0)
        }
    }

    fn late(sequence: u64) -> Box<dyn BurstReceiver> {
        let repr = FrameRepr::default();
        let mut frame = vec![0; 60];
        repr.emit(&Probe { stream: 7, sequence, trial: 3, sent: Nanos(5) }, &mut frame).unwrap();
        Box::new(Late { looks: 20, frame: Some(frame) })
    }

    #[test]
    fn frames_that_a_queue_hands_over_long_after_the_stop_are_counted() {
        for count in 1..=2 {
            let watch = Watch { streams: Vec::new(), trial: 3, unverified: false };
            let job =
                Job { watch, learn: None, cpus: Vec::new(), missed: None, end: Arc::default(), live: Arc::default() };
            job.end.stop();
            let mut account = Account::new(Nanos::ZERO, &[7]).of_trial(3);
            let mut queues: Vec<_> = (0..count).map(late).collect();
            receive(&mut queues, &job, &mut account).unwrap();
            assert_eq!(account.streams()[0].ledger.received(), count);
        }
    }
}

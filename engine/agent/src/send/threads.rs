//! Sends a plan with several threads, each of which sends some of its streams through a separate queue.

use super::bursts::Loop;
use super::{Account, Change, Job, LOOK};
use crate::share::Share;
use dutlab_port::{BurstSender, Gaps, StreamTotals, clock, cpu};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// Sends a plan to its end through `queues`, of which there are at most as many as streams.
pub fn run(queues: &mut [Box<dyn BurstSender>], job: &Job) -> Account {
    let of = queues.len();
    let (tells, jobs): (Vec<_>, Vec<_>) = (0..of).map(|nth| part(job, Share { nth, of })).unzip();
    thread::scope(|scope| {
        let threads: Vec<_> =
            queues.iter_mut().zip(jobs).map(|(tx, part)| scope.spawn(move || send(tx.as_mut(), part))).collect();
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            for Change { index, profile } in job.changes.try_iter() {
                // A thread that has ended has no stream left whose rate could change.
                let _ = tells[index % of].send(Change { index: index / of, profile });
            }
            thread::sleep(Duration::from_nanos(LOOK.0));
        }
        let parts = threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        whole(job.plan.plan.streams.len(), parts)
    })
}

/// Returns the job of one thread.
fn part(job: &Job, share: Share) -> (Sender<Change>, Job) {
    let (tell, changes) = channel();
    let part = Job {
        plan: job.plan.share(share),
        share,
        cpus: job.cpus.clone(),
        stop: Arc::clone(&job.stop),
        changes,
        live: Arc::clone(&job.live),
        spare: None,
    };
    (tell, part)
}

fn send(tx: &mut dyn BurstSender, job: Job) -> Account {
    cpu::pin_to_nth(&job.cpus, job.share.nth);
    clock::precise_timers();
    let stop = Arc::clone(&job.stop);
    let account = Loop::new(job).run(tx);
    if account.2.is_some() {
        // The port failed: the others should not find out one by one.
        stop.store(true, Ordering::Relaxed);
    }
    account
}

/// Merges the accounts of all shares, in the order of the plan's streams.
fn whole(streams: usize, parts: impl ExactSizeIterator<Item = Account>) -> Account {
    let of = parts.len();
    let mut totals = vec![StreamTotals::default(); streams];
    let mut gaps: Vec<Option<Gaps>> = vec![None; streams];
    let mut error = None;
    for (nth, (part_totals, part_gaps, part_error)) in parts.enumerate() {
        let share = Share { nth, of };
        for (i, each) in part_totals.into_iter().zip(part_gaps).enumerate() {
            (totals[share.whole(i)], gaps[share.whole(i)]) = each;
        }
        error = error.or(part_error);
    }
    (totals, gaps, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_every_stream_once_and_know_its_place() {
        let all = [10, 11, 12, 13, 14];
        let shares = [0, 1, 2].map(|nth| Share { nth, of: 3 });
        assert_eq!(shares.map(|s| s.pick(&all)), [vec![10, 13], vec![11, 14], vec![12]]);
        for share in shares {
            for (i, stream) in share.pick(&all).iter().enumerate() {
                assert_eq!(all[share.whole(i)], *stream);
            }
        }
        assert_eq!(Share::WHOLE.pick(&all), all);
    }
}

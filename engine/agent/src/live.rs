//! Counters that a trial's threads publish several times a second, and the agent reads on request.

use crate::share::Share;
use dutlab_port::StreamTotals;
use dutlab_protocol::event::Second;
use dutlab_protocol::status::{ReceivingSoFar, SendingSoFar, Status, StreamReceivingSoFar, StreamSendingSoFar};
use dutlab_units::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of a port since its trial began. Related counters are written and read together.
#[derive(Debug, Default)]
pub struct Live {
    sent: Mutex<Option<Reading<StreamTotals>>>,
    arrived: Mutex<Option<Reading<StreamArrivals>>>,
    /// Greatest latency since the last event; only if frames are accounted for one by one.
    pub latency_max: Peak,
    /// Frames dropped by the receiver's kernel.
    pub kernel_dropped: Count,
    /// Count and sum of latencies at the last event.
    reported: (Count, Count),
}

/// Counters of all streams, in the order of the plan, and the time of the reading.
#[derive(Debug, Clone)]
struct Reading<T> {
    at: Nanos,
    streams: Vec<T>,
}

/// Arrivals of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamArrivals {
    /// Frames, duplicates included.
    pub received: u64,
    /// Bytes of these frames, with FCS.
    pub bytes: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that arrived after a later one.
    pub reordered: u64,
    /// One above the highest number that arrived.
    pub next: u64,
    /// Frames whose latency is known.
    pub latency_count: u64,
    /// The sum of their latencies in nanoseconds.
    pub latency_sum: u64,
}

impl Live {
    /// Publishes the counters of sending by `at`, for the streams of a share.
    pub fn sent(&self, at: Nanos, share: Share, streams: &[StreamTotals]) {
        let mut sent = lock(&self.sent);
        let reading = sent.get_or_insert_with(|| Reading { at, streams: Vec::new() });
        reading.at = at;
        for (i, totals) in streams.iter().enumerate() {
            let place = share.whole(i);
            if reading.streams.len() <= place {
                reading.streams.resize(place + 1, StreamTotals::default());
            }
            reading.streams[place] = *totals;
        }
    }

    /// Publishes the arrivals by `at`.
    pub fn arrived(&self, at: Nanos, streams: impl Iterator<Item = StreamArrivals>) {
        *lock(&self.arrived) = Some(Reading { at, streams: streams.collect() });
    }

    /// Returns the sum of all streams as an event, with the latency since the last one.
    #[must_use]
    pub fn second(&self, port: &str, now: Nanos) -> Second {
        let sent = lock(&self.sent).clone();
        let arrived = lock(&self.arrived).clone();
        let of_sent = |of: fn(&StreamTotals) -> u64| sum(sent.as_ref(), of);
        let of_arrived = |of: fn(&StreamArrivals) -> u64| sum(arrived.as_ref(), of);
        let (count, total) = (of_arrived(|s| s.latency_count), of_arrived(|s| s.latency_sum));
        let (new, new_sum) = (count - self.reported.0.get().min(count), total - self.reported.1.get().min(total));
        self.reported.0.set(count);
        self.reported.1.set(total);
        let max = self.latency_max.take();
        Second {
            port: port.to_owned(),
            monotonic_ns: now.0,
            sent: of_sent(|s| s.sent),
            sent_bytes: of_sent(|s| s.bytes),
            received: of_arrived(|s| s.received),
            received_bytes: of_arrived(|s| s.bytes),
            duplicated: of_arrived(|s| s.duplicated),
            reordered: of_arrived(|s| s.reordered),
            kernel_dropped: self.kernel_dropped.get(),
            latency_mean_ns: (new > 0).then(|| new_sum as f64 / new as f64),
            latency_max_ns: (max > 0).then_some(max),
        }
    }

    /// Returns the counters of each stream. `sent` and `received` are the streams' numbers, in the order of the plans.
    #[must_use]
    pub fn status(&self, port: &str, now: Nanos, sent: &[u16], received: &[u16]) -> Status {
        let sending = lock(&self.sent).clone().map(|r| SendingSoFar {
            monotonic_ns: r.at.0,
            age_ns: now.since(r.at).0,
            streams: sent.iter().zip(&r.streams).map(|(stream, t)| sending(*stream, t)).collect(),
        });
        let receiving = lock(&self.arrived).clone().map(|r| ReceivingSoFar {
            monotonic_ns: r.at.0,
            age_ns: now.since(r.at).0,
            streams: received.iter().zip(&r.streams).map(|(stream, a)| receiving(*stream, a)).collect(),
        });
        Status { port: port.to_owned(), sending, receiving }
    }
}

const fn sending(stream: u16, t: &StreamTotals) -> StreamSendingSoFar {
    let backpressure = if t.refusals_unknown { None } else { Some(t.backpressure) };
    StreamSendingSoFar { stream, sent: t.sent, numbered: t.numbered, backpressure }
}

const fn receiving(stream: u16, a: &StreamArrivals) -> StreamReceivingSoFar {
    StreamReceivingSoFar {
        stream,
        received: a.received,
        duplicated: a.duplicated,
        reordered: a.reordered,
        next_sequence: a.next,
        latency_count: a.latency_count,
        latency_sum_ns: a.latency_sum,
    }
}

fn sum<T>(reading: Option<&Reading<T>>, of: impl Fn(&T) -> u64) -> u64 {
    reading.map_or(0, |r| r.streams.iter().map(of).sum())
}

/// Locks a mutex. A thread that panicked while it published left older numbers behind, which are still valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum of the values that one thread records until another takes it.
#[derive(Debug, Default)]
pub struct Peak(AtomicU64);

impl Peak {
    /// Records a value.
    pub fn raise(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    /// Returns the maximum since the last call; 0 if there was no value.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Sets the number.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

//! Counters that a trial's threads write and the agent reads once a second.

use dutlab_protocol::event::Second;
use dutlab_units::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a port since its trial began. Each is written by one thread only.
#[derive(Debug, Default)]
pub struct Live {
    /// Frames sent.
    pub sent: Count,
    /// Bytes sent, with FCS.
    pub sent_bytes: Count,
    /// Frames received, duplicates included.
    pub received: Count,
    /// Bytes received, with FCS.
    pub received_bytes: Count,
    /// Frames that arrived before.
    pub duplicated: Count,
    /// Frames that arrived after a later one.
    pub reordered: Count,
    /// Frames dropped by the receiver's kernel.
    pub kernel_dropped: Count,
    /// Frames whose latency is known.
    pub latency_count: Count,
    /// The sum of their latencies in nanoseconds.
    pub latency_sum: Count,
    /// The greatest latency since the last event; only where frames are accounted for one by one.
    pub latency_max: Peak,
    /// Count and sum of latencies at the last event.
    reported: (Count, Count),
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Live {
    /// The counters as an event; latency is that since the last one.
    #[must_use]
    pub fn second(&self, port: &str, now: Nanos) -> Second {
        let (count, sum) = (self.latency_count.get(), self.latency_sum.get());
        let (new, new_sum) = (count - self.reported.0.get().min(count), sum - self.reported.1.get().min(sum));
        self.reported.0.set(count);
        self.reported.1.set(sum);
        let max = self.latency_max.take();
        Second {
            port: port.to_owned(),
            monotonic_ns: now.0,
            sent: self.sent.get(),
            sent_bytes: self.sent_bytes.get(),
            received: self.received.get(),
            received_bytes: self.received_bytes.get(),
            duplicated: self.duplicated.get(),
            reordered: self.reordered.get(),
            kernel_dropped: self.kernel_dropped.get(),
            latency_mean_ns: (new > 0).then(|| new_sum as f64 / new as f64),
            latency_max_ns: (max > 0).then_some(max),
        }
    }
}

/// The greatest of what one thread enters until another takes it.
#[derive(Debug, Default)]
pub struct Peak(AtomicU64);

impl Peak {
    /// Enters a value.
    pub fn raise(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    /// The greatest since the last call; 0 when there was none.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Count {
    /// Writes it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Reads it.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

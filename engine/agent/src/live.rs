//! Counters that a trial's threads write and the agent reads once a second.

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
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

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

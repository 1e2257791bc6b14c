//! Frames that never reached the kernel, because the receiving port's hardware had no free buffer.

use crate::error::PortError;
use crate::link::{Counter, counter};

/// Increase of the drop counter of a receiving port's hardware (`rx_missed_errors`). The tester lost those frames, not
/// the DUT.
///
/// Software devices have no such counter; it stays 0. Drivers that count a full ring elsewhere are not covered
/// (`rx_dropped` also counts frames that reached us and that the host did not want).
#[derive(Debug, Clone)]
pub struct Missed {
    iface: String,
    index: u32,
    before: u64,
}

impl Missed {
    /// Starts to count.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn begin(iface: &str, index: u32) -> Result<Self, PortError> {
        let mut missed = Self { iface: iface.to_owned(), index, before: 0 };
        missed.before = missed.count()?;
        Ok(missed)
    }

    /// Returns the number of frames since the start.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn count(&self) -> Result<u64, PortError> {
        let now = counter(self.index, Counter::RxMissed)
            .map_err(|e| PortError::from_call("netlink(RTM_GETLINK)", &self.iface, e))?;
        // The counter of a driver that was reset starts at 0 again.
        Ok(now.checked_sub(self.before).unwrap_or(now))
    }
}

//! Frames that never reached the kernel, because the receiving port's hardware had no room for them.

use crate::error::PortError;
use crate::link::{Counter, counter};

/// The drop counter of a receiving port's hardware (`rx_missed_errors`) from an instant on. Whoever lost those frames, it
/// was the tester and not the DUT.
///
/// Devices in software have no such counter; it stays 0. Drivers that count a full ring elsewhere (`rx_dropped` also
/// counts frames that reached us and that the host did not want) are not seen here.
#[derive(Debug, Clone)]
pub struct Missed {
    iface: String,
    index: u32,
    before: u64,
}

impl Missed {
    /// Counts from now on.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn begin(iface: &str, index: u32) -> Result<Self, PortError> {
        let mut missed = Self { iface: iface.to_owned(), index, before: 0 };
        missed.before = missed.count()?;
        Ok(missed)
    }

    /// Frames since then.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn count(&self) -> Result<u64, PortError> {
        let now = counter(self.index, Counter::RxMissed)
            .map_err(|e| PortError::from_call("netlink(RTM_GETLINK)", &self.iface, e))?;
        // A driver that was reset begins at 0 again.
        Ok(now.checked_sub(self.before).unwrap_or(now))
    }
}

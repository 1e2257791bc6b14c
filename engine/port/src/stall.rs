//! Detection of a card that takes no frames: it is busy for a moment, or has no carrier for longer.

use crate::clock;
use crate::error::PortError;
use crate::iface::Interface;
use dutlab_units::Nanos;
use std::io;

/// Time for which a card may be busy before its carrier is checked.
const PATIENCE: Nanos = Nanos(50_000_000);

/// Time for which a sender has made no progress.
#[derive(Debug)]
pub struct Stall {
    index: u32,
    since: Option<Nanos>,
    /// A link without a carrier is not an error.
    goes_through: bool,
}

impl Stall {
    /// Starts without a stall.
    #[must_use]
    pub const fn new(iface: &Interface) -> Self {
        Self { index: iface.index, since: None, goes_through: false }
    }

    /// Sets whether a link without a carrier is not an error from now on.
    pub const fn go_through_link_loss(&mut self, yes: bool) {
        self.goes_through = yes;
    }

    /// Records that frames were taken.
    pub const fn moved(&mut self) {
        self.since = None;
    }

    /// Records that no frame was taken. Returns an error once that has lasted and the interface has no carrier.
    pub fn check(&mut self, iface: &str, call: &'static str) -> Result<(), PortError> {
        self.refused(iface, call, io::Error::from_raw_os_error(libc::ENOBUFS))
    }

    /// As [`check`](Self::check), with the system's error.
    pub fn refused(&mut self, iface: &str, call: &'static str, source: io::Error) -> Result<(), PortError> {
        let now = clock::monotonic();
        let since = *self.since.get_or_insert(now);
        if now.since(since) < PATIENCE {
            return Ok(());
        }
        self.since = None;
        self.carrier(iface, call, source)
    }

    /// Returns an error if the interface has no carrier and that counts, or if it was replaced by another one.
    pub fn carrier(&self, iface: &str, call: &'static str, source: io::Error) -> Result<(), PortError> {
        let iface = iface.to_owned();
        match Interface::read(&iface) {
            Ok(facts) if facts.index == self.index && !facts.up => {
                Err(PortError::Lost { call, iface, source: io::Error::from_raw_os_error(libc::ENETDOWN) })
            }
            Ok(facts) if facts.index == self.index && !facts.carrier && !self.goes_through => {
                Err(PortError::NoCarrier { call, iface, source })
            }
            Ok(facts) if facts.index == self.index => Ok(()),
            _ => Err(PortError::Lost { call, iface, source: io::Error::from_raw_os_error(libc::ENODEV) }),
        }
    }
}

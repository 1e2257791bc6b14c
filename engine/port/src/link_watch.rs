//! Watch on a port's link. Frames that are lost while the link is down are not charged to a DUT: the tester or the
//! cable lost them.
//!
//! The kernel counts each loss of the carrier, however short. The cause is known in one case only: the port itself was
//! set down on this host, which the kernel reports as it happens. A carrier that is lost while the port is up was lost
//! at the other end or on the way.

use crate::error::PortError;
use crate::link;
use crate::netlink::Listener;

/// Watches the port of a trial from an instant on.
#[derive(Debug)]
pub struct LinkWatch {
    iface: String,
    index: u32,
    downs_before: u32,
    was_down: bool,
    news: Listener,
}

/// Losses of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkLoss {
    /// Number of carrier losses; at least 1 if the link had no carrier when the watch began.
    pub times: u32,
    /// True if the port was set down on this host.
    pub set_down: bool,
}

impl LinkWatch {
    /// Starts to watch.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn begin(iface: &str, index: u32) -> Result<Self, PortError> {
        let failed = |e| PortError::from_call("netlink(RTM_GETLINK)", iface, e);
        let news = Listener::of_links().map_err(failed)?;
        let downs_before = link::carrier_losses(index).map_err(failed)?;
        let was_down = !link::named(iface).map_err(failed)?.carrier;
        Ok(Self { iface: iface.to_owned(), index, downs_before, was_down, news })
    }

    /// Returns the losses of the link since the start. For a port that is gone nothing is known; its own error reports
    /// that.
    #[must_use]
    pub fn end(&self) -> LinkLoss {
        let mut set_down = link::named(&self.iface).is_ok_and(|l| l.index == self.index && !l.up);
        self.news.read(&mut |entry| set_down |= link::is_down(entry, self.index));
        let downs = link::carrier_losses(self.index).unwrap_or(self.downs_before);
        let times = downs.wrapping_sub(self.downs_before).max((set_down || self.was_down).into());
        LinkLoss { times, set_down }
    }
}

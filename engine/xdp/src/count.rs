//! Receiving half of a kernel-speed port.

use crate::attach::Place;
use crate::error::XdpError;
use crate::receiver::XdpReceiver;
use dutlab_port::PortError;
use dutlab_port::port::{Counted, CountingReceiver, Watch};
use dutlab_port::promiscuous::Promiscuous;
use std::sync::Arc;

/// Counter on one interface. Its program is attached only while a trial lasts.
pub struct XdpCounter {
    iface: String,
    kept: Option<Arc<Place>>,
    /// Promiscuous mode of a card. It also passes tagged frames, which a filter of VLANs would drop.
    _every_mac: Option<Promiscuous>,
    receiver: Option<XdpReceiver>,
}

impl XdpCounter {
    /// Makes a counter for an interface of this network namespace, with its reserved place and a card's open filter.
    /// Without a place, no program is attached before a trial.
    #[must_use]
    pub fn new(iface: &str, kept: Option<Arc<Place>>, every_mac: Option<Promiscuous>) -> Self {
        Self { iface: iface.to_owned(), kept, _every_mac: every_mac, receiver: None }
    }

    fn attached(&self) -> Result<&XdpReceiver, PortError> {
        self.receiver.as_ref().ok_or_else(|| {
            let why = crate::error::Why::Other("counting has not begun".into());
            XdpError::new(&self.iface, "count", why).into()
        })
    }
}

impl CountingReceiver for XdpCounter {
    fn begin(&mut self, watch: &Watch) -> Result<(), PortError> {
        self.receiver = None;
        let receiver = XdpReceiver::attach(&self.iface, watch, self.kept.as_ref())?;
        receiver.begin()?;
        self.receiver = Some(receiver);
        Ok(())
    }

    fn read(&mut self) -> Result<Counted, PortError> {
        let receiver = self.attached()?;
        receiver.check()?;
        Ok(receiver.counted())
    }

    fn end(&mut self) -> Result<Counted, PortError> {
        let Some(mut receiver) = self.receiver.take() else { return self.attached().map(XdpReceiver::counted) };
        receiver.detach()?;
        receiver.check()?;
        Ok(receiver.counted())
    }
}

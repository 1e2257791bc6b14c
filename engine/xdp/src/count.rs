//! The receiving half of a port at kernel speed.

use crate::error::XdpError;
use crate::receiver::{ReceivedStream, XdpReceivePlan, XdpReceiver};
use dutlab_port::PortError;
use dutlab_port::port::{Counted, CountedStream, CountingReceiver, Variation, Watch};
use dutlab_units::{FCS, Nanos};

/// Counts on one interface. The program is attached while a trial lasts, and no longer.
pub struct XdpCounter {
    iface: String,
    receiver: Option<XdpReceiver>,
}

impl XdpCounter {
    /// For an interface of this network namespace. Nothing is attached before a trial.
    #[must_use]
    pub fn new(iface: &str) -> Self {
        Self { iface: iface.to_owned(), receiver: None }
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
        let plan = XdpReceivePlan {
            streams: watch.streams.clone(),
            trial: watch.trial,
            verify_checksums: !watch.unverified,
            clock_offset_ns: watch.clock_offset,
            ..XdpReceivePlan::default()
        };
        let receiver = XdpReceiver::attach(&self.iface, &plan)?;
        receiver.begin(Some(watch.begin.0))?;
        self.receiver = Some(receiver);
        Ok(())
    }

    fn read(&mut self) -> Result<Counted, PortError> {
        let receiver = self.attached()?;
        receiver.check()?;
        Ok(counted(receiver))
    }

    fn end(&mut self) -> Result<Counted, PortError> {
        let Some(mut receiver) = self.receiver.take() else { return self.attached().map(counted) };
        receiver.detach()?;
        receiver.check()?;
        Ok(counted(&receiver))
    }
}

fn counted(receiver: &XdpReceiver) -> Counted {
    let report = receiver.report();
    Counted {
        foreign: report.passed + report.unknown,
        stale: report.streams.iter().map(|s| s.stale).sum(),
        // What does not fit the device's queue is the device's loss; the program sees every frame behind it.
        dropped: Some(0),
        streams: report.streams.iter().map(stream).collect(),
    }
}

fn stream(s: &ReceivedStream) -> CountedStream {
    CountedStream {
        received: s.frames,
        bytes: s.bytes + s.frames * u64::from(FCS),
        // Nobody knows whether those that are too old came before; to count them as new could hide a loss.
        duplicated: s.duplicates + s.too_old,
        reordered: s.reordered,
        reorder_extent_max: s.extent_max,
        reorder_extent_sum: s.extent_sum,
        reorder_extents: s.reordered - s.extent_unknown,
        reordered_by_three: s.by_three,
        ipdv: Variation { count: s.ipdv_count, sum: u128::from(s.ipdv_sum_ns), max: Nanos(s.ipdv_max_ns) },
        next: s.next,
        guessed: s.too_old,
        corrupted: s.corrupted,
        first: Nanos(s.first_arrival_ns.unwrap_or(0)),
        last: Nanos(s.last_arrival_ns.unwrap_or(0)),
        negative: s.negative,
        latency_min: Nanos(s.latency_min_ns.unwrap_or(0)),
        latency_max: Nanos(s.latency_max_ns),
        latency_sum: u128::from(s.latency_sum_ns),
        latency: s.latency.filled().map(|(_, high, n)| (high, n)).collect(),
        sources: s.sources.iter().map(|o| (o.address, o.port)).collect(),
    }
}

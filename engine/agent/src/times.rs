//! Time stamps that the driver of an interface offers.

use dutlab_port::card_clock::CardClock;
use dutlab_port::ethtool;
use dutlab_port::iface::Interface;
use dutlab_port::link;
use dutlab_protocol::reply::{self, TimeOf};

/// Returns the time stamps that the driver of an interface offers, and the card's clock. A driver that cannot be
/// queried offers none.
pub fn offered(iface: &Interface) -> (Vec<TimeOf>, Option<reply::CardClock>) {
    let (stamping, xdp) = (ethtool::stamping(&iface.name).ok(), link::xdp_times(iface.index).ok());
    let sockets = stamping.map(|s| {
        [
            (s.software_sends(), TimeOf::SoftwareSend),
            (s.software_receives(), TimeOf::SoftwareReceive),
            (s.card_sends(), TimeOf::CardSend),
            (s.card_receives(), TimeOf::CardReceive),
        ]
    });
    let programs = xdp
        .map(|x| [(x.arrival, TimeOf::XdpArrival), (x.departure, TimeOf::XdpDeparture), (x.launch, TimeOf::XdpLaunch)]);
    let all = sockets.into_iter().flatten().chain(programs.into_iter().flatten());
    (all.filter_map(|(has, which)| has.then_some(which)).collect(), stamping.and_then(|s| s.clock).map(read))
}

/// Returns the current state of a card's clock.
fn read(number: u32) -> reply::CardClock {
    match CardClock::open(number).and_then(|clock| clock.ahead()) {
        Ok(a) => reply::CardClock { number, ahead_ns: Some(a.ns), error_ns: Some(a.error.0), reason: None },
        Err(e) => reply::CardClock { number, ahead_ns: None, error_ns: None, reason: Some(e.to_string()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_cannot_be_read_is_told_with_the_reason() {
        let clock = read(4711);
        assert_eq!((clock.number, clock.ahead_ns, clock.error_ns), (4711, None, None));
        assert!(clock.reason.unwrap().starts_with("/dev/ptp4711: "));
    }
}

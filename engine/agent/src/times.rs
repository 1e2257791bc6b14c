//! Who tells when a frame passes: what the driver offers, and what each back end uses.

use dutlab_port::ethtool;
use dutlab_port::iface::Interface;
use dutlab_port::link;
use dutlab_protocol::reply::TimeOf;
use dutlab_protocol::request::Backend;

/// What the driver of an interface offers, and the number of the card's clock. What a driver cannot be asked it does not offer.
pub fn offered(iface: &Interface) -> (Vec<TimeOf>, Option<u32>) {
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
    (all.filter_map(|(has, which)| has.then_some(which)).collect(), stamping.and_then(|s| s.clock))
}

/// Where the times of a back end come from, for those who read its latencies; `None` where it has none.
pub const fn used(backend: Backend) -> Option<&'static str> {
    match backend {
        Backend::Xdp => {
            Some("times are software's: as a program in the kernel writes a frame, and as one sees it arrive")
        }
        Backend::AfXdp => Some(
            "times are software's: before the engine hands a frame over, and as a program in the kernel sees it arrive",
        ),
        Backend::AfPacket => {
            Some("times are software's: before the engine hands a frame over, and as the kernel's stack takes it in")
        }
        Backend::Auto | Backend::Memory | Backend::Pcap => None,
    }
}

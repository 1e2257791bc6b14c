//! A probe inside a given frame: finds the checksums that cover it, and corrects them.
//!
//! If UDP, TCP or ICMP over IPv4 or IPv6 carries the probe, their checksums are corrected. If no known header
//! covers it (another `EtherType`, a fragment, a tunnel's inside), the two bytes behind the probe get an Internet
//! checksum of the probe and all that follows; the frame then needs room for 20 bytes.

use crate::checksum::{Sum, pseudo_header};
use crate::{Probe, ethernet, extension, icmp, ipv4, ipv6, probe, tcp, udp, vlan};
use std::fmt;
use std::net::IpAddr;

/// Offsets of the checksums that change with the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Checksum over the probe.
    pub checksum_at: usize,
    /// True for UDP, which writes 0xffff for 0.
    pub udp: bool,
    /// Bytes of the IP datagram, if the frame carries a whole one.
    pub ip_length: Option<usize>,
}

/// A frame that cannot carry a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawError {
    /// The probe would be at an odd offset, where checksums cannot be updated word by word.
    Odd(usize),
    /// The frame ends before the end of the probe, or of the checksum behind it. Lengths without FCS.
    TooShort {
        /// Bytes that the frame has.
        length: usize,
        /// Bytes that are needed at least.
        least: usize,
    },
    /// The probe would overwrite a header whose checksum is here.
    OverHeader {
        /// Offset of the payload.
        payload_at: usize,
    },
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Odd(at) => write!(f, "a probe at {at}: it must be at an even place"),
            Self::TooShort { length, least } => {
                write!(f, "a frame of {length} bytes without FCS has no room for the probe there: {least} is the least")
            }
            Self::OverHeader { payload_at } => {
                write!(f, "the probe would overwrite headers: the payload begins at {payload_at}")
            }
        }
    }
}

impl std::error::Error for RawError {}

/// Offsets of the headers in a frame that carries UDP, TCP or ICMP echo over IPv4 or IPv6, unfragmented.
#[derive(Debug, Clone, Copy)]
pub struct Carrier {
    /// Offset of the IP header.
    pub ip_at: usize,
    /// Offset of the transport header.
    pub transport_at: usize,
    /// Offset of the transport's payload.
    pub payload_at: usize,
    /// Offset of the transport's checksum.
    pub checksum_at: usize,
    /// End of the IP datagram; padding follows.
    pub end: usize,
    /// Protocol number of the transport.
    pub protocol: u8,
    pseudo: Sum,
}

/// Writes `probe` into `frame` (no FCS) at `at`, and corrects the checksums that cover it.
pub fn put_probe(frame: &mut [u8], at: usize, probe: &Probe) -> Result<Sums, RawError> {
    if !at.is_multiple_of(2) {
        return Err(RawError::Odd(at));
    }
    let end = at + probe::LEN;
    let length = frame.len();
    let carrier = Carrier::of(frame);
    let covering = carrier.as_ref().filter(|c| end <= c.end);
    let least = if covering.is_some() { end } else { end + 2 };
    if length < least {
        return Err(RawError::TooShort { length, least });
    }
    if let Some(c) = covering.filter(|c| at < c.payload_at) {
        return Err(RawError::OverHeader { payload_at: c.payload_at });
    }
    probe.emit(&mut frame[at..]);
    let ip_length = carrier.as_ref().map(|c| c.end - c.ip_at);
    let (checksum_at, udp, sum) = if let Some(c) = covering {
        frame[c.checksum_at..c.checksum_at + 2].fill(0);
        (c.checksum_at, c.protocol == udp::PROTOCOL, Sum::of(&frame[c.transport_at..c.end]).plus(c.pseudo))
    } else {
        frame[end..end + 2].fill(0);
        (end, false, Sum::of(&frame[at..]))
    };
    let checksum = if udp { sum.udp_checksum() } else { sum.checksum() };
    frame[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(Sums { checksum_at, udp, ip_length })
}

/// Returns the `EtherType` behind the last VLAN tag, and the offset of the header that it announces.
fn behind_tags(frame: &[u8]) -> Option<(u16, usize)> {
    let (mut ethertype, mut at) = (ethernet::Packet::new(frame)?.ethertype(), ethernet::LEN);
    while vlan::is_tag(ethertype) {
        ethertype = vlan::Packet::new(&frame[at..])?.ethertype();
        at += vlan::LEN;
    }
    Some((ethertype, at))
}

impl Carrier {
    /// Finds the headers of a frame (no FCS); `None` if it has none of these. Never panics, for any bytes.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (ethertype, ip_at) = behind_tags(frame)?;
        let (source, destination, protocol, header, length) = match ethertype {
            ethernet::IPV4 => {
                let p = ipv4::Packet::new(&frame[ip_at..])?;
                if p.is_fragment() {
                    return None;
                }
                let header = usize::from(p.total_length()) - p.payload().len();
                (IpAddr::V4(p.source()), IpAddr::V4(p.destination()), p.protocol(), header, p.payload().len())
            }
            ethernet::IPV6 => {
                let p = ipv6::Packet::new(&frame[ip_at..])?;
                let (protocol, at) = extension::skip(p.next_header(), p.payload())?;
                let (header, length) = (ipv6::LEN + at, p.payload().len() - at);
                (IpAddr::V6(p.source()), IpAddr::V6(p.destination()), protocol, header, length)
            }
            _ => return None,
        };
        let transport_at = ip_at + header;
        let transport = &frame[transport_at..transport_at + length];
        let (checksum, payload, covers) = match protocol {
            udp::PROTOCOL => (udp::CHECKSUM_AT, udp::LEN, udp::Packet::new(transport)?.bytes().len() == length),
            tcp::PROTOCOL => (tcp::CHECKSUM_AT, length - tcp::Packet::new(transport)?.payload().len(), true),
            icmp::PROTOCOL | icmp::PROTOCOL_6 if length >= icmp::LEN => (icmp::CHECKSUM_AT, icmp::LEN, true),
            _ => return None,
        };
        let pseudo = if protocol == icmp::PROTOCOL {
            Sum::ZERO
        } else {
            pseudo_header(source, destination, protocol, u32::try_from(length).ok()?)
        };
        covers.then_some(Self {
            ip_at,
            transport_at,
            payload_at: transport_at + payload,
            checksum_at: transport_at + checksum,
            end: transport_at + length,
            pseudo,
            protocol,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameRepr, Transport};
    use crate::{Extension, Mac, Seen};
    use dutlab_units::Nanos;
    use proptest::prelude::*;

    const PROBE: Probe = Probe { stream: 9, sequence: 5, trial: 4, sent: Nanos(77) };

    fn made(transport: Transport, v6: bool, tags: &[vlan::Repr], length: usize) -> (Vec<u8>, usize) {
        let ip = |last: u8| if v6 { IpAddr::from([last; 16]) } else { IpAddr::from([10, 0, 0, last]) };
        let repr = FrameRepr {
            source_mac: Mac::default(),
            destination_mac: Mac::default(),
            vlans: tags,
            source: ip(1),
            destination: ip(2),
            transport,
            source_port: 1,
            destination_port: 2,
            ttl: 64,
            extensions: if v6 { &[Extension::DestinationOptions] } else { &[] },
        };
        let mut b = vec![0; length];
        let other = Probe { stream: 1, sequence: 2, trial: 3, sent: Nanos(3) };
        let layout = repr.emit(&other, &mut b).unwrap();
        b[layout.checksum_at..layout.checksum_at + 2].fill(0xee);
        (b, layout.probe_at)
    }

    #[test]
    fn a_frame_of_every_kind_carries_the_probe_with_right_checksums() {
        let tag = [vlan::Repr { tpid: vlan::CUSTOMER, id: 5, priority: 0 }];
        for transport in [Transport::Udp, Transport::Tcp(tcp::ACK), Transport::IcmpEcho] {
            for (v6, tags) in [(false, &tag[..0]), (true, &tag[..0]), (false, &tag[..])] {
                let (mut b, at) = made(transport, v6, tags, 201);
                let sums = put_probe(&mut b, at, &PROBE).unwrap();
                let Seen::Probe(found) = Seen::parse(&b) else { panic!("{transport:?} {v6}") };
                assert!(found.intact && found.probe == PROBE, "{transport:?} {v6}");
                assert_eq!(sums.ip_length, Some(201 - 14 - 4 * tags.len()));
            }
        }
    }

    #[test]
    fn a_frame_of_an_unknown_kind_gets_a_checksum_behind_the_probe() {
        let mut b = [0xaa; 60];
        let sums = put_probe(&mut b, 14, &PROBE).unwrap();
        assert_eq!(sums, Sums { checksum_at: 32, udp: false, ip_length: None });
        assert!(Sum::of(&b[14..]).intact());
        assert_eq!(Probe::parse(&b[14..]), Some(PROBE));
        assert_eq!(b[34..], [0xaa; 26], "nothing else is touched");
    }

    #[test]
    fn a_probe_without_room_or_at_an_impossible_place_is_refused() {
        let (b, at) = made(Transport::Udp, false, &[], 60);
        assert_eq!(at, 42);
        assert_eq!(put_probe(&mut b.clone(), 41, &PROBE), Err(RawError::Odd(41)));
        assert_eq!(put_probe(&mut b.clone(), 40, &PROBE), Err(RawError::OverHeader { payload_at: 42 }));
        assert_eq!(put_probe(&mut b.clone(), 44, &PROBE), Err(RawError::TooShort { length: 60, least: 64 }));
        assert_eq!(put_probe(&mut [0; 60], 42, &PROBE), Err(RawError::TooShort { length: 60, least: 62 }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut b in proptest::collection::vec(any::<u8>(), 0..120), at in 0_usize..130) {
            let _ = put_probe(&mut b, at, &PROBE);
        }

        #[test]
        fn no_change_of_a_good_frame_makes_it_panic(
            changes in proptest::collection::vec((0_usize..60, any::<u8>()), 0..8), at in 0_usize..70,
        ) {
            let (mut b, _) = made(Transport::Tcp(0), false, &[], 90);
            for (place, to) in changes {
                b[place] = to;
            }
            let _ = put_probe(&mut b, at, &PROBE);
        }
    }
}

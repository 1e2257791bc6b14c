//! Classification of a received frame: a probe and its claimed sender, or foreign.
//!
//! A frame with a probe is *corrupted* when a checksum that covers it is wrong: that of its IPv4 header, or that of
//! UDP, TCP or ICMP, which covers everything behind. A bit error in the Ethernet header is not seen here: the card
//! drops such frames by their FCS. UDP over IPv4 without a checksum (0) cannot be corrupted.

use crate::checksum::{Sum, pseudo_header};
use crate::{Probe, ethernet, extension, icmp, ipv4, ipv6, tcp, udp, vlan};
use std::net::IpAddr;

/// A probe in a frame that arrived, and the claimed sender of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The probe.
    pub probe: Probe,
    /// Source address.
    pub source: IpAddr,
    /// Source port, or ICMP identifier.
    pub source_port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port; 0 for ICMP.
    pub destination_port: u16,
    /// True if all checksums are right.
    pub intact: bool,
    /// Hash of addresses, ports and protocol: equal within a flow, and very likely different between flows.
    pub flow: u64,
}

impl Found {
    /// Returns the claimed sender and the receiver of the frame.
    #[must_use]
    pub const fn four_tuple(&self) -> FourTuple {
        FourTuple {
            source: self.source,
            destination: self.destination,
            source_port: self.source_port,
            destination_port: self.destination_port,
        }
    }
}

/// Addresses and ports of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

/// Class of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It carries a probe.
    Probe(Found),
    /// The frame carries no probe of ours.
    Foreign,
}

impl Seen {
    /// Searches for a probe in a frame (no FCS). Never panics, for any bytes.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Self {
        find(frame).map_or(Self::Foreign, Self::Probe)
    }
}

fn find(frame: &[u8]) -> Option<Found> {
    let ethernet = ethernet::Packet::new(frame)?;
    let (mut ethertype, mut payload) = (ethernet.ethertype(), ethernet.payload());
    while vlan::is_tag(ethertype) {
        let tag = vlan::Packet::new(payload)?;
        (ethertype, payload) = (tag.ethertype(), tag.payload());
    }
    match ethertype {
        ethernet::IPV4 => {
            let ip = ipv4::Packet::new(payload)?;
            if ip.is_later_fragment() {
                return None;
            }
            let (source, destination) = (IpAddr::V4(ip.source()), IpAddr::V4(ip.destination()));
            let mut found = in_transport(ip.protocol(), ip.payload(), source, destination)?;
            found.intact &= ip.intact();
            Some(found)
        }
        ethernet::IPV6 => {
            let ip = ipv6::Packet::new(payload)?;
            let (protocol, at) = extension::skip(ip.next_header(), ip.payload())?;
            in_transport(protocol, &ip.payload()[at..], IpAddr::V6(ip.source()), IpAddr::V6(ip.destination()))
        }
        _ => None,
    }
}

fn in_transport(protocol: u8, b: &[u8], source: IpAddr, destination: IpAddr) -> Option<Found> {
    let (probe, source_port, destination_port, no_checksum) = match protocol {
        udp::PROTOCOL => {
            let p = udp::Packet::new(b)?;
            (Probe::parse(p.payload())?, p.source_port(), p.destination_port(), p.checksum() == 0)
        }
        tcp::PROTOCOL => {
            let p = tcp::Packet::new(b)?;
            (Probe::parse(p.payload())?, p.source_port(), p.destination_port(), false)
        }
        icmp::PROTOCOL | icmp::PROTOCOL_6 => {
            let p = icmp::Packet::new(b)?;
            (Probe::parse(p.payload())?, p.identifier(), 0, false)
        }
        _ => return None,
    };
    let mut sum = Sum::of(b);
    if protocol != icmp::PROTOCOL {
        sum = sum.plus(pseudo_header(source, destination, protocol, u32::try_from(b.len()).ok()?));
    }
    let flow = flow(source, destination, [protocol.into(), source_port, destination_port]);
    let intact = no_checksum || sum.intact();
    Some(Found { probe, source, source_port, destination, destination_port, intact, flow })
}

/// Returns a number for a flow.
fn flow(source: IpAddr, destination: IpAddr, transport: [u16; 3]) -> u64 {
    let bits = |address| match address {
        IpAddr::V4(a) => u64::from(a.to_bits()),
        IpAddr::V6(a) => {
            let [high, low] =
                [0, 8].map(|at| a.octets()[at..at + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
            mixed(high, low)
        }
    };
    let [protocol, from, to] = transport.map(u64::from);
    mixed(mixed(bits(source), bits(destination)), protocol << 32 | from << 16 | to)
}

/// Mixes two words into one: that of `splitmix64`, a bijection of either.
const fn mixed(a: u64, b: u64) -> u64 {
    let a = (a ^ (a >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = a ^ (a >> 27) ^ b.wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ (sum >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameRepr, Transport};
    use crate::{Extension, probe};
    use dutlab_units::Nanos;
    use proptest::prelude::*;

    const PROBE: Probe = Probe { stream: 7, sequence: 3, trial: 0x0102, sent: Nanos(0x0304_0506_0708) };

    /// The shortest frame, as bytes.
    fn shortest() -> [u8; 60] {
        let mut b = [0; 60];
        FrameRepr::default().emit(&PROBE, &mut b).unwrap();
        b
    }

    #[test]
    fn the_probe_is_found_in_the_bytes_with_its_sender() {
        let Seen::Probe(found) = Seen::parse(&shortest()) else { panic!() };
        let repr = FrameRepr::default();
        assert_eq!((found.probe, found.source, found.source_port, found.intact), (PROBE, repr.source, 40000, true));
    }

    #[test]
    fn frames_of_one_flow_have_its_number_and_no_other_flow_has_it() {
        let of = |repr: FrameRepr<'_>, sequence| {
            let mut b = [0; 60];
            repr.emit(&Probe { sequence, ..PROBE }, &mut b).unwrap();
            let Seen::Probe(found) = Seen::parse(&b) else { panic!() };
            found.flow
        };
        let usual = FrameRepr::default;
        assert_eq!(of(usual(), 1), of(usual(), 2));
        let mut flows: Vec<_> = (0..20_000).map(|port| of(FrameRepr { source_port: port, ..usual() }, 1)).collect();
        flows.extend((1..255).map(|host| of(FrameRepr { destination: [10, 9, 8, host].into(), ..usual() }, 1)));
        flows.push(of(FrameRepr { destination_port: 7, ..usual() }, 1));
        let count = flows.len();
        flows.sort_unstable();
        flows.dedup();
        assert_eq!(flows.len(), count);
    }

    fn any_repr() -> impl Strategy<Value = (bool, u8, usize, u16, u16, [u8; 16], [u8; 16])> {
        (any::<bool>(), 0_u8..4, 0_usize..3, any::<u16>(), any::<u16>(), any::<[u8; 16]>(), any::<[u8; 16]>())
    }

    const CHAIN: [Extension; 4] =
        [Extension::HopByHop, Extension::Routing, Extension::DestinationOptions, Extension::Fragment];

    const TAGS: [vlan::Repr; 2] = [
        vlan::Repr { tpid: vlan::SERVICE, id: 100, priority: 1 },
        vlan::Repr { tpid: vlan::CUSTOMER, id: 7, priority: 0 },
    ];

    proptest! {
        #[test]
        fn every_kind_of_frame_is_found_again_and_another_library_agrees_on_its_checksums(
            (v6, kind, tags, source_port, destination_port, s, d) in any_repr(), more in 0_usize..1400, extensions in 0_usize..=4,
        ) {
            let ip = |b: [u8; 16]| if v6 { IpAddr::from(b) } else { IpAddr::from([b[0], b[1], b[2], b[3]]) };
            let transport = [Transport::Udp, Transport::Tcp(tcp::SYN), Transport::Tcp(tcp::ACK), Transport::IcmpEcho];
            let repr = FrameRepr {
                vlans: &TAGS[..tags], source: ip(s), destination: ip(d), transport: transport[usize::from(kind)],
                source_port, destination_port, extensions: if v6 { &CHAIN[4 - extensions..] } else { &[] }, ..FrameRepr::default()
            };
            let mut b = vec![0; repr.layout().unwrap().probe_at + probe::LEN + more];
            repr.emit(&PROBE, &mut b).unwrap();
            let Seen::Probe(found) = Seen::parse(&b) else { panic!() };
            let flow = found.flow;
            let destination_port = if kind == 3 { 0 } else { destination_port };
            let (source, destination) = (ip(s), ip(d));
            prop_assert_eq!(found, Found { probe: PROBE, source, source_port, destination, destination_port, intact: true, flow });
            oracle(&b);
        }

        #[test]
        fn no_bytes_make_the_parser_panic(b in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Seen::parse(&b);
        }

        #[test]
        fn no_change_of_a_good_frame_makes_the_parser_panic(
            changes in proptest::collection::vec((0_usize..60, any::<u8>()), 0..8), cut in 0_usize..=60,
        ) {
            let mut b = shortest();
            for (at, to) in changes {
                b[at] = to;
            }
            let _ = Seen::parse(&b[..cut]);
        }

        #[test]
        fn a_flipped_bit_behind_the_probe_is_corruption(bit in 0_usize..800) {
            let mut b = [0; 160];
            FrameRepr::default().emit(&PROBE, &mut b).unwrap();
            b[60 + bit / 8] ^= 1 << (bit % 8);
            let corrupted = matches!(Seen::parse(&b), Seen::Probe(Found { intact: false, .. }));
            prop_assert!(corrupted);
        }
    }

    /// Panics unless etherparse reads `b` as a whole frame with right checksums.
    fn oracle(b: &[u8]) {
        use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
        let p = PacketHeaders::from_ethernet_slice(b).unwrap();
        let payload = p.payload.slice();
        match (p.net.unwrap(), p.transport.unwrap()) {
            (NetHeaders::Ipv4(ip, _), transport) => {
                assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                match transport {
                    TransportHeader::Udp(u) => assert_eq!(u.checksum, u.calc_checksum_ipv4(&ip, payload).unwrap()),
                    TransportHeader::Tcp(t) => assert_eq!(t.checksum, t.calc_checksum_ipv4(&ip, payload).unwrap()),
                    TransportHeader::Icmpv4(i) => assert_eq!(i.checksum, i.icmp_type.calc_checksum(payload)),
                    other => panic!("{other:?} in IPv4"),
                }
            }
            (NetHeaders::Ipv6(ip, _), transport) => match transport {
                TransportHeader::Udp(u) => assert_eq!(u.checksum, u.calc_checksum_ipv6(&ip, payload).unwrap()),
                TransportHeader::Tcp(t) => assert_eq!(t.checksum, t.calc_checksum_ipv6(&ip, payload).unwrap()),
                TransportHeader::Icmpv6(i) => {
                    let want = i.icmp_type.calc_checksum(ip.source, ip.destination, payload).unwrap();
                    assert_eq!(i.checksum, want);
                }
                other => panic!("{other:?} in IPv6"),
            },
            (NetHeaders::Arp(_), _) => panic!("ARP"),
        }
    }
}

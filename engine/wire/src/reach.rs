//! Addresses that a frame can reach: the destination of its packet, the stops of a source route, and the destinations
//! of packets inside it, which a router sees after a device on the way has removed a tag, a label or a tunnel.

use crate::{ethernet, ipv4, ipv6, u16_at, udp, vlan};
use std::net::IpAddr;

/// Maximum number of headers that are parsed. A deeper packet counts as going anywhere.
const DEEPEST: usize = 16;

/// Largest value in place of an `EtherType` that is a length (IEEE 802.3 clause 3.2.6): LLC follows.
const LONGEST: u16 = 1500;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
const PPP: u16 = 0x880b;
const BRIDGED_ETHERNET: u16 = 0x6558;

/// Protocols inside IP that carry packets (IANA), and the IPv6 headers in front of them.
mod protocol {
    pub const HOP_BY_HOP: u8 = 0;
    pub const IPV4: u8 = 4;
    pub const IPV6: u8 = 41;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const AUTHENTICATION: u8 = 51;
    pub const DESTINATION_OPTIONS: u8 = 60;
    pub const MPLS: u8 = 137;
}

/// UDP ports of tunnels that carry Ethernet: VXLAN (RFC 7348), Geneve (RFC 8926).
const VXLAN: u16 = 4789;
const GENEVE: u16 = 6081;

/// There are too many headers to parse, or a route with compressed addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

/// Passes each address that `frame` (no FCS) can reach to `take`, that of its outermost packet first. A truncated
/// header ends the search without an error: no device forwards what is behind it.
pub fn destinations(frame: &[u8], take: &mut dyn FnMut(IpAddr)) -> Result<(), Unknown> {
    Search { take, left: DEEPEST }.ethernet(frame)
}

struct Search<'t> {
    take: &'t mut dyn FnMut(IpAddr),
    /// Remaining number of headers to parse.
    left: usize,
}

impl Search<'_> {
    fn ethernet(&mut self, b: &[u8]) -> Result<(), Unknown> {
        let Some(p) = ethernet::Packet::new(b) else { return Ok(()) };
        self.behind(p.ethertype(), &b[ethernet::LEN..])
    }

    /// Parses the payload of a given `ethertype`.
    fn behind(&mut self, ethertype: u16, b: &[u8]) -> Result<(), Unknown> {
        self.left = self.left.checked_sub(1).ok_or(Unknown)?;
        match (ethertype, b) {
            (t, [_, _, high, low, rest @ ..]) if vlan::is_tag(t) => {
                self.behind(u16::from_be_bytes([*high, *low]), rest)
            }
            (ethernet::IPV4, _) => self.ipv4(b),
            (ethernet::IPV6, _) => self.ipv6(b),
            (MPLS | MPLS_MULTICAST, _) => self.labels(b),
            // Version and type, code, session, length (RFC 2516 section 4).
            (PPPOE_SESSION, [0x11, _, _, _, _, _, rest @ ..]) | (PPP, rest) => self.ppp(rest),
            (BRIDGED_ETHERNET, _) => self.ethernet(b),
            // SNAP (RFC 1042) with the numbers of EtherType, and with those of bridges (IEEE 802.1H); SAP 6 is IP itself.
            (..=LONGEST, [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low, rest @ ..]) => {
                self.behind(u16::from_be_bytes([*high, *low]), rest)
            }
            (..=LONGEST, [6, 6, 3, rest @ ..]) => self.ipv4(rest),
            _ => Ok(()),
        }
    }

    /// RFC 1661 section 2; the first bytes may be left out or written shorter (sections 6.5 and 6.6).
    fn ppp(&mut self, b: &[u8]) -> Result<(), Unknown> {
        let b = b.strip_prefix(&[0xff, 3]).unwrap_or(b);
        let (protocol, rest) = match b {
            [short, rest @ ..] if short & 1 == 1 => (u16::from(*short), rest),
            [high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]), rest),
            _ => return Ok(()),
        };
        match protocol {
            0x0021 => self.behind(ethernet::IPV4, rest),
            0x0057 => self.behind(ethernet::IPV6, rest),
            0x0281 => self.behind(MPLS, rest),
            _ => Ok(()),
        }
    }

    /// RFC 3032 section 2.1. The type behind the last label is not given, but its first bits show it (RFC 4928): a
    /// packet, or Ethernet with or without a control word.
    fn labels(&mut self, mut b: &[u8]) -> Result<(), Unknown> {
        loop {
            let [_, _, traffic_and_bottom, _, rest @ ..] = b else { return Ok(()) };
            b = rest;
            if traffic_and_bottom & 1 == 1 {
                break;
            }
        }
        match b.first().map_or(0, |first| first >> 4) {
            4 => self.behind(ethernet::IPV4, b),
            6 => self.behind(ethernet::IPV6, b),
            _ => {
                self.behind(BRIDGED_ETHERNET, b)?;
                b.get(4..).map_or(Ok(()), |b| self.behind(BRIDGED_ETHERNET, b))
            }
        }
    }

    fn ipv4(&mut self, b: &[u8]) -> Result<(), Unknown> {
        // A router drops a packet whose version differs from its type.
        let Some(destination) = b.get(ipv4::DESTINATION_AT..).and_then(<[u8]>::first_chunk::<4>) else { return Ok(()) };
        let length = usize::from(b[0] & 0xf) * 4;
        if b[0] >> 4 != 4 {
            return Ok(());
        }
        (self.take)(IpAddr::from(*destination));
        self.stops(b.get(ipv4::LEN..length.min(b.len())).unwrap_or(&[]));
        let is_later_fragment = u16_at(b, 6) & 0x1fff != 0;
        match b.get(length..) {
            Some(rest) if !is_later_fragment => self.inside(b[9], rest),
            _ => Ok(()),
        }
    }

    /// The stops of a source route (RFC 791 section 3.1: loose 131, strict 137) among options.
    fn stops(&mut self, mut options: &[u8]) {
        while let [kind, rest @ ..] = options {
            options = match (kind, rest) {
                (0, _) => return,
                (1, _) => rest,
                (_, [length, ..]) if *length >= 2 => {
                    let (option, after) = options.split_at(usize::from(*length).min(options.len()));
                    if matches!(kind, 131 | 137) {
                        option
                            .get(3..)
                            .unwrap_or(&[])
                            .as_chunks::<4>()
                            .0
                            .iter()
                            .for_each(|a| (self.take)(IpAddr::from(*a)));
                    }
                    after
                }
                _ => return,
            };
        }
    }

    fn ipv6(&mut self, b: &[u8]) -> Result<(), Unknown> {
        let Some(destination) = b.get(ipv6::DESTINATION_AT..).and_then(<[u8]>::first_chunk::<16>) else {
            return Ok(());
        };
        if b[0] >> 4 != 6 {
            return Ok(());
        }
        (self.take)(IpAddr::from(*destination));
        self.inside(b[6], &b[ipv6::LEN..])
    }

    /// Parses the payload of IP, by its protocol number.
    fn inside(&mut self, number: u8, b: &[u8]) -> Result<(), Unknown> {
        self.left = self.left.checked_sub(1).ok_or(Unknown)?;
        match number {
            protocol::IPV4 => self.ipv4(b),
            protocol::IPV6 => self.ipv6(b),
            protocol::GRE => self.gre(b),
            protocol::MPLS => self.labels(b),
            udp::PROTOCOL => self.tunnel(b),
            protocol::FRAGMENT => match b {
                [next, _, high, low, _, _, _, _, rest @ ..] if u16::from_be_bytes([*high, *low]) & 0xfff8 == 0 => {
                    self.inside(*next, rest)
                }
                _ => Ok(()),
            },
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS | protocol::AUTHENTICATION => {
                let [next, units, ..] = b else { return Ok(()) };
                // In units of 8 bytes, the first not counted (RFC 8200); of 4, the first two not counted (RFC 4302).
                let length = if number == protocol::AUTHENTICATION {
                    (usize::from(*units) + 2) * 4
                } else {
                    (usize::from(*units) + 1) * 8
                };
                if number == protocol::ROUTING {
                    self.segments(&b[..length.min(b.len())])?;
                }
                b.get(length..).map_or(Ok(()), |rest| self.inside(*next, rest))
            }
            _ => Ok(()),
        }
    }

    /// Parses the addresses of a routing header: of type 0 (RFC 5095), 2 (RFC 6275) and 4 (RFC 8754). Type 3 compresses
    /// them (RFC 6554). A node drops a packet with another type whose route is not at its end (RFC 8200 section 4.4).
    fn segments(&mut self, b: &[u8]) -> Result<(), Unknown> {
        match (b.get(2), b.get(3)) {
            (Some(3), Some(1..)) => Err(Unknown),
            (Some(0 | 2 | 4), _) => {
                b.get(8..).unwrap_or(&[]).as_chunks::<16>().0.iter().for_each(|a| (self.take)(IpAddr::from(*a)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// RFC 2784 and 2890; version 1 is for PPTP (RFC 2637), which also has an acknowledgement number.
    fn gre(&mut self, b: &[u8]) -> Result<(), Unknown> {
        let [flags, version, high, low, ..] = b else { return Ok(()) };
        let bits = [0x80, 0x20, 0x10].map(|bit| usize::from(flags & bit != 0));
        let acknowledged = usize::from(version & 0x87 == 0x81);
        let at = 4 * (1 + bits.iter().sum::<usize>() + acknowledged);
        b.get(at..).map_or(Ok(()), |rest| self.behind(u16::from_be_bytes([*high, *low]), rest))
    }

    fn tunnel(&mut self, b: &[u8]) -> Result<(), Unknown> {
        let [_, _, high, low, _, _, _, _, rest @ ..] = b else { return Ok(()) };
        match (u16::from_be_bytes([*high, *low]), rest) {
            (VXLAN, [_, _, _, _, _, _, _, _, rest @ ..]) => self.behind(BRIDGED_ETHERNET, rest),
            (GENEVE, [length, _, high, low, ..]) => {
                let at = 8 + 4 * usize::from(length & 0x3f);
                rest.get(at..).map_or(Ok(()), |rest| self.behind(u16::from_be_bytes([*high, *low]), rest))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TO: [u8; 4] = [8, 8, 8, 8];

    /// Makes an Ethernet header of this type before `inner`.
    fn framed(ethertype: u16, inner: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes(), inner].concat()
    }

    /// Makes an IPv4 packet to 10.0.0.2, or elsewhere, with options and a payload.
    fn v4(to: [u8; 4], protocol: u8, options: &[u8], inner: &[u8]) -> Vec<u8> {
        let words = u8::try_from(5 + options.len() / 4).unwrap();
        let mut b = vec![0x40 | words, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1];
        b.extend([&to[..], options, inner].concat());
        b
    }

    fn v6(next: u8, inner: &[u8]) -> Vec<u8> {
        let mut b = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        b.extend([[0xfd; 16].as_slice(), &[0xfc; 16], inner].concat());
        b
    }

    fn outer(protocol: u8, inner: &[u8]) -> Vec<u8> {
        framed(0x0800, &v4([10, 0, 0, 2], protocol, &[], inner))
    }

    fn all(frame: &[u8]) -> Result<Vec<IpAddr>, Unknown> {
        let mut found = Vec::new();
        destinations(frame, &mut |a| found.push(a)).map(|()| found)
    }

    #[test]
    fn an_address_is_found_behind_every_header_that_somebody_on_the_way_takes_off() {
        let packet = v4(TO, 17, &[], &[0; 8]);
        let inner = framed(0x0800, &packet);
        let with = |head: &[u8], rest: &[u8]| [head, rest].concat();
        let udp = |port: u16, rest: &[u8]| [&[0, 9], &port.to_be_bytes()[..], &[0; 4], rest].concat();
        for (what, frame) in [
            ("nothing", framed(0x0800, &packet)),
            ("a tag", framed(0x8100, &with(&[0, 5, 8, 0], &packet))),
            ("two tags", framed(0x88a8, &with(&[0, 5, 0x81, 0, 0, 6, 8, 0], &packet))),
            ("SNAP", framed(200, &with(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &packet))),
            ("SNAP of a bridge", framed(200, &with(&[0xaa, 0xaa, 3, 0, 0, 0xf8, 8, 0], &packet))),
            ("LLC", framed(200, &with(&[6, 6, 3], &packet))),
            ("PPPoE", framed(0x8864, &with(&[0x11, 0, 0, 1, 0, 30, 0, 0x21], &packet))),
            ("PPPoE, shorter", framed(0x8864, &with(&[0x11, 0, 0, 1, 0, 30, 0x21], &packet))),
            ("a label", framed(0x8847, &with(&[0, 0, 0x11, 64], &packet))),
            ("two labels", framed(0x8847, &with(&[0, 0, 0x10, 64, 0, 0, 0x21, 64], &packet))),
            ("a pseudowire", framed(0x8847, &with(&[0, 0, 0x11, 64], &inner))),
            ("a pseudowire with its word", framed(0x8847, &with(&[0, 0, 0x11, 64, 0, 0, 0, 0], &inner))),
            ("PPPoE and a label", framed(0x8864, &with(&[0x11, 0, 0, 1, 0, 30, 2, 0x81, 0, 0, 0x11, 64], &packet))),
            ("IP in IP", outer(4, &packet)),
            ("GRE", outer(47, &with(&[0, 0, 8, 0], &packet))),
            (
                "GRE with sum, key and number",
                outer(47, &with(&[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1], &packet)),
            ),
            ("GRE with Ethernet", outer(47, &with(&[0, 0, 0x65, 0x58], &inner))),
            (
                "PPTP",
                outer(
                    47,
                    &with(&[0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 3, 0, 0x21], &packet),
                ),
            ),
            ("MPLS in IP", outer(137, &with(&[0, 0, 0x11, 64], &packet))),
            ("VXLAN", outer(17, &udp(4789, &with(&[8, 0, 0, 0, 0, 0, 7, 0], &inner)))),
            ("Geneve", outer(17, &udp(6081, &with(&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 0, 0, 0], &inner)))),
            (
                "an authentication header",
                outer(51, &with(&[4, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &packet)),
            ),
            ("IPv6", framed(0x86dd, &v6(4, &packet))),
            (
                "IPv6 with options",
                framed(0x86dd, &v6(0, &with(&[60, 0, 1, 4, 0, 0, 0, 0, 4, 0, 1, 4, 0, 0, 0, 0], &packet))),
            ),
            ("the first part of a packet", framed(0x86dd, &v6(44, &with(&[4, 0, 0, 1, 0, 0, 0, 1], &packet)))),
        ] {
            let found = all(&frame).unwrap();
            assert_eq!(found.last(), Some(&IpAddr::from(TO)), "{what}: {found:?}");
            for cut in 0..frame.len() {
                all(&frame[..cut]).unwrap();
            }
        }
        let later = framed(0x86dd, &v6(44, &with(&[4, 0, 0, 8, 0, 0, 0, 1], &packet)));
        assert_eq!(all(&later), Ok(vec![IpAddr::from([0xfc; 16])]), "the bytes of a later part are no header");
        assert_eq!(all(&framed(0x88b5, &packet)), Ok(vec![]), "not IP");
        let mut other = packet;
        other[0] = 0x65;
        assert_eq!(all(&framed(0x0800, &other)), Ok(vec![]), "no router takes another version");
    }

    #[test]
    fn every_stop_of_a_source_route_is_found() {
        let near = IpAddr::from([10, 0, 0, 2]);
        for kind in [131, 137] {
            let options = [1, kind, 11, 4, 9, 9, 9, 9, 8, 8, 8, 8];
            let frame = framed(0x0800, &v4([10, 0, 0, 2], 17, &options, &[0; 8]));
            assert_eq!(all(&frame), Ok(vec![near, [9; 4].into(), TO.into()]), "{kind}");
        }
        for kind in [0, 2, 4] {
            let header = [&[17, 2, kind, 1, 0, 0, 0, 0][..], &[0x20; 16], &[0; 8]].concat();
            let frame = framed(0x86dd, &v6(43, &header));
            assert_eq!(all(&frame), Ok(vec![[0xfc; 16].into(), [0x20; 16].into()]), "type {kind}");
        }
        let shortened = framed(0x86dd, &v6(43, &[17, 0, 3, 1, 0, 0, 0, 0]));
        assert_eq!(all(&shortened), Err(Unknown));
    }

    #[test]
    fn what_is_deeper_than_anybody_builds_goes_anywhere() {
        let mut tags = [0, 5, 0x81, 0].repeat(DEEPEST);
        tags.extend([0, 5, 8, 0]);
        assert_eq!(all(&framed(0x8100, &[&tags[..], &v4(TO, 17, &[], &[])].concat())), Err(Unknown));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(start in 0_usize..12, b in proptest::collection::vec(any::<u8>(), 0..120)) {
            let types = [0x0800, 0x86dd, 0x8100, 0x8847, 0x8864, 0x880b, 0x6558, 100, 0x88a8, 0x8848, 0x9100, 0];
            let _ = all(&framed(types[start], &b));
        }
    }
}

//! A whole test frame: Ethernet, tags, IP, transport, probe, padding.

use crate::checksum::{Sum, pseudo_header};
use crate::ethernet::Mac;
use crate::{Extension, Probe, ethernet, extension, icmp, ipv4, ipv6, probe, tcp, udp, vlan};
use std::net::IpAddr;

/// The header in front of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A UDP datagram.
    Udp,
    /// A TCP segment with these flags.
    Tcp(u8),
    /// An ICMP or `ICMPv6` echo request.
    IcmpEcho,
}

/// The meaning of a test frame, all but its size and its probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRepr<'a> {
    /// Source MAC.
    pub source_mac: Mac,
    /// Destination MAC.
    pub destination_mac: Mac,
    /// Tags, outermost first.
    pub vlans: &'a [vlan::Repr],
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same kind.
    pub destination: IpAddr,
    /// Transport header in front of the probe.
    pub transport: Transport,
    /// Source port, or ICMP identifier.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Headers between that of IPv6 and the transport; IPv4 has none.
    pub extensions: &'a [Extension],
}

impl Default for FrameRepr<'_> {
    /// An untagged frame of UDP over IPv4, from 172.16.0.2 to 172.16.10.2. Tests and `bench` change a field or two of
    /// it.
    fn default() -> Self {
        Self {
            source_mac: Mac([2, 0, 0, 0, 0, 2]),
            destination_mac: Mac([2, 0, 0, 0, 0, 1]),
            vlans: &[],
            source: [172, 16, 0, 2].into(),
            destination: [172, 16, 10, 2].into(),
            transport: Transport::Udp,
            source_port: 40_000,
            destination_port: 5001,
            ttl: 64,
            extensions: &[],
        }
    }
}

/// Offsets of the fields that change from frame to frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Start of the IP header.
    pub ip_at: usize,
    /// Source address; 4 bytes, or 16 if `v6`.
    pub source_at: usize,
    /// Destination address.
    pub destination_at: usize,
    /// True if the addresses are IPv6.
    pub v6: bool,
    /// Checksum of the IPv4 header.
    pub ip_checksum_at: Option<usize>,
    /// Start of the transport header.
    pub transport_at: usize,
    /// Source port, or ICMP identifier.
    pub source_port_at: usize,
    /// Destination port.
    pub destination_port_at: Option<usize>,
    /// Checksum of the transport.
    pub checksum_at: usize,
    /// True if that checksum covers the addresses: all but ICMP over IPv4.
    pub checksum_covers_addresses: bool,
    /// Offset of the transport's sequence number, and its length in bytes: TCP 4, ICMP 2, UDP has none.
    pub number: Option<(usize, u8)>,
    /// Start of the probe.
    pub probe_at: usize,
}

/// A frame that cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Source and destination are not both IPv4 or both IPv6.
    MixedFamilies,
    /// The frame has extension headers, but IPv4 addresses.
    ExtensionsOfIpv4,
    /// The headers and the probe need more room than the frame has; lengths in bytes with FCS.
    TooShort {
        /// Bytes that were asked for.
        asked: usize,
        /// Bytes that are needed at least.
        least: usize,
    },
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MixedFamilies => write!(f, "source and destination must both be IPv4 or both be IPv6"),
            Self::ExtensionsOfIpv4 => {
                write!(f, "IPv4 has no extension headers; give IPv6 addresses, or leave them out")
            }
            Self::TooShort { asked, least } => {
                write!(f, "a frame of {asked} bytes has no room for these headers and the probe: {least} is the least")
            }
        }
    }
}

impl std::error::Error for FrameError {}

impl FrameRepr<'_> {
    /// Returns the offsets of the fields.
    pub fn layout(&self) -> Result<Layout, FrameError> {
        let v6 = match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => false,
            (IpAddr::V6(_), IpAddr::V6(_)) => true,
            _ => return Err(FrameError::MixedFamilies),
        };
        let ip_at = ethernet::LEN + vlan::LEN * self.vlans.len();
        if !v6 && !self.extensions.is_empty() {
            return Err(FrameError::ExtensionsOfIpv4);
        }
        let transport_at = ip_at + if v6 { ipv6::LEN + extension::length(self.extensions) } else { ipv4::LEN };
        let (source_port, destination_port, checksum, number, length) = match self.transport {
            Transport::Udp => (0, Some(2), udp::CHECKSUM_AT, None, udp::LEN),
            Transport::Tcp(_) => (0, Some(2), tcp::CHECKSUM_AT, Some((tcp::SEQUENCE_AT, 4)), tcp::LEN),
            Transport::IcmpEcho => (4, None, icmp::CHECKSUM_AT, Some((icmp::SEQUENCE_AT, 2)), icmp::LEN),
        };
        Ok(Layout {
            ip_at,
            source_at: ip_at + if v6 { ipv6::SOURCE_AT } else { ipv4::SOURCE_AT },
            destination_at: ip_at + if v6 { ipv6::DESTINATION_AT } else { ipv4::DESTINATION_AT },
            v6,
            ip_checksum_at: (!v6).then_some(ip_at + ipv4::CHECKSUM_AT),
            transport_at,
            source_port_at: transport_at + source_port,
            destination_port_at: destination_port.map(|at| transport_at + at),
            checksum_at: transport_at + checksum,
            checksum_covers_addresses: v6 || self.transport != Transport::IcmpEcho,
            number: number.map(|(at, length)| (transport_at + at, length)),
            probe_at: transport_at + length,
        })
    }

    fn protocol(&self, v6: bool) -> u8 {
        match self.transport {
            Transport::Udp => udp::PROTOCOL,
            Transport::Tcp(_) => tcp::PROTOCOL,
            Transport::IcmpEcho if v6 => icmp::PROTOCOL_6,
            Transport::IcmpEcho => icmp::PROTOCOL,
        }
    }

    /// Writes a frame that fills `b` (no FCS), with `probe` and right checksums. A counting pattern follows the probe:
    /// each byte is its own offset, so frames whose headers have different lengths are alike where all have payload.
    /// Returns the offsets of the fields.
    pub fn emit(&self, probe: &Probe, b: &mut [u8]) -> Result<Layout, FrameError> {
        let layout = self.layout()?;
        if b.len() < layout.probe_at + probe::LEN {
            let fcs = usize::from(dutlab_units::FCS);
            return Err(FrameError::TooShort { asked: b.len() + fcs, least: layout.probe_at + probe::LEN + fcs });
        }
        self.emit_ethernet(b, layout.v6);
        #[expect(clippy::cast_possible_truncation, reason = "no frame size is above 9242 bytes")]
        let payload_length = (b.len() - layout.transport_at) as u16;
        let protocol = self.protocol(layout.v6);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                ipv4::Repr { source, destination, protocol, ttl: self.ttl, payload_length }
                    .emit(&mut b[layout.ip_at..]);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let (header, rest) = b[layout.ip_at..].split_at_mut(ipv6::LEN);
                #[expect(clippy::cast_possible_truncation, reason = "no frame size is above 9242 bytes")]
                let payload_length = rest.len() as u16;
                let next_header = extension::emit(self.extensions, protocol, destination, rest);
                ipv6::Repr { source, destination, next_header, hop_limit: self.ttl, payload_length }.emit(header);
            }
            _ => return Err(FrameError::MixedFamilies),
        }
        self.emit_transport(&mut b[layout.transport_at..], layout.v6);
        probe.emit(&mut b[layout.probe_at..]);
        for (at, byte) in b.iter_mut().enumerate().skip(layout.probe_at + probe::LEN) {
            *byte = at.to_le_bytes()[0];
        }
        let mut sum = Sum::of(&b[layout.transport_at..]);
        if layout.checksum_covers_addresses {
            sum = sum.plus(pseudo_header(self.source, self.destination, protocol, u32::from(payload_length)));
        }
        let checksum = if self.transport == Transport::Udp { sum.udp_checksum() } else { sum.checksum() };
        b[layout.checksum_at..layout.checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        Ok(layout)
    }

    fn emit_ethernet(&self, b: &mut [u8], v6: bool) {
        let network = if v6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let ethertype = self.vlans.first().map_or(network, |v| v.tpid);
        ethernet::Repr { destination: self.destination_mac, source: self.source_mac, ethertype }.emit(b);
        for (i, tag) in self.vlans.iter().enumerate() {
            let next = self.vlans.get(i + 1).map_or(network, |v| v.tpid);
            tag.emit(&mut b[ethernet::LEN + i * vlan::LEN..], next);
        }
    }

    fn emit_transport(&self, b: &mut [u8], v6: bool) {
        let (source_port, destination_port) = (self.source_port, self.destination_port);
        match self.transport {
            #[expect(clippy::cast_possible_truncation, reason = "no frame size is above 9242 bytes")]
            Transport::Udp => {
                udp::Repr { source_port, destination_port, payload_length: (b.len() - udp::LEN) as u16 }.emit(b);
            }
            Transport::Tcp(flags) => tcp::Repr { source_port, destination_port, flags }.emit(b),
            Transport::IcmpEcho => {
                let kind = if v6 { icmp::REQUEST_6 } else { icmp::REQUEST };
                icmp::Repr { kind, identifier: source_port }.emit(b);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_units::Nanos;

    const PROBE: Probe = Probe { stream: 7, sequence: 3, trial: 0x0102, sent: Nanos(0x0304_0506_0708) };

    // UDP checksum by hand: pseudo-header ac10+0002+ac10+0a02+0011+001a, UDP 9c40+1389+001a, probe
    // d17a+0007+0000+0000+0003+0102+0304+0506+0708 = 2_f3ca; f3ca+2 = f3cc; its complement is 0c33.
    #[rustfmt::skip]
    const SHORTEST: [u8; 60] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00,
        0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0xd8, 0x9a, 172, 16, 0, 2, 172, 16, 10, 2,
        0x9c, 0x40, 0x13, 0x89, 0, 26, 0x0c, 0x33,
        0xd1, 0x7a, 0, 7, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8,
    ];

    #[test]
    fn the_probe_fits_the_shortest_frame_exactly() {
        let mut b = [0xff; 60];
        let layout = FrameRepr::default().emit(&PROBE, &mut b).unwrap();
        assert_eq!(b, SHORTEST);
        assert_eq!(layout.probe_at + probe::LEN, 60);
    }

    #[test]
    fn a_frame_without_room_is_refused_with_the_least_size() {
        let err = FrameRepr::default().emit(&PROBE, &mut [0; 59]).unwrap_err();
        assert_eq!(err, FrameError::TooShort { asked: 63, least: 64 });
        let v6 =
            FrameRepr { source: "::1".parse().unwrap(), destination: "::2".parse().unwrap(), ..FrameRepr::default() };
        assert_eq!(v6.emit(&PROBE, &mut [0; 60]), Err(FrameError::TooShort { asked: 64, least: 84 }));
        let chain = FrameRepr { extensions: &[Extension::Routing, Extension::Fragment], ..v6 };
        assert_eq!(chain.emit(&PROBE, &mut [0; 80]), Err(FrameError::TooShort { asked: 84, least: 84 + 32 }));
        assert_eq!(
            FrameRepr { extensions: &[Extension::Fragment], ..FrameRepr::default() }.layout(),
            Err(FrameError::ExtensionsOfIpv4)
        );
        let mixed = FrameRepr { source: "::1".parse().unwrap(), ..FrameRepr::default() };
        assert_eq!(mixed.layout(), Err(FrameError::MixedFamilies));
    }

    // UDP checksum by hand: it covers no extension header, and its pseudo-header has UDP's length and protocol (RFC 8200
    // section 8.1). 2001+0002+0001+2001+0002+0001+0001+001a+0011 = 4034, UDP 9c40+1389+001a = afe3, probe as above
    // e198: 1_d1af; d1af+1 = d1b0; its complement is 2e4f.
    #[rustfmt::skip]
    const WITH_OPTIONS: [u8; 40 + 8 + 8 + 18] = [
        0x60, 0, 0, 0, 0, 34, 60, 64,
        0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        0x20, 0x01, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1,
        17, 0, 1, 4, 0, 0, 0, 0,
        0x9c, 0x40, 0x13, 0x89, 0, 26, 0x2e, 0x4f,
        0xd1, 0x7a, 0, 7, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8,
    ];

    #[test]
    fn extension_headers_stand_in_front_of_the_transport_and_outside_of_its_checksum() {
        let repr = FrameRepr {
            source: "2001:2::1".parse().unwrap(),
            destination: "2001:2:0:1::1".parse().unwrap(),
            extensions: &[Extension::DestinationOptions],
            ..FrameRepr::default()
        };
        let mut b = [0xff; 14 + WITH_OPTIONS.len()];
        repr.emit(&PROBE, &mut b).unwrap();
        assert_eq!(b[14..], WITH_OPTIONS);
    }

    #[test]
    fn the_transports_own_number_stands_where_its_rfc_says() {
        // TCP: bytes 4 to 7 of the header (RFC 9293 section 3.1); ICMP echo: bytes 6 and 7 (RFC 792).
        let at = |transport| FrameRepr { transport, ..FrameRepr::default() }.layout().unwrap().number;
        assert_eq!(at(Transport::Udp), None);
        assert_eq!(at(Transport::Tcp(tcp::ACK)), Some((14 + 20 + 4, 4)));
        assert_eq!(at(Transport::IcmpEcho), Some((14 + 20 + 6, 2)));
    }
}

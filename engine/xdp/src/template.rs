//! Frame template of the plan, with the sender's view of it: offsets of its fields, and sums of the constant parts.

use crate::contract::{HEAD_MAX, PROBE_LEN, SHAPE_IPV6, SHAPE_UDP, Shape};
use crate::error::Why;
use crate::flow::{Flow, fold, sum_of};
use dutlab_wire::raw::Carrier;
use dutlab_wire::{icmp, udp};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Length of the longest live frame, in bytes without FCS: a page, less the kernel's data in front of and behind it.
pub(crate) const LONGEST: usize = 3400;

/// A complete frame without FCS, with its probe in place. Its checksums need not be right; they are computed.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    carrier: Carrier,
}

/// Offsets of the fields of a flow in a frame.
pub(crate) struct FlowPlaces {
    pub(crate) source: usize,
    pub(crate) destination: usize,
    pub(crate) source_port: usize,
    pub(crate) destination_port: usize,
}

impl Template {
    /// Parses a frame that an IP datagram fills: Ethernet, VLAN tags, IPv4 (with options) or IPv6 (with extension
    /// headers), UDP, TCP (with options) or ICMP echo, then the 18 bytes of the probe, then payload.
    ///
    /// # Errors
    /// A description of the fault.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, Why> {
        if bytes.len() > LONGEST {
            return Err(Why::FrameTooLong { frame: bytes.len(), most: LONGEST });
        }
        let Some(carrier) = Carrier::of(&bytes).filter(|c| c.end == bytes.len()) else {
            return Err(Why::Plan(
                "the xdp back end sends whole datagrams of UDP, TCP and ICMP over IPv4 and IPv6 only, without padding"
                    .into(),
            ));
        };
        let head_len = carrier.payload_at + PROBE_LEN;
        if bytes.len() < head_len {
            return Err(Why::Plan(format!(
                "a frame of {} bytes is too short for its headers and the probe",
                bytes.len()
            )));
        }
        if head_len > HEAD_MAX {
            return Err(Why::Plan(format!(
                "headers and probe take {head_len} bytes; the xdp back end has room for {HEAD_MAX}"
            )));
        }
        Ok(Self { bytes, carrier })
    }

    /// Length without FCS.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Version of IP, 4 or 6.
    pub(crate) fn ip_version(&self) -> u8 {
        self.bytes[self.carrier.ip_at] >> 4
    }

    /// Returns the offsets of the fields of a flow: the whole IPv4 address, the last four bytes of an IPv6 one.
    pub(crate) fn flow_places(&self) -> FlowPlaces {
        let (source, destination) = if self.ip_version() == 6 {
            (self.carrier.ip_at + 20, self.carrier.ip_at + 36)
        } else {
            (self.carrier.ip_at + 12, self.carrier.ip_at + 16)
        };
        let source_port = self.ports_at();
        FlowPlaces { source, destination, source_port, destination_port: source_port + 2 }
    }

    /// Returns the frame's own addresses and ports.
    pub(crate) fn own_flow(&self) -> Flow {
        let port = |at: usize| u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        let (source_port, destination_port) = (port(self.ports_at()), port(self.ports_at() + 2));
        if self.ip_version() == 6 {
            let address = |at: usize| {
                Ipv6Addr::from(
                    <[u8; 16]>::try_from(&self.bytes[self.carrier.ip_at + at..][..16]).expect("sixteen bytes"),
                )
            };
            Flow::V6 { source: address(8), destination: address(24), source_port, destination_port }
        } else {
            let address = |at: usize| {
                Ipv4Addr::from(<[u8; 4]>::try_from(&self.bytes[self.carrier.ip_at + at..][..4]).expect("four bytes"))
            };
            Flow::V4 { source: address(12), destination: address(16), source_port, destination_port }
        }
    }

    /// Returns the offset of the ports. An ICMP flow is its identifier, four bytes into the header; the two bytes after
    /// it are written as given.
    fn ports_at(&self) -> usize {
        if matches!(self.carrier.protocol, icmp::PROTOCOL | icmp::PROTOCOL_6) {
            self.carrier.transport_at + 4
        } else {
            self.carrier.transport_at
        }
    }

    /// Offset of the probe's sequence number.
    pub(crate) fn sequence_at(&self) -> usize {
        self.carrier.payload_at + 4
    }

    /// Headers and probe.
    pub(crate) fn head_len(&self) -> usize {
        self.carrier.payload_at + PROBE_LEN
    }

    /// Returns all bytes after the probe.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.head_len()..]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if the transport checksum covers the addresses.
    pub(crate) fn has_pseudo_header(&self) -> bool {
        self.carrier.protocol != icmp::PROTOCOL
    }

    /// Returns the data that is written for each frame of this template. With `flows`, addresses and ports come from a
    /// flow.
    pub(crate) fn shape(&self, flows: bool) -> Shape {
        let mut b = self.bytes.clone();
        let (l3, l4, v6) = (self.carrier.ip_at, self.carrier.transport_at, self.ip_version() == 6);
        let (addresses_at, addresses_len) = if v6 { (l3 + 8, 32) } else { (l3 + 12, 8) };
        let sum_at = self.carrier.checksum_at;
        let ports_at = self.ports_at();
        let payload_len = u16::try_from(b.len() - l4).expect("a live frame is short");
        if !v6 {
            b[l3 + 10..l3 + 12].fill(0);
        }
        b[sum_at..sum_at + 2].fill(0);
        // Magic and stream stay; the program adds sequence and time.
        b[self.carrier.payload_at + 4..self.carrier.payload_at + PROBE_LEN].fill(0);

        let pseudo = u64::from(payload_len.to_be()) + u64::from(u16::from(self.carrier.protocol).to_be());
        let addresses = sum_of(&b[addresses_at..addresses_at + addresses_len]);
        let ports = sum_of(&b[ports_at..ports_at + 4]);
        let mut base = sum_of(&b[l4..]);
        if self.has_pseudo_header() {
            base += pseudo + addresses;
        }
        if !v6 {
            let header = fold(sum_of(&b[l3..l4]));
            b[l3 + 10..l3 + 12].copy_from_slice(&(!header).to_ne_bytes());
        }
        let mut ip_base = 0;
        if flows {
            // One's complement subtraction: removes what the flow will add.
            let taken = ports + if self.has_pseudo_header() { addresses } else { 0 };
            base += u64::from(!fold(taken));
            if !v6 {
                let mut header = b[l3..l4].to_vec();
                header[10..12].fill(0);
                header[12..20].fill(0);
                ip_base = u32::from(fold(sum_of(&header)));
            }
        }
        let mut head = [0; HEAD_MAX];
        let n = b.len().min(HEAD_MAX);
        head[..n].copy_from_slice(&b[..n]);
        let small = |n: usize| u8::try_from(n).expect("offsets lie in the head");
        Shape {
            head,
            length: u16::try_from(b.len()).expect("a live frame is short"),
            addresses_at: small(addresses_at),
            ports_at: small(ports_at),
            ip_sum_at: if v6 { 0 } else { small(l3 + 10) },
            sum_at: small(sum_at),
            probe_at: small(self.carrier.payload_at),
            flags: if self.carrier.protocol == udp::PROTOCOL { SHAPE_UDP } else { 0 } | if v6 { SHAPE_IPV6 } else { 0 },
            ip_base,
            base: u32::from(fold(base)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{flow4, flow6, ports_bytes, words_sum};
    use dutlab_units::Nanos;
    use dutlab_wire::frame::Transport;
    use dutlab_wire::{Extension, FrameRepr, Mac, Probe, Seen, tcp, vlan};
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// Makes a frame as the agent prepares it.
    fn frame(v6: bool, transport: Transport, tags: usize, extensions: &[Extension], length: usize) -> Vec<u8> {
        let address = |n: u8| {
            if v6 {
                IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, n])
            } else {
                IpAddr::from([172, 16, 1, n])
            }
        };
        let tags: Vec<_> =
            (0..tags).map(|i| vlan::Repr { tpid: vlan::CUSTOMER, id: 7 + u16::from(i > 0), priority: 3 }).collect();
        let repr = FrameRepr {
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            destination_mac: Mac([2, 0, 0, 0, 0, 2]),
            vlans: &tags,
            source: address(1),
            destination: address(2),
            transport,
            source_port: 40_000,
            destination_port: 5001,
            ttl: 64,
            extensions: if v6 { extensions } else { &[] },
        };
        let mut bytes = vec![0; length];
        repr.emit(&Probe { stream: 5, sequence: 0, trial: 0, sent: Nanos::ZERO }, &mut bytes).unwrap();
        bytes
    }

    /// Does what the program in the kernel does with a shape (`write_frame` in `sender.bpf.c`).
    fn write(template: &Template, flow: Option<Flow>, sequence: u64, stamp: u64) -> Vec<u8> {
        let shape = template.shape(flow.is_some());
        let mut b = template.bytes().to_vec();
        let head = template.head_len();
        b[..head].copy_from_slice(&shape.head[..head]);
        let (at, ports) = (usize::from(shape.addresses_at), usize::from(shape.ports_at));
        let mut sum = u64::from(shape.base);
        match flow {
            Some(Flow::V4 { source, destination, source_port, destination_port }) => {
                let f = flow4(
                    source,
                    destination,
                    ports_bytes(source_port, destination_port),
                    template.has_pseudo_header(),
                );
                b[at..at + 4].copy_from_slice(&f.source);
                b[at + 4..at + 8].copy_from_slice(&f.destination);
                b[ports..ports + 4].copy_from_slice(&f.ports);
                let header = !fold(u64::from(shape.ip_base) + u64::from(f.ip_sum));
                b[usize::from(shape.ip_sum_at)..][..2].copy_from_slice(&header.to_ne_bytes());
                sum += u64::from(f.sum);
            }
            Some(Flow::V6 { source, destination, source_port, destination_port }) => {
                let f = flow6(source, destination, ports_bytes(source_port, destination_port));
                b[at..at + 16].copy_from_slice(&source.octets());
                b[at + 16..at + 32].copy_from_slice(&destination.octets());
                b[ports..ports + 4].copy_from_slice(&f.ports);
                sum += u64::from(f.sum);
            }
            None => {}
        }
        let (sequence, stamp) = ((sequence << 16).to_be_bytes(), stamp.to_be_bytes());
        let probe = usize::from(shape.probe_at);
        b[probe + 4..probe + 10].copy_from_slice(&sequence[..6]);
        b[probe + 10..probe + 18].copy_from_slice(&stamp);
        let mut checksum = !fold(sum + sum_of(&sequence) + sum_of(&stamp));
        if checksum == 0 && shape.flags & SHAPE_UDP != 0 {
            checksum = 0xffff;
        }
        b[usize::from(shape.sum_at)..][..2].copy_from_slice(&checksum.to_ne_bytes());
        b
    }

    proptest! {
        #[test]
        fn what_the_kernel_writes_is_a_sound_frame_with_the_probe_that_was_meant(
            v6: bool, kind in 0..4_usize, tags in 0..3_usize, length in 130..1500_usize, flows: bool,
            addresses: [u8; 2], ports: [u16; 2], sequence in 0..1_u64 << 48, trial: u16, time in 0..1_u64 << 48, extension in 0..4_usize,
        ) {
            const HEADERS: [Extension; 3] = [Extension::HopByHop, Extension::Fragment, Extension::DestinationOptions];
            let transport = [Transport::Udp, Transport::Tcp(tcp::ACK), Transport::Tcp(tcp::SYN), Transport::IcmpEcho][kind];
            let template = Template::new(frame(v6, transport, tags, &HEADERS[extension..], length)).unwrap();
            let own = template.own_flow();
            let flow = flows.then(|| match own {
                Flow::V4 { .. } => Flow::V4 {
                    source: [10, 1, 2, addresses[0]].into(), destination: [10, 9, 8, addresses[1]].into(),
                    source_port: ports[0], destination_port: ports[1],
                },
                Flow::V6 { source, destination, .. } => Flow::V6 {
                    source: Ipv6Addr::from_bits(source.to_bits() ^ u128::from(addresses[0])),
                    destination: Ipv6Addr::from_bits(destination.to_bits() ^ u128::from(addresses[1])),
                    source_port: ports[0], destination_port: ports[1],
                },
            });
            let b = write(&template, flow, sequence, dutlab_wire::probe::stamp(trial, Nanos(time)));
            let Seen::Probe(found) = Seen::parse(&b) else { panic!("no probe in {b:02x?}") };
            prop_assert!(found.intact, "wrong checksum in {b:02x?}");
            prop_assert_eq!((found.probe.stream, found.probe.sequence), (5, sequence));
            prop_assert_eq!((found.probe.trial, found.probe.sent), (trial, Nanos(time)));
            let l3 = 14 + 4 * tags;
            if !v6 {
                // RFC 1071: a header with its checksum sums to all ones.
                prop_assert_eq!(words_sum(&b[l3..l3 + 20]), 0xffff);
            }
            if let Some(Flow::V4 { source, .. }) = flow {
                prop_assert_eq!(found.source, IpAddr::from(source));
            }
        }
    }

    #[test]
    fn a_frame_longer_than_a_page_or_of_another_protocol_is_refused_in_words() {
        assert!(matches!(Template::new(vec![0; LONGEST + 1]), Err(Why::FrameTooLong { .. })));
        let arp = [&[0xff; 12][..], &[8, 6], &[0; 60]].concat();
        assert!(matches!(Template::new(arp), Err(Why::Plan(what)) if what.contains("UDP, TCP and ICMP")));
        let mut padded = frame(false, Transport::Udp, 0, &[], 200);
        padded.push(0);
        assert!(matches!(Template::new(padded), Err(Why::Plan(what)) if what.contains("without padding")));
    }
}

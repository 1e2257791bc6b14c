//! Literal inputs to begin with.

use dutlab_units::Nanos;
use dutlab_wire::frame::Transport;
use dutlab_wire::{Extension, FrameRepr, Mac, Probe, tcp, vlan};
use std::net::IpAddr;

/// The page that shows every operation.
const PROTOCOL_PAGE: &str = include_str!("../../../docs/reference/engine-protocol.md");

/// Every extension header, in the order of RFC 8200 section 4.1.
const CHAIN: [Extension; 4] =
    [Extension::HopByHop, Extension::Routing, Extension::Fragment, Extension::DestinationOptions];

/// Frames of every kind that we send, and some others.
///
/// # Panics
/// Never: the frames have room for their headers.
#[must_use]
pub fn frames() -> Vec<Vec<u8>> {
    let v4: [IpAddr; 2] = [[172, 16, 0, 2].into(), [172, 16, 10, 2].into()];
    let v6: [IpAddr; 2] = ["2001:db8::2".parse().expect("an address"), "2001:db8::3".parse().expect("an address")];
    let tag = |id| vlan::Repr { tpid: vlan::CUSTOMER, id, priority: 0 };
    let tags = [vlan::Repr { tpid: vlan::SERVICE, id: 100, priority: 3 }, tag(200)];
    let mut all = Vec::new();
    for [source, destination] in [v4, v6] {
        for transport in [Transport::Udp, Transport::Tcp(tcp::ACK), Transport::Tcp(tcp::SYN), Transport::IcmpEcho] {
            for vlans in [&tags[..0], &tags[1..], &tags[..]] {
                let repr = FrameRepr {
                    source_mac: Mac([2, 0, 0, 0, 0, 2]),
                    destination_mac: Mac([2, 0, 0, 0, 0, 1]),
                    vlans,
                    source,
                    destination,
                    transport,
                    source_port: 40_000,
                    destination_port: 5001,
                    ttl: 64,
                    extensions: if source.is_ipv6() { &CHAIN } else { &[] },
                };
                let mut b = vec![0; 172];
                let probe = Probe { stream: 7, sequence: 3, trial: 0x0102, sent: Nanos(0x0304_0506_0708) };
                repr.emit(&probe, &mut b).expect("room for all headers");
                all.push(b);
            }
        }
    }
    // ARP: who has 172.16.0.1? Tell 172.16.0.2 (RFC 826).
    all.push(
        [
            &[0xff; 6][..],
            &[2, 0, 0, 0, 0, 2, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1],
            &[2, 0, 0, 0, 0, 2, 172, 16, 0, 2, 0, 0, 0, 0, 0, 0, 172, 16, 0, 1],
        ]
        .concat(),
    );
    // IPv4 with options (a header of 24 bytes) and nothing behind it; a later fragment; an empty frame.
    all.push([&[0; 12][..], &[8, 0, 0x46, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0], &[0; 14]].concat());
    all.push([&[0; 12][..], &[8, 0, 0x45, 0, 0, 28, 0, 0, 0, 1, 64, 17, 0, 0], &[0; 18]].concat());
    all.push(Vec::new());
    all
}

/// The lines of the protocol's reference page, in both directions.
#[must_use]
pub fn lines() -> Vec<Vec<u8>> {
    let line = |l: &str| l.strip_prefix("→ ").or_else(|| l.strip_prefix("← ")).map(|l| l.as_bytes().to_vec());
    PROTOCOL_PAGE.lines().filter_map(line).collect()
}

/// Captures of these frames: both byte orders, stamps in microseconds and nanoseconds.
#[must_use]
pub fn captures() -> Vec<Vec<u8>> {
    // draft-ietf-opsawg-pcap: magic, version 2.4, two reserved words, longest frame, Ethernet.
    let header = |magic, version| [magic, version, 0, 0, 1 << 18, 1];
    let frames: Vec<_> = frames().into_iter().filter(|f| f.len() >= 14).collect();
    let mut all = Vec::new();
    for (magic, big_endian) in [(0xa1b2_c3d4, false), (0xa1b2_3c4d, false), (0xa1b2_c3d4, true), (0xa1b2_3c4d, true)] {
        let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let version = if big_endian { 0x0002_0004 } else { 0x0004_0002 };
        let mut b: Vec<u8> = header(magic, version).into_iter().flat_map(word).collect();
        for (i, frame) in (0..).zip(frames.iter().take(4)) {
            #[expect(clippy::cast_possible_truncation, reason = "124 bytes at most")]
            let length = frame.len() as u32;
            b.extend([1_000_000_000, i * 1000, length, length].into_iter().flat_map(word));
            b.extend_from_slice(frame);
        }
        all.push(b);
    }
    all
}

/// Arrivals: in order, with a swap, with a duplicate, with a jump back and forth over the whole window.
#[must_use]
pub fn arrivals() -> Vec<Vec<u8>> {
    let step = |by: u8| [0, by, 0];
    let back = |by: u8| [1, by, 0];
    let far = [0, 255, 16];
    let far_back = [1, 255, 16];
    vec![
        [step(0); 1].concat(),
        [step(1); 200].concat(),
        [step(1), step(2), back(1), step(2), step(0), step(0)].concat(),
        [step(1), far, step(1), far_back, step(1), far, far].concat(),
    ]
}

//! Filter of the frames that the kernel puts into a ring: a classic BPF program (`Documentation/networking/filter.rst`
//! of the kernel).
//!
//! It looks for the probe's first two bytes where our frames have them: behind Ethernet, up to four tags, IPv4 or IPv6
//! with up to four extension headers, and UDP, TCP or an ICMP echo. The kernel runs it on each frame before it copies
//! or wakes anything, so foreign frames cost a few dozen instructions and no room.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// Frames that a socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Frames that carry a probe.
    Ours,
    /// All other frames.
    Foreign,
}

/// The first two bytes of a probe.
const MAGIC: u32 = 0xd17a;
/// Number of tags that are skipped, besides the one that the kernel takes off.
const TAGS: u32 = 4;
/// Number of IPv6 extension headers that are skipped.
const EXTENSIONS: u32 = 4;

/// Makes the kernel give `socket` only frames of one side.
pub fn attach(socket: &OwnedFd, side: Side) -> io::Result<()> {
    let mut program = assemble(&program(side));
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// A jump target in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// The next instruction.
    Next,
    /// Behind the n-th tag.
    Tag(u32),
    /// The `EtherType` behind all tags is known.
    Typed,
    Ipv4,
    Ipv6,
    /// The n-th extension header is a fragment header.
    Fragment(u32),
    /// The n-th extension header contains its own length.
    Options(u32),
    /// Behind the n-th extension header, if there is one.
    Extension(u32),
    /// The transport's header begins 14 bytes behind X, and A is its protocol.
    Transport,
    Tcp,
    /// The payload begins 22 bytes behind X.
    Payload,
    Ours,
    Foreign,
}

/// An instruction, or a label.
#[derive(Debug, Clone, Copy)]
enum Step {
    Do(u32, u32),
    /// Compares A: goes to the first label if the condition holds, else to the second.
    If(u32, u32, Label, Label),
    /// As `If`, for A above X.
    IfAboveX(Label, Label),
    Goto(Label),
    Here(Label),
}

fn program(side: Side) -> Vec<Step> {
    use Label::{Extension, Foreign, Fragment, Ipv4, Ipv6, Next, Options, Ours, Payload, Tag, Tcp, Transport, Typed};
    use Step::{Do, Goto, Here, If, IfAboveX};
    use libc::{
        BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LEN,
        BPF_LSH, BPF_MEM, BPF_MISC, BPF_RET, BPF_RSH, BPF_ST, BPF_SUB, BPF_TAX, BPF_TXA, BPF_W, BPF_X,
    };
    // Loads at X + k. A load beyond the frame's end ends the program with 0, so truncated headers are on neither side.
    let (half, byte) = (BPF_LD | BPF_H | BPF_IND, BPF_LD | BPF_B | BPF_IND);
    let (to_x, from_x, add_x) = (BPF_MISC | BPF_TAX, BPF_MISC | BPF_TXA, BPF_ALU | BPF_ADD | BPF_X);
    let alu = |operation: u32, k: u32| Do(BPF_ALU | operation | BPF_K, k);
    let (keep, give) = (Do(BPF_ST, 0), Do(BPF_LD | BPF_MEM, 0));
    let (whole, nothing) = if side == Side::Ours { (u32::MAX, 0) } else { (0, u32::MAX) };

    let mut steps = vec![Do(BPF_LDX | BPF_IMM, 0)];
    // X is the length of the tags.
    for n in 0..TAGS {
        steps.extend([
            Do(half, 12),
            If(BPF_JEQ, 0x8100, Tag(n), Next),
            If(BPF_JEQ, 0x88a8, Tag(n), Next),
            If(BPF_JEQ, 0x9100, Tag(n), Typed),
            Here(Tag(n)),
            Do(BPF_LDX | BPF_IMM, 4 * (n + 1)),
        ]);
    }
    steps.extend([Do(half, 12), Here(Typed), If(BPF_JEQ, 0x0800, Ipv4, Next), If(BPF_JEQ, 0x86dd, Ipv6, Foreign)]);
    // Only the first fragment has a transport header.
    steps.extend([Here(Ipv4), Do(half, 14 + 6), If(BPF_JSET, 0x1fff, Foreign, Next), Do(byte, 14 + 9), keep]);
    steps.extend([Do(byte, 14), alu(BPF_AND, 15), alu(BPF_LSH, 2), Do(add_x, 0), Do(to_x, 0), give, Goto(Transport)]);
    steps.extend([Here(Ipv6), Do(byte, 14 + 6), keep, Do(from_x, 0), alu(BPF_ADD, 40), Do(to_x, 0), give]);
    for n in 0..EXTENSIONS {
        steps.extend([If(BPF_JEQ, 44, Fragment(n), Next), If(BPF_JEQ, 0, Options(n), Next)]);
        steps.extend([If(BPF_JEQ, 43, Options(n), Next), If(BPF_JEQ, 60, Options(n), Transport)]);
        // A later fragment need not have a transport header.
        steps.extend([Here(Fragment(n)), Do(half, 14 + 2), If(BPF_JSET, 0xfff9, Foreign, Next), Do(byte, 14), keep]);
        steps.extend([Do(from_x, 0), alu(BPF_ADD, 8), Do(to_x, 0), give, Goto(Extension(n))]);
        // In units of 8 bytes, the first not counted.
        steps.extend([Here(Options(n)), Do(byte, 14), keep, Do(byte, 14 + 1), alu(BPF_ADD, 1), alu(BPF_LSH, 3)]);
        steps.extend([Do(add_x, 0), Do(to_x, 0), give, Here(Extension(n))]);
    }
    steps.extend([Here(Transport), If(BPF_JEQ, 17, Payload, Next), If(BPF_JEQ, 6, Tcp, Next)]);
    steps.extend([If(BPF_JEQ, 1, Payload, Next), If(BPF_JEQ, 58, Payload, Foreign)]);
    // A TCP header contains its own length; those of the others take 8 bytes.
    steps.extend([
        Here(Tcp),
        Do(byte, 14 + 12),
        alu(BPF_RSH, 4),
        alu(BPF_LSH, 2),
        Do(add_x, 0),
        alu(BPF_SUB, 8),
        Do(to_x, 0),
    ]);
    // A load beyond the end would end the program, but a frame without a payload is foreign.
    steps.extend([
        Here(Payload),
        Do(from_x, 0),
        alu(BPF_ADD, 14 + 8 + 1),
        Do(to_x, 0),
        Do(BPF_LD | BPF_W | BPF_LEN, 0),
    ]);
    steps.extend([IfAboveX(Next, Foreign), Do(from_x, 0), alu(BPF_SUB, 14 + 8 + 1), Do(to_x, 0)]);
    steps.extend([Do(half, 14 + 8), If(BPF_JEQ, MAGIC, Ours, Foreign)]);
    steps.extend([Here(Ours), Do(BPF_RET | BPF_K, whole), Here(Foreign), Do(BPF_RET | BPF_K, nothing)]);
    steps
}

/// Resolves the labels: jumps count the instructions that they skip.
fn assemble(steps: &[Step]) -> Vec<libc::sock_filter> {
    let size = |steps: &[Step]| steps.iter().filter(|s| !matches!(s, Step::Here(_))).count();
    let mut code = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let skips = |label: Label| {
            let behind = &steps[i + 1..];
            let to = behind.iter().position(|s| matches!(s, Step::Here(l) if *l == label));
            let to = if label == Label::Next { 0 } else { to.expect("every place is named behind all jumps to it") };
            size(&behind[..to])
        };
        code.push(match *step {
            Step::Here(_) => continue,
            Step::Do(what, k) => instruction(what, 0, 0, k),
            Step::If(what, k, yes, no) => instruction(libc::BPF_JMP | what | libc::BPF_K, skips(yes), skips(no), k),
            Step::IfAboveX(yes, no) => {
                instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_X, skips(yes), skips(no), 0)
            }
            Step::Goto(label) => {
                instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, u32::try_from(skips(label)).expect("short"))
            }
        });
    }
    code
}

#[expect(clippy::cast_possible_truncation, reason = "codes have 16 bits and the program fewer than 256 instructions")]
const fn instruction(code: u32, yes: usize, no: usize, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes as u8, jf: no as u8, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_units::Nanos;
    use dutlab_wire::frame::{FrameRepr, Transport};
    use dutlab_wire::{Extension, Mac, Probe, Seen, probe, tcp, vlan};
    use proptest::prelude::*;
    use std::net::IpAddr;
    use std::os::unix::net::UnixDatagram;

    /// Returns true if the kernel itself passes `frame` through a filter: any socket can carry one.
    fn passes(frame: &[u8], side: Side) -> bool {
        let (near, far) = UnixDatagram::pair().unwrap();
        let far = OwnedFd::from(far);
        attach(&far, side).unwrap();
        near.send(frame).unwrap();
        let far = UnixDatagram::from(far);
        far.set_nonblocking(true).unwrap();
        let mut b = [0; 2048];
        far.recv(&mut b).is_ok_and(|n| b[..n] == *frame)
    }

    const TAGGED: [vlan::Repr; 2] = [
        vlan::Repr { tpid: vlan::SERVICE, id: 100, priority: 1 },
        vlan::Repr { tpid: vlan::CUSTOMER, id: 7, priority: 0 },
    ];

    const CHAIN: [Extension; 4] =
        [Extension::HopByHop, Extension::Routing, Extension::DestinationOptions, Extension::Fragment];

    fn frame(v6: bool, transport: Transport, tags: usize, more: usize) -> Vec<u8> {
        chained(v6, &[], transport, tags, more)
    }

    fn chained(v6: bool, extensions: &[Extension], transport: Transport, tags: usize, more: usize) -> Vec<u8> {
        let ip = |n: u8| if v6 { IpAddr::from([n; 16]) } else { IpAddr::from([10, 0, 0, n]) };
        let repr = FrameRepr {
            source_mac: Mac([2, 0, 0, 0, 0, 2]),
            destination_mac: Mac([2, 0, 0, 0, 0, 1]),
            vlans: &TAGGED[..tags],
            source: ip(1),
            destination: ip(2),
            transport,
            source_port: 40000,
            destination_port: 5001,
            ttl: 64,
            extensions: if v6 { extensions } else { &[] },
        };
        let mut b = vec![0; repr.layout().unwrap().probe_at + probe::LEN + more];
        repr.emit(&Probe { stream: 7, sequence: 3, trial: 0, sent: Nanos(9) }, &mut b).unwrap();
        b
    }

    const TRANSPORTS: [Transport; 4] =
        [Transport::Udp, Transport::Tcp(tcp::SYN), Transport::Tcp(tcp::ACK), Transport::IcmpEcho];

    #[test]
    fn every_kind_of_frame_of_ours_passes_and_none_is_taken_for_a_foreign_one() {
        for v6 in [false, true] {
            for transport in TRANSPORTS {
                for tags in 0..=2 {
                    let b = frame(v6, transport, tags, 30);
                    assert!(
                        passes(&b, Side::Ours) && !passes(&b, Side::Foreign),
                        "v6 {v6}, {transport:?}, {tags} tags"
                    );
                    // The frame without its mark.
                    let mut other = b.clone();
                    let at = b.windows(2).position(|w| w == probe::MAGIC.to_be_bytes()).unwrap();
                    other[at] ^= 1;
                    assert!(!passes(&other, Side::Ours) && passes(&other, Side::Foreign), "v6 {v6}, {transport:?}");
                }
            }
        }
        for headers in 1..=4 {
            let b = chained(true, &CHAIN[..headers], Transport::Udp, 1, 30);
            assert!(passes(&b, Side::Ours) && !passes(&b, Side::Foreign), "{headers} extension headers");
        }
        assert_eq!(u32::from(probe::MAGIC), MAGIC);
    }

    #[test]
    fn arp_and_later_fragments_and_frames_cut_short_are_foreign() {
        let mut arp = [0; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        let mut fragment = frame(false, Transport::Udp, 0, 0);
        fragment[21] = 1;
        for b in [&arp[..], &fragment, &fragment[..40], &fragment[..13]] {
            assert!(!passes(b, Side::Ours), "{b:x?}");
        }
        assert!(passes(&arp, Side::Foreign) && passes(&fragment, Side::Foreign));
        let headers_alone = [
            frame(false, Transport::Udp, 0, 0)[..42].to_vec(),
            frame(true, Transport::Tcp(tcp::ACK), 1, 0)[..78].to_vec(),
        ];
        for b in headers_alone {
            assert!(!passes(&b, Side::Ours) && passes(&b, Side::Foreign), "no payload: {b:x?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
        #[test]
        fn no_frame_in_which_the_account_finds_a_probe_is_kept_from_it(
            v6 in any::<bool>(), kind in 0_usize..4, tags in 0_usize..3, extensions in 0_usize..=4,
            changes in proptest::collection::vec((0_usize..90, any::<u8>()), 0..4), more in 0_usize..100,
        ) {
            let mut b = chained(v6, &CHAIN[..extensions], TRANSPORTS[kind], tags, more);
            for (at, to) in changes {
                if let Some(byte) = b.get_mut(at) {
                    *byte = to;
                }
            }
            if matches!(Seen::parse(&b), Seen::Probe(_)) {
                prop_assert!(passes(&b, Side::Ours), "{:x?}", b);
            }
        }
    }
}

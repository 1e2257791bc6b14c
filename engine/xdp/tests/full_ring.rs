//! Tests with a peer that takes no frames: a tap device whose reader sleeps. As many frames leave as fit into its
//! queue; the sender reports all others, frame by frame.

#[path = "../../port/tests/own/mod.rs"]
mod own;

use dutlab_port::BurstSender;
use dutlab_port::af_packet::Bursts;
use dutlab_port::iface::Interface;
use dutlab_wire::Seen;
use dutlab_xdp::af_xdp;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

/// Number of frames that fit into the tap's queue.
const ROOM: usize = 100;
const FRAMES: u64 = 1000;

/// Moves this thread into a new network namespace with a tap device in it.
fn own_tap(mtu: usize) -> Option<(File, Interface)> {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    const TAP_WITHOUT_HEADER: u16 = 0x0002 | 0x1000; // IFF_TAP, IFF_NO_PI of linux/if_tun.h
    if !own::netns() {
        return None;
    }
    let tap = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun").unwrap();
    let mut request = [0_u8; 40];
    request[..5].copy_from_slice(b"tap-a");
    request[16..18].copy_from_slice(&TAP_WITHOUT_HEADER.to_ne_bytes());
    // SAFETY: a whole ifreq: a name that ends in a zero byte, then the flags.
    assert_eq!(unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETIFF, request.as_mut_ptr()) }, 0, "TUNSETIFF");
    let room = ROOM.to_string();
    for set in [&["addrgenmode", "none"][..], &["txqueuelen", &room], &["mtu", &mtu.to_string()], &["up"]] {
        assert!(Command::new("ip").args(["link", "set", "dev", "tap-a"]).args(set).status().unwrap().success());
    }
    Some((tap, Interface::read("tap-a").unwrap()))
}

/// Offers frames 0, 1, …; returns how many numbers were used, and the numbers of the frames that did not leave.
fn offer(tx: &mut dyn BurstSender, length: usize) -> (u64, BTreeSet<u64>) {
    let (mut next, mut unsent) = (0, BTreeSet::new());
    for _ in 0..10_000 {
        let want = usize::try_from(FRAMES - next).unwrap().min(tx.burst_max());
        if want == 0 {
            break;
        }
        let mut fill = |i: usize, b: &mut [u8]| own::frame(next + i as u64, 1024, b).max(length);
        let handed = tx.send(want, &mut fill).unwrap();
        next += handed.sent as u64;
        tx.take_unsent(&mut |f| assert!(unsent.insert(next - 1 - f.ago) && f.length as usize == length, "{f:?}"));
    }
    tx.flush().unwrap();
    tx.take_unsent(&mut |f| assert!(unsent.insert(next - 1 - f.ago), "{f:?}"));
    tx.take_unsent(&mut |f| panic!("{f:?} is reported twice"));
    (next, unsent)
}

/// Returns the numbers of our frames that wait in the tap.
fn arrived(tap: &mut File) -> BTreeSet<u64> {
    let (mut numbers, mut b) = (BTreeSet::new(), [0; 16_384]);
    while let Ok(n) = tap.read(&mut b) {
        if let Seen::Probe(found) = Seen::parse(&b[..n]) {
            assert!(numbers.insert(found.probe.sequence), "{found:?} arrived twice");
        }
    }
    numbers
}

#[test]
fn of_a_peer_that_takes_nothing_every_frame_that_did_not_leave_is_known_by_its_number() {
    // A frame that takes one buffer, and one that takes three.
    for (mtu, length) in [(1500, 60), (9000, 9014)] {
        std::thread::spawn(move || {
            let Some((mut tap, iface)) = own_tap(mtu) else { return };
            let mut opened = af_xdp::open(&iface, 1).unwrap();
            for round in 0..3 {
                let what = format!("{length} bytes, round {round}");
                let (numbered, unsent) = offer(&mut opened.senders[0], length);
                let here = arrived(&mut tap);
                assert!(here.len() <= ROOM && !here.is_empty(), "{what}: {} of {numbered} arrived", here.len());
                let sent: BTreeSet<u64> = (0..numbered).filter(|n| !unsent.contains(n)).collect();
                assert_eq!(sent, here, "{what}: what counts as sent is what arrived");
                assert_eq!(numbered, FRAMES, "{what}");
            }
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_packet_socket_offers_what_such_a_peer_did_not_take_again_and_uses_up_no_number() {
    std::thread::spawn(|| {
        let Some((mut tap, iface)) = own_tap(1500) else { return };
        let (sent, unsent) = offer(&mut Bursts::open(&iface).unwrap(), 60);
        let here = arrived(&mut tap);
        assert!(unsent.is_empty() && (1..=ROOM as u64).contains(&sent), "{sent} sent, {unsent:?}");
        assert_eq!(here, (0..sent).collect(), "what counts as sent is what arrived");
    })
    .join()
    .unwrap();
}

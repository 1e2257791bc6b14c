//! Tests of several rings on one interface, on the loopback interface of a separate network namespace.

mod own;

use dutlab_port::BurstReceiver;
use dutlab_port::BurstSender;
use dutlab_port::af_packet::{Bursts, Ring};
use dutlab_port::iface::Interface;
use dutlab_units::Nanos;
use std::process::Command;

/// Moves this thread into a new network namespace, and returns its loopback interface.
fn own_loopback() -> Option<Interface> {
    if !own::netns() {
        return None;
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    Some(Interface::read("lo").unwrap())
}

/// A frame of flow `n`, with a probe or without.
fn frame(n: u16, probe: bool, b: &mut [u8]) -> usize {
    let length = own::frame(n.into(), 1024 + n, b);
    if !probe {
        b[42..length].fill(0);
    }
    length
}

fn send(tx: &mut Bursts, frames: u16, probe: bool) {
    let mut next = 0;
    while next < frames {
        let want = usize::from(frames - next).min(tx.burst_max());
        let mut fill = |i: usize, b: &mut [u8]| frame(next + u16::try_from(i).unwrap(), probe, b);
        next += u16::try_from(tx.send(want, &mut fill).unwrap().sent).unwrap();
    }
}

/// Counts the frames that a ring hands over until none has come for a while.
fn taken(ring: &mut Ring) -> usize {
    let mut all = 0;
    loop {
        match ring.receive(Nanos(50_000_000), &mut |a| assert_eq!(a.length, 60)).unwrap() {
            0 => return all,
            n => all += n,
        }
    }
}

#[test]
fn each_ring_gets_flows_of_its_own_and_together_they_get_every_frame() {
    std::thread::spawn(|| {
        let Some(lo) = own_loopback() else { return };
        let mut rings = Ring::open(&lo, 3).unwrap().rings;
        for ring in &mut rings {
            ring.begin().unwrap();
        }
        let mut tx = Bursts::open(&lo).unwrap();
        for _ in 0..2 {
            send(&mut tx, 500, true);
        }
        send(&mut tx, 300, false);
        let each: Vec<_> = rings.iter_mut().map(taken).collect();
        // All frames of a flow go to one ring, and each flow was sent twice.
        assert!(each.iter().sum::<usize>() == 1000 && each.iter().all(|n| *n > 100 && n % 2 == 0), "{each:?}");
        let counters: Vec<_> = rings.iter_mut().map(|r| (r.passed().unwrap(), r.dropped().unwrap())).collect();
        assert_eq!(counters, [(300, 0), (0, 0), (0, 0)]);
        rings[0].begin().unwrap();
        assert_eq!(rings[0].passed().unwrap(), 0);
    })
    .join()
    .unwrap();
}

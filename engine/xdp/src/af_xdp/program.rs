//! XDP program that passes our frames to our sockets.

use super::timed;
use crate::attach::{AttachMode, Attached};
use crate::error::{Why, XdpError};
use crate::objects;
use aya::maps::{Map, PerCpuArray, XskMap};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use dutlab_port::PortError;
use dutlab_port::iface::{Interface, tags_note};
use dutlab_port::promiscuous::Promiscuous;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

/// Variant of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// A frame may be in several buffers.
    pub long: bool,
    /// The program asks the driver for the arrival time of a frame, by the card's clock.
    pub timed: bool,
}

impl Kind {
    const fn name(self) -> &'static str {
        match (self.long, self.timed) {
            (false, false) => "take_ours",
            (true, false) => "take_long",
            (false, true) => "take_timed",
            (true, true) => "take_timed_long",
        }
    }
}

/// The attached program. It is detached when this value is dropped, or when the process ends.
pub struct Program {
    bpf: Ebpf,
    iface: String,
    attached: Attached,
    /// Promiscuous mode of a card.
    _every_mac: Option<Promiscuous>,
}

impl Program {
    /// Loads the program, gives it the sockets of queues 0, 1, …, and attaches it. Never replaces another program.
    pub fn attach(iface: &Interface, kind: Kind, sockets: impl Iterator<Item = RawFd>) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let mut bpf =
            EbpfLoader::new().load(objects::AFXDP).map_err(|e| XdpError::load(name, "bpf(BPF_MAP_CREATE)", &e))?;
        let map = bpf.map_mut("sockets").and_then(|m| m.try_into().ok());
        let mut map: XskMap<_> = map.ok_or_else(|| missing(name))?;
        for (queue, fd) in (0..).zip(sockets) {
            map.set(queue, fd, 0).map_err(|e| XdpError::load(name, "bpf(BPF_MAP_UPDATE_ELEM)", &e))?;
        }
        let attach = |program| Attached::new(name, iface.index, iface.mtu, program);
        let attached = if kind.timed {
            let (Some(Map::XskMap(sockets)), Some(Map::PerCpuArray(passed))) = (bpf.map("sockets"), bpf.map("passed"))
            else {
                return Err(missing(name).into());
            };
            let maps = [("sockets", sockets), ("passed", passed)].map(|(name, m)| (name, m.fd().as_fd().as_raw_fd()));
            attach(timed::load(name, iface.index, kind.name(), &maps)?.as_fd())?
        } else {
            let program = bpf.program_mut(kind.name()).and_then(|p| p.try_into().ok());
            let program: &mut Xdp = program.ok_or_else(|| missing(name))?;
            let failed = |e| XdpError::load(name, "bpf(BPF_PROG_LOAD)", &e);
            program.load().map_err(failed)?;
            attach(program.fd().map_err(failed)?.as_fd())?
        };
        let every_mac = Promiscuous::of_card(name, iface.index)?;
        Ok(Self { bpf, iface: name.to_owned(), attached, _every_mac: every_mac })
    }

    /// Returns the number of frames of a receive queue that were left to the host so far.
    pub fn passed(&self, queue: u32) -> Result<u64, XdpError> {
        let counts = self.bpf.map("passed").and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        let counts = counts.ok_or_else(|| missing(&self.iface))?.get(&queue, 0);
        let counts = counts.map_err(|e| XdpError::load(&self.iface, "bpf(BPF_MAP_LOOKUP_ELEM)", &e))?;
        Ok(counts.iter().sum())
    }

    /// Returns notes for the user.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let generic = self.attached.mode == AttachMode::Generic;
        let slow = "the driver has no XDP: frames are taken in the kernel's stack, several times slower";
        generic.then(|| slow.into()).into_iter().chain(tags_note(&self.iface, generic))
    }
}

fn missing(name: &str) -> XdpError {
    XdpError::new(name, "load", Why::Other("a part of the XDP program is missing from the engine".into()))
}

#[cfg(test)]
#[path = "../../../port/tests/own/mod.rs"]
mod own;

#[cfg(test)]
mod tests {
    use super::super::memory::Umem;
    use super::super::receive::Rx;
    use super::super::socket::Socket;
    use super::*;
    use dutlab_port::af_packet::Bursts;
    use dutlab_port::feeds::Feeds;
    use dutlab_port::port::{BurstReceiver as _, BurstSender as _};
    use dutlab_port::{Stamped, link};
    use dutlab_units::Nanos;
    use std::process::Command;
    use std::sync::Arc;

    fn ip(argv: &[&str]) {
        assert!(Command::new("ip").args(argv).status().unwrap().success(), "ip {}", argv.join(" "));
    }

    /// A veth gives no times to programs, but has the function that they call (`veth_xdp_rx_timestamp` of
    /// drivers/net/veth.c).
    #[test]
    fn a_program_that_asks_the_driver_is_taken_and_frames_without_an_answer_have_the_time_of_the_kernel() {
        std::thread::spawn(|| {
            if !own::netns() {
                return;
            }
            ip(&["link", "add", "near", "type", "veth", "peer", "name", "far"]);
            for (port, what) in [("near", "up"), ("far", "up")] {
                ip(&["link", "set", "dev", port, "addrgenmode", "none"]);
                ip(&["link", "set", "dev", port, what]);
            }
            let far = Interface::read("far").unwrap();
            if !link::xdp_times(far.index).unwrap().arrival {
                // Before Linux 6.3.
                assert!(Program::attach(&far, Kind { long: false, timed: true }, std::iter::empty()).is_err());
                return;
            }
            for long in [false, true] {
                let umem = Umem::map("far", 4096, 4096, (0, 1)).unwrap();
                let (_, queue) = Socket::open(&far, 0, Arc::new(umem)).unwrap().halves();
                let program =
                    Program::attach(&far, Kind { long, timed: true }, [queue.descriptor()].into_iter()).unwrap();
                assert_eq!(program.attached.mode, AttachMode::Native);
                let mut rx = Rx::new("far", (0, Feeds::OneQueue), queue, Arc::new(program));
                rx.begin().unwrap();
                let mut tx = Bursts::open(&Interface::read("near").unwrap()).unwrap();
                let mut sent = 0;
                while sent < 100 {
                    let mut fill = |i: usize, b: &mut [u8]| own::frame(sent + i as u64, 1024, b);
                    let want = usize::try_from(100 - sent).unwrap().min(tx.burst_max());
                    sent += tx.send(want, &mut fill).unwrap().sent as u64;
                }
                let mut came = 0;
                for _ in 0..100 {
                    came += rx.receive(Nanos(100_000_000), &mut |a| assert_eq!(a.length, 60)).unwrap();
                    if came == 100 {
                        break;
                    }
                }
                assert_eq!(rx.stamped(), Stamped { kernel: 100, ..Stamped::default() }, "{came} came");
            }
        })
        .join()
        .unwrap();
    }
}

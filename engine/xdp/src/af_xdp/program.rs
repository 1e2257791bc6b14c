//! The XDP program that hands our frames to our sockets.

use crate::attach::{AttachMode, Attached};
use crate::error::{Why, XdpError};
use crate::objects;
use aya::maps::{PerCpuArray, XskMap};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use dutlab_port::PortError;
use dutlab_port::iface::{Interface, tags_note};
use dutlab_port::promiscuous::Promiscuous;
use std::os::fd::RawFd;

/// The program, attached for as long as this lives and no longer than the process does.
pub struct Program {
    bpf: Ebpf,
    iface: String,
    attached: Attached,
    /// On a card: frames for other stations come too.
    _every_mac: Option<Promiscuous>,
}

impl Program {
    /// Loads the program, gives it the sockets of queues 0, 1, …, and attaches it. Never replaces another program.
    pub fn attach(iface: &Interface, sockets: impl Iterator<Item = RawFd>) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let mut bpf =
            EbpfLoader::new().load(objects::AFXDP).map_err(|e| XdpError::load(name, "bpf(BPF_MAP_CREATE)", &e))?;
        let map = bpf.map_mut("sockets").and_then(|m| m.try_into().ok());
        let mut map: XskMap<_> = map.ok_or_else(|| missing(name))?;
        for (queue, fd) in (0..).zip(sockets) {
            map.set(queue, fd, 0).map_err(|e| XdpError::load(name, "bpf(BPF_MAP_UPDATE_ELEM)", &e))?;
        }
        let program = bpf.program_mut("take_ours").and_then(|p| p.try_into().ok());
        let program: &mut Xdp = program.ok_or_else(|| missing(name))?;
        let failed = |e| XdpError::load(name, "bpf(BPF_PROG_LOAD)", &e);
        program.load().map_err(failed)?;
        let attached = Attached::new(name, iface.index, iface.mtu, program.fd().map_err(failed)?)?;
        let every_mac = Promiscuous::of_card(name, iface.index)?;
        Ok(Self { bpf, iface: name.to_owned(), attached, _every_mac: every_mac })
    }

    /// Frames of a receive queue that were left to the host so far.
    pub fn passed(&self, queue: u32) -> Result<u64, XdpError> {
        let counts = self.bpf.map("passed").and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        let counts = counts.ok_or_else(|| missing(&self.iface))?.get(&queue, 0);
        let counts = counts.map_err(|e| XdpError::load(&self.iface, "bpf(BPF_MAP_LOOKUP_ELEM)", &e))?;
        Ok(counts.iter().sum())
    }

    /// What the user should know.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let generic = self.attached.mode == AttachMode::Generic;
        let slow = "the driver has no XDP: frames are taken in the kernel's stack, several times slower";
        generic.then(|| slow.into()).into_iter().chain(tags_note(&self.iface, generic))
    }
}

fn missing(name: &str) -> XdpError {
    XdpError::new(name, "load", Why::Other("a part of the XDP program is missing from the engine".into()))
}

//! The XDP program that hands our frames to our sockets.

use crate::error::PortError;
use crate::iface::{Interface, tags_note};
use aya::maps::{PerCpuArray, XskMap};
use aya::programs::links::FdLink;
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use std::error::Error;
use std::io;
use std::os::fd::RawFd;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/afxdp.bpf.o"));

/// The program, attached for as long as this lives and no longer than the process does.
pub struct Program {
    bpf: Ebpf,
    iface: String,
    generic: bool,
    _link: FdLink,
}

impl Program {
    /// Loads the program, gives it the sockets of queues 0, 1, …, and attaches it. Never replaces another program.
    pub fn attach(iface: &Interface, sockets: impl Iterator<Item = RawFd>) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let mut bpf = EbpfLoader::new().load(OBJECT).map_err(|e| failed(iface, "bpf(BPF_MAP_CREATE)", &e))?;
        let mut map: XskMap<_> = bpf
            .map_mut("sockets")
            .ok_or_else(|| missing(name))?
            .try_into()
            .map_err(|e: aya::maps::MapError| failed(iface, "bpf(BPF_MAP_CREATE)", &e))?;
        for (queue, fd) in (0..).zip(sockets) {
            map.set(queue, fd, 0).map_err(|e| failed(iface, "bpf(BPF_MAP_UPDATE_ELEM)", &e))?;
        }
        let program: &mut Xdp = bpf
            .program_mut("take_ours")
            .ok_or_else(|| missing(name))?
            .try_into()
            .map_err(|e: aya::programs::ProgramError| failed(iface, "bpf(BPF_PROG_LOAD)", &e))?;
        program.load().map_err(|e| failed(iface, "bpf(BPF_PROG_LOAD)", &e))?;
        let (link, generic) = match link(program, iface, XdpMode::Driver) {
            Ok(link) => (link, false),
            // Only a driver without XDP is worth a second try.
            Err(e) if matches!(e.errno(), Some(libc::EOPNOTSUPP)) => (link(program, iface, XdpMode::Skb)?, true),
            Err(e) => return Err(e),
        };
        Ok(Self { bpf, iface: name.to_owned(), generic, _link: link })
    }

    /// Frames of a receive queue that were left to the host so far.
    pub fn passed(&self, queue: u32) -> Result<u64, PortError> {
        let map = self.bpf.map("passed").ok_or_else(|| missing(&self.iface))?;
        let counts: PerCpuArray<_, u64> = map.try_into().map_err(|_| missing(&self.iface))?;
        let counts = counts.get(&queue, 0).map_err(|e| {
            let source = errno(&e).map_or_else(|| io::Error::other(e.to_string()), io::Error::from_raw_os_error);
            PortError::from_call("bpf(BPF_MAP_LOOKUP_ELEM)", &self.iface, source)
        })?;
        Ok(counts.iter().sum())
    }

    /// What the user should know.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let slow = "the driver has no XDP: frames are taken in the kernel's stack, several times slower";
        self.generic.then(|| slow.into()).into_iter().chain(tags_note(&self.iface, self.generic))
    }
}

fn link(program: &mut Xdp, iface: &Interface, mode: XdpMode) -> Result<FdLink, PortError> {
    const CALL: &str = "bpf(BPF_LINK_CREATE)";
    let id = program.attach_to_if_index(iface.index, mode).map_err(|e| failed(iface, CALL, &e))?;
    let link = program.take_link(id).map_err(|e| failed(iface, CALL, &e))?;
    // The library falls back to netlink, which leaves the program attached when the process is killed: not with us.
    FdLink::try_from(link).map_err(|_| PortError::Unsupported {
        iface: iface.name.clone(),
        what: "this kernel has no links for XDP programs".into(),
        remedy: "use Linux 5.9 or newer, or the af_packet back end".into(),
    })
}

fn missing(name: &str) -> PortError {
    PortError::Unsupported {
        iface: name.to_owned(),
        what: "a part of the XDP program is missing from the engine".into(),
        remedy: "build the engine anew, and use the af_packet back end meanwhile".into(),
    }
}

/// The errno at the bottom of an error of the library.
fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(number) = e.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        next = e.source();
    }
    None
}

fn failed(iface: &Interface, call: &'static str, error: &(dyn Error + 'static)) -> PortError {
    let name = iface.name.clone();
    let unsupported = |what: String, remedy: String| PortError::Unsupported { iface: name.clone(), what, remedy };
    match errno(error) {
        Some(libc::EBUSY | libc::EEXIST) => unsupported(
            format!("another XDP program is attached ({call}: EBUSY)"),
            format!("see which (ip -details link show dev {name}) and detach it, or use the af_packet back end"),
        ),
        Some(libc::ERANGE) => unsupported(
            format!("the MTU of {}, or of a veth's peer, is too large for XDP ({call}: ERANGE)", iface.mtu),
            "lower it to 3498 or less on both ends, or use the af_packet back end".into(),
        ),
        Some(libc::ENOSYS) => unsupported(
            format!("this kernel offers no bpf system call ({call}: ENOSYS)"),
            "use a kernel with CONFIG_BPF_SYSCALL, or the af_packet back end".into(),
        ),
        Some(number) => PortError::from_call(call, &name, io::Error::from_raw_os_error(number)),
        None => unsupported(format!("{call}: {error}"), "use the af_packet back end".into()),
    }
}

//! Attaches programs to interfaces by a link, which the kernel removes when the last descriptor is closed.

use crate::call::{Command, bpf};
use crate::error::{Why, XdpError};
use crate::objects;
use aya::EbpfLoader;
use aya::programs::{ProgramFd, Xdp};
use dutlab_port::link;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

const LINK_CREATE: &str = "bpf(BPF_LINK_CREATE)";
/// `enum bpf_attach_type`.
const BPF_XDP: u32 = 37;

/// Mode in which a program is attached to its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel makes a packet of the frame: fast.
    Native,
    /// In the kernel's stack, because the driver has no XDP: works everywhere, several times slower.
    Generic,
}

impl AttachMode {
    /// `XDP_FLAGS_DRV_MODE`, `XDP_FLAGS_SKB_MODE` of `linux/if_link.h`.
    const fn flag(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }

    /// `XDP_ATTACHED_DRV`, `XDP_ATTACHED_SKB`.
    const fn from_netlink(mode: u8) -> Option<Self> {
        match mode {
            1 => Some(Self::Native),
            2 => Some(Self::Generic),
            _ => None,
        }
    }
}

/// The head of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct NewLink {
    program: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// The head of `union bpf_attr` for `BPF_LINK_UPDATE`.
#[repr(C)]
struct Update {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

/// A program on an interface. It is detached when this is dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct Attached {
    link: OwnedFd,
    iface: String,
    /// Mode as the kernel reports it, which may differ from the request.
    pub(crate) mode: AttachMode,
}

impl Attached {
    /// Attaches `program` natively, or generically where the driver has no XDP (`EOPNOTSUPP`) and nowhere else.
    ///
    /// # Errors
    /// `Occupied` when another program is attached: it is never replaced. `MtuTooLarge` when the driver cannot run
    /// programs on frames as long as the MTU allows.
    pub(crate) fn new(name: &str, index: u32, mtu: u32, program: BorrowedFd<'_>) -> Result<Self, XdpError> {
        let occupied = || match link::attached(index) {
            Ok(Some((_, program_id))) => Some(XdpError::new(name, LINK_CREATE, Why::Occupied { program_id })),
            _ => None,
        };
        if let Some(e) = occupied() {
            return Err(e);
        }
        let link = match create(index, program, AttachMode::Native) {
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => create(index, program, AttachMode::Generic),
            other => other,
        };
        // Another process may have attached a program meanwhile.
        let link = link.map_err(|e| occupied().unwrap_or_else(|| refused(name, mtu, e)))?;
        let attached = link::attached(index).map_err(|e| XdpError::system(name, "netlink(RTM_GETLINK)", e))?;
        let mode = attached.and_then(|(mode, _)| AttachMode::from_netlink(mode)).ok_or_else(|| {
            let what = format!("the kernel says neither native nor generic of the attached program: {attached:?}");
            XdpError::new(name, "netlink(RTM_GETLINK)", Why::Other(what))
        })?;
        Ok(Self { link, iface: name.into(), mode })
    }

    /// Replaces the attached program by `program`; no frame passes between.
    fn replace(&self, program: BorrowedFd<'_>) -> Result<(), XdpError> {
        let update = Update {
            link: self.link.as_raw_fd().cast_unsigned(),
            program: program.as_raw_fd().cast_unsigned(),
            flags: 0,
            old_program: 0,
        };
        // SAFETY: the whole head for this command; it has no pointers.
        unsafe { bpf(Command::LinkUpdate, &update) }
            .map(drop)
            .map_err(|e| XdpError::system(&self.iface, "bpf(BPF_LINK_UPDATE)", e))
    }
}

/// A reserved place on an interface for our programs. While no program is in it, every frame goes on to the kernel.
#[derive(Debug)]
pub struct Place {
    attached: Attached,
    pass: OwnedFd,
}

impl Place {
    /// Reserves the place, as [`Attached::new`] attaches a program: the mode is known before the program is chosen.
    ///
    /// # Errors
    /// As [`Attached::new`].
    pub(crate) fn reserve(name: &str, index: u32, mtu: u32) -> Result<Self, XdpError> {
        let mut bpf =
            EbpfLoader::new().load(objects::REFERENCE).map_err(|e| XdpError::load(name, "bpf(BPF_MAP_CREATE)", &e))?;
        let program: &mut Xdp =
            bpf.program_mut("bare_pass").and_then(|p| p.try_into().ok()).expect("the object has it");
        let failed = |e| XdpError::load(name, "bpf(BPF_PROG_LOAD)", &e);
        program.load().map_err(failed)?;
        let fd = program.fd().map_err(failed)?;
        let pass = fd.as_fd().try_clone_to_owned().map_err(|e| XdpError::system(name, "fcntl(F_DUPFD_CLOEXEC)", e))?;
        Ok(Self { attached: Attached::new(name, index, mtu, fd.as_fd())?, pass })
    }

    /// Returns the mode in which programs are attached here.
    pub(crate) const fn mode(&self) -> AttachMode {
        self.attached.mode
    }

    /// Puts `program` into the place; no frame passes between.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn put(&self, program: &ProgramFd) -> Result<(), XdpError> {
        self.attached.replace(program.as_fd())
    }

    /// Removes the program from the place; it may still run for a moment.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn clear(&self) -> Result<(), XdpError> {
        self.attached.replace(self.pass.as_fd())
    }
}

fn create(index: u32, program: BorrowedFd<'_>, mode: AttachMode) -> io::Result<OwnedFd> {
    let link = NewLink {
        program: program.as_raw_fd().cast_unsigned(),
        ifindex: index,
        attach_type: BPF_XDP,
        flags: mode.flag(),
    };
    // SAFETY: the whole head for this command, without pointers; the descriptor is new, and owned by the returned
    // value.
    unsafe { bpf(Command::LinkCreate, &link).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

fn refused(name: &str, mtu: u32, e: io::Error) -> XdpError {
    let e = XdpError::system(name, LINK_CREATE, e);
    match e.source.as_ref().and_then(io::Error::raw_os_error) {
        Some(libc::ERANGE) => XdpError { why: Why::MtuTooLarge { mtu }, ..e },
        Some(libc::EINVAL) => XdpError { why: Why::KernelTooOld { lacks: "links for XDP", since: "5.9" }, ..e },
        _ => e,
    }
}

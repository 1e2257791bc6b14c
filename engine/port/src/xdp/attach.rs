//! Attaching a program to an interface by a link, which the kernel undoes when the last descriptor is closed.

use super::error::{Why, XdpError};
use super::{netlink, system};
use aya::programs::links::FdLink;
use aya::programs::{Xdp, XdpMode};

/// How a program hangs on its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel makes a packet of the frame: fast.
    Native,
    /// In the kernel's stack, because the driver has no XDP: works everywhere, several times slower.
    Generic,
}

/// Attaches `program` natively, or generically where the driver cannot.
///
/// # Errors
/// `Occupied` when another program is attached: it is never replaced.
pub(super) fn attach(iface: &str, program: &mut Xdp) -> Result<(FdLink, AttachMode), XdpError> {
    let index = system::Interface::find(iface)?.index;
    let occupied = || match netlink::attached(index) {
        Ok(Some((_, program_id))) => Some(XdpError::new(iface, "bpf(BPF_LINK_CREATE)", Why::Occupied { program_id })),
        _ => None,
    };
    if let Some(e) = occupied() {
        return Err(e);
    }
    let (id, mode) = match program.attach_to_if_index(index, XdpMode::Driver) {
        Ok(id) => (id, AttachMode::Native),
        Err(native) => {
            // Somebody may have been faster; otherwise it is the driver that cannot.
            if let Some(e) = occupied() {
                return Err(e);
            }
            let id = program.attach_to_if_index(index, XdpMode::Skb).map_err(|generic| {
                let mut e = XdpError::load(iface, "bpf(BPF_LINK_CREATE)", &generic);
                if let Why::Verifier(what) | Why::Other(what) = &mut e.why {
                    *what = format!("native XDP: {native}; generic XDP: {generic}");
                }
                e
            })?;
            (id, AttachMode::Generic)
        }
    };
    let link = program.take_link(id).map_err(|e| XdpError::load(iface, "bpf(BPF_LINK_CREATE)", &e))?;
    // aya falls back to netlink, which leaves the program attached when the process is killed: not with us.
    let link = FdLink::try_from(link).map_err(|_| {
        XdpError::new(iface, "bpf(BPF_LINK_CREATE)", Why::KernelTooOld { lacks: "links for XDP", since: "5.9" })
    })?;
    Ok((link, mode))
}

//! Sockets that take our datagrams from the host's own stack, so that it does not answer them.
//!
//! A frame that is addressed to the receiving host passes its IP stack after the ring has seen it. With no socket on
//! the port, the stack answers with ICMP "port unreachable", which loads the DUT in the reverse direction. A socket whose filter
//! accepts nothing makes the stack drop the datagram in silence.

use crate::error::PortError;
use crate::sys;
use rustix::io::Errno;
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::net::{AddressFamily, SocketType, bind};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// Holds UDP ports of an interface for as long as it lives.
pub struct Absorb {
    _sockets: Vec<OwnedFd>,
}

impl Absorb {
    /// Takes `ports`, for datagrams that arrive on `iface` only, IPv4 and IPv6.
    pub fn open(iface: &str, ports: &[u16]) -> Result<Self, PortError> {
        let mut sockets = Vec::new();
        for port in ports {
            sockets.push(silent(iface, *port, AddressFamily::INET)?);
            // A kernel without IPv6 sends no ICMPv6 either.
            match silent(iface, *port, AddressFamily::INET6) {
                Ok(socket) => sockets.push(socket),
                Err(e) if matches!(e.errno(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Self { _sockets: sockets })
    }
}

fn silent(iface: &str, port: u16, family: AddressFamily) -> Result<OwnedFd, PortError> {
    let fail = |call: &'static str| move |e: io::Error| PortError::from_call(call, iface, e);
    let fd = sys::socket(family, SocketType::DGRAM).map_err(fail("socket"))?;
    // A classic BPF program of one instruction: return 0, "keep no byte of it".
    let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
        .map_err(fail("setsockopt(SO_ATTACH_FILTER)"))?;
    sys::bind_to_device(&fd, iface).map_err(fail("setsockopt(SO_BINDTODEVICE)"))?;
    let any = if family == AddressFamily::INET {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    } else {
        set_ipv6_v6only(&fd, true).map_err(|e| fail("setsockopt(IPV6_V6ONLY)")(e.into()))?;
        Ipv6Addr::UNSPECIFIED.into()
    };
    match bind(&fd, &SocketAddr::new(any, port)) {
        Ok(()) => Ok(fd),
        Err(Errno::ADDRINUSE) => Err(PortError::Unsupported {
            iface: iface.to_owned(),
            what: format!("UDP port {port} is taken by another program on this host"),
            remedy: "choose another destination port, or end that program".into(),
        }),
        Err(e) => Err(PortError::from_call("bind", iface, e.into())),
    }
}

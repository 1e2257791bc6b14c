//! Sockets that take our datagrams from the host's own stack, so that it does not answer them.
//!
//! A frame that is addressed to the receiving host passes its IP stack after the ring has seen it. With no socket on
//! the port, the stack answers with ICMP "port unreachable", which loads the DUT on the way back. A socket whose filter
//! accepts nothing makes the stack drop the datagram in silence.

use crate::error::PortError;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Holds UDP ports of an interface for as long as it lives.
pub struct Absorb {
    _sockets: Vec<OwnedFd>,
}

impl Absorb {
    /// Takes `ports`, for datagrams that arrive on `iface` only, IPv4 and IPv6.
    pub fn open(iface: &str, ports: &[u16]) -> Result<Self, PortError> {
        let mut sockets = Vec::new();
        for port in ports {
            sockets.push(silent(iface, *port, libc::AF_INET)?);
            // A kernel without IPv6 sends no ICMPv6 either.
            match silent(iface, *port, libc::AF_INET6) {
                Ok(socket) => sockets.push(socket),
                Err(e) if matches!(e.errno(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Self { _sockets: sockets })
    }
}

fn silent(iface: &str, port: u16, family: i32) -> Result<OwnedFd, PortError> {
    let fd = sys::socket(family, libc::SOCK_DGRAM, 0, iface)?;
    let fail = |call: &'static str| move |e: io::Error| PortError::from_call(call, iface, e);
    // A classic BPF program of one instruction: return 0, "keep no byte of it".
    let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
        .map_err(fail("setsockopt(SO_ATTACH_FILTER)"))?;
    let mut name = [0_u8; libc::IFNAMSIZ];
    name[..iface.len()].copy_from_slice(iface.as_bytes());
    sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
        .map_err(fail("setsockopt(SO_BINDTODEVICE)"))?;
    let bound = if family == libc::AF_INET {
        // SAFETY: sockaddr_in is plain numbers, for which all zeroes (any address) is a valid value.
        let mut a: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        a.sin_family = sys::family(libc::AF_INET);
        a.sin_port = port.to_be();
        bind(&fd, &a)
    } else {
        sys::set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1_i32).map_err(fail("setsockopt(IPV6_V6ONLY)"))?;
        // SAFETY: sockaddr_in6 is plain numbers, for which all zeroes (any address) is a valid value.
        let mut a: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        a.sin6_family = sys::family(libc::AF_INET6);
        a.sin6_port = port.to_be();
        bind(&fd, &a)
    };
    match bound {
        Ok(()) => Ok(fd),
        Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) => Err(PortError::Unsupported {
            iface: iface.to_owned(),
            what: format!("UDP port {port} is taken by another program on this host"),
            remedy: "choose another destination port, or end that program".into(),
        }),
        Err(e) => Err(PortError::from_call("bind", iface, e)),
    }
}

fn bind<T>(fd: &OwnedFd, address: &T) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "socket addresses are a few bytes long")]
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `address` is `length` bytes that the kernel only reads.
    let status = unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(address).cast(), length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

//! Socket calls as safe functions whose errors name the call and the interface.

use crate::error::PortError;
use dutlab_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// All protocols: the constant of `linux/if_ether.h`, in the width of the address field.
pub const ETH_P_ALL: u16 = 3;

/// Address families of IPv4 and IPv6, in the width of the netlink field.
#[expect(clippy::cast_possible_truncation, reason = "2 and 10")]
pub const IP: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

/// Opens a socket that closes on exec.
pub fn socket(family: AddressFamily, kind: SocketType) -> io::Result<OwnedFd> {
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Opens a packet socket that receives nothing before it is bound.
pub fn packet_socket(iface: &str) -> Result<OwnedFd, PortError> {
    socket(AddressFamily::PACKET, SocketType::RAW).map_err(|e| PortError::from_call("socket", iface, e))
}

/// Returns the name of an interface as the kernel takes it, padded with zeroes; `ENODEV` if no interface can have this
/// name.
pub fn name(iface: &str) -> io::Result<[u8; libc::IFNAMSIZ]> {
    let mut name = [0; libc::IFNAMSIZ];
    if iface.is_empty() || iface.len() >= name.len() || iface.contains('\0') {
        return Err(Errno::NODEV.into());
    }
    name[..iface.len()].copy_from_slice(iface.as_bytes());
    Ok(name)
}

/// Sets a socket option to a plain value.
pub fn set_option<T: Copy>(fd: &impl AsFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "options are a few bytes long")]
    let length = size_of::<T>() as libc::socklen_t;
    let (fd, value) = (fd.as_fd().as_raw_fd(), std::ptr::from_ref(value).cast());
    // SAFETY: `value` is `length` bytes that the kernel only reads.
    let status = unsafe { libc::setsockopt(fd, level, option, value, length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option into plain numbers, for which any bytes are valid.
pub fn get_option<T: Copy>(fd: &OwnedFd, level: i32, option: i32, value: &mut T) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "options are a few bytes long")]
    let mut length = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: the kernel writes at most `length` bytes to `value`, which is plain numbers.
    let status = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, value, &raw mut length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ties a socket to an interface: it receives from there only, and sends there only.
pub fn bind_to_device(fd: &impl AsFd, iface: &str) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name(iface)?)
}

/// Waits until a socket can be read or has an error, for at most `wait`; returns the flags of poll(2).
pub fn wait(fd: &OwnedFd, wait: Nanos, iface: &str) -> Result<PollFlags, PortError> {
    let mut fds = [PollFd::new(fd, PollFlags::IN | PollFlags::ERR)];
    #[expect(clippy::cast_possible_wrap, reason = "a wait is far below 2^63 nanoseconds")]
    let wait = Timespec { tv_sec: (wait.0 / 1_000_000_000) as i64, tv_nsec: (wait.0 % 1_000_000_000) as i64 };
    match poll(&mut fds, Some(&wait)) {
        Ok(_) => Ok(fds[0].revents()),
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(e) => Err(PortError::from_call("poll", iface, e.into())),
    }
}

/// Reads and clears the pending error of a socket: its interface went down, or vanished.
pub fn pending_error(fd: &OwnedFd, call: &'static str, iface: &str) -> Result<(), PortError> {
    sockopt::socket_error(fd)
        .map_err(|e| PortError::from_call("getsockopt(SO_ERROR)", iface, e.into()))?
        .map_err(|e| PortError::from_call(call, iface, e.into()))
}

/// Binds a packet socket to an interface. `protocol` in host order; 0 receives nothing.
pub fn bind_packet(fd: &OwnedFd, index: u32, protocol: u16, iface: &str) -> Result<(), PortError> {
    #[expect(clippy::cast_possible_truncation, reason = "a small number")]
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::sa_family_t,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    #[expect(clippy::cast_possible_truncation, reason = "20 bytes")]
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is `length` bytes that the kernel only reads.
    let status = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if status == 0 { Ok(()) } else { Err(PortError::last("bind", iface)) }
}

//! System calls as safe functions. Those that only one back end uses stand there.

use crate::error::PortError;
use dutlab_units::Nanos;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Every protocol; the constant of `linux/if_ether.h`, in the width that the address has.
pub(crate) const ETH_P_ALL: u16 = 3;

/// An address family as the field of a socket address.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "families are small positive numbers")]
pub(crate) const fn family(family: i32) -> libc::sa_family_t {
    family as libc::sa_family_t
}

/// Opens a socket that closes on exec.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32, iface: &str) -> Result<OwnedFd, PortError> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(PortError::last("socket", iface));
    }
    // SAFETY: the kernel just gave us `fd`, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a plain value.
pub(crate) fn set_option<T: Copy>(fd: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "options are a few bytes long")]
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is `length` bytes that the kernel only reads.
    let status = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option into plain numbers, for which any bytes are valid.
pub(crate) fn get_option<T: Copy>(fd: &OwnedFd, level: i32, option: i32, value: &mut T) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "options are a few bytes long")]
    let mut length = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: the kernel writes at most `length` bytes to `value`, which is plain numbers.
    let status = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, value, &raw mut length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks the driver of an interface something. `fd` is any network socket.
///
/// # Safety
/// `question` points to a whole structure of the command that it begins with (`linux/ethtool.h`).
pub(crate) unsafe fn ethtool(fd: &OwnedFd, name: &CStr, question: *mut libc::c_char) -> io::Result<()> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    // SAFETY: ifreq is plain bytes, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.to_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_data = question;
    // SAFETY: a whole ifreq whose name ends in a zero byte; what it leads to is whole by the contract.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until a socket can be read or has an error, for `wait` at most; returns what poll(2) says of it.
pub(crate) fn poll(fd: &OwnedFd, wait: Nanos, iface: &str) -> Result<libc::c_short, PortError> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN | libc::POLLERR, revents: 0 };
    let ms = i32::try_from(wait.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: `poll` is one pollfd.
    if unsafe { libc::poll(&raw mut poll, 1, ms) } >= 0 {
        return Ok(poll.revents);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINTR) => Ok(0),
        _ => Err(PortError::from_call("poll", iface, error)),
    }
}

/// Reads and clears the error that waits at a socket: its interface went down, or vanished.
pub(crate) fn pending_error(fd: &OwnedFd, call: &'static str, iface: &str) -> Result<(), PortError> {
    let mut error = 0_i32;
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)
        .map_err(|e| PortError::from_call("getsockopt(SO_ERROR)", iface, e))?;
    if error == 0 { Ok(()) } else { Err(PortError::from_call(call, iface, io::Error::from_raw_os_error(error))) }
}

/// Binds a packet socket to an interface. `protocol` in host order; 0 receives nothing.
pub(crate) fn bind_packet(fd: &OwnedFd, index: u32, protocol: u16, iface: &str) -> Result<(), PortError> {
    // SAFETY: sockaddr_ll is plain numbers, for which all zeroes is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = family(libc::AF_PACKET);
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    #[expect(clippy::cast_possible_truncation, reason = "20 bytes")]
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is `length` bytes that the kernel only reads.
    let status = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if status == 0 { Ok(()) } else { Err(PortError::last("bind", iface)) }
}

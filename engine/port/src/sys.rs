//! System calls as safe functions. Those that only one back end uses stand there.

use crate::error::PortError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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

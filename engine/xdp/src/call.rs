//! System call bpf(2), for commands that the library does not offer.

use std::io;

/// A command, as `enum bpf_cmd` of `linux/bpf.h` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Makes a map.
    MapCreate = 0,
    /// Writes an entry of a map.
    MapUpdateElem = 2,
    /// Loads a program.
    ProgLoad = 5,
    /// Attaches a program.
    LinkCreate = 28,
    /// Replaces an attached program by another.
    LinkUpdate = 29,
}

/// Makes the call. Returns its result: 0, or a new descriptor, which closes on exec.
///
/// # Safety
/// `attributes` is the head of the command's `union bpf_attr`, without padding, and what it points to is valid.
pub(crate) unsafe fn bpf<T>(command: Command, attributes: &T) -> io::Result<i32> {
    let (command, at) = (command as libc::c_long, std::ptr::from_ref(attributes));
    // SAFETY: the caller's; the length is that of the head, and the kernel assumes zeroes for the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { i32::try_from(result).map_err(io::Error::other) }
}

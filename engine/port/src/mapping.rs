//! Memory that is shared with the kernel.

use crate::error::PortError;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping that goes away with this value.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, wherever it goes. What may be done to it from several threads is up to
// those who take pointers into it.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared reference gives out pointers only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of fresh memory, or of `file` from `offset`.
    pub fn new(iface: &str, length: usize, file: Option<(&OwnedFd, libc::off_t)>) -> Result<Self, PortError> {
        let (fd, offset, flags) = match file {
            Some((fd, offset)) => (fd.as_raw_fd(), offset, libc::MAP_SHARED | libc::MAP_POPULATE),
            None => (-1, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE),
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(PortError::last("mmap", iface));
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| PortError::last("mmap", iface))?;
        Ok(Self { start, length })
    }

    /// Where it begins.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How long it is.
    pub const fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; whoever uses a pointer into it keeps it alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

//! Memory that is shared with the kernel.

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

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
    pub fn new(length: usize, file: Option<(BorrowedFd<'_>, u64)>) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new mappings at an address that the kernel chooses.
        let start = unsafe {
            match file {
                Some((fd, at)) => mmap(null_mut(), length, protection, MapFlags::SHARED | MapFlags::POPULATE, fd, at),
                None => mmap_anonymous(null_mut(), length, protection, MapFlags::PRIVATE | MapFlags::POPULATE),
            }
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, length })
    }

    /// Where it begins.
    #[must_use]
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How long it is.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; whoever uses a pointer into it keeps it alive.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

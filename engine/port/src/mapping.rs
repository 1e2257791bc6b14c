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

// SAFETY: only this value owns the mapping, wherever it moves. The users of pointers into it are responsible for
// concurrent access.
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

    /// Maps at least `length` bytes of fresh memory in pages of 2 MiB, so that a card's driver looks up fewer pages.
    /// The system must have reserved enough of them (`vm.nr_hugepages`).
    pub fn huge(length: usize) -> io::Result<Self> {
        const HUGE: usize = 2 << 20;
        let length = length.next_multiple_of(HUGE);
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, length })
    }

    /// Returns the start of the mapping.
    #[must_use]
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_mapped_where_some_are_free_and_refused_elsewhere() {
        let count = |name: &str| {
            let text = std::fs::read_to_string(format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}"));
            text.map_or(0, |t| t.trim().parse::<usize>().unwrap())
        };
        let (free, more) = (count("free_hugepages"), count("nr_overcommit_hugepages"));
        assert!(Mapping::huge((free + more + 1) * (2 << 20)).is_err(), "more than there are");
        if free > 0 {
            let mapping = Mapping::huge(1).unwrap();
            assert_eq!(mapping.length(), 2 << 20);
            // SAFETY: the last byte of the mapping, to which there is no other reference.
            unsafe { mapping.start().add(mapping.length() - 1).write(7) };
        }
    }
}

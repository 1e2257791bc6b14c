//! The four rings of a socket: each has one writer and one reader, at different places of the same memory.
//!
//! Indices count without end and wrap at 2^32; the position in the ring is the index modulo its size, a power of two.

use dutlab_port::PortError;
use dutlab_port::mapping::Mapping;
use rustix::net::xdp::{XdpDesc, XdpRingOffset};
use std::os::fd::{AsFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Position of a ring of a socket.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Interface of the socket, for errors.
    pub iface: &'a str,
    /// The socket.
    pub fd: &'a OwnedFd,
    /// Offset for `mmap`, which selects the ring.
    pub page: u64,
    /// Offsets of indices and entries in the mapping.
    pub offsets: XdpRingOffset,
    /// Entries; a power of two.
    pub size: u32,
}

/// A ring of `T`, mapped.
struct Ring<T> {
    mapping: Mapping,
    offsets: XdpRingOffset,
    flags: u64,
    size: u32,
    entries: std::marker::PhantomData<T>,
}

/// An entry type: plain numbers, for which any bytes are valid.
pub trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for XdpDesc {}

impl<T: Entry> Ring<T> {
    fn map(place: Place<'_>) -> Result<Self, PortError> {
        let Place { iface, fd, page, offsets, size } = place;
        assert!(size.is_power_of_two(), "the size of a ring");
        let length = usize::try_from(offsets.desc).unwrap_or(usize::MAX) + size as usize * size_of::<T>();
        let mapping = Mapping::new(length, Some((fd.as_fd(), page)))
            .map_err(|e| PortError::from_call("mmap of an AF_XDP ring", iface, e))?;
        let flags = offsets.flags.ok_or_else(|| PortError::Unsupported {
            iface: iface.to_owned(),
            what: "this kernel's AF_XDP rings have no flags".into(),
            remedy: "use Linux 5.4 or newer, or the af_packet back end".into(),
        })?;
        for at in [offsets.producer, offsets.consumer, flags] {
            assert!(at.is_multiple_of(4) && at + 4 <= offsets.desc, "an index outside of its ring");
        }
        Ok(Self { mapping, offsets, flags, size, entries: std::marker::PhantomData })
    }

    #[expect(clippy::cast_possible_truncation, reason = "within the mapping, whose length is a usize")]
    fn at<U>(&self, offset: u64) -> NonNull<U> {
        // SAFETY: all offsets that are passed are within the mapping, as `map` checked.
        unsafe { self.mapping.start().add(offset as usize).cast() }
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: aligned and within the mapping (checked by `map`), which lives as long as `self`; kernel and we access it
        // atomically only.
        unsafe { AtomicU32::from_ptr(self.at(offset).as_ptr()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Returns true if the kernel sleeps until it is called.
    fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: `index` modulo the size is below the size, and `map` has space for that many.
        unsafe { self.at::<T>(self.offsets.desc).add((index & (self.size - 1)) as usize) }
    }
}

/// A ring that we write.
pub struct Producer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Entry> Producer<T> {
    /// Maps the ring.
    pub fn map(place: Place<'_>) -> Result<Self, PortError> {
        let ring = Ring::map(place)?;
        let next = ring.producer().load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Number of entries that the kernel has not read yet.
    pub fn waiting(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Number of entries that the kernel has read and released, counted without end.
    pub fn consumed(&self) -> u32 {
        self.ring.consumer().load(Ordering::Acquire)
    }

    /// Number of entries that were put in, counted without end.
    pub const fn put_so_far(&self) -> u32 {
        self.next
    }

    /// Number of entries that can be put in.
    pub fn room(&self) -> u32 {
        self.ring.size - self.waiting().min(self.ring.size)
    }

    /// Puts one entry in; the kernel sees it after [`publish`](Self::publish). There must be a free place.
    pub fn put(&mut self, entry: T) {
        // SAFETY: the entry is ours until it is published, since there is room.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Makes the entries that were put in visible to the kernel.
    pub fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Returns true if the kernel sleeps until it is called.
    pub fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that we read.
pub struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Entry> Consumer<T> {
    /// Maps the ring.
    pub fn map(place: Place<'_>) -> Result<Self, PortError> {
        let ring = Ring::map(place)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Number of entries that can be taken.
    pub fn ready(&self) -> u32 {
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.next).min(self.ring.size)
    }

    /// Takes one entry out; there must be one ready. The kernel gets its place back after [`release`](Self::release).
    pub fn take(&mut self) -> T {
        // SAFETY: the kernel wrote it before it moved its index, which `ready` read with Acquire; it stays until released.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        entry
    }

    /// Returns the places of the entries taken to the kernel.
    pub fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

//! Map values that a program and this process see at the same time.

use super::error::{Why, XdpError};
use aya::Ebpf;
use aya::maps::Map;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A type made of unsigned integers only, laid out as C does, whose size is a multiple of eight: the kernel rounds the
/// values of an array map up to that.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub(super) unsafe trait Words: Copy {}
// SAFETY: an integer is made of integers. Its size is four: `SharedArray` rounds the stride up.
unsafe impl Words for u32 {}

/// An array map, mapped into this process. It stays valid after the programs and the map's descriptor are gone.
pub(super) struct SharedArray<T> {
    at: NonNull<u8>,
    bytes: usize,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: the memory belongs to the map, not to a thread; all accesses are volatile or atomic.
unsafe impl<T> Send for SharedArray<T> {}
// SAFETY: as above; values of many words may be seen half written, which the contract allows for.
unsafe impl<T> Sync for SharedArray<T> {}

impl<T: Words> SharedArray<T> {
    /// Bytes from one value to the next.
    const STRIDE: usize = size_of::<T>().next_multiple_of(8);

    /// Maps the array map `name`, which has `len` entries and was made with `BPF_F_MMAPABLE` (Linux 5.5).
    pub(super) fn map(bpf: &Ebpf, name: &'static str, len: usize) -> Result<Self, XdpError> {
        let Some(Map::Array(map)) = bpf.map(name) else {
            return Err(XdpError::new("", "map", Why::Other(format!("the object has no array map {name}"))));
        };
        let bytes = len.max(1) * Self::STRIDE;
        // SAFETY: a new mapping at an address of the kernel's choice; the length is the map's own, which the kernel checks.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.fd().as_fd().as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(XdpError::system("", "mmap of a BPF map", io::Error::last_os_error()));
        }
        let at = NonNull::new(at.cast()).expect("mmap gives no null");
        Ok(Self { at, bytes, len, of: PhantomData })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where value `i` lies.
    ///
    /// # Panics
    /// When there is no such value.
    pub(super) fn pointer(&self, i: usize) -> *mut T {
        assert!(i < self.len, "entry {i} of {}", self.len);
        // SAFETY: `i < len`, and `map` mapped `len` strides.
        unsafe { self.at.as_ptr().add(i * Self::STRIDE).cast() }
    }

    /// A copy of value `i`; each word of it is whole.
    pub(super) fn get(&self, i: usize) -> T {
        // SAFETY: in bounds and aligned (strides are multiples of 8, mappings begin on a page); `Words` has no invalid values.
        unsafe { self.pointer(i).read_volatile() }
    }

    pub(super) fn set(&self, i: usize, value: T) {
        // SAFETY: in bounds and aligned, as above.
        unsafe { self.pointer(i).write_volatile(value) }
    }

    /// All values from `first` on, `n` of them.
    pub(super) fn range(&self, first: usize, n: usize) -> impl Iterator<Item = T> + '_ {
        (first..first + n).map(|i| self.get(i))
    }

    /// Sets everything to zero.
    pub(super) fn clear(&self) {
        // SAFETY: exactly the mapping; zero is a value of every `Words`.
        unsafe { ptr::write_bytes(self.at.as_ptr(), 0, self.bytes) }
    }
}

impl<T> Drop for SharedArray<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, once.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// Reads a word that a program may be writing.
///
/// # Safety
/// `word` is valid and aligned.
pub(super) unsafe fn load32(word: *const u32) -> u32 {
    // SAFETY: the caller's; atomics may share memory with other atomic accesses, and BPF stores of a word are such.
    unsafe { AtomicU32::from_ptr(word.cast_mut()) }.load(Ordering::Acquire)
}

/// Reads a word that a program may be writing.
///
/// # Safety
/// `word` is valid and aligned.
pub(super) unsafe fn load64(word: *const u64) -> u64 {
    // SAFETY: the caller's, as above.
    unsafe { AtomicU64::from_ptr(word.cast_mut()) }.load(Ordering::Acquire)
}

/// Writes a word that a program may be reading.
///
/// # Safety
/// `word` is valid and aligned.
pub(super) unsafe fn store32(word: *mut u32, value: u32) {
    // SAFETY: the caller's, as above.
    unsafe { AtomicU32::from_ptr(word) }.store(value, Ordering::Release);
}

/// Writes a word that a program may be reading.
///
/// # Safety
/// `word` is valid and aligned.
pub(super) unsafe fn store64(word: *mut u64, value: u64) {
    // SAFETY: the caller's, as above.
    unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Release);
}

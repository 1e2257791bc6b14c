//! Map values that a program and this process access at the same time.

use crate::error::{Why, XdpError};
use aya::Ebpf;
use aya::maps::Map;
use dutlab_port::mapping::Mapping;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A type made of unsigned integers only, in C layout, whose size is a multiple of eight, or four: the kernel rounds
/// the values of an array map up to a multiple of eight.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub(crate) unsafe trait Words: Copy {}
// SAFETY: an integer is made of integers. Its size is four: `SharedArray` rounds the stride up.
unsafe impl Words for u32 {}

/// Bytes of a word that programs and this process read and write whole.
const WORD: usize = size_of::<u64>();

/// An array map, mapped into this process. It stays valid after the programs and the map's descriptor are gone.
pub(crate) struct SharedArray<T> {
    /// All accesses are atomic. A value of many words may be seen half written, which the contract allows for.
    mapping: Mapping,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Words> SharedArray<T> {
    /// Bytes from one value to the next.
    const STRIDE: usize = size_of::<T>().next_multiple_of(8);

    /// Maps the array map `name`, which has `len` entries and was made with `BPF_F_MMAPABLE` (Linux 5.5).
    pub(crate) fn map(bpf: &Ebpf, name: &'static str, len: usize) -> Result<Self, XdpError> {
        const { assert!(size_of::<T>() == size_of::<u32>() || size_of::<T>().is_multiple_of(WORD)) };
        let Some(Map::Array(map)) = bpf.map(name) else {
            return Err(XdpError::new("", "map", Why::Other(format!("the object has no array map {name}"))));
        };
        let mapping = Mapping::new(len.max(1) * Self::STRIDE, Some((map.fd().as_fd(), 0)))
            .map_err(|e| XdpError::system("", "mmap of a BPF map", e))?;
        Ok(Self { mapping, len, of: PhantomData })
    }

    /// Returns the address of the first word: mappings begin on a page.
    fn start(&self) -> *mut u64 {
        self.mapping.start().cast().as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Size of the mapping in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.mapping.length()
    }

    /// Returns the address of value `i`.
    ///
    /// # Panics
    /// When there is no such value.
    pub(crate) fn pointer(&self, i: usize) -> *mut T {
        assert!(i < self.len, "entry {i} of {}", self.len);
        // SAFETY: `i < len`, and `map` mapped `len` strides.
        unsafe { self.start().add(i * Self::STRIDE / WORD).cast() }
    }

    /// Returns a copy of value `i`; each word of it is whole.
    pub(crate) fn get(&self, i: usize) -> T {
        // SAFETY: in bounds and aligned: strides are multiples of 8, and mappings begin on a page.
        unsafe { load(self.pointer(i)) }
    }

    /// Writes value `i`, word by word.
    pub(crate) fn set(&self, i: usize, value: T) {
        let from = (&raw const value).cast::<u64>();
        if size_of::<T>() == size_of::<u32>() {
            // SAFETY: in bounds and aligned, as above; `value` is four bytes.
            unsafe { store32(self.pointer(i).cast(), from.cast::<u32>().read_unaligned()) };
        } else {
            let to = self.pointer(i).cast::<u64>();
            for word in 0..size_of::<T>() / WORD {
                // SAFETY: in bounds and aligned, as above; `value` has as many words.
                unsafe { store64(to.add(word), from.add(word).read_unaligned()) };
            }
        }
    }

    /// Returns `n` values from `first` on.
    pub(crate) fn range(&self, first: usize, n: usize) -> impl Iterator<Item = T> + '_ {
        (first..first + n).map(|i| self.get(i))
    }

    /// Sets everything to zero, word by word.
    pub(crate) fn clear(&self) {
        for word in 0..self.mapping.length() / WORD {
            // SAFETY: inside of the mapping, whose length is a multiple of 8; all other accesses are atomic too.
            unsafe { store64(self.start().add(word), 0) };
        }
    }
}

/// Copies a value that programs may be writing; each word of it is whole.
///
/// # Safety
/// `from` is valid, and aligned to 8 bytes if it is longer than four. No other thread of this process accesses parts of its
/// words.
pub(crate) unsafe fn load<T: Words>(from: *const T) -> T {
    let mut copy = MaybeUninit::<T>::uninit();
    let to = copy.as_mut_ptr().cast::<u64>();
    if size_of::<T>() == size_of::<u32>() {
        // SAFETY: the caller's; `copy` is four bytes.
        unsafe { to.cast::<u32>().write_unaligned(load32(from.cast())) };
    } else {
        for word in 0..size_of::<T>() / WORD {
            // SAFETY: the caller's; `copy` has as many words, which its own alignment need not fit.
            unsafe { to.add(word).write_unaligned(load64(from.cast::<u64>().add(word))) };
        }
    }
    // SAFETY: all its bytes were written, and every bit pattern is a value.
    unsafe { copy.assume_init() }
}

/// Reads a word that a program may be writing.
///
/// # Safety
/// `word` is valid and aligned.
pub(crate) unsafe fn load32(word: *const u32) -> u32 {
    // SAFETY: the caller's; atomics may share memory with other atomic accesses, and BPF stores of a word are such.
    unsafe { AtomicU32::from_ptr(word.cast_mut()) }.load(Ordering::Acquire)
}

/// Reads a word that a program may be writing.
///
/// # Safety
/// `word` is valid and aligned.
pub(crate) unsafe fn load64(word: *const u64) -> u64 {
    // SAFETY: the caller's, as above.
    unsafe { AtomicU64::from_ptr(word.cast_mut()) }.load(Ordering::Acquire)
}

/// Writes a word that a program may be reading.
///
/// # Safety
/// `word` is valid and aligned.
pub(crate) unsafe fn store32(word: *mut u32, value: u32) {
    // SAFETY: the caller's, as above.
    unsafe { AtomicU32::from_ptr(word) }.store(value, Ordering::Release);
}

/// Writes a word that a program may be reading.
///
/// # Safety
/// `word` is valid and aligned.
pub(crate) unsafe fn store64(word: *mut u64, value: u64) {
    // SAFETY: the caller's, as above.
    unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Release);
}

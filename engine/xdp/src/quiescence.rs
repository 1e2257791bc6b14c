//! Wait for the end of currently running programs.

use crate::call::{Command, bpf};
use crate::error::XdpError;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};

const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_ARRAY_OF_MAPS: u32 = 12;

/// The head of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct NewMap {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
}

/// The head of `union bpf_attr` for `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct Update {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A map that contains a map. Their contents do not matter.
struct Nest {
    outer: OwnedFd,
    inner: OwnedFd,
}

/// Returns when every eBPF program that runs now, on any CPU, has ended: later runs see all data written before the
/// call.
///
/// A program has no time limit: it may lose its CPU for 80 ms. So this uses the kernel, which waits for all running
/// programs (`synchronize_rcu`) before it returns from replacing an entry of a map of maps (`maybe_wait_bpf_programs`
/// of kernel/bpf/syscall.c, since Linux 5.0). `membarrier(2)` does the same except on one CPU, where it returns at
/// once, and on CPUs without a tick (`nohz_full`), where it is refused. Takes 10 to 50 ms.
///
/// # Errors
/// When the kernel refuses the maps: too little memory, or the permission was lost.
pub(crate) fn wait_for_programs() -> Result<(), XdpError> {
    static NEST: Mutex<Option<Nest>> = Mutex::new(None);
    let mut nest = NEST.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |call| move |e| XdpError::system("", call, e);
    let made = match nest.take() {
        Some(made) => made,
        None => Nest::new().map_err(failed("bpf(BPF_MAP_CREATE)"))?,
    };
    let done = made.replace();
    *nest = Some(made);
    done.map_err(failed("bpf(BPF_MAP_UPDATE_ELEM)"))
}

impl Nest {
    fn new() -> io::Result<Self> {
        let of = |kind, inner| NewMap { kind, key_size: 4, value_size: 4, max_entries: 1, flags: 0, inner };
        let inner = create(&of(BPF_MAP_TYPE_ARRAY, 0))?;
        let outer = create(&of(BPF_MAP_TYPE_ARRAY_OF_MAPS, inner.as_raw_fd().cast_unsigned()))?;
        Ok(Self { outer, inner })
    }

    fn replace(&self) -> io::Result<()> {
        let (key, value) = (0_u32, self.inner.as_raw_fd());
        let update = Update {
            map: self.outer.as_raw_fd().cast_unsigned(),
            unused: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: `update` and the data that it points to are whole, and outlive the call.
        unsafe { bpf(Command::MapUpdateElem, &update) }.map(drop)
    }
}

fn create(map: &NewMap) -> io::Result<OwnedFd> {
    // SAFETY: `map` is whole and has no pointers; the descriptor is new, and owned by the returned value.
    unsafe { bpf(Command::MapCreate, map).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

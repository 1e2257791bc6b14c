//! Loader of a program that asks the driver for the arrival time of a frame (`bpf_xdp_metadata_rx_timestamp`,
//! Documentation/networking/xdp-rx-metadata.rst of the kernel, Linux 6.3).
//!
//! The program calls a function of the kernel by its number in this kernel's types. It is bound to its interface,
//! because the kernel replaces the function by the driver's. The library supports neither, so the number is written
//! into the object and the program is loaded here. It has no types: the kernel then verifies the functions that it
//! calls at each call.

use crate::call::{Command, bpf};
use crate::error::{Why, XdpError};
use crate::{objects, system};
use aya_obj::btf::BtfKind;
use aya_obj::{Object, ProgramSection};
use std::collections::HashSet;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// The function that each driver implements, and the placeholder of its number in the object
/// (`engine/xdp/bpf/afxdp.bpf.c`).
const FUNCTION: &str = "bpf_xdp_metadata_rx_timestamp";
const PLACE: [u8; 8] = [0x85, 0x20, 0, 0, 0x6e, 0x75, 0x66, 0x6b];
const LOAD: &str = "bpf(BPF_PROG_LOAD)";
/// `BPF_PROG_TYPE_XDP`, `BPF_F_XDP_HAS_FRAGS`, `BPF_F_XDP_DEV_BOUND_ONLY` of `linux/bpf.h`.
const XDP: u32 = 6;
const HAS_FRAGS: u32 = 1 << 5;
const BOUND: u32 = 1 << 6;
/// `enum bpf_attach_type`.
const BPF_XDP: u32 = 37;

/// The head of `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
struct NewProgram {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    attach_type: u32,
}

/// Loads the program `name` for the interface with this index; it uses `maps`.
///
/// # Errors
/// The kernel gives no types, has no such function, or refuses the program.
pub fn load(iface: &str, index: u32, name: &str, maps: &[(&str, RawFd)]) -> Result<OwnedFd, XdpError> {
    let other = |what: String| XdpError::new(iface, LOAD, Why::Other(what));
    let types = system::kernel_types().ok_or_else(|| other("this kernel tells no types (BTF)".into()))?;
    let number = types.id_by_type_name_kind(FUNCTION, BtfKind::Func).map_err(|_| {
        XdpError::new(iface, LOAD, Why::KernelTooOld { lacks: "times of drivers for XDP programs", since: "6.3" })
    })?;
    let object = with_number(objects::AFXDP, number).ok_or_else(|| other("the object calls no driver".into()))?;
    let mut object = Object::parse(&object).map_err(|e| XdpError::load(iface, LOAD, &e))?;
    let sections: HashSet<_> = object.functions.keys().map(|(section, _)| *section).collect();
    let own = object.maps.clone();
    let maps = maps.iter().filter_map(|(name, fd)| Some((*name, *fd, own.get(*name)?)));
    object.relocate_maps(maps, &sections).map_err(|e| XdpError::load(iface, LOAD, &e))?;
    object.relocate_calls(&sections).map_err(|e| XdpError::load(iface, LOAD, &e))?;
    let program = object.programs.get(name).ok_or_else(|| other(format!("the object has no program {name}")))?;
    let frags = matches!(program.section, ProgramSection::Xdp { frags: true, .. });
    let code = &object.functions[&program.function_key()].instructions;
    let load = NewProgram {
        kind: XDP,
        instructions: u32::try_from(code.len()).unwrap_or(u32::MAX),
        code: code.as_ptr() as u64,
        license: program.license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: if frags { BOUND | HAS_FRAGS } else { BOUND },
        name: [0; 16],
        ifindex: index,
        attach_type: BPF_XDP,
    };
    // SAFETY: the whole head for this command, without padding; it points to the instructions and to a C string, which
    // outlive the call. The descriptor is new, and owned by the returned value.
    let loaded: io::Result<_> = unsafe { bpf(Command::ProgLoad, &load).map(|fd| OwnedFd::from_raw_fd(fd)) };
    loaded.map_err(|e| XdpError::system(iface, LOAD, e))
}

/// Returns the object with the function's number in all calls with the placeholder; `None` if there are none.
fn with_number(object: &[u8], number: u32) -> Option<Vec<u8>> {
    let mut bytes = object.to_vec();
    let places: Vec<_> =
        bytes.windows(PLACE.len()).enumerate().filter(|(_, w)| *w == PLACE).map(|(at, _)| at).collect();
    for at in &places {
        bytes[at + 4..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    (!places.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_of_the_driver_gets_the_number_of_its_function() {
        let other = [0x85, 0x20, 0, 0, 1, 2, 3, 4];
        let object = [&[7; 3][..], &PLACE, &other, &PLACE].concat();
        let call = [0x85, 0x20, 0, 0, 0x78, 0x56, 0x34, 0x12];
        assert_eq!(with_number(&object, 0x1234_5678), Some([&[7; 3][..], &call, &other, &call].concat()));
        assert_eq!(with_number(&other, 1), None);
        let in_ours = objects::AFXDP.windows(PLACE.len()).filter(|w| *w == PLACE).count();
        assert_eq!(in_ours, 2, "one in each program that asks");
    }
}

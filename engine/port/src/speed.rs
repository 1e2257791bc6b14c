//! How fast a link is, as its card says: `ETHTOOL_GSET` of `SIOCETHTOOL` (linux/ethtool.h), which every kernel answers.

use crate::error::PortError;
use crate::sys;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::os::fd::AsRawFd;

/// `SIOCETHTOOL`, linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// `ETHTOOL_GSET` and `ETHTOOL_GDRVINFO`, linux/ethtool.h.
const GSET: u32 = 1;
const GDRVINFO: u32 = 3;
/// `SPEED_UNKNOWN`: no link, or a driver that does not say.
const UNKNOWN: u32 = u32::MAX;
/// Drivers of devices without a wire. They name a constant, which says nothing about what they can carry.
const WITHOUT_WIRE: [&str; 6] = ["veth", "tun", "dummy", "bridge", "ifb", "netdevsim"];

/// The speed of an interface's link.
#[derive(Debug, Clone, PartialEq)]
pub enum Speed {
    /// Bits per second.
    Bps(f64),
    /// Not known, and why.
    Unknown(String),
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bps(bps) => write!(f, "{bps} bit/s"),
            Self::Unknown(why) => write!(f, "not known: {why}"),
        }
    }
}

/// `struct ethtool_cmd`; only what is read has a name of its own.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Settings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    duplex_port_phy_transceiver: [u8; 4],
    autoneg_mdio: [u8; 2],
    max_packets: [u32; 2],
    speed_high: u16,
    eth_tp_mdix: [u8; 2],
    lp_advertising: u32,
    reserved: [u32; 2],
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Driver {
    command: u32,
    name: [c_char; 32],
    version: [c_char; 32],
    firmware: [c_char; 32],
    bus: [c_char; 32],
    rom: [c_char; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

const _: () = assert!(size_of::<Settings>() == 44 && size_of::<Driver>() == 196);

/// Asks for the speed of the interface called `name`. What cannot be asked is not known: this never fails.
#[must_use]
pub fn of(name: &str) -> Speed {
    let driver = match driver(name) {
        Ok(driver) => driver,
        Err(e) => return Speed::Unknown(e.to_string()),
    };
    if WITHOUT_WIRE.contains(&driver.as_str()) {
        return Speed::Unknown(format!("{name} is of driver {driver}, which has no wire"));
    }
    let mut settings = Settings { command: GSET, ..Settings::default() };
    // SAFETY: ETHTOOL_GSET writes a `struct ethtool_cmd`, which `Settings` is, as its size above says.
    if let Err(e) = unsafe { ask(name, (&raw mut settings).cast()) } {
        return Speed::Unknown(e.to_string());
    }
    match u32::from(settings.speed_high) << 16 | u32::from(settings.speed) {
        0 | UNKNOWN | 0xffff => Speed::Unknown(format!("{name} (driver {driver}) does not say; is its link up?")),
        megabits => Speed::Bps(f64::from(megabits) * 1e6),
    }
}

fn driver(name: &str) -> Result<String, PortError> {
    // SAFETY: plain numbers and characters, for which all zeroes is a valid value.
    let mut info: Driver = unsafe { std::mem::zeroed() };
    info.command = GDRVINFO;
    // SAFETY: ETHTOOL_GDRVINFO writes a `struct ethtool_drvinfo`, which `Driver` is, as its size above says.
    unsafe { ask(name, (&raw mut info).cast()) }?;
    info.name[31] = 0;
    // SAFETY: the array ends in a zero byte, by the line above.
    Ok(unsafe { CStr::from_ptr(info.name.as_ptr()) }.to_string_lossy().into_owned())
}

/// Carries out an ethtool command.
///
/// # Safety
/// `data` points to the structure of the command whose number it begins with.
unsafe fn ask(name: &str, data: *mut c_char) -> Result<(), PortError> {
    let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0, name)?;
    // SAFETY: ifreq is plain bytes, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(PortError::NoSuchInterface { iface: name.to_owned() });
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = data;
    // SAFETY: `request` is an ifreq with a name that ends in a zero byte, and `data` is what the caller promised.
    match unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) } {
        0 => Ok(()),
        _ => Err(PortError::last("SIOCETHTOOL", name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_or_has_no_wire_has_no_speed() {
        for name in ["dutlab-none", "lo", "a-name-that-is-too-long-for-linux"] {
            let Speed::Unknown(why) = of(name) else { panic!("{name}") };
            assert!(why.contains(name), "{why}");
        }
    }
}

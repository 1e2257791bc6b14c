//! Speed of a link, as its card reports it.

use crate::ethtool;
use std::fmt;
use std::io;

/// `SPEED_UNKNOWN`: no link, or a driver that does not report it.
const UNKNOWN: u32 = u32::MAX;
/// Drivers of devices without a wire. They report a constant that is unrelated to their capacity.
const WITHOUT_WIRE: [&str; 6] = ["veth", "tun", "dummy", "bridge", "ifb", "netdevsim"];

/// The speed of an interface's link.
#[derive(Debug, Clone, PartialEq)]
pub enum Speed {
    /// Bits per second.
    Bps(f64),
    /// Unknown, with the reason.
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

/// Returns true if devices of a driver have a wire, their own or a hypervisor's.
#[must_use]
pub fn has_wire(driver: &str) -> bool {
    !WITHOUT_WIRE.contains(&driver)
}

/// Returns true if the interface `name` is a card, or a hypervisor's emulation of one.
#[must_use]
pub fn is_wired(name: &str) -> bool {
    ethtool::driver(name).is_ok_and(|driver| has_wire(&driver))
}

/// Returns the speed of the interface `name`. Never fails: without an answer the speed is unknown.
#[must_use]
pub fn of(name: &str) -> Speed {
    let unknown = |e: io::Error| Speed::Unknown(format!("{name}: SIOCETHTOOL: {e}"));
    let driver = match ethtool::driver(name) {
        Ok(driver) => driver,
        Err(e) => return unknown(e),
    };
    if !has_wire(&driver) {
        return Speed::Unknown(format!("{name} is of driver {driver}, which has no wire"));
    }
    match ethtool::megabits(name) {
        Err(e) => unknown(e),
        Ok(0 | UNKNOWN | 0xffff) => Speed::Unknown(format!("{name} (driver {driver}) does not say; is its link up?")),
        Ok(megabits) => Speed::Bps(f64::from(megabits) * 1e6),
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

//! Queries to the driver of an interface: ethtool(8) by `SIOCETHTOOL` (`linux/ethtool.h`), which every kernel answers.

use crate::sys;
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::os::fd::AsRawFd as _;

/// `SIOCETHTOOL`, linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// Commands, linux/ethtool.h: `ETHTOOL_GSET`, `ETHTOOL_GDRVINFO`, `ETHTOOL_GLINK`, `ETHTOOL_GFLAGS`, `ETHTOOL_GCHANNELS`,
/// `ETHTOOL_GET_TS_INFO`.
const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_LINK: u32 = 0x0a;
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;
const GET_STAMPING: u32 = 0x41;
/// `ETH_FLAG_RXVLAN`.
const RX_VLAN: u32 = 1 << 8;

/// Queues of an interface in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Number of receive queues.
    pub receive: u32,
    /// Number of send queues.
    pub send: u32,
}

/// Returns the numbers of queues that the interface `name` uses; `None` if the driver does not report them.
#[must_use]
pub fn queues(name: &str) -> Option<Queues> {
    // struct ethtool_channels: cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}_count.
    let channels = ask::<9>(name, GET_CHANNELS).ok()?;
    let with_combined = |count: u32| count.saturating_add(channels[8]);
    Some(Queues { receive: with_combined(channels[5]), send: with_combined(channels[6]) })
}

/// Returns the driver's name.
pub fn driver(name: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: cmd, driver[32], version, firmware, bus, …; 196 bytes.
    let info = ask::<49>(name, GET_DRIVER)?;
    let name = info[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|b| *b != 0).collect::<Vec<_>>();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Returns true if the driver has a link. The flag `IFF_RUNNING` may be a second late.
pub fn link(name: &str) -> io::Result<bool> {
    Ok(ask::<2>(name, GET_LINK)?[1] != 0)
}

/// Returns true if a port removes the outer VLAN tag from a frame and delivers it separately (`rx-vlan-offload`), so
/// that an XDP program does not see it.
#[must_use]
pub fn takes_tags_off(name: &str) -> bool {
    ask::<2>(name, GET_FLAGS).is_ok_and(|value| value[1] & RX_VLAN != 0)
}

/// Time stamps that an interface offers to a packet socket (`SO_TIMESTAMPING`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamping {
    /// `SOF_TIMESTAMPING_*` of `linux/net_tstamp.h`.
    bits: u32,
    /// `HWTSTAMP_FILTER_*` of the same file, one bit each.
    filters: u32,
    /// Number of the card's clock: `/dev/ptpN`.
    pub clock: Option<u32>,
}

impl Stamping {
    /// Returns true if the card stamps frames as it sends them.
    #[must_use]
    pub const fn card_sends(self) -> bool {
        self.bits & 1 != 0
    }

    /// Returns true if the driver stamps frames as it sends them.
    #[must_use]
    pub const fn software_sends(self) -> bool {
        self.bits & 1 << 1 != 0
    }

    /// Returns true if the card stamps frames as it receives them.
    #[must_use]
    pub const fn card_receives(self) -> bool {
        self.bits & 1 << 2 != 0
    }

    /// Returns true if the card can stamp every frame that it receives, not only PTP frames (`HWTSTAMP_FILTER_ALL`).
    #[must_use]
    pub const fn card_receives_all(self) -> bool {
        self.filters & 1 << 1 != 0
    }

    /// Returns true if the kernel stamps frames as it receives them.
    #[must_use]
    pub const fn software_receives(self) -> bool {
        self.bits & 1 << 3 != 0
    }
}

/// Returns the time stamps that an interface offers.
pub fn stamping(name: &str) -> io::Result<Stamping> {
    // struct ethtool_ts_info: cmd, so_timestamping, phc_index, tx_types, three reserved, rx_filters, three reserved.
    let info = ask::<11>(name, GET_STAMPING)?;
    Ok(Stamping { bits: info[1], filters: info[7], clock: u32::try_from(info[2].cast_signed()).ok() })
}

/// Returns the speed of the link in megabits per second, as the driver reports it: 0 or all ones if unknown.
pub fn megabits(name: &str) -> io::Result<u32> {
    // struct ethtool_cmd: cmd, supported, advertising, speed and three bytes … , speed_hi at byte 28; 44 bytes.
    let settings = ask::<11>(name, GET_SETTINGS)?;
    let half = |word: u32| {
        let [low, high, ..] = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([low, high]))
    };
    Ok(half(settings[7]) << 16 | half(settings[3]))
}

/// `struct ifreq` with a pointer.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    rest: [u64; 2],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// Runs a command that fills a structure of `WORDS` words of 32 bits.
fn ask<const WORDS: usize>(iface: &str, command: u32) -> io::Result<[u32; WORDS]> {
    let fd = sys::socket(AddressFamily::INET, SocketType::DGRAM)?;
    let mut answer = [0; WORDS];
    answer[0] = command;
    let mut request = Request { name: sys::name(iface)?, data: answer.as_mut_ptr(), rest: [0; 2] };
    // SAFETY: `request` is a whole ifreq whose name ends in a zero byte. It points to a structure of the command that
    // it begins with: each caller names the structure and gives its length.
    match unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) } {
        0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_or_cannot_be_named_is_an_error_and_loopback_has_a_link() {
        for name in ["dutlab-none", "a-name-that-is-too-long-for-linux", "nul\0byte"] {
            assert!(driver(name).is_err() && queues(name).is_none() && !takes_tags_off(name), "{name}");
        }
        // Loopback has no driver that answers further queries.
        assert!(link("lo").is_ok());
        let lo = stamping("lo").unwrap();
        assert_eq!(
            (lo.software_sends(), lo.software_receives(), lo.card_sends(), lo.card_receives()),
            (true, true, false, false)
        );
        assert_eq!((lo.clock, lo.card_receives_all()), (None, false));
        assert!(stamping("dutlab-none").is_err());
    }
}

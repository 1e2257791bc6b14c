//! Counter of foreign frames at an interface, which reads none of them.

use super::filter::{self, Side};
use crate::error::PortError;
use crate::iface::Interface;
use crate::sys::{self, ETH_P_ALL};
use std::os::fd::OwnedFd;

/// A socket that takes no frames. The kernel offers it all frames without a probe, cannot queue them, and counts
/// them as dropped.
pub struct Strangers {
    fd: OwnedFd,
    iface: String,
    /// Count since `begin`, as of the last query.
    count: u64,
}

impl Strangers {
    /// Counts from now on. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let fd = sys::packet_socket(name)?;
        filter::attach(&fd, Side::Foreign)
            .map_err(|e| PortError::from_call("setsockopt(SO_ATTACH_FILTER)", name, e))?;
        // The kernel sets the smallest size possible: two or three frames.
        sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &0_i32)
            .map_err(|e| PortError::from_call("setsockopt(SO_RCVBUF)", name, e))?;
        let _ = sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        sys::bind_packet(&fd, iface.index, ETH_P_ALL, name)?;
        Ok(Self { fd, iface: name.to_owned(), count: 0 })
    }

    /// Resets the counter to 0.
    pub fn begin(&mut self) -> Result<(), PortError> {
        self.count()?;
        self.count = 0;
        Ok(())
    }

    /// Returns the number of frames since the last [`begin`](Self::begin).
    pub fn count(&mut self) -> Result<u64, PortError> {
        // Reading the kernel's counters resets them; `tp_packets` includes the frames that had no room.
        let mut s = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        sys::get_option(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut s)
            .map_err(|e| PortError::from_call("getsockopt(PACKET_STATISTICS)", &self.iface, e))?;
        self.count += u64::from(s.tp_packets);
        Ok(self.count)
    }
}

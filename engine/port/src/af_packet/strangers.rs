//! How many frames of others reach an interface, without looking at any of them.

use super::filter::{self, Side};
use crate::error::PortError;
use crate::iface::Interface;
use crate::sys::{self, ETH_P_ALL};
use std::os::fd::OwnedFd;

/// A socket that takes no frames: it is offered all that carry no probe, has room for none of them, and the kernel counts what
/// it could not give it.
pub struct Strangers {
    fd: OwnedFd,
    iface: String,
    /// Since `begin`, as far as they were asked for.
    count: u64,
}

impl Strangers {
    /// Counts from now on. Needs `CAP_NET_RAW`.
    pub fn open(iface: &Interface) -> Result<Self, PortError> {
        let name = iface.name.as_str();
        let fd = sys::packet_socket(name)?;
        filter::attach(&fd, Side::Foreign)
            .map_err(|e| PortError::from_call("setsockopt(SO_ATTACH_FILTER)", name, e))?;
        // The kernel makes it as small as it can: two or three frames.
        sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &0_i32)
            .map_err(|e| PortError::from_call("setsockopt(SO_RCVBUF)", name, e))?;
        let _ = sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        sys::bind_packet(&fd, iface.index, ETH_P_ALL, name)?;
        Ok(Self { fd, iface: name.to_owned(), count: 0 })
    }

    /// Begins again at 0.
    pub fn begin(&mut self) -> Result<(), PortError> {
        self.count()?;
        self.count = 0;
        Ok(())
    }

    /// Frames since the last [`begin`](Self::begin).
    pub fn count(&mut self) -> Result<u64, PortError> {
        // The kernel sets its counters to 0 when they are read; those that it had no room for are among the packets.
        let mut s = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        sys::get_option(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut s)
            .map_err(|e| PortError::from_call("getsockopt(PACKET_STATISTICS)", &self.iface, e))?;
        self.count += u64::from(s.tp_packets);
        Ok(self.count)
    }
}

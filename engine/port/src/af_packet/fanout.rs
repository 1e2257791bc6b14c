//! Rings among which the kernel spreads the flows of an interface (packet(7), `PACKET_FANOUT`).

use crate::error::PortError;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// A fanout group: rings that share the flows of an interface.
pub struct Fanout {
    /// Value of the socket option: the group's number in the network namespace, and the fanout mode.
    option: u32,
}

impl Fanout {
    /// Creates a group whose number the kernel chooses. Needs Linux 4.12; to ignore frames that leave, Linux 5.10.
    pub const fn new() -> Self {
        let how = libc::PACKET_FANOUT_FLAG_UNIQUEID | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        Self { option: (libc::PACKET_FANOUT_HASH | how) << 16 }
    }

    /// Makes a socket that is bound to `iface` a member.
    pub fn join(&mut self, socket: &OwnedFd, iface: &str) -> Result<(), PortError> {
        let fail = |call: &'static str| move |e: io::Error| PortError::from_call(call, iface, e);
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &self.option)
            .map_err(fail("setsockopt(PACKET_FANOUT)"))?;
        sys::get_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &mut self.option)
            .map_err(fail("getsockopt(PACKET_FANOUT)"))
    }
}

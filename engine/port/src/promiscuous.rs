//! Promiscuous mode: a card's MAC filter passes frames for other stations while one of these values exists, at most
//! until the process ends (packet(7), `PACKET_MR_PROMISC`).

use crate::error::PortError;
use crate::{speed, sys};
use std::os::fd::OwnedFd;

/// A socket that receives nothing, and keeps the filter of its interface open.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Opens the filter of a card; other interfaces have none. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn of_card(iface: &str, index: u32) -> Result<Option<Self>, PortError> {
        if !speed::is_wired(iface) {
            return Ok(None);
        }
        let socket = sys::packet_socket(iface)?;
        join(&socket, iface, index)?;
        Ok(Some(Self { _socket: socket }))
    }
}

/// Opens the filter for as long as a packet socket exists.
pub(crate) fn join(socket: &OwnedFd, iface: &str, index: u32) -> Result<(), PortError> {
    #[expect(clippy::cast_possible_truncation, reason = "1")]
    let membership = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
        .map_err(|e| PortError::from_call("setsockopt(PACKET_ADD_MEMBERSHIP)", iface, e))
}

//! Receive time stamps of a card (Documentation/networking/timestamping.rst of the kernel, section 3): switched on by
//! `SIOCSHWTSTAMP`, and restored afterwards.

use crate::sys;
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::os::fd::AsRawFd as _;

/// `SIOCGHWTSTAMP`, `SIOCSHWTSTAMP` of `linux/sockios.h`.
const GET: libc::Ioctl = 0x89b1;
const SET: libc::Ioctl = 0x89b0;
/// `HWTSTAMP_FILTER_ALL` of `linux/net_tstamp.h`: every frame.
const EVERY_FRAME: i32 = 1;

/// `struct hwtstamp_config`: flags, stamps of frames that leave, filter of the frames that are stamped on arrival.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Config {
    flags: i32,
    sent: i32,
    received: i32,
}

/// `struct ifreq` with a pointer.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut Config,
    rest: [u64; 2],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// Stamping that is switched on. Dropping this restores the previous state. A process that is killed leaves it on until
/// the card is set otherwise or goes down: `hwstamp_ctl -i IFACE -r 0`.
#[derive(Debug)]
pub struct Switched {
    iface: String,
    before: Config,
}

impl Switched {
    /// Makes the card of `iface` stamp every frame that arrives. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The driver does not report its previous state, so that it could not be restored, or it refuses.
    pub fn on(iface: &str) -> io::Result<Self> {
        let mut before = Config { flags: 0, sent: 0, received: 0 };
        tell(iface, GET, &mut before).map_err(|e| of_call("SIOCGHWTSTAMP", &e))?;
        let on = Self { iface: iface.to_owned(), before };
        if before.received == EVERY_FRAME {
            return Ok(on);
        }
        let mut wanted = Config { flags: 0, received: EVERY_FRAME, ..before };
        tell(iface, SET, &mut wanted).map_err(|e| of_call("SIOCSHWTSTAMP", &e))?;
        // A driver may do less, and reports it; dropping `on` undoes it.
        if wanted.received != EVERY_FRAME {
            return Err(io::Error::other(format!("the card stamps only some frames (filter {})", wanted.received)));
        }
        Ok(on)
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        if self.before.received != EVERY_FRAME {
            // The interface may be gone, and its stamping with it.
            let _ = tell(&self.iface, SET, &mut Config { ..self.before });
        }
    }
}

fn of_call(call: &str, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{call}: {e}"))
}

fn tell(iface: &str, request: libc::Ioctl, config: &mut Config) -> io::Result<()> {
    let fd = sys::socket(AddressFamily::INET, SocketType::DGRAM)?;
    let mut asked = Request { name: sys::name(iface)?, data: config, rest: [0; 2] };
    // SAFETY: a whole ifreq whose name ends in a zero byte; it points to the structure that both requests use.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut asked) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_stamping_is_left_as_it_is_with_the_call_that_said_so() {
        for name in ["lo", "dutlab-none"] {
            let e = Switched::on(name).unwrap_err();
            assert!(e.to_string().starts_with("SIOCGHWTSTAMP: "), "{name}: {e}");
        }
    }
}

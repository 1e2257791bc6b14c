//! Netlink: what an interface can do with XDP, which program is attached to it, what its hardware dropped.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const IFLA_STATS64: u16 = 23;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// Bits of `enum netdev_xdp_act` of an interface; `None` where the kernel has no such question (before 6.3).
pub(crate) fn xdp_features(ifindex: u32) -> io::Result<Option<u64>> {
    let socket = Socket::open(libc::NETLINK_GENERIC)?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let Ok(answer) = socket.ask(GENL_ID_CTRL, &[&[CTRL_CMD_GETFAMILY, 1, 0, 0], &name[..]].concat()) else {
        return Ok(None);
    };
    let Some(family) = find(answer.get(4..).unwrap_or(&[]), CTRL_ATTR_FAMILY_ID).and_then(|v| v.first_chunk()) else {
        return Ok(None);
    };
    let index = attribute(NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes());
    let answer = socket.ask(u16::from_ne_bytes(*family), &[&[NETDEV_CMD_DEV_GET, 1, 0, 0], &index[..]].concat())?;
    Ok(find(answer.get(4..).unwrap_or(&[]), NETDEV_A_DEV_XDP_FEATURES)
        .and_then(|v| v.first_chunk())
        .map(|v| u64::from_ne_bytes(*v)))
}

/// The XDP program that is attached to an interface: its mode (1 native, 2 generic, 3 offloaded, 4 several) and id.
pub(crate) fn attached(ifindex: u32) -> io::Result<Option<(u8, u32)>> {
    let answer = link(ifindex)?;
    let Some(xdp) = find(answer.get(16..).unwrap_or(&[]), IFLA_XDP) else { return Ok(None) };
    let mode = find(xdp, IFLA_XDP_ATTACHED).and_then(|v| v.first().copied()).unwrap_or(0);
    let id = find(xdp, IFLA_XDP_PROG_ID).and_then(|v| v.first_chunk()).map_or(0, |v| u32::from_ne_bytes(*v));
    Ok((mode != 0).then_some((mode, id)))
}

/// What the kernel says of an interface: struct ifinfomsg (16 bytes), then attributes.
fn link(ifindex: u32) -> io::Result<Vec<u8>> {
    // struct ifinfomsg: family, padding, type, index, flags, change.
    let mut body = [0_u8; 16];
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    Socket::open(libc::NETLINK_ROUTE)?.ask(libc::RTM_GETLINK, &body)
}

/// A counter of an interface since it is there, by its place in `struct rtnl_link_stats64` (`linux/if_link.h`).
pub(crate) fn counter(ifindex: u32, place: Counter) -> io::Result<u64> {
    let answer = link(ifindex)?;
    find(answer.get(16..).unwrap_or(&[]), IFLA_STATS64)
        .and_then(|all| all.get(place as usize * 8..)?.first_chunk())
        .map(|word| u64::from_ne_bytes(*word))
        .ok_or_else(|| io::Error::other("the kernel's answer has no such counter"))
}

/// Places of the counters that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Frames that were received.
    #[cfg(test)]
    RxPackets = 0,
    /// Frames that the device dropped for lack of buffer space: the host was slower than the link.
    RxMissed = 15,
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut a = Vec::with_capacity(value.len().next_multiple_of(4) + 4);
    a.extend(u16::try_from(value.len() + 4).expect("attributes are short").to_ne_bytes());
    a.extend(kind.to_ne_bytes());
    a.extend(value);
    a.resize(a.len().next_multiple_of(4), 0);
    a
}

/// The value of the first attribute of a kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    while let Some(head) = attributes.first_chunk::<4>() {
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The upper two bits mark nesting and byte order.
        let this = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = attributes.get(4..len)?;
        if this == kind {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
    None
}

struct Socket(OwnedFd);

impl Socket {
    fn open(protocol: i32) -> io::Result<Self> {
        // SAFETY: a new socket, owned by what is returned.
        unsafe {
            match libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// Sends one request and returns the body of its one answer.
    fn ask(&self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut message = Vec::with_capacity(16 + body.len());
        message.extend(u32::try_from(16 + body.len()).expect("requests are short").to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((REQUEST).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        let mut answer = vec![0_u8; 32 * 1024];
        // SAFETY: both buffers are as long as said and outlive the calls. An unconnected netlink socket sends to the kernel.
        let n = unsafe {
            if libc::send(self.0.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::recv(self.0.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        answer.truncate(n);
        let Some(head) = answer.first_chunk::<20>() else { return Err(io::Error::from(io::ErrorKind::UnexpectedEof)) };
        if u16::from_ne_bytes([head[4], head[5]]) == ERROR {
            let errno = i32::from_ne_bytes([head[16], head[17], head[18], head[19]]);
            return Err(io::Error::from_raw_os_error(-errno));
        }
        Ok(answer.split_off(16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_that_sysfs_shows() {
        // Loopback is silent in a namespace of its own, and elsewhere never counts down.
        let shown = |name: &str| {
            let text = std::fs::read_to_string(format!("/sys/class/net/lo/statistics/{name}")).unwrap();
            text.trim().parse::<u64>().unwrap()
        };
        for (place, name) in [(Counter::RxPackets, "rx_packets"), (Counter::RxMissed, "rx_missed_errors")] {
            let before = shown(name);
            let read = counter(1, place).unwrap();
            assert!((before..=shown(name)).contains(&read), "{name}: {read}");
        }
        assert_eq!(counter(u32::MAX >> 1, Counter::RxMissed).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}

//! Interfaces and their addresses, as the kernel reports them (rtnetlink(7), `linux/if_link.h`).

use crate::netlink::{Netlink, attribute, find, number, u32_at};
use crate::network::Network;
use crate::sys;
use std::io;
use std::net::IpAddr;

/// `struct ifinfomsg`: family, padding, type, index, flags, change.
const IFINFOMSG: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_STATS64: u16 = 23;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
/// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
const IFADDRMSG: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `struct genlmsghdr`: command, version, reserved.
const GENLMSGHDR: usize = 4;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;
/// `NETDEV_XDP_RX_METADATA_TIMESTAMP`, `NETDEV_XSK_FLAGS_TX_TIMESTAMP` and `NETDEV_XSK_FLAGS_TX_LAUNCH_TIME_FIFO` of `linux/netdev.h`.
const RX_TIMESTAMP: u64 = 1;
const TX_TIMESTAMP: u64 = 1;
const LAUNCH_TIME: u64 = 1 << 2;

/// An interface, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// True if it is up.
    pub up: bool,
    /// True if the other end answers.
    pub carrier: bool,
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// Zeroes where it has no MAC.
    pub mac: [u8; 6],
}

/// The interface called `name`.
pub fn named(name: &str) -> io::Result<Link> {
    let name = sys::name(name)?;
    let length = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let body = [vec![0; IFINFOMSG], attribute(IFLA_IFNAME, &name[..=length])].concat();
    let answer = Netlink::route()?.ask(libc::RTM_GETLINK, &body)?;
    if answer.len() < IFINFOMSG {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Link {
        index: u32_at(&answer, 4),
        up: u32_at(&answer, 8) & libc::IFF_UP.cast_unsigned() != 0,
        carrier: find(&answer, IFINFOMSG, IFLA_CARRIER).is_some_and(|v| v.first() == Some(&1)),
        mtu: find(&answer, IFINFOMSG, IFLA_MTU).and_then(number).unwrap_or(0),
        mac: find(&answer, IFINFOMSG, IFLA_ADDRESS).and_then(|v| v.try_into().ok()).unwrap_or_default(),
    })
}

fn numbered(index: u32) -> io::Result<Vec<u8>> {
    let mut body = [0_u8; IFINFOMSG];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    Netlink::route()?.ask(libc::RTM_GETLINK, &body)
}

/// An interface and the interfaces that it is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    index: u32,
    name: String,
    /// Interfaces that its frames reach without a router: the bridge or bond that it belongs to, and the interface that
    /// it is on.
    touches: [Option<u32>; 2],
    /// True if the interface that it is on is in another namespace.
    is_elsewhere: bool,
    /// Maximum number of receive queues.
    queues: u32,
}

/// An interface that is on no other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its name.
    pub name: String,
    /// Maximum number of receive queues; not all need be in use.
    pub queues: u32,
}

/// Returns the lowest interfaces of this namespace that frames of this one come from, or itself if it is the lowest;
/// `None` if they come from another namespace, which is not visible.
pub fn leaves(index: u32) -> io::Result<Option<Vec<Leaf>>> {
    let mut all = Vec::new();
    Netlink::route()?.dump(libc::RTM_GETLINK, &[0; IFINFOMSG], &mut |entry| all.extend(member(entry)))?;
    Ok(leaves_among(index, &all))
}

fn leaves_among(index: u32, all: &[Member]) -> Option<Vec<Leaf>> {
    let (mut below, mut looked_at, mut leaves) = (vec![index], 0, Vec::new());
    while let Some(&at) = below.get(looked_at) {
        looked_at += 1;
        let one = all.iter().find(|m| m.index == at)?;
        if one.is_elsewhere {
            return None;
        }
        // First: it belongs to a bridge or bond. Second: it is on another interface.
        let members = all.iter().filter(|m| m.touches[0] == Some(at)).map(|m| m.index);
        let lower: Vec<_> = members.chain(one.touches[1]).collect();
        if lower.is_empty() {
            leaves.push(Leaf { name: one.name.clone(), queues: one.queues });
        }
        for near in lower {
            if !below.contains(&near) {
                below.push(near);
            }
        }
    }
    Some(leaves)
}

/// Returns the interfaces of this namespace that share a link with this one, without itself: masters, members, uppers,
/// lowers and theirs. Interfaces in another namespace, or at the other end of a cable, are not visible.
pub fn sharers(index: u32) -> io::Result<Vec<(u32, String)>> {
    let mut all = Vec::new();
    Netlink::route()?.dump(libc::RTM_GETLINK, &[0; IFINFOMSG], &mut |entry| all.extend(member(entry)))?;
    let shared = reached(index, &all);
    Ok(all.into_iter().filter(|m| m.index != index && shared.contains(&m.index)).map(|m| (m.index, m.name)).collect())
}

/// Returns the interfaces that `index` reaches in any number of steps, in either direction.
fn reached(index: u32, all: &[Member]) -> Vec<u32> {
    let (mut found, mut looked_at) = (vec![index], 0);
    while let Some(&at) = found.get(looked_at) {
        looked_at += 1;
        let above = all.iter().filter(|m| m.touches.contains(&Some(at))).map(|m| m.index);
        let below = all.iter().filter(|m| m.index == at).flat_map(|m| m.touches).flatten();
        for near in above.chain(below) {
            if !found.contains(&near) {
                found.push(near);
            }
        }
    }
    found
}

/// Parses a member. The ends of a veth or netkit pair name each other as the interface that they are on, and the ports
/// of a switch chip name the CPU's port: there are cables between them. The members of a VRF are connected by routing,
/// not by bridging.
fn member(entry: &[u8]) -> Option<Member> {
    if entry.len() < IFINFOMSG {
        return None;
    }
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
    let info = find(entry, IFINFOMSG, IFLA_LINKINFO).unwrap_or(&[]);
    let is = |kind, names: &[&str]| find(info, 0, kind).is_some_and(|of| names.contains(&text(of).as_str()));
    let of_a_pair = is(IFLA_INFO_KIND, &["veth", "netkit", "dsa"]);
    let is_elsewhere = find(entry, IFINFOMSG, IFLA_LINK_NETNSID).is_some();
    let other = |kind| find(entry, IFINFOMSG, kind).and_then(number).filter(|index| *index != 0);
    Some(Member {
        index: u32_at(entry, 4),
        name: find(entry, IFINFOMSG, IFLA_IFNAME).map(text)?,
        touches: [
            other(IFLA_MASTER).filter(|_| !is(IFLA_INFO_SLAVE_KIND, &["vrf"])),
            other(IFLA_LINK).filter(|_| !is_elsewhere && !of_a_pair),
        ],
        is_elsewhere: is_elsewhere && !of_a_pair,
        queues: find(entry, IFINFOMSG, IFLA_NUM_RX_QUEUES).and_then(number).unwrap_or(1),
    })
}

/// Returns the addresses of these interfaces, with the interface of each.
pub fn addresses(of: &[u32]) -> io::Result<Vec<(u32, Network)>> {
    let mut all = Vec::new();
    Netlink::route()?.dump(libc::RTM_GETADDR, &[0; IFADDRMSG], &mut |entry| {
        all.extend(of.iter().filter_map(|index| Some((*index, address(entry, *index)?))));
    })?;
    Ok(all)
}

/// Returns the address of an entry, if it belongs to the interface.
fn address(entry: &[u8], index: u32) -> Option<Network> {
    if entry.len() < IFADDRMSG || u32_at(entry, 4) != index {
        return None;
    }
    // At the end of a point-to-point link, the second is the peer's.
    let value = find(entry, IFADDRMSG, IFA_LOCAL).or_else(|| find(entry, IFADDRMSG, IFA_ADDRESS))?;
    let address = match i32::from(entry[0]) {
        libc::AF_INET => IpAddr::from(*value.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*value.first_chunk::<16>()?),
        _ => return None,
    };
    Some(Network { address, prefix: entry[1] })
}

/// Returns the XDP program that is attached to an interface: its mode (1 native, 2 generic, 3 offloaded, 4 several) and
/// id.
pub fn attached(index: u32) -> io::Result<Option<(u8, u32)>> {
    let answer = numbered(index)?;
    let Some(xdp) = find(&answer, IFINFOMSG, IFLA_XDP) else { return Ok(None) };
    let mode = find(xdp, 0, IFLA_XDP_ATTACHED).and_then(|v| v.first().copied()).unwrap_or(0);
    let id = find(xdp, 0, IFLA_XDP_PROG_ID).and_then(number).unwrap_or(0);
    Ok((mode != 0).then_some((mode, id)))
}

/// Indices of the counters in use, in `struct rtnl_link_stats64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Received frames.
    #[cfg(test)]
    RxPackets = 0,
    /// Frames that the device dropped for lack of buffer space: the host was slower than the link.
    RxMissed = 15,
}

/// Returns a counter of an interface since its creation.
pub fn counter(index: u32, place: Counter) -> io::Result<u64> {
    let answer = numbered(index)?;
    find(&answer, IFINFOMSG, IFLA_STATS64)
        .and_then(|all| all.get(place as usize * 8..)?.first_chunk())
        .map(|word| u64::from_ne_bytes(*word))
        .ok_or_else(|| io::Error::other("the kernel's answer has no such counter"))
}

/// Returns the number of carrier losses of an interface since its creation. Needs Linux 4.16.
pub fn carrier_losses(index: u32) -> io::Result<u32> {
    let answer = numbered(index)?;
    let losses = find(&answer, IFINFOMSG, IFLA_CARRIER_DOWN_COUNT).and_then(number);
    losses.ok_or_else(|| io::Error::other("the kernel's answer has no such counter"))
}

/// Returns true if this message reports that the interface with this index was set down.
pub(crate) fn is_down(news: &[u8], index: u32) -> bool {
    news.len() >= IFINFOMSG && u32_at(news, 4) == index && u32_at(news, 8) & libc::IFF_UP.cast_unsigned() == 0
}

/// Returns the bits of `enum netdev_xdp_act` of an interface; `None` if the kernel does not know the query (before
/// 6.3).
pub fn xdp_features(index: u32) -> io::Result<Option<u64>> {
    Ok(netdev(index)?.and_then(|answer| word(&answer, NETDEV_A_DEV_XDP_FEATURES)))
}

/// Times that a driver gives to XDP and `AF_XDP`. All are false on kernels that do not know the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpTimes {
    /// A program gets the arrival time of a frame (`bpf_xdp_metadata_rx_timestamp`, Linux 6.3).
    pub arrival: bool,
    /// An `AF_XDP` socket gets the departure time of a frame (Linux 6.8).
    pub departure: bool,
    /// An `AF_XDP` socket can set the launch time of a frame (Linux 6.14).
    pub launch: bool,
}

/// Returns the times that the driver of an interface gives.
pub fn xdp_times(index: u32) -> io::Result<XdpTimes> {
    let answer = netdev(index)?.unwrap_or_default();
    let has = |kind, bit| word(&answer, kind).is_some_and(|bits| bits & bit != 0);
    Ok(XdpTimes {
        arrival: has(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES, RX_TIMESTAMP),
        departure: has(NETDEV_A_DEV_XSK_FEATURES, TX_TIMESTAMP),
        launch: has(NETDEV_A_DEV_XSK_FEATURES, LAUNCH_TIME),
    })
}

fn word(answer: &[u8], kind: u16) -> Option<u64> {
    find(answer, GENLMSGHDR, kind).and_then(|v| v.first_chunk()).map(|bits| u64::from_ne_bytes(*bits))
}

/// Returns the kernel's answer about an interface in the family `netdev`; `None` if it has no such family.
fn netdev(index: u32) -> io::Result<Option<Vec<u8>>> {
    let netlink = Netlink::generic()?;
    let question = |command: u8, kind, value: &[u8]| [vec![command, 1, 0, 0], attribute(kind, value)].concat();
    let family = question(CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let Ok(answer) = netlink.ask(GENL_ID_CTRL, &family) else { return Ok(None) };
    let Some(family) = find(&answer, GENLMSGHDR, CTRL_ATTR_FAMILY_ID).and_then(|v| v.first_chunk()) else {
        return Ok(None);
    };
    let device = question(NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    netlink.ask(u16::from_ne_bytes(*family), &device).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_that_sysfs_shows() {
        // In a separate namespace, loopback is quiet; elsewhere its counters never decrease.
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

    #[test]
    fn loopback_is_what_sysfs_shows() {
        let shown = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        let lo = named("lo").unwrap();
        assert_eq!((lo.index, lo.mtu, lo.mac), (1, shown.trim().parse().unwrap(), [0; 6]));
        assert_eq!(attached(1).unwrap(), None);
        for name in ["dutlab-none", "a-name-that-is-too-long-for-linux"] {
            assert_eq!(named(name).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }

    /// An entry of the kernel's table of interfaces.
    fn entry(index: u32, name: &str, more: &[Vec<u8>]) -> Vec<u8> {
        let mut b = vec![0; IFINFOMSG];
        b[4..8].copy_from_slice(&index.to_ne_bytes());
        b.extend(attribute(IFLA_IFNAME, &[name.as_bytes(), &[0]].concat()));
        b.extend(more.concat());
        b
    }

    fn to(kind: u16, index: u32) -> Vec<u8> {
        attribute(kind, &index.to_ne_bytes())
    }

    fn is_a(kind: u16, name: &str) -> Vec<u8> {
        attribute(IFLA_LINKINFO, &attribute(kind, name.as_bytes()))
    }

    #[test]
    fn bridges_bonds_and_what_is_on_a_port_share_its_link_and_ends_of_cables_do_not() {
        let table = [
            entry(1, "lo", &[]),
            entry(2, "eth0", &[to(IFLA_MASTER, 5)]),
            entry(3, "v0", &[to(IFLA_MASTER, 5), to(IFLA_LINK, 4), is_a(IFLA_INFO_KIND, "veth")]),
            entry(4, "v1", &[to(IFLA_LINK, 3), is_a(IFLA_INFO_KIND, "veth")]),
            entry(5, "br0", &[is_a(IFLA_INFO_KIND, "bridge")]),
            entry(6, "br0.7", &[to(IFLA_LINK, 5), is_a(IFLA_INFO_KIND, "vlan")]),
            entry(7, "mac0", &[to(IFLA_LINK, 4), is_a(IFLA_INFO_KIND, "macvlan")]),
            entry(8, "red", &[is_a(IFLA_INFO_KIND, "vrf")]),
            entry(9, "eth1", &[to(IFLA_MASTER, 8), is_a(IFLA_INFO_SLAVE_KIND, "vrf")]),
            entry(
                10,
                "far",
                &[to(IFLA_LINK, 2), attribute(IFLA_LINK_NETNSID, &[0; 4]), is_a(IFLA_INFO_KIND, "macvlan")],
            ),
        ];
        let all: Vec<Member> = table.iter().filter_map(|e| member(e)).collect();
        let shared = |index| {
            let mut found = reached(index, &all);
            found.sort_unstable();
            found
        };
        assert_eq!(shared(3), [2, 3, 5, 6]);
        assert_eq!(shared(6), [2, 3, 5, 6]);
        assert_eq!((shared(4), shared(7)), (vec![4, 7], vec![4, 7]));
        assert_eq!((shared(9), shared(10), shared(1)), (vec![9], vec![10], vec![1]));
        for n in 0..table[2].len() {
            member(&table[2][..n]);
        }
    }

    #[test]
    fn an_address_is_the_own_one_of_its_interface_and_an_entry_cut_anywhere_does_no_harm() {
        let family = u8::try_from(libc::AF_INET).unwrap();
        let mut entry = vec![family, 30, 0, 0];
        entry.extend(2_u32.to_ne_bytes());
        entry.extend(attribute(IFA_ADDRESS, &[10, 0, 0, 2]));
        entry.extend(attribute(IFA_LOCAL, &[10, 0, 0, 1]));
        assert_eq!(address(&entry, 2), Some("10.0.0.1/30".parse().unwrap()));
        assert_eq!(address(&entry, 3), None);
        for n in 0..entry.len() {
            address(&entry[..n], 2);
        }
    }
}

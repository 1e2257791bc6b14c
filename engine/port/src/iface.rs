//! Facts of an interface, and the check that it is not part of a network in use (RFC 6815).

use crate::error::PortError;
use crate::network::Network;
use crate::routes::{WideRoute, wide_route};
use crate::sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

/// The routing table that is used unless rules say otherwise (`RT_TABLE_MAIN`).
const MAIN_TABLE: u32 = 254;

/// A network interface of this namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its MAC.
    pub mac: [u8; 6],
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Whether something answers at the other end of its cable.
    pub carrier: bool,
    /// Its addresses.
    pub addresses: Vec<Network>,
    /// Which route leads out of it to more than a testbed.
    pub leads_out: LeadsOut,
}

/// Whether a route leads out of an interface to more than a testbed: a default route of IPv4 or IPv6, or a part of one, in any
/// routing table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeadsOut {
    /// None does.
    No,
    /// This one does.
    By(WideRoute),
    /// The kernel does not say. The guard must not let everything pass then.
    Unknown,
}

/// Why test traffic must not leave an interface (RFC 6815).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InUse {
    /// A route to the Internet, or to a large part of it, leads out of it.
    LeadsOut {
        /// The interface.
        iface: String,
        /// The route, or that nobody knows.
        by: LeadsOut,
    },
    /// It has an address outside of the testbed's networks.
    ForeignAddress {
        /// The interface.
        iface: String,
        /// The address.
        address: Network,
    },
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeadsOut { iface, by } => {
                match by {
                    LeadsOut::By(route) if route.to.prefix == 0 => write!(f, "{iface} carries the default route"),
                    LeadsOut::By(route) => write!(f, "{iface} carries a route to {}", route.to),
                    _ => write!(f, "the kernel does not say which routes lead out of {iface}"),
                }?;
                if let LeadsOut::By(WideRoute { table, .. }) = by
                    && *table != MAIN_TABLE
                {
                    write!(f, " of routing table {table}")?;
                }
                write!(f, ": test traffic must stay off networks in use (RFC 6815)")
            }
            Self::ForeignAddress { iface, address } => write!(
                f,
                "{iface} has the address {address}, which is in no network of the testbed: test traffic must stay off \
                 networks in use (RFC 6815)"
            ),
        }
    }
}

impl std::error::Error for InUse {}

impl InUse {
    /// What the user can do.
    #[must_use]
    pub fn remedy(&self) -> String {
        let other = match self {
            Self::LeadsOut { .. } => "name another interface",
            Self::ForeignAddress { .. } => "allow the address's network in the testbed",
        };
        format!("{other}, or set `isolated: true` for this link if nothing else is on it")
    }
}

impl Interface {
    /// Reads the facts of the interface called `name`.
    pub fn read(name: &str) -> Result<Self, PortError> {
        let missing = || PortError::NoSuchInterface { iface: name.to_owned() };
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: `c_name` is a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 || c_name.as_bytes_with_nul().len() > libc::IFNAMSIZ {
            return Err(missing());
        }
        let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0, name)?;
        let ask = |call: &'static str, request: libc::Ioctl| {
            // SAFETY: ifreq is plain bytes, for which all zeroes is a valid value.
            let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
            for (to, from) in r.ifr_name.iter_mut().zip(c_name.as_bytes()) {
                *to = libc::c_char::from_ne_bytes([*from]);
            }
            // SAFETY: `r` is an ifreq with a name that ends in a zero byte: it fits, as checked above.
            match unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut r) } {
                0 => Ok(r),
                _ => Err(PortError::last(call, name)),
            }
        };
        let mac = ask("SIOCGIFHWADDR", libc::SIOCGIFHWADDR as libc::Ioctl)?;
        let mtu = ask("SIOCGIFMTU", libc::SIOCGIFMTU as libc::Ioctl)?;
        let flags = ask("SIOCGIFFLAGS", libc::SIOCGIFFLAGS as libc::Ioctl)?;
        // SAFETY: each request fills the member of the union that is read here.
        let (mac, mtu, flags) =
            unsafe { (mac.ifr_ifru.ifru_hwaddr.sa_data, mtu.ifr_ifru.ifru_mtu, flags.ifr_ifru.ifru_flags) };
        Ok(Self {
            name: name.to_owned(),
            index,
            mac: std::array::from_fn(|i| mac[i].to_ne_bytes()[0]),
            mtu: mtu.cast_unsigned(),
            up: i32::from(flags) & libc::IFF_UP != 0,
            carrier: link(&fd, &c_name).unwrap_or(i32::from(flags) & libc::IFF_RUNNING != 0),
            addresses: addresses(name),
            leads_out: match wide_route(index, name) {
                Ok(None) => LeadsOut::No,
                Ok(Some(route)) => LeadsOut::By(route),
                Err(_) => LeadsOut::Unknown,
            },
        })
    }

    /// Says why test traffic must not leave here, if so. Link-local addresses are always allowed.
    pub fn not_in_use(&self, allow: &[Network]) -> Result<(), InUse> {
        if self.leads_out != LeadsOut::No {
            return Err(InUse::LeadsOut { iface: self.name.clone(), by: self.leads_out.clone() });
        }
        match self.addresses.iter().find(|a| !link_local(a.address) && !allow.iter().any(|n| n.contains(a.address))) {
            Some(address) => Err(InUse::ForeignAddress { iface: self.name.clone(), address: *address }),
            None => Ok(()),
        }
    }
}

/// Whether a port takes the outer VLAN tag off a frame and hands it on apart (`rx-vlan-offload` of ethtool(8)), out of sight of
/// an XDP program.
#[must_use]
pub fn takes_tags_off(name: &str) -> bool {
    const GET_FLAGS: u32 = 0x25; // ETHTOOL_GFLAGS of linux/ethtool.h
    const RX_VLAN: u32 = 1 << 8; // ETH_FLAG_RXVLAN
    let (Ok(fd), Ok(name)) = (sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0, name), CString::new(name)) else {
        return false;
    };
    let mut value = [GET_FLAGS, 0];
    // SAFETY: `value` is a whole struct ethtool_value: command, data.
    unsafe { sys::ethtool(&fd, &name, value.as_mut_ptr().cast()) }.is_ok() && value[1] & RX_VLAN != 0
}

/// What users of XDP should know of the bytes that are counted on a port; `generic`: programs run in the kernel's stack, which
/// may have taken a tag off before.
#[must_use]
pub fn tags_note(name: &str, generic: bool) -> Option<String> {
    (generic || takes_tags_off(name)).then(|| {
        format!(
            "a VLAN tag that {name} takes off a frame before XDP sees it is not among received_bytes: 4 bytes short for each such frame \
             (af_packet counts them)"
        )
    })
}

/// Whether the driver has a link. The flag `IFF_RUNNING` may be a second late.
fn link(fd: &OwnedFd, name: &CStr) -> Option<bool> {
    const GET_LINK: u32 = 0x0a; // ETHTOOL_GLINK of linux/ethtool.h
    let mut value = [GET_LINK, 0];
    // SAFETY: `value` is a whole struct ethtool_value: command, data.
    unsafe { sys::ethtool(fd, name, value.as_mut_ptr().cast()) }.ok()?;
    Some(value[1] != 0)
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

/// Addresses of an interface; empty when they cannot be read.
fn addresses(name: &str) -> Vec<Network> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the call writes a list that we free below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let (mut found, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, which lives until freeifaddrs.
        let entry = unsafe { &*next };
        // SAFETY: every entry has a name, a C string of the list.
        let of = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: address and mask are null or socket addresses of the list, of the same family.
        let (address, mask) = unsafe { (ip(entry.ifa_addr), ip(entry.ifa_netmask)) };
        if let (Some(address), true) = (address, of.to_bytes() == name.as_bytes()) {
            let prefix = match mask {
                Some(IpAddr::V4(m)) => m.to_bits().count_ones(),
                Some(IpAddr::V6(m)) => m.to_bits().count_ones(),
                None => {
                    if address.is_ipv4() {
                        32
                    } else {
                        128
                    }
                }
            };
            #[expect(clippy::cast_possible_truncation, reason = "at most 128")]
            found.push(Network { address, prefix: prefix as u8 });
        }
        next = entry.ifa_next;
    }
    // SAFETY: `first` came from getifaddrs, and nothing borrowed from the list is left.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The IP address in a socket address, if there is one.
///
/// # Safety
/// `address` is null or points to a whole socket address of the family it states.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: by the contract; reads do not rely on alignment.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let a = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let a = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(a.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(addresses: &[&str], leads_out: LeadsOut) -> Interface {
        Interface {
            name: "eth-a".into(),
            index: 2,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            leads_out,
        }
    }

    #[test]
    fn a_port_with_the_default_route_is_in_use_whatever_is_allowed() {
        let all = ["0.0.0.0/0".parse().unwrap()];
        let route = |to: &str, table| LeadsOut::By(WideRoute { to: to.parse().unwrap(), table });
        for (by, words) in [
            (route("0.0.0.0/0", 254), "eth-a carries the default route: test"),
            (route("128.0.0.0/1", 254), "eth-a carries a route to 128.0.0.0/1: test"),
            (route("::/0", 100), "eth-a carries the default route of routing table 100: test"),
            (LeadsOut::Unknown, "the kernel does not say which routes lead out of eth-a: test"),
        ] {
            let refused = interface(&["10.0.0.1/24"], by).not_in_use(&all).unwrap_err();
            assert!(refused.to_string().starts_with(words), "{refused}");
        }
    }

    #[test]
    fn an_address_outside_the_testbed_is_named() {
        let allow = ["172.16.0.0/24".parse().unwrap()];
        assert_eq!(interface(&["172.16.0.2/24", "fe80::1/64"], LeadsOut::No).not_in_use(&allow), Ok(()));
        let err = interface(&["172.16.0.2/24", "192.0.2.7/24"], LeadsOut::No).not_in_use(&allow).unwrap_err();
        assert!(err.to_string().contains("192.0.2.7/24") && err.remedy().contains("isolated"), "{err}");
    }

    #[test]
    fn loopback_has_its_address_and_no_mac() {
        let lo = Interface::read("lo").unwrap();
        assert_eq!(lo.mac, [0; 6]);
        assert!(!lo.up || lo.addresses.contains(&"127.0.0.1/8".parse().unwrap()));
    }

    #[test]
    fn an_interface_that_does_not_exist_is_named() {
        for name in ["no-such-one", "a-name-that-is-far-too-long", "nul\0byte"] {
            let err = Interface::read(name).unwrap_err();
            assert!(matches!(&err, PortError::NoSuchInterface { iface } if iface == name), "{err}");
        }
    }
}

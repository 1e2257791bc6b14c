//! Facts of an interface, and the check that it is not part of a network in use (RFC 6815).

use crate::error::PortError;
use crate::network::Network;
use crate::routes::{WideRoute, wide_route};
use crate::{ethtool, link};
use std::fmt;
use std::net::IpAddr;

/// Routing table that is used by default (`RT_TABLE_MAIN`).
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
    /// True if it is up.
    pub up: bool,
    /// True if the other end of its cable answers.
    pub carrier: bool,
    /// Its addresses.
    pub addresses: Vec<Network>,
    /// Route out of its link to more than a testbed.
    pub leads_out: LeadsOut,
    /// Interfaces that share its link ([`link::sharers`]): names and addresses.
    pub shared_with: Vec<(String, Vec<Network>)>,
}

/// Result of the search for a route out of a link to more than a testbed: a default route of IPv4 or IPv6, or a part of
/// one, in any routing table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeadsOut {
    /// No route leads out.
    No,
    /// This route leads out of the interface of this name.
    By(String, WideRoute),
    /// Unknown: the kernel does not answer. The guard must not pass everything then.
    Unknown,
}

/// Reason why test traffic must not leave an interface (RFC 6815).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InUse {
    /// A route to the Internet, or to a large part of it, leads out of its link.
    LeadsOut {
        /// The interface.
        iface: String,
        /// The route, or that it is unknown.
        by: LeadsOut,
    },
    /// An interface of its link has an address outside of the testbed's networks.
    ForeignAddress {
        /// The interface.
        iface: String,
        /// The interface with the address.
        owner: String,
        /// The address.
        address: Network,
    },
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeadsOut { iface, by: LeadsOut::By(owner, route) } => {
                let what = if route.to.prefix == 0 {
                    "the default route".to_owned()
                } else {
                    format!("a route to {}", route.to)
                };
                let table = (route.table != MAIN_TABLE).then(|| format!(" of routing table {}", route.table));
                write!(f, "{} carries {what}{}", named(owner, iface), table.unwrap_or_default())
            }
            Self::LeadsOut { iface, .. } => write!(f, "the kernel does not say which routes lead out of {iface}"),
            Self::ForeignAddress { iface, owner, address } => {
                write!(f, "{} has the address {address}, which is in no network of the testbed", named(owner, iface))
            }
        }?;
        write!(f, ": test traffic must stay off networks in use (RFC 6815)")
    }
}

/// Describes an interface of the link of `iface`.
fn named(owner: &str, iface: &str) -> String {
    if owner == iface { iface.to_owned() } else { format!("{owner}, which shares a link with {iface},") }
}

impl std::error::Error for InUse {}

impl InUse {
    /// Returns what the user can do.
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
        let facts = link::named(name).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => PortError::NoSuchInterface { iface: name.to_owned() },
            _ => PortError::from_call("netlink(RTM_GETLINK)", name, e),
        })?;
        let sharers = link::sharers(facts.index);
        let all: Vec<(u32, String)> =
            std::iter::once((facts.index, name.to_owned())).chain(sharers.iter().flatten().cloned()).collect();
        let numbers: Vec<u32> = all.iter().map(|(index, _)| *index).collect();
        let addresses = link::addresses(&numbers).unwrap_or_default();
        let of = |wanted: u32| addresses.iter().filter(|(index, _)| *index == wanted).map(|(_, a)| *a).collect();
        let name_of = |wanted: u32| all.iter().find(|(index, _)| *index == wanted).map(|(_, name)| name.clone());
        Ok(Self {
            name: name.to_owned(),
            index: facts.index,
            mac: facts.mac,
            mtu: facts.mtu,
            up: facts.up,
            carrier: ethtool::link(name).unwrap_or(facts.carrier),
            addresses: of(facts.index),
            leads_out: match (&sharers, wide_route(&numbers)) {
                (Ok(_), Ok(None)) => LeadsOut::No,
                (Ok(_), Ok(Some((index, route)))) => LeadsOut::By(name_of(index).unwrap_or_default(), route),
                _ => LeadsOut::Unknown,
            },
            shared_with: all.iter().skip(1).map(|(index, name)| (name.clone(), of(*index))).collect(),
        })
    }

    /// Returns an error if test traffic must not leave here. Link-local addresses are always allowed.
    pub fn not_in_use(&self, allow: &[Network]) -> Result<(), InUse> {
        if self.leads_out != LeadsOut::No {
            return Err(InUse::LeadsOut { iface: self.name.clone(), by: self.leads_out.clone() });
        }
        let own = self.addresses.iter().map(|a| (&self.name, a));
        let shared = self.shared_with.iter().flat_map(|(name, of)| of.iter().map(move |a| (name, a)));
        match own.chain(shared).find(|(_, a)| !link_local(a.address) && !allow.iter().any(|n| n.contains(a.address))) {
            Some((owner, address)) => {
                Err(InUse::ForeignAddress { iface: self.name.clone(), owner: owner.clone(), address: *address })
            }
            None => Ok(()),
        }
    }
}

/// Returns a note for users of XDP on the bytes that are counted on a port. `generic`: programs run in the kernel's
/// stack, which may have removed a tag before.
#[must_use]
pub fn tags_note(name: &str, generic: bool) -> Option<String> {
    (generic || ethtool::takes_tags_off(name)).then(|| {
        format!(
            "a VLAN tag that {name} takes off a frame before XDP sees it is not among received_bytes: 4 bytes short for each such frame \
             (af_packet counts them)"
        )
    })
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
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
            shared_with: vec![("br0".into(), vec!["10.9.0.1/24".parse().unwrap()])],
        }
    }

    #[test]
    fn a_port_with_the_default_route_is_in_use_whatever_is_allowed() {
        let all = ["0.0.0.0/0".parse().unwrap()];
        let route = |to: &str, table| LeadsOut::By("eth-a".into(), WideRoute { to: to.parse().unwrap(), table });
        for (by, words) in [
            (route("0.0.0.0/0", 254), "eth-a carries the default route: test"),
            (route("128.0.0.0/1", 254), "eth-a carries a route to 128.0.0.0/1: test"),
            (route("::/0", 100), "eth-a carries the default route of routing table 100: test"),
            (
                LeadsOut::By("br0".into(), WideRoute { to: "0.0.0.0/0".parse().unwrap(), table: 254 }),
                "br0, which shares a link with eth-a, carries the default route: test",
            ),
            (LeadsOut::Unknown, "the kernel does not say which routes lead out of eth-a: test"),
        ] {
            let refused = interface(&["10.0.0.1/24"], by).not_in_use(&all).unwrap_err();
            assert!(refused.to_string().starts_with(words), "{refused}");
        }
    }

    #[test]
    fn an_address_outside_the_testbed_is_named() {
        let allow = ["172.16.0.0/24".parse().unwrap(), "10.9.0.0/24".parse().unwrap()];
        assert_eq!(interface(&["172.16.0.2/24", "fe80::1/64"], LeadsOut::No).not_in_use(&allow), Ok(()));
        let err = interface(&["172.16.0.2/24", "192.0.2.7/24"], LeadsOut::No).not_in_use(&allow).unwrap_err();
        assert!(err.to_string().contains("192.0.2.7/24") && err.remedy().contains("isolated"), "{err}");
        let err = interface(&["172.16.0.2/24"], LeadsOut::No).not_in_use(&allow[..1]).unwrap_err();
        assert!(
            err.to_string().starts_with("br0, which shares a link with eth-a, has the address 10.9.0.1/24"),
            "{err}"
        );
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

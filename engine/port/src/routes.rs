//! Routes that lead out of an interface to more than a testbed (rtnetlink(7), `linux/rtnetlink.h`), in every routing table.

use crate::netlink::{Netlink, attributes, number, u16_at, u32_at};
use crate::network::Network;
use crate::sys;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `struct rtmsg`: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
const RTMSG: usize = 12;
/// `struct rtnexthop`: length, flags, hops, index of the interface; attributes follow.
const NEXT_HOP: usize = 8;
/// Types of route that send a packet to one host (`RTN_UNICAST`).
const UNICAST: u8 = 1;
/// Attributes: destination, interface, several next hops, table.
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
/// Shortest prefix lengths (IPv4, IPv6) that are a network of a testbed. A shorter prefix is a part of the Internet:
/// two halves (0/1, 128/1) act as a default route. The shortest that are not routed there are 10.0.0.0/8 (RFC 1918) and
/// `fc00::/7` (RFC 4193).
const SHORTEST: (u8, u8) = (8, 7);

/// A route that leads out of a testbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WideRoute {
    /// Destination of the route.
    pub to: Network,
    /// The number of its routing table; 254 is the usual one.
    pub table: u32,
}

/// Returns the first route out of one of these interfaces that leads to more than a testbed (a default route or a part
/// of one), and the index of that interface.
pub(crate) fn wide_route(of: &[u32]) -> io::Result<Option<(u32, WideRoute)>> {
    let netlink = Netlink::route()?;
    for family in sys::IP {
        let mut question = [0; RTMSG];
        question[0] = family;
        let mut found = None;
        netlink.dump(libc::RTM_GETROUTE, &question, &mut |entry| {
            found = found.take().or_else(|| of.iter().find_map(|index| Some((*index, wide(entry, *index)?))));
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns the route of a message, if it leads out of the interface and to more than a testbed.
fn wide(b: &[u8], index: u32) -> Option<WideRoute> {
    if b.len() < RTMSG || b[7] != UNICAST {
        return None;
    }
    let (v4, prefix) = (i32::from(b[0]) == libc::AF_INET, b[1]);
    if prefix >= if v4 { SHORTEST.0 } else { SHORTEST.1 } {
        return None;
    }
    let mut address = if v4 { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let (mut table, mut leads_out) = (u32::from(b[4]), false);
    for (kind, value) in attributes(b, RTMSG) {
        match kind {
            RTA_DST if v4 => address = value.first_chunk::<4>().map_or(address, |a| IpAddr::from(*a)),
            RTA_DST => address = value.first_chunk::<16>().map_or(address, |a| IpAddr::from(*a)),
            RTA_OIF => leads_out |= number(value) == Some(index),
            RTA_TABLE => table = number(value).unwrap_or(table),
            RTA_MULTIPATH => leads_out |= next_hops(value).any(|hop| hop == index),
            _ => {}
        }
    }
    // Frames to a group do not leave the link.
    (leads_out && !address.is_multicast()).then_some(WideRoute { to: Network { address, prefix }, table })
}

/// Returns the interfaces of several next hops.
fn next_hops(mut b: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if b.len() < NEXT_HOP {
            return None;
        }
        let (length, index) = (usize::from(u16_at(b, 0)).max(NEXT_HOP), u32_at(b, 4));
        b = &b[length.next_multiple_of(4).min(b.len())..];
        Some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;

    /// Makes a message of the kernel about a unicast route.
    fn route(family: i32, prefix: u8, table: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut b = vec![u8::try_from(family).unwrap(), prefix, 0, 0, table, 3, 0, UNICAST, 0, 0, 0, 0];
        b.extend(attributes.concat());
        b
    }

    fn out_of(index: u32) -> Vec<u8> {
        attribute(RTA_OIF, &index.to_ne_bytes())
    }

    #[test]
    fn default_routes_and_parts_of_them_are_found_in_any_table_and_networks_of_testbeds_are_not() {
        let half = attribute(RTA_DST, &[128, 0, 0, 0]);
        let far = attribute(RTA_TABLE, &1000_u32.to_ne_bytes());
        let other_hops = [[8, 0, 0, 0].as_slice(), &7_u32.to_ne_bytes(), &[8, 0, 0, 0], &2_u32.to_ne_bytes()].concat();
        for (body, found) in [
            (route(libc::AF_INET, 0, 254, &[out_of(2)]), Some(("0.0.0.0/0", 254))),
            (route(libc::AF_INET, 1, 254, &[half.clone(), out_of(2)]), Some(("128.0.0.0/1", 254))),
            (route(libc::AF_INET, 1, 252, &[half, out_of(2), far]), Some(("128.0.0.0/1", 1000))),
            (route(libc::AF_INET, 0, 254, &[attribute(RTA_MULTIPATH, &other_hops)]), Some(("0.0.0.0/0", 254))),
            (
                route(libc::AF_INET6, 3, 254, &[attribute(RTA_DST, &[0x20; 16]), out_of(2)]),
                Some(("2020:2020:2020:2020:2020:2020:2020:2020/3", 254)),
            ),
            (route(libc::AF_INET, 0, 254, &[out_of(3)]), None),
            (route(libc::AF_INET, 8, 254, &[attribute(RTA_DST, &[10, 0, 0, 0]), out_of(2)]), None),
            (route(libc::AF_INET, 4, 254, &[attribute(RTA_DST, &[224, 0, 0, 0]), out_of(2)]), None),
            (route(libc::AF_INET6, 7, 254, &[attribute(RTA_DST, &[0xfc; 16]), out_of(2)]), None),
        ] {
            let said = wide(&body, 2).map(|w| (w.to.to_string(), w.table));
            assert_eq!(said.as_ref().map(|(to, table)| (to.as_str(), *table)), found);
        }
    }

    #[test]
    fn an_entry_cut_anywhere_is_read_without_harm() {
        let body = route(libc::AF_INET, 0, 254, &[out_of(2), attribute(RTA_MULTIPATH, &[16, 0, 0, 0, 2, 0, 0, 0])]);
        assert!(wide(&body, 2).is_some());
        for n in 0..body.len() {
            wide(&body[..n], 2);
        }
    }
}

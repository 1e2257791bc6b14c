//! The kernel's neighbour table: MACs of IP addresses on a link (rtnetlink(7), `linux/neighbour.h`).

use crate::error::PortError;
use crate::iface::Interface;
use crate::netlink::{Netlink, attributes, u16_at, u32_at};
use crate::sys;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

/// States of an entry whose MAC is known: reachable, stale, delay, probe, noarp, permanent.
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// Attributes: the address, and its MAC.
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// `struct ndmsg`: family, padding, index, state, flags, type.
const NDMSG: usize = 12;
/// The discard service (RFC 863): a datagram to it requests nothing.
const DISCARD: u16 = 9;
/// Interval of the look-ups while the kernel resolves.
const LOOK: Duration = Duration::from_millis(10);

/// Returns the MAC of `address` on `iface`. If the table has none, a datagram makes the kernel ask for it. `None` if
/// there is no answer within `wait`.
pub fn resolve(iface: &Interface, address: IpAddr, wait: Duration) -> Result<Option<[u8; 6]>, PortError> {
    let begin = Instant::now();
    let mut asked = false;
    loop {
        if let Some(mac) = look_up(iface, address)? {
            return Ok(Some(mac));
        }
        if !asked {
            asked = true;
            provoke(iface, address).map_err(|e| PortError::from_call("sendto", &iface.name, e))?;
        }
        if begin.elapsed() >= wait {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the current entry of the table.
fn look_up(iface: &Interface, address: IpAddr) -> Result<Option<[u8; 6]>, PortError> {
    let (mut question, mut found) = ([0; NDMSG], None);
    question[0] = sys::IP[usize::from(address.is_ipv6())];
    let mut take = |row: &[u8]| found = found.or_else(|| entry(row, iface.index, address));
    Netlink::route()
        .and_then(|netlink| netlink.dump(libc::RTM_GETNEIGH, &question, &mut take))
        .map_err(|e| PortError::from_call("netlink(RTM_GETNEIGH)", &iface.name, e))?;
    Ok(found)
}

/// Returns the MAC of an entry, if it is that of `address`.
fn entry(b: &[u8], index: u32, address: IpAddr) -> Option<[u8; 6]> {
    if b.len() < NDMSG || u32_at(b, 4) != index || u16_at(b, 8) & KNOWN == 0 {
        return None;
    }
    let wanted = match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let (mut is_it, mut mac) = (false, None);
    for (kind, value) in attributes(b, NDMSG) {
        match kind {
            NDA_DST => is_it = value == wanted,
            NDA_LLADDR => mac = value.try_into().ok(),
            _ => {}
        }
    }
    mac.filter(|_| is_it)
}

/// Sends an empty datagram out of `iface`, so that the kernel has to know the MAC of `address`.
fn provoke(iface: &Interface, address: IpAddr) -> io::Result<()> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    sys::bind_to_device(&socket, &iface.name)?;
    let to = match address {
        IpAddr::V4(a) => SocketAddr::new(a.into(), DISCARD),
        IpAddr::V6(a) => SocketAddrV6::new(a, DISCARD, 0, iface.index).into(),
    };
    match socket.send_to(&[], to) {
        // No host answers: the table will show it.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EADDRNOTAVAIL)) => {
            Ok(())
        }
        other => other.map(drop),
    }
}

/// Returns the next hop to `address` out of `iface`, by the kernel's tables: the address itself if it is on the link, a
/// gateway, or `None` if no route leads out of this interface.
#[must_use]
pub fn next_hop(iface: &Interface, address: IpAddr) -> Option<IpAddr> {
    if iface.addresses.iter().any(|n| n.contains(address)) {
        return Some(address);
    }
    let table = |path| std::fs::read_to_string(path).unwrap_or_default();
    match address {
        IpAddr::V4(a) => {
            gateway_v4(&table("/proc/net/route"), &iface.name, a.to_bits()).map(|g| gateway(g.into(), address))
        }
        IpAddr::V6(a) => {
            gateway_v6(&table("/proc/net/ipv6_route"), &iface.name, a.to_bits()).map(|g| gateway(g.into(), address))
        }
    }
}

/// Returns the next hop of a route; a route without gateway leads to the link.
fn gateway(gateway: IpAddr, address: IpAddr) -> IpAddr {
    if gateway.is_unspecified() { address } else { gateway }
}

/// Returns the gateway of the longest prefix in `/proc/net/route`, whose numbers are in network order, read as
/// little-endian.
fn gateway_v4(table: &str, iface: &str, address: u32) -> Option<std::net::Ipv4Addr> {
    let number = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::from_be);
    let routes = table.lines().skip(1).filter_map(|line| {
        let field: Vec<_> = line.split_ascii_whitespace().collect();
        let (to, via, mask) = (number(field.get(1)?)?, number(field.get(2)?)?, number(field.get(7)?)?);
        (field[0] == iface && address & mask == to).then_some((mask.count_ones(), via))
    });
    routes.max_by_key(|(bits, _)| *bits).map(|(_, via)| via.into())
}

/// Returns the gateway of the longest prefix in `/proc/net/ipv6_route`.
fn gateway_v6(table: &str, iface: &str, address: u128) -> Option<std::net::Ipv6Addr> {
    let routes = table.lines().filter_map(|line| {
        let field: Vec<_> = line.split_ascii_whitespace().collect();
        let number = |i: usize| u128::from_str_radix(field.get(i)?, 16).ok();
        let (to, bits, via) = (number(0)?, number(1)?, number(4)?);
        let bits = u32::try_from(bits).ok()?.min(128);
        let same = bits == 0 || (to ^ address) >> (128 - bits) == 0;
        (*field.get(9)? == iface && same).then_some((bits, via))
    });
    routes.max_by_key(|(bits, _)| *bits).map(|(_, via)| via.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_gives_the_gateway() {
        // 172.16.0.0/16 via 172.16.0.1, 172.16.10.0/24 via 172.16.0.9, as a little-endian machine shows them
        if cfg!(target_endian = "big") {
            return;
        }
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth-a\t000010AC\t010010AC\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
                     eth-a\t000A10AC\t090010AC\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let via = |a: [u8; 4]| gateway_v4(table, "eth-a", u32::from_be_bytes(a)).map(|g| g.to_string());
        assert_eq!(via([172, 16, 10, 2]).as_deref(), Some("172.16.0.9"));
        assert_eq!(via([172, 16, 11, 2]).as_deref(), Some("172.16.0.1"));
        assert_eq!(via([10, 0, 0, 1]), None);
        assert_eq!(gateway_v4(table, "eth-b", 0xac10_0a02), None);
    }

    #[test]
    fn ipv6_routes_are_read_likewise() {
        let zero = "0".repeat(32);
        let table = format!(
            "20010db8000000000000000000000000 20 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth-a\n"
        );
        let via = gateway_v6(&table, "eth-a", "2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap().to_bits());
        assert_eq!(via, Some("fe80::1".parse().unwrap()));
    }

    #[test]
    fn an_entry_is_read_and_one_cut_anywhere_does_no_harm() {
        // One entry: 172.16.0.1 on link 2, reachable, 02:00:00:00:00:01.
        let mut b = Vec::new();
        b.extend([2, 0, 0, 0]);
        b.extend(2_u32.to_ne_bytes());
        b.extend(2_u16.to_ne_bytes());
        b.extend([0, 1]);
        b.extend(8_u16.to_ne_bytes());
        b.extend(NDA_DST.to_ne_bytes());
        b.extend([172, 16, 0, 1]);
        b.extend(10_u16.to_ne_bytes());
        b.extend(NDA_LLADDR.to_ne_bytes());
        b.extend([2, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(b.len(), 32);
        let address = [172, 16, 0, 1].into();
        assert_eq!(entry(&b, 2, address), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(entry(&b, 3, address), None, "another link");
        assert_eq!(entry(&b, 2, [172, 16, 0, 2].into()), None, "another address");
        for n in 0..b.len() {
            entry(&b[..n], 2, address);
        }
    }
}

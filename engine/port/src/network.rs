//! IP networks as users write them: an address and the length of its prefix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// The prefix length in bits.
    pub prefix: u8,
}

/// A text that is not a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadNetwork(pub String);

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a network; write address and prefix length, as in 172.16.0.0/24", self.0)
    }
}

impl std::error::Error for BadNetwork {}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Network {
    type Err = BadNetwork;
    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix = prefix.parse().map_err(|_| bad())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if prefix > longest { Err(bad()) } else { Ok(Self { address, prefix }) }
    }
}

impl Network {
    /// Returns true if `address` is in this network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
            _ => return false,
        };
        self.prefix == 0 || differ >> (128 - u32::from(self.prefix)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses_and_no_others() {
        let inside = |n: &str, a: &str| n.parse::<Network>().unwrap().contains(a.parse().unwrap());
        assert!(inside("172.16.0.0/24", "172.16.0.255") && !inside("172.16.0.0/24", "172.16.1.0"));
        assert!(inside("2001:db8::/32", "2001:db8:ffff::1") && !inside("2001:db8::/32", "2001:db9::1"));
        assert!(inside("0.0.0.0/0", "1.2.3.4") && !inside("0.0.0.0/0", "::1"));
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/-1"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}

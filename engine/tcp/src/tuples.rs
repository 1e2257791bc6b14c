//! Addresses and ports of the n-th connection. No two are the same while there are unused ones.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Source ports of connections: those that need no privilege (RFC 6335 section 6).
pub const SOURCE_PORTS: RangeInclusive<u16> = 1024..=65535;

/// All combinations of addresses and ports. The source address changes first, then the destination port, then the
/// source port.
pub struct Tuples {
    sources: Vec<IpAddr>,
    to: IpAddr,
    ports: RangeInclusive<u16>,
    next: u64,
}

impl Tuples {
    /// Makes tuples from `sources`, which are not empty, to `ports` of `to`; begins with number `first`.
    ///
    /// # Panics
    /// If there is no source or no port.
    #[must_use]
    pub fn new(sources: Vec<IpAddr>, to: IpAddr, ports: RangeInclusive<u16>, first: u64) -> Self {
        assert!(!sources.is_empty() && !ports.is_empty(), "a connection has two ends");
        Self { sources, to, ports, next: first }
    }

    /// Number of combinations.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.sources.len() * self.ports.len() * SOURCE_PORTS.len()) as u64
    }

    /// Returns the next source and destination. The first follows the last.
    ///
    /// # Panics
    /// Never: each index is below the length of its list.
    pub fn take(&mut self) -> (SocketAddr, SocketAddr) {
        let (n, addresses, ports) = (self.next % self.count(), self.sources.len() as u64, self.ports.len() as u64);
        self.next += 1;
        let at = |i: u64| usize::try_from(i).expect("below the length of a list");
        let source = self.sources[at(n % addresses)];
        let to = self.ports.clone().nth(at(n / addresses % ports)).expect("within the range");
        let from = SOURCE_PORTS.clone().nth(at(n / addresses / ports)).expect("within the range");
        (SocketAddr::new(source, from), SocketAddr::new(self.to, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::Ipv4Addr;

    #[test]
    fn all_differ_before_any_comes_again() {
        let sources = vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2))];
        let mut tuples = Tuples::new(sources, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3)), 80..=82, 7);
        // 65536 ports less the 1024 of the system, three destination ports, two addresses
        assert_eq!(tuples.count(), 64_512 * 3 * 2);
        let first = tuples.take();
        let mut seen = HashSet::from([first]);
        for _ in 1..tuples.count() {
            assert!(seen.insert(tuples.take()));
        }
        assert_eq!(tuples.take(), first);
        let (one, other) = (tuples.take(), tuples.take());
        assert!(one.0.ip() != other.0.ip(), "addresses take turns");
    }
}

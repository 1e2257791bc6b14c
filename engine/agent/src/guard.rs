//! Where test traffic may go: into networks of the testbed, and into those that nobody routes on the Internet (RFC 6815).

use dutlab_port::network::Network;
use dutlab_protocol::plan::SendPlan;
use dutlab_protocol::{ErrorKind, Fault};
use std::net::IpAddr;

use crate::report::fault;

/// What nobody routes on the Internet: RFC 1918, RFC 6598, benchmarking (RFC 2544; RFC 5180 section 8 with its erratum),
/// documentation (RFC 5737, 3849), unique local (RFC 4193).
pub const TESTBEDS: [&str; 11] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "198.18.0.0/15",
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "2001:db8::/32",
    "fc00::/7",
    "2001:2::/48",
];

/// Where a port may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Anywhere: the link is isolated, somebody said so.
    Isolated,
    /// Into these networks and [`TESTBEDS`].
    Networks(Vec<Network>),
}

impl Reach {
    fn holds(&self, to: IpAddr) -> bool {
        let Self::Networks(networks) = self else { return true };
        let testbeds = || TESTBEDS.iter().filter_map(|n| n.parse::<Network>().ok());
        stays_on_link(to) || networks.iter().copied().chain(testbeds()).any(|n| n.contains(to))
    }

    /// Refuses a plan with a destination outside. What a raw frame or a capture holds is not looked at.
    pub fn check(&self, plan: &SendPlan) -> Result<(), Fault> {
        let Some(stray) = plan.streams.iter().find(|s| !self.holds(s.destination)) else { return Ok(()) };
        let what = format!(
            "stream {} goes to {}, which is in no network of the testbed: test traffic must stay off networks in use (RFC 6815)",
            stray.stream, stray.destination
        );
        let remedy = "send to an address of the testbed, allow its network, or set `isolated: true` (--isolated) for this link if nothing else is on it";
        Err(fault(ErrorKind::GuardRefused, what, Some(remedy)))
    }
}

/// Whether no router forwards a packet to this address.
fn stays_on_link(to: IpAddr) -> bool {
    match to {
        IpAddr::V4(a) => a.is_link_local() || a.is_broadcast() || a.is_loopback(),
        IpAddr::V6(a) => a.is_unicast_link_local() || a.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_networks_of_the_testbed_and_those_that_nobody_routes_are_in_reach() {
        let reach = Reach::Networks(vec!["44.0.0.0/9".parse().unwrap()]);
        for inside in ["10.1.2.3", "198.19.255.254", "2001:db8::1", "fd00::1", "44.1.2.3", "fe80::1", "255.255.255.255"]
        {
            assert!(reach.holds(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["8.8.8.8", "44.128.0.1", "2001:4860:4860::8888", "172.32.0.1"] {
            assert!(!reach.holds(outside.parse().unwrap()), "{outside}");
            assert!(Reach::Isolated.holds(outside.parse().unwrap()), "{outside}");
        }
    }
}

//! Where test traffic may go: into networks of the testbed, and into those that nobody routes on the Internet (RFC 6815).

use dutlab_port::network::Network;
use dutlab_protocol::plan::{SendPlan, Stream};
use dutlab_protocol::{ErrorKind, Fault};
use std::net::IpAddr;

use crate::lower;
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
    /// Whether all addresses from `least` to `most` are in one network.
    fn holds_all(&self, least: IpAddr, most: IpAddr) -> bool {
        let Self::Networks(networks) = self else { return true };
        let testbeds = || TESTBEDS.iter().filter_map(|n| n.parse::<Network>().ok());
        let mut all = networks.iter().copied().chain(testbeds());
        least == most && stays_on_link(least) || all.any(|n| n.contains(least) && n.contains(most))
    }

    /// Refuses a plan with a destination outside. What a raw frame or a capture holds is not looked at.
    pub fn check(&self, plan: &SendPlan) -> Result<(), Fault> {
        let goes_to = |s: &Stream| {
            // A value that cannot be read is refused with the plan.
            let varied = lower::destinations(s).filter_map(Result::ok);
            let mut ends = std::iter::once((s.destination, s.destination)).chain(varied);
            ends.find(|(least, most)| !self.holds_all(*least, *most))
        };
        let Some((stray, (least, most))) = plan.streams.iter().find_map(|s| Some((s.stream, goes_to(s)?))) else {
            return Ok(());
        };
        let to = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let what = format!(
            "stream {stray} goes to {to}, which is in no network of the testbed: test traffic must stay off networks in use (RFC 6815)",
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
        let holds = |reach: &Reach, to: &str| reach.holds_all(to.parse().unwrap(), to.parse().unwrap());
        for inside in ["10.1.2.3", "198.19.255.254", "2001:db8::1", "fd00::1", "44.1.2.3", "fe80::1", "255.255.255.255"]
        {
            assert!(holds(&reach, inside), "{inside}");
        }
        for outside in ["8.8.8.8", "44.128.0.1", "2001:4860:4860::8888", "172.32.0.1"] {
            assert!(!holds(&reach, outside), "{outside}");
            assert!(holds(&Reach::Isolated, outside), "{outside}");
        }
    }

    #[test]
    fn every_value_of_a_destination_that_varies_must_be_in_reach() {
        let reach = Reach::Networks(Vec::new());
        let check = |values: serde_json::Value| {
            let plan = serde_json::json!({"streams": [{"stream": 7, "destination_mac": "02:00:00:00:00:01",
                "source": "10.0.0.1", "destination": "10.0.0.2", "source_port": 1, "destination_port": 2,
                "vary": [{"field": "destination_address", "values": values}],
                "sizes": {"fixed_bytes": 64}, "rate": {"max": true}, "frames": 1}]});
            reach.check(&serde_json::from_value(plan).unwrap()).map_err(|e| e.message)
        };
        assert_eq!(check(serde_json::json!({"step": {"from": "10.0.0.0", "to": "10.255.255.255"}})), Ok(()));
        let why = check(serde_json::json!({"step": {"from": "10.255.0.0", "to": "11.0.0.0"}})).unwrap_err();
        assert!(why.contains("10.255.0.0 to 11.0.0.0"), "{why}");
        assert!(check(serde_json::json!({"random": {"from": 0, "to": 4_294_967_295_u32}})).is_err());
        assert!(check(serde_json::json!({"list": ["10.0.0.1", "8.8.8.8"]})).unwrap_err().contains("8.8.8.8"));
    }
}

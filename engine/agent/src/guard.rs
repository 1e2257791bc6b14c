//! Where test traffic may go: into networks of the testbed, and into those that nobody routes on the Internet (RFC 6815).

use dutlab_port::network::Network;
use dutlab_protocol::plan::{SendPlan, Stream, VariedField};
use dutlab_protocol::request::TESTBEDS;
use dutlab_protocol::{ErrorKind, Fault};
use dutlab_wire::raw;
use std::net::IpAddr;

use crate::lower::{self, Lowered};
use crate::report::fault;

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

    /// Refuses a plan with streams to a destination outside, or to MACs that vary: nobody knows whose those are.
    pub fn check(&self, plan: &SendPlan) -> Result<(), Fault> {
        if *self == Self::Isolated {
            return Ok(());
        }
        if let Some(s) = plan.streams.iter().find(|s| has_many_macs(s)) {
            let what = format!(
                "stream {} has destination MACs that vary, so its frames reach devices outside of the testbed, too (RFC 6815)",
                s.stream
            );
            let remedy =
                "take one destination MAC, or set `isolated: true` (--isolated) for this link if nothing else is on it";
            return Err(fault(ErrorKind::GuardRefused, what, Some(remedy)));
        }
        // A value that cannot be read is refused with the plan.
        let mut ends = plan.streams.iter().flat_map(|s| lower::destinations(s).flatten().map(|ends| (s.stream, ends)));
        match ends.find(|(_, (least, most))| !self.holds_all(*least, *most)) {
            Some((stream, (least, most))) => Err(stray(stream, least, most)),
            None => Ok(()),
        }
    }

    /// Refuses frames that were given byte by byte, and those of a capture, with a destination outside. What is not IP has none.
    pub fn check_frames(&self, plan: &Lowered) -> Result<(), Fault> {
        let templates =
            plan.plan.streams.iter().flat_map(|s| s.templates.iter().map(|t| (s.stream, t.bytes.as_slice())));
        let captured = plan.replay.iter().flat_map(|c| {
            let stream = plan.plan.streams.first().map_or(0, |s| s.stream);
            (0..c.replay.round()).map(move |n| (stream, c.replay.frame(n)))
        });
        let mut ends = templates.chain(captured).filter_map(|(stream, frame)| Some((stream, raw::destination(frame)?)));
        match ends.find(|(_, to)| !self.holds_all(*to, *to)) {
            Some((stream, to)) => Err(stray(stream, to, to)),
            None => Ok(()),
        }
    }
}

fn stray(stream: u16, least: IpAddr, most: IpAddr) -> Fault {
    let to = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let what = format!(
        "stream {stream} goes to {to}, which is in no network of the testbed: test traffic must stay off networks in use (RFC 6815)",
    );
    let remedy = "send to an address of the testbed, allow its network, or set `isolated: true` (--isolated) for this link if nothing else is on it";
    fault(ErrorKind::GuardRefused, what, Some(remedy))
}

fn has_many_macs(s: &Stream) -> bool {
    s.flows.is_some_and(|f| f.destination_macs > 1) || s.vary.iter().any(|v| v.field == VariedField::DestinationMac)
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
    #![expect(clippy::needless_pass_by_value, reason = "so that plans can be written in place")]

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

    /// What a port without networks of its own says to a stream with `more`.
    fn check(more: serde_json::Value) -> Result<(), String> {
        let mut stream = serde_json::json!({"stream": 7, "destination_mac": "02:00:00:00:00:01", "source": "10.0.0.1",
            "destination": "10.0.0.2", "source_port": 1, "destination_port": 2, "sizes": {"fixed_bytes": 64}, "rate": {"max": true},
            "frames": 1});
        stream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let plan = serde_json::from_value(serde_json::json!({"streams": [stream]})).unwrap();
        assert_eq!(Reach::Isolated.check(&plan), Ok(()));
        Reach::Networks(Vec::new()).check(&plan).map_err(|e| e.message)
    }

    #[test]
    fn every_value_of_a_destination_that_varies_must_be_in_reach() {
        let varied = |values| check(serde_json::json!({"vary": [{"field": "destination_address", "values": values}]}));
        assert_eq!(varied(serde_json::json!({"step": {"from": "10.0.0.0", "to": "10.255.255.255"}})), Ok(()));
        let why = varied(serde_json::json!({"step": {"from": "10.255.0.0", "to": "11.0.0.0"}})).unwrap_err();
        assert!(why.contains("10.255.0.0 to 11.0.0.0"), "{why}");
        assert!(varied(serde_json::json!({"random": {"from": 0, "to": 4_294_967_295_u32}})).is_err());
        assert!(varied(serde_json::json!({"list": ["10.0.0.1", "8.8.8.8"]})).unwrap_err().contains("8.8.8.8"));
    }

    #[test]
    fn every_destination_of_many_flows_must_be_in_reach() {
        let range = |to: &str, flows| check(serde_json::json!({"destination": to, "flows": flows}));
        let next_to_each_other = serde_json::json!({"count": 256, "destination_addresses": 256});
        assert_eq!(range("10.255.255.0", next_to_each_other.clone()), Ok(()));
        let why = range("10.255.255.1", next_to_each_other).unwrap_err();
        assert!(why.contains("10.255.255.1 to 11.0.0.0"), "{why}");
        let one_in_each_24 =
            serde_json::json!({"count": 9, "destination_addresses": 9, "destination_prefix_length": 24});
        let why = range("10.255.248.1", one_in_each_24).unwrap_err();
        assert!(why.contains("10.255.248.1 to 11.0.0.1"), "{why}");
        let six = serde_json::json!({"source": "2001:db8::1", "destination": "2001:db8:ffff::1",
            "flows": {"count": 2, "destination_addresses": 2, "destination_prefix_length": 48}});
        assert!(check(six).unwrap_err().contains("2001:db9::1"));
    }

    #[test]
    fn answers_go_to_the_sources_of_what_they_answer() {
        let answers = |from: &str, flows: serde_json::Value| {
            check(serde_json::json!({"answers": true, "source": from, "destination": "8.8.8.8", "flows": flows}))
        };
        assert_eq!(
            answers("10.0.0.1", serde_json::json!({"count": 9, "source_addresses": 9, "destination_addresses": 1})),
            Ok(())
        );
        assert!(answers("8.8.4.4", serde_json::Value::Null).unwrap_err().contains("8.8.4.4"));
        let why = answers("10.255.255.255", serde_json::json!({"count": 2, "source_addresses": 2})).unwrap_err();
        assert!(why.contains("10.255.255.255 to 11.0.0.0"), "{why}");
    }

    #[test]
    fn destination_macs_vary_on_an_isolated_link_only() {
        let list = serde_json::json!({"list": ["02:00:00:00:00:01", "02:00:00:00:00:02"]});
        for more in [
            serde_json::json!({"flows": {"count": 2, "destination_macs": 2}}),
            serde_json::json!({"vary": [{"field": "destination_mac", "values": list}]}),
        ] {
            let why = check(more).unwrap_err();
            assert!(why.contains("stream 7 has destination MACs that vary"), "{why}");
        }
        assert_eq!(check(serde_json::json!({"vary": [{"field": "source_mac", "values": list}]})), Ok(()));
    }

    #[test]
    fn frames_given_byte_by_byte_go_where_their_bytes_say() {
        let to = |address: [u8; 4], ethertype: &str| {
            let [a, b, c, d] = address;
            let hex = format!(
                "020000000001 020000000002 {ethertype} 4500 0050 0000 0000 4011 0000 0a000001 {a:02x}{b:02x}{c:02x}{d:02x} {}",
                "00".repeat(60)
            );
            let plan = serde_json::json!({"raw_streams": [{"stream": 5, "templates": [{"hex": hex, "probe_at": 60}],
                "rate": {"max": true}, "frames": 1}]});
            let plan = lower::lower(&serde_json::from_value(plan).unwrap(), &lower::tests::iface()).unwrap();
            assert_eq!(Reach::Isolated.check_frames(&plan), Ok(()));
            Reach::Networks(Vec::new()).check_frames(&plan).map_err(|e| e.message)
        };
        assert_eq!(to([10, 0, 0, 2], "0800"), Ok(()));
        assert_eq!(to([8, 8, 8, 8], "88b5"), Ok(()), "not IP");
        for ethertype in ["0800", "8100 0005 0800"] {
            let why = to([8, 8, 8, 8], ethertype).unwrap_err();
            assert!(why.contains("stream 5 goes to 8.8.8.8"), "{why}");
        }
    }
}

//! Allowed destinations of test traffic: networks of the testbed, and those that are not routed on the Internet (RFC
//! 6815).

use dutlab_port::network::Network;
use dutlab_protocol::plan::{SendPlan, Stream, VariedField};
use dutlab_protocol::request::TESTBEDS;
use dutlab_protocol::{ErrorKind, Fault};
use dutlab_wire::{FourTuple, Mac, reach};
use std::net::IpAddr;

use crate::lower::{self, Lowered};
use crate::report::fault;

/// Allowed destinations of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Anywhere: the user declared the link isolated.
    Isolated,
    /// These networks and [`TESTBEDS`].
    Networks(Vec<Network>),
}

impl Reach {
    /// Returns true if all addresses from `least` to `most` are in one network.
    fn holds_all(&self, least: IpAddr, most: IpAddr) -> bool {
        let Self::Networks(networks) = self else { return true };
        let testbeds = || TESTBEDS.iter().filter_map(|n| n.parse::<Network>().ok());
        let mut all = networks.iter().copied().chain(testbeds());
        least == most && stays_on_link(least) || all.any(|n| n.contains(least) && n.contains(most))
    }

    /// Refuses a plan with streams to a destination outside, to varying MACs, whose owners are unknown, or to a MAC
    /// that all stations receive.
    pub fn check(&self, plan: &SendPlan, learned: &[FourTuple]) -> Result<(), Fault> {
        if *self == Self::Isolated {
            return Ok(());
        }
        for s in &plan.streams {
            if has_many_macs(s) {
                return Err(refused(
                    s.stream,
                    "has destination MACs that vary, so its frames reach devices outside of the testbed, too",
                ));
            }
            // A value that cannot be parsed is refused with the plan.
            if s.destination_mac.parse().is_ok_and(|mac| is_for_many(mac, Some(s.destination))) {
                return Err(for_many(s.stream));
            }
            if let Some(to) = learned.iter().map(|of| of.source).find(|to| s.learned && !self.holds_all(*to, *to)) {
                return Err(stray(s.stream, to, to));
            }
            let mut ends = lower::destinations(s).flatten();
            if let Some((least, most)) = ends.find(|(least, most)| !self.holds_all(*least, *most)) {
                return Err(stray(s.stream, least, most));
            }
        }
        Ok(())
    }

    /// Refuses frames that were given byte by byte, and those of a capture, if they can reach a destination outside
    /// ([`reach`]). Frames without IP have none.
    pub fn check_frames(&self, plan: &Lowered) -> Result<(), Fault> {
        if *self == Self::Isolated {
            return Ok(());
        }
        let templates =
            plan.plan.streams.iter().flat_map(|s| s.templates.iter().map(|t| (s.stream, t.bytes.as_slice())));
        let captured = plan.replay.iter().flat_map(|c| {
            let stream = plan.plan.streams.first().map_or(0, |s| s.stream);
            (0..c.replay.round()).map(move |n| (stream, c.replay.frame(n)))
        });
        for (stream, frame) in templates.chain(captured) {
            let (mut first, mut outside) = (None, None);
            let known = reach::destinations(frame, &mut |to| {
                first = first.or(Some(to));
                outside = outside.or((!self.holds_all(to, to)).then_some(to));
            });
            if let Some(to) = outside {
                return Err(stray(stream, to, to));
            }
            if known.is_err() {
                return Err(refused(
                    stream,
                    "has more headers than are looked into, so nobody knows where its packets go",
                ));
            }
            if frame.first_chunk().is_some_and(|mac| is_for_many(Mac(*mac), first)) {
                return Err(for_many(stream));
            }
        }
        Ok(())
    }
}

/// Returns true if all stations of a network receive this MAC, or those of a group (IEEE 802.3 clause 3.2.3):
/// broadcast, 01:80:c2:… of bridges. Frames to an IP group are checked by its address.
fn is_for_many(mac: Mac, destination: Option<IpAddr>) -> bool {
    mac.0[0] & 1 == 1 && !destination.is_some_and(|to| to.is_multicast())
}

fn for_many(stream: u16) -> Fault {
    refused(stream, "goes to a MAC that more than one station listens to")
}

fn refused(stream: u16, why: &str) -> Fault {
    let remedy = "take one destination MAC of the testbed, or set `isolated: true` (--isolated) for this link if nothing else is on it";
    fault(ErrorKind::GuardRefused, format!("stream {stream} {why} (RFC 6815)"), Some(remedy))
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

/// Returns true if no router forwards a packet to this address.
fn stays_on_link(to: IpAddr) -> bool {
    match to {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
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
        for inside in ["10.1.2.3", "198.19.255.254", "2001:db8::1", "fd00::1", "44.1.2.3", "fe80::1", "169.254.1.1"] {
            assert!(holds(&reach, inside), "{inside}");
        }
        for outside in
            ["8.8.8.8", "44.128.0.1", "2001:4860:4860::8888", "172.32.0.1", "255.255.255.255", "127.0.0.1", "::1"]
        {
            assert!(!holds(&reach, outside), "{outside}");
            assert!(holds(&Reach::Isolated, outside), "{outside}");
        }
    }

    /// Returns the answer of a port without its own networks to a stream with `more`.
    fn check(more: serde_json::Value) -> Result<(), String> {
        let mut stream = serde_json::json!({"stream": 7, "destination_mac": "02:00:00:00:00:01", "source": "10.0.0.1",
            "destination": "10.0.0.2", "source_port": 1, "destination_port": 2, "sizes": {"fixed_bytes": 64}, "rate": {"max": true},
            "frames": 1});
        stream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let plan = serde_json::from_value(serde_json::json!({"streams": [stream]})).unwrap();
        assert_eq!(Reach::Isolated.check(&plan, &[]), Ok(()));
        Reach::Networks(Vec::new()).check(&plan, &learned()).map_err(|e| e.message)
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

    /// Returns frames that came from an address of the testbed and from one outside of it.
    fn learned() -> [FourTuple; 2] {
        [[10, 0, 0, 9], [8, 8, 8, 8]].map(|source| FourTuple {
            source: source.into(),
            destination: [10, 0, 0, 1].into(),
            source_port: 1,
            destination_port: 2,
        })
    }

    #[test]
    fn what_was_learned_is_answered_only_within_reach() {
        assert!(check(serde_json::json!({"learned": true})).unwrap_err().contains("8.8.8.8"));
        assert_eq!(check(serde_json::json!({})), Ok(()), "a stream that answers nothing");
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
    fn a_mac_that_all_stations_listen_to_is_for_isolated_links_only() {
        for mac in ["ff:ff:ff:ff:ff:ff", "01:80:c2:00:00:00", "01:80:c2:00:00:01", "01:00:5e:00:00:01"] {
            let why = check(serde_json::json!({"destination_mac": mac})).unwrap_err();
            assert!(why.contains("stream 7 goes to a MAC that more than one station"), "{mac}: {why}");
        }
        let group = serde_json::json!({"destination_mac": "01:00:5e:00:00:01", "destination": "239.0.0.1"});
        assert!(check(group).unwrap_err().contains("239.0.0.1"), "by its address");
    }

    #[test]
    fn frames_given_byte_by_byte_go_where_their_bytes_say() {
        let to = |address: [u8; 4], ethertype: &str| {
            let [a, b, c, d] = address;
            let hex = format!(
                "020000000001 020000000002 {ethertype} 4500 0050 0000 0000 4011 0000 0a000001 {a:02x}{b:02x}{c:02x}{d:02x} {}",
                "00".repeat(120)
            );
            let plan = serde_json::json!({"raw_streams": [{"stream": 5, "templates": [{"hex": hex, "probe_at": 110}],
                "rate": {"max": true}, "frames": 1}]});
            let plan = lower::lower(&serde_json::from_value(plan).unwrap(), &lower::tests::iface(), &[]).unwrap();
            assert_eq!(Reach::Isolated.check_frames(&plan), Ok(()));
            Reach::Networks(Vec::new()).check_frames(&plan).map_err(|e| e.message)
        };
        assert_eq!(to([10, 0, 0, 2], "0800"), Ok(()));
        assert_eq!(to([8, 8, 8, 8], "88b5"), Ok(()), "not IP");
        for ethertype in
            ["0800", "8100 0005 0800", "8864 1100 0001 0030 0021", "8847 0000 1140", "0050 aaaa 0300 0000 0800"]
        {
            let why = to([8, 8, 8, 8], ethertype).unwrap_err();
            assert!(why.contains("stream 5 goes to 8.8.8.8"), "{why}");
        }
        assert!(to([10, 0, 0, 2], &"8100 0005 ".repeat(17)).unwrap_err().contains("more headers"));
    }
}

//! From the command line's traffic to a plan of the protocol, with addresses and the next hop's MAC filled in.

use super::args::{self, Given, Traffic};
use super::exit::Refused;
use super::quantity::same_family;
use super::rate::Asked;
use dutlab_port::iface::Interface;
use dutlab_port::neighbour;
use dutlab_port::network::Network;
use dutlab_protocol::plan::{Flows, RawFrame, RawStream, Replay, SendPlan, Stream, Vlan};
use dutlab_protocol::reply::Opened;
use dutlab_protocol::request::{Backend, Cpus, Guard, Open};
use dutlab_wire::Mac;
use std::net::IpAddr;
use std::time::Duration;

/// Time that the kernel has to resolve the next hop's MAC.
const RESOLVE: Duration = Duration::from_secs(1);
/// Default duration of sending.
const USUAL_NS: u64 = 10_000_000_000;
/// The request that opens a port.
pub fn open(name: &str, iface: &str, port: &args::Port, backend: Backend, cpus: &[u32]) -> Open {
    let allow = match &port.allow[..] {
        [] => Guard::default().allow,
        given => given.iter().map(ToString::to_string).collect(),
    };
    Open {
        port: name.to_owned(),
        iface: iface.to_owned(),
        backend,
        cpu: Cpus::Several(cpus.to_vec()),
        receive_cpu: Cpus::default(),
        guard: Guard { allow, isolated: port.isolated },
    }
}

/// The addresses of an opened port.
fn networks(opened: &Opened) -> Vec<Network> {
    opened.addresses.iter().filter_map(|a| a.parse().ok()).collect()
}

/// The first address of a port, IPv4 before IPv6, of the kind of `like` if that is given.
pub fn own_address(opened: &Opened, like: Option<IpAddr>) -> Option<IpAddr> {
    let mut own: Vec<_> = networks(opened).into_iter().map(|n| n.address).collect();
    own.retain(|a| like.is_none_or(|like| same_family(*a, like)));
    // Use a link-local address only if there is no other: routers do not forward it.
    own.sort_by_key(|a| match a {
        IpAddr::V4(a) => u8::from(a.is_link_local()),
        IpAddr::V6(a) => 2 + u8::from(a.is_unicast_link_local()),
    });
    own.first().copied()
}

/// Returns the source address: as requested, or the port's own in the network of `to`, or of its family.
fn source(t: &Traffic, opened: &Opened, to: IpAddr) -> Result<IpAddr, Refused> {
    let near = networks(opened).into_iter().find(|n| n.contains(to)).map(|n| n.address);
    t.from.or(near).or_else(|| own_address(opened, Some(to))).ok_or_else(|| {
        let kind = if to.is_ipv4() { "IPv4" } else { "IPv6" };
        Refused::input(format!("{} has no {kind} address to send from", opened.iface), "give --from")
    })
}

/// Returns the next hop's MAC: as given, or from the kernel's neighbour table. `beside` is the receiving port, if it is
/// on this machine: without a route, frames for its own address go directly to it.
fn next_hop(t: &Traffic, opened: &Opened, to: IpAddr, beside: Option<&Opened>) -> Result<(Mac, String), Refused> {
    if let Some(mac) = t.mac {
        return Ok((mac, format!("{mac}, as given")));
    }
    let name = &opened.iface;
    let iface = Interface::read(name).map_err(|e| Refused::from(crate::report::port_fault(&e)))?;
    let straight = beside.filter(|o| networks(o).iter().any(|n| n.address == to));
    let hop = match (t.gateway, straight) {
        (Some(gateway), _) => gateway,
        (None, Some(out)) => {
            if !iface.addresses.iter().any(|n| n.contains(to)) {
                let what = format!(
                    "{to} is {}'s own address, and no network of {name}'s: what routes between them?",
                    out.iface
                );
                return Err(Refused::input(what, "give --gateway with the DUT's address towards IN, or --mac"));
            }
            // Across a bridge, a switch or a cable, the kernel would answer for itself, so the table has no entry.
            let mac: Mac =
                out.mac.parse().map_err(|_| Refused::unusable(format!("{} has no MAC", out.iface), "give --mac"))?;
            return Ok((mac, format!("{mac}, {} itself", out.iface)));
        }
        (None, None) => neighbour::next_hop(&iface, to).ok_or_else(|| {
            Refused::unusable(
                format!("no route leads to {to} out of {name}"),
                "give --gateway or --mac, or add a route",
            )
        })?,
    };
    let found = neighbour::resolve(&iface, hop, RESOLVE).map_err(|e| Refused::from(crate::report::port_fault(&e)))?;
    let mac = found.map(Mac).ok_or_else(|| {
        let what = format!("{hop} does not answer on {name}: its MAC is unknown after {} s", RESOLVE.as_secs());
        Refused::unusable(what, "is it up, and is the cable in the right port? Otherwise give --mac")
    })?;
    Ok((mac, format!("{mac}, {hop}")))
}

/// Returns a plan, and a description of the first hop of its frames.
pub fn plan(t: &Traffic, opened: &Opened, to: IpAddr, beside: Option<&Opened>) -> Result<(SendPlan, String), Refused> {
    let n = t.streams;
    if t.first_stream.checked_add(n - 1).is_none() {
        return Err(Refused::input(format!("{n} streams from {} on reach past 65535", t.first_stream), "begin lower"));
    }
    let source = source(t, opened, to)?;
    if !same_family(source, to) {
        return Err(Refused::input(
            format!("{source} and {to} are not of one kind"),
            "make --from and --to both IPv4 or both IPv6",
        ));
    }
    let rate = asked(t)?.of_each(n, t.speed, t.burst)?;
    let (mac, hop) = next_hop(t, opened, to, beside)?;
    let flows = (t.flows > 1).then_some(Flows { count: t.flows, source_ports: t.flows, ..Flows::default() });
    let stream = |i: u16| Stream {
        stream: t.first_stream + i,
        source_mac: None,
        destination_mac: mac.to_string(),
        vlans: t.vlan.iter().map(|id| Vlan { id: *id, priority: 0, tpid: None }).collect(),
        source,
        destination: to,
        answers: false,
        learned: false,
        transport: t.transport,
        extension_headers: Vec::new(),
        vary: t.vary.clone(),
        source_port: if t.flows > 1 { t.source_port } else { t.source_port.wrapping_add(i) },
        destination_port: t.destination_port,
        ttl: t.ttl,
        flows,
        sizes: t.size.clone(),
        rate: rate.clone(),
        // The remainder of the division goes to the first streams.
        frames: t.frames.map(|all| all / u64::from(n) + u64::from(u64::from(i) < all % u64::from(n))),
    };
    if t.frames.is_some_and(|all| all < u64::from(n)) {
        return Err(Refused::input(
            format!("{n} streams need {n} frames at least"),
            "raise --frames, or lower --streams",
        ));
    }
    let streams = (0..n).map(stream).collect();
    Ok((SendPlan { streams, ..bare(t) }, hop))
}

/// Returns a plan of frames that are given whole; `None` if there are none.
pub fn given(g: &Given, t: &Traffic) -> Result<Option<SendPlan>, Refused> {
    if let Some(path) = g.replay.clone() {
        let replay = Replay {
            path,
            stream: t.first_stream,
            timing: g.replay_speed,
            rounds: g.rounds,
            probe: g.with_probe,
            unprobed_stream: g.unprobed_stream,
        };
        let duration_ns = t.duration.map(|d| d.0);
        return Ok(Some(SendPlan { replay: Some(replay), duration_ns, ..bare(t) }));
    }
    let (Some(probe_at), false) = (g.probe_at, g.raw.is_empty()) else { return Ok(None) };
    let templates = g.raw.iter().map(|hex| RawFrame { hex: hex.clone(), probe_at }).collect();
    let rate = asked(t)?.of_each(1, t.speed, t.burst)?;
    let raw = RawStream { stream: t.first_stream, templates, rate, frames: t.frames };
    Ok(Some(SendPlan { raw_streams: vec![raw], ..bare(t) }))
}

/// A plan without frames.
fn bare(t: &Traffic) -> SendPlan {
    SendPlan { duration_ns: duration_ns(t), through_link_loss: t.through_link_loss, ..SendPlan::default() }
}

/// Returns the rate, which all but a replay need.
pub fn asked(t: &Traffic) -> Result<&Asked, Refused> {
    t.rate.as_ref().ok_or_else(|| Refused::input("how fast? --rate is missing", "give --rate, as in 100kpps or max"))
}

fn duration_ns(t: &Traffic) -> Option<u64> {
    let usual = || t.rate.as_ref().and_then(Asked::span_ns).unwrap_or(USUAL_NS);
    t.duration.map(|d| d.0).or_else(|| t.frames.is_none().then(usual))
}

//! From the controller's words to templates and paces. A plan is refused whole, with every fault and its path.

use dutlab_port as port;
use dutlab_port::iface::Interface;
use dutlab_protocol::plan::{self, Rate, SendPlan, Stream};
use dutlab_protocol::reply::ArmedStream;
use dutlab_traffic::{Flows, Piece, Profile, Sizes};
use dutlab_units::{FrameSize, L1Bits, L2Bits, Nanos};
use dutlab_wire::frame::{FrameRepr, Transport};
use dutlab_wire::{Layout, Mac, Probe, probe, tcp, vlan};
use std::net::IpAddr;

/// Bytes of the Ethernet header and the FCS, which the MTU does not count; each tag adds 4 that it does not count either.
const AROUND_MTU: u32 = 14 + 4;

/// A plan as the engine understands it.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// What is sent; its instants are filled in at the start.
    pub plan: port::SendPlan,
    /// When, stream by stream.
    pub profiles: Vec<Profile>,
    /// Mean frame size of each stream, in bytes with FCS.
    pub means: Vec<f64>,
    /// How long; `NEVER` if only frame counts end the streams.
    pub duration: Nanos,
}

impl Lowered {
    /// What the controller is told about each stream.
    #[must_use]
    pub fn armed(&self) -> Vec<ArmedStream> {
        let each = self.plan.streams.iter().zip(&self.profiles).zip(&self.means);
        each.map(|((s, profile), mean)| {
            let asked = match (self.duration, profile.asked(self.duration)) {
                (Nanos::NEVER, _) | (_, None) => (s.frames < u64::MAX).then_some(s.frames),
                (_, Some(n)) => Some(n.min(s.frames)),
            };
            let asked = if *profile == Profile::Max && self.duration != Nanos::NEVER { None } else { asked };
            ArmedStream { stream: s.stream, mean_frame_bytes: *mean, asked }
        })
        .collect()
    }
}

/// Checks a plan for `iface` and prepares it. The error holds every fault, each with the path of its key.
pub fn lower(plan: &SendPlan, iface: &Interface) -> Result<Lowered, String> {
    let mut faults = Vec::new();
    let mut lowered = Lowered {
        plan: port::SendPlan { streams: Vec::new(), start: Nanos::ZERO, end: Nanos::NEVER },
        profiles: Vec::new(),
        means: Vec::new(),
        duration: plan.duration_ns.map_or(Nanos::NEVER, Nanos),
    };
    if plan.streams.is_empty() {
        faults.push("send.streams: give at least one stream".to_owned());
    }
    for (i, stream) in plan.streams.iter().enumerate() {
        let at = format!("send.streams[{i}]");
        if plan.streams[..i].iter().any(|s| s.stream == stream.stream) {
            faults.push(format!("{at}.stream: {} is there already", stream.stream));
        }
        if plan.duration_ns.is_none() && stream.frames.is_none() {
            faults.push(format!("{at}.frames: nothing ends this stream; give `frames`, or `duration_ns` of the plan"));
        }
        match lower_stream(stream, iface) {
            Ok((stream, profile, mean)) => {
                lowered.plan.streams.push(stream);
                lowered.profiles.push(profile);
                lowered.means.push(mean);
            }
            Err(more) => faults.extend(more.into_iter().map(|f| format!("{at}.{f}"))),
        }
    }
    if faults.is_empty() { Ok(lowered) } else { Err(faults.join("\n")) }
}

fn lower_stream(s: &Stream, iface: &Interface) -> Result<(port::PlanStream, Profile, f64), Vec<String>> {
    let mut faults = Vec::new();
    let mut keep = |path: &str, what: String| faults.push(format!("{path}: {what}"));
    let sizes = lower_sizes(&s.sizes).map_err(|e| keep("sizes", e)).ok();
    let tags: Vec<_> = s.vlans.iter().enumerate().map(|(i, v)| lower_vlan(*v, i, s.vlans.len())).collect();
    if s.vlans.iter().any(|v| v.id > 4095 || v.priority > 7) || tags.len() > 2 {
        keep("vlans", "at most two tags, ids up to 4095, priorities up to 7".into());
    }
    let source_mac = s.source_mac.as_deref().map_or(Ok(Mac(iface.mac)), str::parse);
    let source_mac = source_mac.map_err(|e| keep("source_mac", e.to_string())).unwrap_or_default();
    let destination_mac =
        s.destination_mac.parse().map_err(|e: dutlab_wire::ethernet::BadMac| keep("destination_mac", e.to_string()));
    let repr = FrameRepr {
        source_mac,
        destination_mac: destination_mac.unwrap_or_default(),
        vlans: &tags,
        source: s.source,
        destination: s.destination,
        transport: match s.transport {
            plan::Transport::Udp => Transport::Udp,
            plan::Transport::Tcp => Transport::Tcp(tcp::ACK),
            plan::Transport::TcpSyn => Transport::Tcp(tcp::SYN),
            plan::Transport::IcmpEcho => Transport::IcmpEcho,
        },
        source_port: s.source_port,
        destination_port: s.destination_port,
        ttl: s.ttl,
    };
    let mean = sizes.as_ref().map_or(64.0, Sizes::mean);
    let profile = lower_rate(&s.rate, mean).map_err(|e| keep("rate", e)).ok();
    let mut templates = Vec::new();
    #[expect(clippy::cast_possible_truncation, reason = "at most two tags")]
    let longest = iface.mtu + AROUND_MTU + 4 * tags.len() as u32;
    for size in sizes.iter().flat_map(Sizes::distinct) {
        if size.with_fcs() > longest {
            keep(
                "sizes",
                format!(
                    "{} needs a longer MTU than {} of {}: {longest} is the most",
                    size.with_fcs(),
                    iface.mtu,
                    iface.name
                ),
            );
        }
        match template(&repr, s.stream, *size) {
            Ok(t) => templates.push(t),
            Err(e) => keep("sizes", e.to_string()),
        }
    }
    let flows = match (&s.flows, repr.layout()) {
        (Some(flows), Ok(layout)) => lower_flows(flows, s, &layout).map_err(|e| keep("flows", e)).ok(),
        _ => None,
    };
    match (faults.is_empty(), sizes, profile) {
        (true, Some(sizes), Some(profile)) => {
            let stream = port::PlanStream {
                stream: s.stream,
                templates,
                order: sizes.order().to_vec(),
                flows,
                pace: pace(&profile),
                frames: s.frames.unwrap_or(u64::MAX),
            };
            Ok((stream, profile, mean))
        }
        _ => Err(faults),
    }
}

fn lower_sizes(sizes: &plan::Sizes) -> Result<Sizes, String> {
    let one = |n: u32| FrameSize::new(n).map_err(|e| e.to_string());
    match sizes {
        plan::Sizes::FixedBytes(n) => Ok(Sizes::fixed(one(*n)?)),
        plan::Sizes::SequenceBytes(all) => {
            let all: Vec<_> = all.iter().map(|n| one(*n)).collect::<Result<_, _>>()?;
            Sizes::sequence(&all).map_err(|e| e.to_string())
        }
        plan::Sizes::Weighted(parts) => {
            let parts: Vec<_> = parts.iter().map(|p| Ok((one(p.bytes)?, p.weight))).collect::<Result<_, String>>()?;
            Sizes::weighted(&parts).map_err(|e| e.to_string())
        }
    }
}

fn lower_vlan(v: plan::Vlan, place: usize, count: usize) -> vlan::Repr {
    let usual = if place + 1 < count { vlan::SERVICE } else { vlan::CUSTOMER };
    vlan::Repr { tpid: v.tpid.unwrap_or(usual), id: v.id, priority: v.priority }
}

/// A rate for frames of `mean` bytes with FCS.
pub fn lower_rate(rate: &Rate, mean: f64) -> Result<Profile, String> {
    let positive = |pps: f64| {
        if pps > 0.0 && pps.is_finite() { Ok(pps) } else { Err(format!("{pps} frames per second: must be above 0")) }
    };
    let not_negative = |pps: f64| {
        if pps >= 0.0 && pps.is_finite() {
            Ok(pps)
        } else {
            Err(format!("{pps} frames per second: must not be below 0"))
        }
    };
    match rate {
        Rate::Max(true) => Ok(Profile::Max),
        Rate::Max(false) => Err("`max` is true or absent".into()),
        Rate::Pps(pps) => Ok(Profile::constant(positive(*pps)?)),
        Rate::BpsL1(bps) => Ok(Profile::constant(positive(L1Bits(*bps).frames(mean).0)?)),
        Rate::BpsL2(bps) => Ok(Profile::constant(positive(L2Bits(*bps).frames(mean).0)?)),
        Rate::Steps(steps) if steps.is_empty() => Err("steps: give at least one".into()),
        Rate::Steps(steps) => {
            let piece = |s: &plan::Step| {
                let pps = not_negative(s.pps)?;
                Ok(Piece { from_pps: pps, to_pps: pps, span: Nanos(s.duration_ns) })
            };
            Ok(Profile::Linear(steps.iter().map(piece).collect::<Result<_, String>>()?))
        }
        Rate::Ramp(r) => {
            if r.duration_ns == 0 {
                return Err("ramp.duration_ns: must be above 0".into());
            }
            let (from_pps, to_pps) = (not_negative(r.from_pps)?, not_negative(r.to_pps)?);
            Ok(Profile::Linear(vec![Piece { from_pps, to_pps, span: Nanos(r.duration_ns) }]))
        }
        Rate::Bursts(b) if b.frames == 0 || b.period_ns == 0 => {
            Err("bursts: frames and period_ns must be above 0".into())
        }
        Rate::Bursts(b) => Ok(Profile::Bursts { frames: b.frames, period: Nanos(b.period_ns) }),
    }
}

/// The same in the words of a back end that paces by itself.
#[must_use]
pub fn pace(profile: &Profile) -> port::Pace {
    match profile {
        Profile::Max => port::Pace::Max,
        Profile::Bursts { frames, period } => port::Pace::Bursts { frames: *frames, period: *period },
        Profile::Linear(pieces) => port::Pace::Linear(
            pieces.iter().map(|p| port::plan::Piece { from_pps: p.from_pps, to_pps: p.to_pps, span: p.span }).collect(),
        ),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "places in a frame are below 9242")]
fn template(
    repr: &FrameRepr<'_>,
    stream: u16,
    size: FrameSize,
) -> Result<port::Template, dutlab_wire::frame::FrameError> {
    let mut bytes = vec![0; size.without_fcs()];
    let layout = repr.emit(&Probe { stream, sequence: 0, sent: Nanos::ZERO }, &mut bytes)?;
    Ok(port::Template {
        bytes,
        sequence_at: (layout.probe_at + probe::SEQUENCE_AT) as u16,
        time_at: (layout.probe_at + probe::TIME_AT) as u16,
        ip_checksum_at: layout.ip_checksum_at.map(|at| at as u16),
        checksum_at: layout.checksum_at as u16,
        zero_is_ffff: repr.transport == Transport::Udp,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "places in a frame are below 9242")]
fn lower_flows(f: &plan::Flows, s: &Stream, layout: &Layout) -> Result<port::FlowSet, String> {
    let ranges = [f.source_ports, f.destination_ports, f.source_addresses, f.destination_addresses];
    let flows = Flows::new(f.count, ranges, f.seed).map_err(|e| e.to_string())?;
    if u32::from(s.source_port) + f.source_ports > 1 << 16
        || u32::from(s.destination_port) + f.destination_ports > 1 << 16
    {
        return Err("the ports reach past 65535; begin lower".into());
    }
    let low = |a: IpAddr| match a {
        IpAddr::V4(a) => a.to_bits(),
        IpAddr::V6(a) => a.to_bits() as u32,
    };
    let (source, destination) = (low(s.source), low(s.destination));
    for (first, count) in [(source, f.source_addresses), (destination, f.destination_addresses)] {
        if first.checked_add(count - 1).is_none() {
            return Err("the addresses reach past the end of their range; begin lower".into());
        }
    }
    let address = |at: usize| port::Field {
        at: (at + if layout.v6 { 12 } else { 0 }) as u16,
        length: 4,
        in_checksum: layout.checksum_covers_addresses,
        in_ip_checksum: !layout.v6,
    };
    let number = |at: usize| port::Field { at: at as u16, length: 2, in_checksum: true, in_ip_checksum: false };
    let mut fields = vec![address(layout.source_at), address(layout.destination_at), number(layout.source_port_at)];
    fields.extend(layout.destination_port_at.map(number));
    let mut values = Vec::with_capacity(f.count as usize * fields.len());
    for i in 0..f.count {
        let flow = flows.flow(i);
        values.extend([source + flow.source, destination + flow.destination]);
        values.push(u32::from(s.source_port) + u32::from(flow.source_port));
        if layout.destination_port_at.is_some() {
            values.push(u32::from(s.destination_port) + u32::from(flow.destination_port));
        }
    }
    Ok(port::FlowSet { count: f.count, fields, values })
}

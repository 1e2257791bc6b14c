//! Conversion of the controller's plan to templates and paces. A plan is refused as a whole, with every fault and its
//! path.

mod chains;
mod flows;
mod rate;
mod raw;
mod replay;
mod sizes;
mod table;
mod vary;

pub use rate::pace;
pub use replay::Capture;
pub use table::tabled;

use crate::share::Share;
use dutlab_port as port;
use dutlab_port::iface::Interface;
use dutlab_port::speed;
use dutlab_protocol::plan::{self, ExtensionHeader, Rate, RawStream, SendPlan, Stream};
use dutlab_protocol::reply::{ArmedSize, ArmedStream};
use dutlab_traffic::{Chain, Profile, Sizes};
use dutlab_units::{FrameSize, Nanos};
use dutlab_wire::frame::{FrameRepr, Transport};
use dutlab_wire::{Extension, FourTuple, Layout, Mac, Probe, extension, probe, tcp, vlan};
use std::net::IpAddr;
use std::sync::Arc;

/// Difference between the initial sequence numbers of connection requests: odd, so that 2^32 of them differ, and large.
const BETWEEN_CONNECTIONS: u32 = 0x9e37_79b1;

/// A plan in the engine's form.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// Frames to send; its instants are filled in at the start.
    pub plan: port::SendPlan,
    /// Profiles, stream by stream.
    pub profiles: Vec<Profile>,
    /// Mean frame size of each stream, in bytes with FCS.
    pub means: Vec<f64>,
    /// The sizes of each stream, as different tools count them.
    pub sizes: Vec<Vec<ArmedSize>>,
    /// Link speed that each stream's rate refers to.
    pub links: Vec<Option<f64>>,
    /// Duration; `NEVER` if only frame counts end the streams.
    pub duration: Nanos,
    /// Streams that begin when others have ended.
    pub chains: Vec<Chain>,
    /// A capture, whose frames then are the only streams.
    pub replay: Option<Arc<Capture>>,
}

impl Lowered {
    /// Returns the description of each stream for the controller.
    #[must_use]
    pub fn armed(&self) -> Vec<ArmedStream> {
        let each = self.plan.streams.iter().zip(&self.profiles).enumerate();
        each.map(|(i, (s, profile))| {
            let chain = self.chains.iter().find(|c| c.has(i));
            let intended = match (self.duration, profile.asked(self.duration.since(s.after))) {
                (Nanos::NEVER, _) if chain.is_some() => chain.map(|c| s.frames.saturating_mul(c.rounds().into())),
                // Its start depends on the ends of other streams.
                _ if chain.is_some() => None,
                (Nanos::NEVER, _) | (_, None) => (s.frames < u64::MAX).then_some(s.frames),
                (_, Some(n)) => Some(n.min(s.frames)),
            };
            let intended = if *profile == Profile::Max && self.duration != Nanos::NEVER { None } else { intended };
            ArmedStream {
                stream: s.stream,
                mean_frame_bytes: self.means[i],
                frame_sizes: self.sizes[i].clone(),
                link_bps: self.links[i],
                intended,
            }
        })
        .collect()
    }
}

/// Rounds up to a whole number, with a margin below which a fraction is a rounding error of `f64`.
fn rounded_up(frames: f64) -> f64 {
    (frames - 1e-6).ceil().max(frames)
}

/// One stream of a plan.
struct One {
    stream: port::PlanStream,
    profile: Profile,
    link: Option<f64>,
    mean: f64,
    sizes: Vec<ArmedSize>,
}

impl Lowered {
    /// Returns the plan with only the streams of a share.
    #[must_use]
    pub fn share(&self, share: Share) -> Self {
        Self {
            plan: port::SendPlan { streams: share.pick(&self.plan.streams), ..self.plan },
            profiles: share.pick(&self.profiles),
            means: share.pick(&self.means),
            sizes: share.pick(&self.sizes),
            links: share.pick(&self.links),
            duration: self.duration,
            chains: self.chains.clone(),
            replay: self.replay.clone(),
        }
    }

    /// Shifts the starts of streams with constant rates within a gap, so that together they send the frames of the sum
    /// of their rates. If all began at once, each would round its share up.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "less than the gap of a stream, above 0"
    )]
    fn stagger(&mut self) {
        if !self.chains.is_empty() {
            return;
        }
        // Frames by the end of the plan, of the streams so far. This stream's first frame is due when the others leave
        // room for a whole one.
        let mut so_far = 0.0;
        for (stream, profile) in self.plan.streams.iter_mut().zip(&self.profiles) {
            let Some(pps) = profile.constant_pps().filter(|_| self.duration != Nanos::NEVER) else { continue };
            let missing = rounded_up(so_far) - so_far;
            if missing > 0.0 {
                stream.after = Nanos((missing / pps * 1e9).ceil() as u64 + 1);
            }
            so_far += pps * self.duration.seconds();
        }
    }

    fn push(&mut self, one: One) {
        self.plan.streams.push(one.stream);
        self.profiles.push(one.profile);
        self.links.push(one.link);
        self.means.push(one.mean);
        self.sizes.push(one.sizes);
    }
}

/// Checks and prepares a plan for `iface`; `learned` are the learned addresses of its port. The error contains every
/// fault, each with the path of its key.
pub fn lower(plan: &SendPlan, iface: &Interface, learned: &[FourTuple]) -> Result<Lowered, String> {
    let mut faults = Vec::new();
    let mut lowered = Lowered {
        plan: port::SendPlan {
            trial: plan.trial,
            streams: Vec::new(),
            start: Nanos::ZERO,
            end: Nanos::NEVER,
            through_link_loss: plan.through_link_loss,
        },
        profiles: Vec::new(),
        means: Vec::new(),
        sizes: Vec::new(),
        links: Vec::new(),
        chains: Vec::new(),
        duration: plan.duration_ns.map_or(Nanos::NEVER, Nanos),
        replay: None,
    };
    if let Some(replay) = &plan.replay {
        if !plan.streams.is_empty() || !plan.raw_streams.is_empty() || !plan.chains.is_empty() {
            return Err("send.replay: a capture is sent alone; leave `streams`, `raw_streams` and `chains` out".into());
        }
        let (streams, capture) = replay::lower(replay, iface).map_err(|e| format!("send.replay.{e}"))?;
        for one in streams {
            lowered.push(one);
        }
        lowered.replay = Some(Arc::new(capture));
        return Ok(lowered);
    }
    if plan.streams.is_empty() && plan.raw_streams.is_empty() {
        faults.push("send.streams: give at least one stream".to_owned());
    }
    let made = plan.streams.iter().enumerate();
    let made = made.map(|(i, s)| (format!("send.streams[{i}]"), s.stream, s.frames, lower_stream(s, iface, learned)));
    let raw = plan.raw_streams.iter().enumerate();
    let raw = raw.map(|(i, s)| (format!("send.raw_streams[{i}]"), s.stream, s.frames, lower_raw(s, iface)));
    let mut numbers = Vec::new();
    for (at, number, frames, one) in made.chain(raw) {
        if numbers.contains(&number) {
            faults.push(format!("{at}.stream: {number} is there already"));
        }
        numbers.push(number);
        if plan.duration_ns.is_none() && frames.is_none() {
            faults.push(format!("{at}.frames: nothing ends this stream; give `frames`, or `duration_ns` of the plan"));
        }
        match one {
            Ok(one) => lowered.push(one),
            Err(more) => faults.extend(more.into_iter().map(|f| format!("{at}.{f}"))),
        }
    }
    match chains::lower(plan, &numbers) {
        Ok(chains) => lowered.chains = chains,
        Err(more) => faults.extend(more),
    }
    if faults.is_empty() {
        lowered.stagger();
        Ok(lowered)
    } else {
        Err(faults.join("\n"))
    }
}

/// Returns the addresses that frames of `s` may go to: lowest and highest of each range. An error occurs only for a
/// plan that is refused for it.
pub fn destinations(s: &Stream) -> impl Iterator<Item = Result<(IpAddr, IpAddr), String>> {
    std::iter::once(flows::destinations(s)).chain(vary::destinations(s))
}

fn lower_raw(s: &RawStream, iface: &Interface) -> Result<One, Vec<String>> {
    let (templates, order, sizes, stated) = raw::lower(s, iface)?;
    let mean = sizes.mean();
    let (profile, link) = rate_of(&s.rate, mean, iface).map_err(|e| vec![e])?;
    let stream = port::PlanStream {
        stream: s.stream,
        templates,
        order,
        flows: None,
        counters: Vec::new(),
        varied: Vec::new(),
        pace: pace(&profile),
        after: Nanos::ZERO,
        frames: s.frames.unwrap_or(u64::MAX),
    };
    Ok(One { stream, profile, link, mean, sizes: stated })
}

/// Converts a rate for frames of `mean` bytes with FCS on `iface`; also returns the link's speed if the rate is a share
/// of it.
pub fn rate_of(rate: &Rate, mean: f64, iface: &Interface) -> Result<(Profile, Option<f64>), String> {
    rate::lower_on(rate, mean, &|| speed::of(&iface.name)).map_err(|e| format!("rate: {e}"))
}

fn lower_stream(s: &Stream, iface: &Interface, learned: &[FourTuple]) -> Result<One, Vec<String>> {
    let mut faults = Vec::new();
    let mut keep = |path: &str, what: String| faults.push(format!("{path}: {what}"));
    let sizes = sizes::lower(&s.sizes).map_err(|e| keep("sizes", e)).ok();
    let tags: Vec<_> = s.vlans.iter().enumerate().map(|(i, v)| lower_vlan(*v, i, s.vlans.len())).collect();
    if s.vlans.iter().any(|v| v.id > 4095 || v.priority > 7) || tags.len() > 2 {
        keep("vlans", "at most two tags, ids up to 4095, priorities up to 7".into());
    }
    let extensions: Vec<_> = s.extension_headers.iter().map(|e| lower_extension(*e)).collect();
    if extensions.len() > extension::MOST || extensions.iter().skip(1).any(|e| *e == Extension::HopByHop) {
        keep("extension_headers", format!("at most {} headers, hop_by_hop only as the first", extension::MOST));
    }
    let source_mac = s.source_mac.as_deref().map_or(Ok(Mac(iface.mac)), str::parse);
    let source_mac = source_mac.map_err(|e| keep("source_mac", e.to_string())).unwrap_or_default();
    let destination_mac =
        s.destination_mac.parse().map_err(|e: dutlab_wire::ethernet::BadMac| keep("destination_mac", e.to_string()));
    if s.answers && s.transport == plan::Transport::IcmpEcho {
        keep("answers", "echo requests are answered by hosts; take another transport".into());
    }
    let (near, far) = ((s.source, s.source_port), (s.destination, s.destination_port));
    let (from, to) = if s.answers { (far, near) } else { (near, far) };
    let repr = FrameRepr {
        source_mac,
        destination_mac: destination_mac.unwrap_or_default(),
        vlans: &tags,
        source: from.0,
        destination: to.0,
        transport: match s.transport {
            plan::Transport::Udp => Transport::Udp,
            plan::Transport::Tcp => Transport::Tcp(tcp::ACK),
            plan::Transport::TcpSyn => Transport::Tcp(tcp::SYN),
            plan::Transport::IcmpEcho => Transport::IcmpEcho,
        },
        source_port: from.1,
        destination_port: to.1,
        ttl: s.ttl,
        extensions: &extensions,
    };
    let mean = sizes.as_ref().map_or(64.0, Sizes::mean);
    let speed = || speed::of(&iface.name);
    let profile = rate::lower_on(&s.rate, mean, &speed).map_err(|e| keep("rate", e)).ok();
    let mut templates = Vec::new();
    #[expect(clippy::cast_possible_truncation, reason = "at most two tags")]
    let tag_count = tags.len() as u32;
    let longest = iface.mtu + FrameSize::IP_OVERHEAD + 4 * tag_count;
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
    let mut flows = match (&s.flows, repr.layout()) {
        (None, Ok(layout)) if s.learned => flows::answering(learned, s, &layout).map_err(|e| keep("learned", e)).ok(),
        (Some(_), _) if s.learned => {
            keep("learned", "addresses and ports are those that were learned; leave `flows` out".into());
            None
        }
        (Some(flows), Ok(layout)) => flows::lower(flows, s, &layout).map_err(|e| keep("flows", e)).ok(),
        _ => None,
    };
    let shortest = templates.iter().map(|t: &port::Template| t.bytes.len()).min();
    let varied = match (shortest, repr.layout()) {
        (Some(shortest), Ok(layout)) => vary::lower(s, &layout, shortest, &mut flows).unwrap_or_else(|more| {
            faults.extend(more);
            Vec::new()
        }),
        _ => Vec::new(),
    };
    match (faults.is_empty(), sizes, profile) {
        (true, Some(sizes), Some((profile, link))) => {
            let stream = port::PlanStream {
                stream: s.stream,
                counters: repr.layout().ok().and_then(|l| counter(s, &l, &sizes)).into_iter().collect(),
                templates,
                order: sizes.order().to_vec(),
                flows,
                varied,
                pace: pace(&profile),
                after: Nanos::ZERO,
                frames: s.frames.unwrap_or(u64::MAX),
            };
            Ok(One { stream, profile, link, mean, sizes: sizes::stated(&sizes, tag_count) })
        }
        _ => Err(faults),
    }
}

/// Returns the transport's own sequence number, if it has one.
#[expect(clippy::cast_possible_truncation, reason = "places and sizes in a frame are below 9242")]
fn counter(s: &Stream, layout: &Layout, sizes: &Sizes) -> Option<port::Counter> {
    let (at, length) = layout.number?;
    let longest = sizes.distinct().iter().map(|f| f.without_fcs()).max()?;
    let flows = s.flows.as_ref().map_or(1, |f| f.count);
    let (start, every, step) = match s.transport {
        plan::Transport::Udp => return None,
        // Sequence numbers count bytes (RFC 9293 section 3.4), flow by flow.
        plan::Transport::Tcp => (1, flows, (longest - layout.probe_at) as u32),
        plan::Transport::TcpSyn => (1, 1, BETWEEN_CONNECTIONS),
        plan::Transport::IcmpEcho => (0, flows, 1),
    };
    Some(port::Counter { at: at as u16, length, start, every, step, in_checksum: true })
}

const fn lower_extension(header: ExtensionHeader) -> Extension {
    match header {
        ExtensionHeader::HopByHop => Extension::HopByHop,
        ExtensionHeader::Routing => Extension::Routing,
        ExtensionHeader::Fragment => Extension::Fragment,
        ExtensionHeader::DestinationOptions => Extension::DestinationOptions,
    }
}

fn lower_vlan(v: plan::Vlan, place: usize, count: usize) -> vlan::Repr {
    let usual = if place + 1 < count { vlan::SERVICE } else { vlan::CUSTOMER };
    vlan::Repr { tpid: v.tpid.unwrap_or(usual), id: v.id, priority: v.priority }
}

#[expect(clippy::cast_possible_truncation, reason = "places in a frame are below 9242")]
fn template(
    repr: &FrameRepr<'_>,
    stream: u16,
    size: FrameSize,
) -> Result<port::Template, dutlab_wire::frame::FrameError> {
    let mut bytes = vec![0; size.without_fcs()];
    let layout = repr.emit(&Probe { stream, sequence: 0, trial: 0, sent: Nanos::ZERO }, &mut bytes)?;
    Ok(port::Template {
        bytes,
        sequence_at: (layout.probe_at + probe::SEQUENCE_AT) as u16,
        stamp_at: (layout.probe_at + probe::STAMP_AT) as u16,
        ip_checksum_at: layout.ip_checksum_at.map(|at| at as u16),
        checksum_at: layout.checksum_at as u16,
        zero_is_ffff: repr.transport == Transport::Udp,
    })
}

#[cfg(test)]
pub(crate) mod tests;

//! From the agent's plan to the sender's: streams to lanes, templates to shapes, paces to gaps.

use super::contract::MAX_LANES;
use super::error::Why;
use super::plan::{Flow, LanePlan, Pace, StreamPlan, XdpPlan};
use super::template::Template;
use crate::plan::{self, PlanStream, SendPlan};
use dutlab_traffic::{Piece, Profile};
use dutlab_units::Nanos;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Before the first frame of a profile that changes: a gap that is steered away before it ends.
const UNTIL_STEERED_NS: f64 = 5e11;

/// The plan as one sender takes it: a lane for each stream.
pub(super) fn offer(plan: &SendPlan) -> Result<XdpPlan, Why> {
    if plan.streams.len() > MAX_LANES {
        return Err(Why::Plan(format!("{} streams; the xdp back end paces at most {MAX_LANES}", plan.streams.len())));
    }
    Ok(XdpPlan {
        lanes: plan.streams.iter().map(lane).collect::<Result<_, _>>()?,
        start_ns: Some(plan.start.0),
        duration_ns: (plan.end != Nanos::NEVER).then(|| plan.end.since(plan.start).0),
        ..XdpPlan::default()
    })
}

fn lane(stream: &PlanStream) -> Result<LanePlan, Why> {
    if !stream.counters.is_empty() {
        return Err(Why::Plan("the xdp back end does not count a transport's own numbers (TCP, ICMP echo)".into()));
    }
    let templates = stream.templates.iter().map(|t| Template::new(t.bytes.clone())).collect::<Result<Vec<_>, _>>()?;
    if templates.iter().zip(&stream.templates).any(|(made, asked)| made.sequence_at() != usize::from(asked.sequence_at))
    {
        return Err(Why::Plan(
            "the xdp back end puts the probe right behind the headers, and this one stands elsewhere".into(),
        ));
    }
    let pace = match &stream.pace {
        plan::Pace::Max => Pace::Full,
        plan::Pace::Bursts { frames, period } => Pace::Bursts { frames: *frames, period_ns: period.0 as f64 },
        plan::Pace::Linear(pieces) => {
            Pace::Every { gap_ns: constant(pieces).map_or(UNTIL_STEERED_NS, |pps| (1e9 / pps).max(1.0)) }
        }
    };
    Ok(LanePlan {
        pace,
        frames: (stream.frames != u64::MAX).then_some(stream.frames),
        streams: vec![StreamPlan {
            id: stream.stream,
            flows: flows(stream, &templates)?,
            templates,
            order: stream.order.iter().map(|i| u32::from(*i)).collect(),
        }],
    })
}

/// The rate, if it never changes and is none at which the kernel could not tell the gaps.
pub(super) fn constant(pieces: &[plan::Piece]) -> Option<f64> {
    let pps = pieces.first()?.from_pps;
    let same = pieces.iter().all(|p| p.from_pps.to_bits() == pps.to_bits() && p.to_pps.to_bits() == pps.to_bits());
    (same && pps > 0.01).then_some(pps)
}

/// The profile of a pace.
pub(super) fn profile(pace: &plan::Pace) -> Profile {
    match pace {
        plan::Pace::Max => Profile::Max,
        plan::Pace::Bursts { frames, period } => Profile::Bursts { frames: *frames, period: *period },
        plan::Pace::Linear(pieces) => Profile::Linear(
            pieces.iter().map(|p| Piece { from_pps: p.from_pps, to_pps: p.to_pps, span: p.span }).collect(),
        ),
    }
}

/// Rows of numbers become addresses and ports. What the rows leave out is the template's.
fn flows(stream: &PlanStream, templates: &[Template]) -> Result<Vec<Flow>, Why> {
    let (Some(set), Some(template)) = (&stream.flows, templates.first()) else { return Ok(Vec::new()) };
    let places = template.flow_places();
    let columns = |at: usize| set.fields.iter().position(|f| usize::from(f.at) == at);
    let known = [places.source, places.destination, places.source_port, places.destination_port];
    if let Some(field) = set.fields.iter().find(|f| !known.contains(&usize::from(f.at))) {
        return Err(Why::Plan(format!("the xdp back end cannot change the field at byte {} of a frame", field.at)));
    }
    let [source, destination, source_port, destination_port] = known.map(columns);
    let own = template.own_flow();
    let port = |row: &[u32], column: Option<usize>, own: u16| {
        column.map_or(own, |c| u16::try_from(row[c] & 0xffff).unwrap_or(own))
    };
    let rows = set.values.chunks_exact(set.fields.len().max(1)).take(set.count as usize);
    Ok(rows
        .map(|row| {
            let low = |column: Option<usize>| column.map(|c| row[c]);
            match own {
                Flow::V4 { source: s, destination: d, source_port: sp, destination_port: dp } => Flow::V4 {
                    source: low(source).map_or(s, Ipv4Addr::from_bits),
                    destination: low(destination).map_or(d, Ipv4Addr::from_bits),
                    source_port: port(row, source_port, sp),
                    destination_port: port(row, destination_port, dp),
                },
                Flow::V6 { source: s, destination: d, source_port: sp, destination_port: dp } => Flow::V6 {
                    source: low(source).map_or(s, |n| with_low(s, n)),
                    destination: low(destination).map_or(d, |n| with_low(d, n)),
                    source_port: port(row, source_port, sp),
                    destination_port: port(row, destination_port, dp),
                },
            }
        })
        .collect())
}

fn with_low(address: Ipv6Addr, low: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & !u128::from(u32::MAX) | u128::from(low))
}

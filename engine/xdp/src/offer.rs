//! Translation of the agent's plan into the sender's: streams to lanes, templates to shapes, paces to gaps.

use crate::error::Why;
use crate::flow::Flow;
use crate::plan::{LanePlan, Pace, XdpPlan};
use crate::rows::deal;
use crate::template::Template;
use dutlab_port::plan::{self, PlanStream, SendPlan};
use dutlab_traffic::{Piece, Profile};
use dutlab_units::Nanos;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns the plan as one sender takes it: a lane for each stream, distributed over CPUs.
pub(crate) fn offer(plan: &SendPlan, cpus: &[u32]) -> Result<XdpPlan, Why> {
    Ok(XdpPlan {
        trial: plan.trial,
        lanes: plan.streams.iter().map(lane).collect::<Result<_, _>>()?,
        rows: deal(plan.streams.len(), cpus),
        start_ns: plan.start.0,
        duration_ns: (plan.end != Nanos::NEVER).then(|| plan.end.since(plan.start).0),
        through_link_loss: plan.through_link_loss,
    })
}

fn lane(stream: &PlanStream) -> Result<LanePlan, Why> {
    if !stream.counters.is_empty() {
        return Err(Why::Plan("the xdp back end does not count a transport's own numbers (TCP, ICMP echo)".into()));
    }
    if !stream.varied.is_empty() {
        return Err(Why::Plan(
            "the xdp back end varies addresses and ports by a table of flows, and nothing else".into(),
        ));
    }
    let templates = stream.templates.iter().map(|t| Template::new(t.bytes.clone())).collect::<Result<Vec<_>, _>>()?;
    if templates.iter().zip(&stream.templates).any(|(made, asked)| made.sequence_at() != usize::from(asked.sequence_at))
    {
        return Err(Why::Plan(
            "the xdp back end puts the probe right behind the headers, and this one is elsewhere".into(),
        ));
    }
    let pace = match &stream.pace {
        plan::Pace::Max => Pace::Full,
        plan::Pace::Bursts { frames, period } => Pace::Bursts { frames: *frames, period_ns: period.0 as f64 },
        plan::Pace::Linear(pieces) => {
            constant(pieces).map_or(Pace::Steered, |pps| Pace::Every { gap_ns: (1e9 / pps).max(1.0) })
        }
        plan::Pace::Spaced(_) => {
            return Err(Why::Plan("the xdp back end sends the frames of a burst at once, not at a rate".into()));
        }
    };
    Ok(LanePlan {
        pace,
        after_ns: stream.after.0,
        frames: (stream.frames != u64::MAX).then_some(stream.frames),
        id: stream.stream,
        flows: flows(stream, &templates)?,
        templates,
        order: stream.order.iter().map(|i| u32::from(*i)).collect(),
    })
}

/// Returns the rate, if it never changes and the kernel can represent its gaps.
pub(crate) fn constant(pieces: &[plan::Piece]) -> Option<f64> {
    let pps = pieces.first()?.from_pps;
    let same = pieces.iter().all(|p| p.from_pps.to_bits() == pps.to_bits() && p.to_pps.to_bits() == pps.to_bits());
    (same && pps > 0.01).then_some(pps)
}

/// Returns the profile of a pace.
pub(crate) fn profile(pace: &plan::Pace) -> Profile {
    match pace {
        plan::Pace::Max => Profile::Max,
        plan::Pace::Bursts { frames, period } => Profile::Bursts { frames: *frames, period: *period },
        plan::Pace::Spaced(bursts) => Profile::Spaced(*bursts),
        plan::Pace::Linear(pieces) => Profile::Linear(
            pieces.iter().map(|p| Piece { from_pps: p.from_pps, to_pps: p.to_pps, span: p.span }).collect(),
        ),
    }
}

/// Converts rows of numbers to addresses and ports. Fields that the rows omit come from the template.
fn flows(stream: &PlanStream, templates: &[Template]) -> Result<Vec<Flow>, Why> {
    let (Some(set), Some(template)) = (&stream.flows, templates.first()) else { return Ok(Vec::new()) };
    let places = template.flow_places();
    let column = |at: usize| set.fields.iter().position(|f| usize::from(f.at) == at);
    let [source_port, destination_port] = [places.source_port, places.destination_port].map(column);
    let words = if template.ip_version() == 6 { 4 } else { 1 };
    let address = |lowest: usize| [0, 1, 2, 3].map(|word| (word < words).then(|| column(lowest - 4 * word)).flatten());
    let (source, destination) = (address(places.source), address(places.destination));
    let known: Vec<_> = source.iter().chain(&destination).chain([&source_port, &destination_port]).flatten().collect();
    if let Some((_, field)) = set.fields.iter().enumerate().find(|(i, _)| !known.contains(&i)) {
        return Err(Why::Plan(format!("the xdp back end cannot change the field at byte {} of a frame", field.at)));
    }
    let own = template.own_flow();
    let port = |row: &[u32], column: Option<usize>, own: u16| {
        column.map_or(own, |c| u16::try_from(row[c] & 0xffff).unwrap_or(own))
    };
    let rows = set.values.chunks_exact(set.fields.len().max(1)).take(set.count as usize);
    Ok(rows
        .map(|row| match own {
            Flow::V4 { source: s, destination: d, source_port: sp, destination_port: dp } => Flow::V4 {
                source: source[0].map_or(s, |c| Ipv4Addr::from_bits(row[c])),
                destination: destination[0].map_or(d, |c| Ipv4Addr::from_bits(row[c])),
                source_port: port(row, source_port, sp),
                destination_port: port(row, destination_port, dp),
            },
            Flow::V6 { source: s, destination: d, source_port: sp, destination_port: dp } => Flow::V6 {
                source: with_words(s, row, source),
                destination: with_words(d, row, destination),
                source_port: port(row, source_port, sp),
                destination_port: port(row, destination_port, dp),
            },
        })
        .collect())
}

/// Returns the address with the words in `columns` of the row, the lowest first.
fn with_words(address: Ipv6Addr, row: &[u32], columns: [Option<usize>; 4]) -> Ipv6Addr {
    let words = columns.into_iter().zip([0, 32, 64, 96]).filter_map(|(column, shift)| Some((row[column?], shift)));
    Ipv6Addr::from_bits(words.fold(address.to_bits(), |bits, (word, shift)| {
        bits & !(u128::from(u32::MAX) << shift) | u128::from(word) << shift
    }))
}

//! Setup of the program from the plan: its tables, its constants, its initial state.

use crate::contract::{self, Control, Flow4, Flow6, GAP_STEPS_LOG2, PAYLOAD_MAX, PLAIN_LEN, SENT_LOG, Shape, Stream};
use crate::error::{Why, XdpError};
use crate::flow::{Flow, flow4, flow6, ports_bytes};
use crate::plan::{Pace, XdpPlan};
use crate::rows::Row;
use crate::shared::{SharedArray, Words};
use crate::{objects, system};
use aya::maps::Array;
use aya::programs::BtfTracePoint;
use aya::{Ebpf, EbpfLoader};

/// Batch size at full speed. Straight into a sink 32 is as fast as 64, and 16 is 7 % slower; through a router 32 is no
/// slower than 16 or 64.
const BATCH_FULL: u32 = 32;
/// Size of the bulks in which the kernel hands frames to the driver (`DEV_MAP_BULK_SIZE`).
const BULK: u32 = 16;

/// The tables that the program reads, made from the plan.
pub(crate) struct Tables {
    pub(crate) shapes: Vec<Shape>,
    pub(crate) orders: Vec<u32>,
    /// Streams of the plan, on any CPU.
    pub(crate) streams: Vec<Stream>,
    pub(crate) flows4: Vec<Flow4>,
    pub(crate) flows6: Vec<Flow6>,
}

pub(crate) fn tables(plan: &XdpPlan) -> Tables {
    let mut t = Tables { shapes: vec![], orders: vec![], streams: vec![], flows4: vec![], flows6: vec![] };
    for stream in &plan.lanes {
        let first_shape = small(t.shapes.len());
        let has_flows = !stream.flows.is_empty();
        t.shapes.extend(stream.templates.iter().map(|f| f.shape(has_flows)));
        let order_first = small(t.orders.len());
        if stream.order.is_empty() {
            t.orders.extend((0..small(stream.templates.len())).map(|i| first_shape + i));
        } else {
            t.orders.extend(stream.order.iter().map(|i| first_shape + i));
        }
        let v6 = stream.templates[0].ip_version() == 6;
        let flow_first = small(if v6 { t.flows6.len() } else { t.flows4.len() });
        let pseudo = stream.templates[0].has_pseudo_header();
        for flow in &stream.flows {
            match *flow {
                Flow::V4 { source, destination, source_port, destination_port } => {
                    t.flows4.push(flow4(source, destination, ports_bytes(source_port, destination_port), pseudo));
                }
                Flow::V6 { source, destination, source_port, destination_port } => {
                    t.flows6.push(flow6(source, destination, ports_bytes(source_port, destination_port)));
                }
            }
        }
        t.streams.push(Stream {
            id: u32::from(stream.id),
            order_first,
            orders: small(t.orders.len()) - order_first,
            flow_first,
            flows: small(stream.flows.len()),
            counter: small(t.streams.len()),
            ..Stream::default()
        });
    }
    t
}

/// Settings that are not in the plan.
pub(crate) struct Facts {
    pub(crate) ifindex: u32,
    /// Record the stream of each frame, for the place of a refusal.
    pub(crate) log: bool,
    /// Rewrite the payload of each frame.
    pub(crate) rewrite: bool,
    /// Cut each frame from a longer page: see [`system::Interface::keeps_what_drivers_wrote`].
    pub(crate) cut_each: bool,
    /// Initial length of each page's frame.
    pub(crate) data_len: u32,
}

/// Converts a number of entries. Tables are far below 2^32 of them.
pub(crate) fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Constants of the program; the loader keeps references to them until it loads.
struct Constants {
    words: Vec<(&'static str, u32)>,
    flags: Vec<(&'static str, u8)>,
    trial: u64,
}

fn constants(plan: &XdpPlan, t: &Tables, facts: &Facts, netns: u32) -> Constants {
    let &Facts { ifindex, log, rewrite, cut_each, data_len } = facts;
    let head_len = plan.copied_head();
    let same =
        |of: fn(&Shape) -> u8| if t.shapes.iter().all(|s| of(s) == of(&t.shapes[0])) { of(&t.shapes[0]) } else { 0 };
    let paced = is_paced(plan);
    Constants {
        words: vec![
            ("egress_ifindex", ifindex),
            ("egress_netns", netns),
            ("batch", batch(plan)),
            ("lane_count", small(plan.width())),
            ("head_len", small(head_len)),
            ("data_len", data_len),
        ],
        flags: vec![
            ("paced", u8::from(paced)),
            ("fixed_probe_at", same(|s| s.probe_at)),
            ("fixed_sum_at", same(|s| s.sum_at)),
            ("keep_log", u8::from(log)),
            ("rewrite_payload", u8::from(rewrite && data_len as usize > head_len)),
            ("cut_each", u8::from(cut_each)),
            ("several", u8::from(plan.rows.len() > 1)),
            ("split", u8::from(plan.is_split())),
        ],
        trial: u64::from(plan.trial),
    }
}

/// Returns true if any lane has a pace: then frames for which the device has no room are offered again.
pub(crate) fn is_paced(plan: &XdpPlan) -> bool {
    plan.lanes.iter().any(|l| l.pace != Pace::Full)
}

/// Returns the program with the fewest features that supports the plan.
pub(crate) fn program_for(plan: &XdpPlan, t: &Tables) -> &'static str {
    let bursts = plan.lanes.iter().any(|l| matches!(l.pace, Pace::Bursts { .. }));
    let one_shape =
        plan.lanes.iter().all(|l| l.templates.len() == 1) && t.shapes.iter().all(|s| s.length == t.shapes[0].length);
    let is_plain = t.flows4.is_empty()
        && t.flows6.is_empty()
        && plan.copied_head() == PLAIN_LEN
        && t.shapes.iter().all(Shape::is_plain);
    if plan.width() > 1 || !one_shape || bursts || usize::from(t.shapes[0].length) < plan.copied_head() {
        "send_any"
    } else if is_paced(plan) {
        if is_plain { "send_plain_paced" } else { "send_paced" }
    } else if is_plain {
        "send_plain"
    } else {
        "send_flows"
    }
}

pub(crate) fn batch(plan: &XdpPlan) -> u32 {
    // A paced batch is one bulk at most: see `note_refused`.
    if is_paced(plan) { BULK } else { BATCH_FULL }
}

pub(crate) fn load(iface: &str, plan: &XdpPlan, t: &Tables, facts: &Facts) -> Result<Ebpf, XdpError> {
    let netns = system::netns_inode().map_err(|e| XdpError::system(iface, "stat of /proc/thread-self/ns/net", e))?;
    let pidns = system::pidns().map_err(|e| XdpError::system(iface, "stat of /proc/self/ns/pid", e))?;
    let c = constants(plan, t, facts, netns);
    let mut loader = EbpfLoader::new();
    loader.btf(system::kernel_types());
    for (name, value) in &c.words {
        loader.override_global(name, value, true);
    }
    for (name, value) in &c.flags {
        loader.override_global(name, value, true);
    }
    loader.override_global("trial", &c.trial, true);
    loader.override_global("pidns_device", &pidns.0, true);
    loader.override_global("pidns_inode", &pidns.1, true);
    let (rows, cells) = (plan.rows.len(), plan.rows.len() * plan.width());
    for (name, len) in [
        ("rows", if rows > 1 { system::possible_cpus()? } else { 1 }),
        ("control", rows),
        ("refusals", rows),
        ("sent_log", rows * SENT_LOG),
        ("numbers", plan.lanes.len()),
        ("orders", t.orders.len()),
        ("shapes", t.shapes.len()),
        ("flows4", t.flows4.len()),
        ("flows6", t.flows6.len()),
        ("gaps", cells * contract::buckets(GAP_STEPS_LOG2)),
    ] {
        loader.map_max_entries(name, small(len.max(1)));
    }
    loader.load(objects::SENDER).map_err(|e| XdpError::load(iface, "bpf(BPF_MAP_CREATE)", &e))
}

/// Attaches the observers of refusals. Without them (no kernel BTF) refusals are unknown, which the report states.
pub(crate) fn observe(bpf: &mut Ebpf) -> bool {
    let Some(btf) = system::kernel_types() else { return false };
    [("note_refused", "xdp_devmap_xmit"), ("note_unreached", "xdp_redirect_err")].into_iter().all(|(program, event)| {
        let Some(Ok(program)) = bpf.program_mut(program).map(<&mut BtfTracePoint>::try_from) else { return false };
        program.load(event, btf).is_ok() && program.attach().is_ok()
    })
}

/// Returns the end of sending.
pub(crate) fn end_of(plan: &XdpPlan, start_ns: u64) -> u64 {
    plan.duration_ns.map_or(u64::MAX, |d| start_ns.saturating_add(d))
}

/// Returns the initial state of the program on one CPU. Its shape is used only where its one lane has only that.
pub(crate) fn control_of(plan: &XdpPlan, t: &Tables, row: &Row, start_ns: u64) -> Result<Control, Why> {
    let mut c = Control { end_ns: end_of(plan, start_ns), ..Control::default() };
    for (lane, part) in c.lanes.iter_mut().zip(&row.parts) {
        let p = &plan.lanes[part.stream];
        lane.stream = t.streams[part.stream];
        c.shape = t.shapes[t.orders[lane.stream.order_first as usize] as usize];
        let (gap_q24, burst) = p.pace.slowed(part.of).gap_and_burst()?;
        // The first frame is due at the start, plus as many gaps of the stream as its place: one gap of this part after
        // a virtual previous frame.
        let place =
            if p.pace == Pace::Steered { 0 } else { u128::from(p.pace.gap_and_burst()?.0) * u128::from(part.nth) };
        let first = (u128::from(start_ns + p.after_ns) << 24) + place;
        let before = first.saturating_sub(u128::from(gap_q24));
        lane.gap_q24 = gap_q24;
        lane.at.last_ns = u64::try_from(before >> 24).unwrap_or(u64::MAX);
        lane.at.last_frac = u32::try_from(before & 0xff_ffff).unwrap_or(0);
        lane.burst = burst;
        lane.frames_left = p.frames.map_or(u64::MAX, |n| part.share(n, p.pace.burst()));
    }
    Ok(c)
}

pub(crate) fn fill<T: Words>(bpf: &Ebpf, name: &'static str, values: &[T]) -> Result<(), XdpError> {
    let map = SharedArray::<T>::map(bpf, name, values.len().max(1))?;
    for (i, v) in values.iter().enumerate() {
        map.set(i, *v);
    }
    Ok(())
}

pub(crate) fn fill_payload(bpf: &mut Ebpf, payload: &[u8]) -> Result<(), XdpError> {
    let mut value = [0_u8; PAYLOAD_MAX];
    value[..payload.len()].copy_from_slice(payload);
    let failed = |e: aya::maps::MapError| XdpError::load("", "bpf(BPF_MAP_UPDATE_ELEM)", &e);
    let Some(map) = bpf.map_mut("payloads") else {
        return Err(XdpError::new("", "map", Why::Other("the object has no map payloads".into())));
    };
    Array::<_, [u8; PAYLOAD_MAX]>::try_from(map).map_err(failed)?.set(0, value, 0).map_err(failed)
}

const _: () = assert!(SENT_LOG.is_power_of_two());

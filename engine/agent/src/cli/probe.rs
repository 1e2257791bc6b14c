//! `dutlab-engine probe`.

use super::args;
use super::drive::{Clocks, Drive, Why};
use super::exit::{Exit, Refused};
use super::quantity::si;
use super::rate::Asked;
use super::{print, send, table::table, traffic, words};
use crate::ports;
use dutlab_protocol::reply::Probed;
use dutlab_protocol::request::Backend;
use serde::Serialize;
use serde_json::json;
use std::net::IpAddr;

/// Speed of one back end: frames that the driver took while the engine sent as fast as possible.
#[derive(Serialize)]
struct Speed {
    backend: Backend,
    offered_pps: f64,
    offered_bps_l2: f64,
    refused_frames: u64,
}

/// Prints the abilities of each back end on a port; with `--measure` also its speed.
pub fn run(a: &args::Probe) -> Result<Exit, Refused> {
    let probed = ports::probe(&a.iface)?;
    let usable = probed.backends.iter().any(|b| b.can_send && b.max_frame_bytes.is_some());
    let (speeds, why) = match a.measured.to {
        Some(to) if usable => measure(a, to, &probed).map(|(speeds, why)| (Some(speeds), why))?,
        _ => (None, Why::Sent),
    };
    let fastest = speeds.iter().flatten().max_by(|a, b| a.offered_pps.total_cmp(&b.offered_pps)).map(|s| s.backend);
    let verdict = match (usable, why) {
        (false, _) => "failed",
        (true, Why::Interrupted) => "interrupted",
        (true, _) => "done",
    };
    let mut report = json!({"command": "probe", "verdict": verdict, "probed": probed});
    if let Some(speeds) = &speeds {
        report["measured"] = json!({"speeds": speeds, "fastest": fastest});
    }
    print(&a.output, &report, || {
        in_words(&probed) + &speeds.as_deref().map_or_else(String::new, |of| speeds_in_words(of, fastest))
    });
    Ok(match (usable, why) {
        (false, _) => Exit::Unusable,
        (true, Why::Interrupted) => Exit::Interrupted,
        (true, _) => Exit::Done,
    })
}

/// Sends by each back end that can send on the port, one after the other.
fn measure(a: &args::Probe, to: IpAddr, probed: &Probed) -> Result<(Vec<Speed>, Why), Refused> {
    let m = &a.measured;
    let sent = args::Traffic {
        mac: m.mac,
        size: m.size.clone(),
        rate: Some(Asked::Max),
        duration: Some(m.duration),
        ..args::Traffic::default()
    };
    let mut drive = Drive::new(&a.output, &args::Events { events: None }, Clocks::Unknown)?;
    let mut speeds = Vec::new();
    for backend in probed.backends.iter().filter(|b| b.can_send && b.max_frame_bytes.is_some()).map(|b| b.backend) {
        let port = args::Port { isolated: m.isolated, allow: m.allow.clone(), backend, cpu: m.cpu.clone() };
        let (open, opened) = ports::open(&traffic::open("source", &a.iface, &port, backend, &m.cpu))?;
        let (plan, _) = traffic::plan(&sent, &opened, to, None)?;
        let (sent, why) = send::send(open, &plan, &mut drive)?;
        if why == Why::Interrupted {
            return Ok((speeds, why));
        }
        speeds.push(Speed {
            backend,
            offered_pps: sent.streams.iter().map(|s| s.achieved_pps).sum(),
            offered_bps_l2: sent.streams.iter().map(|s| s.achieved_bps_l2).sum(),
            refused_frames: sent.streams.iter().map(|s| s.refused).sum(),
        });
    }
    Ok((speeds, Why::Sent))
}

fn in_words(probed: &Probed) -> String {
    let yes = |can: bool| if can { "yes" } else { "no" }.to_owned();
    let rows: Vec<_> = probed
        .backends
        .iter()
        .map(|b| {
            let longest = b.max_frame_bytes.map_or_else(|| "–".into(), |n| n.to_string());
            vec![words::backend(b.backend), yes(b.can_send), yes(b.can_receive), longest]
        })
        .collect();
    let mut text = format!("{}\n{}", probed.iface, table(&["back end", "sends", "receives", "longest frame"], &rows));
    for b in &probed.backends {
        if let Some(reason) = &b.reason {
            text.extend([words::backend(b.backend).as_str(), ": ", reason, "\n"]);
        }
        if let Some(remedy) = &b.remedy {
            text.extend(["  remedy: ", remedy, "\n"]);
        }
    }
    text + &words::times(probed)
}

fn speeds_in_words(speeds: &[Speed], fastest: Option<Backend>) -> String {
    let rows: Vec<_> = speeds
        .iter()
        .map(|s| {
            let rates = [si(s.offered_pps, "pps"), si(s.offered_bps_l2, "bit/s"), s.refused_frames.to_string()];
            [words::backend(s.backend)].into_iter().chain(rates).collect()
        })
        .collect();
    let end = fastest.map_or_else(String::new, |b| format!("fastest: --backend {}\n", words::backend(b)));
    table(&["back end", "offered", "frames (L2)", "refused"], &rows) + &end
}

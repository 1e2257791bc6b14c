//! From the controller's words to a capture in memory.

use super::One;
use dutlab_port as port;
use dutlab_port::iface::Interface;
use dutlab_port::pcap::{Replay, Timing};
use dutlab_protocol::plan;
use dutlab_traffic::Profile;
use dutlab_units::FCS;

/// Ethernet header and a tag, which the MTU does not count.
const AROUND_MTU: usize = 14 + 4;

/// Reads and checks the capture. The error begins with the key that is at fault.
pub fn lower(r: &plan::Replay, iface: &Interface) -> Result<(One, Replay), String> {
    let timing = match r.timing {
        plan::ReplayTiming::Speed(speed) if speed > 0.0 && speed.is_finite() => Timing::Speed(speed),
        plan::ReplayTiming::Speed(speed) => return Err(format!("timing.speed: {speed}: must be above 0")),
        plan::ReplayTiming::Max(true) => Timing::Max,
        plan::ReplayTiming::Max(false) => return Err("timing.max: is true or absent".into()),
    };
    if r.rounds == 0 {
        return Err("rounds: at least 1".into());
    }
    let replay = Replay::load(&r.path, timing, r.rounds).map_err(|e| format!("path: {e}"))?;
    let most = iface.mtu as usize + AROUND_MTU;
    if replay.longest() > most {
        return Err(format!(
            "path: {}: a frame of {} bytes without FCS, and {} takes {most}; raise its MTU, or capture shorter frames",
            r.path,
            replay.longest(),
            iface.name,
        ));
    }
    let stream = port::PlanStream {
        stream: r.stream,
        templates: Vec::new(),
        order: Vec::new(),
        flows: None,
        counters: Vec::new(),
        pace: port::Pace::Max,
        frames: replay.count(),
    };
    let mean = replay.mean() + f64::from(FCS);
    Ok((One { stream, profile: Profile::Max, link: None, mean, sizes: Vec::new() }, replay))
}

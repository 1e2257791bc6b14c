//! How fast this CPU makes frames: the engine's own sending path, from the schedule to the last checksum, into the back
//! end that needs no device.

use crate::live::Live;
use crate::write::Writer;
use crate::{lower, ports, send};
use dutlab_port::clock;
use dutlab_protocol::Fault;
use dutlab_protocol::plan::SendPlan;
use dutlab_protocol::request::{Backend, Open};
use dutlab_units::Nanos;
use std::sync::Arc;
use std::sync::mpsc;

/// What one run showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Frames made.
    pub frames: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// Frames a second of wall clock.
    pub pps: f64,
    /// Frames a second of CPU time: what a core does that nobody else wants meanwhile. On an idle machine the same.
    pub pps_of_cpu: f64,
}

/// Makes frames of `frame_bytes` (with FCS), each with its sequence number, send time, checksums and, if `flows` is above
/// 1, its own flow, for as long as `duration` and as fast as possible, on one core: `cpu`, or whichever is free.
#[allow(dead_code, reason = "for the bench command, and for the test below")]
pub fn memory_bench(duration: Nanos, frame_bytes: u32, flows: u32, cpu: Option<u32>) -> Result<Speed, Fault> {
    let open = Open {
        port: "memory".into(),
        iface: String::new(),
        backend: Backend::Memory,
        cpu,
        receive_cpu: None,
        guard: dutlab_protocol::request::Guard::default(),
    };
    let (port, _) = ports::open(&open)?;
    let plan = lower::lower(&plan(duration, frame_bytes, flows), &port.iface)
        .map_err(|what| crate::report::fault(dutlab_protocol::ErrorKind::BadPlan, what, None))?;
    let Some(sender) = port.sender else {
        return Err(crate::report::fault(dutlab_protocol::ErrorKind::WrongState, "the port has no sending half", None));
    };
    // A thread of its own, for it is pinned.
    let run = std::thread::spawn(move || {
        // Laying the flows out is not part of sending: it is done once beforehand, to know its time.
        let (begun, begun_cpu) = (clock::monotonic(), clock::thread_cpu());
        drop(plan.plan.streams.iter().map(Writer::new).collect::<Vec<_>>());
        let (setup, setup_cpu) = (clock::monotonic() - begun, clock::thread_cpu() - begun_cpu);
        let mut plan = plan;
        plan.plan.start = clock::monotonic() + setup + setup + Nanos(1_000_000);
        plan.plan.end = plan.plan.start + duration;
        let (_keep, changes) = mpsc::channel();
        let before = clock::thread_cpu();
        let live = Arc::new(Live::default());
        let done = send::run(sender, send::Job { plan, cpu, stop: Arc::default(), changes, live });
        (done.totals, (clock::thread_cpu() - before).since(setup_cpu))
    });
    let (totals, busy) = run.join().unwrap_or_default();
    let frames: u64 = totals.iter().map(|t| t.sent).sum();
    let seconds = totals.first().map_or(0.0, |t| t.last.since(t.first).seconds());
    let per = |s: f64| if s > 0.0 { frames as f64 / s } else { 0.0 };
    Ok(Speed { frames, seconds, pps: per(seconds), pps_of_cpu: per(busy.seconds()) })
}

fn plan(duration: Nanos, frame_bytes: u32, flows: u32) -> SendPlan {
    let flows = (flows > 1).then(|| {
        serde_json::json!({
            "count": flows, "source_ports": 16_384.min(flows), "destination_ports": 16_384.min(flows),
            "source_addresses": 250, "destination_addresses": 250, "seed": 1,
        })
    });
    let mut stream = serde_json::json!({
        "stream": 1, "destination_mac": "02:00:00:00:00:01", "source": "172.16.0.2", "destination": "172.16.10.2",
        "source_port": 40_000, "destination_port": 5001, "sizes": {"fixed_bytes": frame_bytes}, "rate": {"max": true},
    });
    if let Some(flows) = flows {
        stream["flows"] = flows;
    }
    let plan = serde_json::json!({"duration_ns": duration.0, "streams": [stream]});
    serde_json::from_value(plan).expect("a plan of our own making")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_with_flows_and_checksums_are_made_as_fast_as_the_cpu_can() {
        for flows in [1, 1000, 1_000_000] {
            let speed = memory_bench(Nanos(100_000_000), 64, flows, None).unwrap();
            eprintln!("{flows} flows: {:.1} million frames a second of CPU time", speed.pps_of_cpu / 1e6);
            // A debug build reaches this too; the bench states the true figure.
            assert!(speed.pps_of_cpu > 1e5, "{speed:?}");
        }
    }
}

//! `dutlab-engine probe`.

use super::args;
use super::exit::{Exit, Refused};
use super::{print, table::table, words};
use crate::ports;
use serde_json::json;

/// Prints the abilities of each back end on a port.
pub fn run(a: &args::Probe) -> Result<Exit, Refused> {
    let probed = ports::probe(&a.iface)?;
    let usable = probed.backends.iter().any(|b| b.can_send && b.max_frame_bytes.is_some());
    let report = json!({"command": "probe", "verdict": if usable { "done" } else { "failed" }, "probed": probed});
    print(&a.output, &report, || {
        let yes = |can: bool| if can { "yes" } else { "no" }.to_owned();
        let rows: Vec<_> = probed
            .backends
            .iter()
            .map(|b| {
                let longest = b.max_frame_bytes.map_or_else(|| "–".into(), |n| n.to_string());
                vec![words::backend(b.backend), yes(b.can_send), yes(b.can_receive), longest]
            })
            .collect();
        let mut text =
            format!("{}\n{}", probed.iface, table(&["back end", "sends", "receives", "longest frame"], &rows));
        for b in &probed.backends {
            if let Some(reason) = &b.reason {
                text.extend([words::backend(b.backend).as_str(), ": ", reason, "\n"]);
            }
            if let Some(remedy) = &b.remedy {
                text.extend(["  remedy: ", remedy, "\n"]);
            }
        }
        text + &words::times(&probed)
    });
    Ok(if usable { Exit::Done } else { Exit::Unusable })
}

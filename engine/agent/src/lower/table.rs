//! Varying fields as a table of flows, for a back end that makes the frames itself.

use super::flows::MOST;
use dutlab_port::{Field, FlowSet, PlanStream, SendPlan};
use std::borrow::Cow;

/// Returns the plan with tables of flows in place of rules. The error explains why there is no such table.
pub fn tabled(plan: &SendPlan) -> Result<Cow<'_, SendPlan>, String> {
    if plan.streams.iter().all(|s| s.varied.is_empty()) {
        return Ok(Cow::Borrowed(plan));
    }
    let mut plan = plan.clone();
    for stream in &mut plan.streams {
        let of = stream.stream;
        *stream = with_table(stream).map_err(|e| format!("stream {of}: {e}"))?;
    }
    Ok(Cow::Owned(plan))
}

fn with_table(s: &PlanStream) -> Result<PlanStream, String> {
    let before = s.flows.as_ref().filter(|f| !f.fields.is_empty());
    let (mut fields, mut period) = before.map_or((Vec::new(), 1), |f| (f.fields.clone(), u64::from(f.count)));
    for v in &s.varied {
        let whole = v.mask.count_ones() == 8 * u32::from(v.length) && matches!(v.length, 2 | 4 | 16);
        if !whole {
            return Err(format!("its back end varies addresses and ports only, not the field at byte {}", v.at));
        }
        let own = v.values.period().ok_or("its back end varies fields by a table, and random values never end")?;
        period = least_common_multiple(period, own).filter(|n| *n <= u64::from(MOST)).ok_or_else(|| {
            format!("its back end varies fields by a table of {MOST} frames at most, and these begin again later")
        })?;
        let field = |at, length| Field {
            at,
            length,
            in_checksum: v.in_checksum & v.mask != 0,
            in_ip_checksum: v.in_ip_checksum & v.mask != 0,
        };
        match v.length {
            16 => fields.extend((0..4).map(|word| field(v.at + 4 * word, 4))),
            length => fields.push(field(v.at, length)),
        }
    }
    let mut values = Vec::new();
    for n in 0..period {
        if let Some(f) = before {
            #[expect(clippy::cast_possible_truncation, reason = "a remainder of 32 bits")]
            let row = (n % u64::from(f.count)) as usize * f.fields.len();
            values.extend_from_slice(&f.values[row..row + f.fields.len()]);
        }
        #[expect(clippy::cast_possible_truncation, reason = "one word is meant")]
        for v in &s.varied {
            let number = v.bits(n);
            let words = if v.length == 16 { [96, 64, 32, 0].as_slice() } else { &[0] };
            values.extend(words.iter().map(|shift| (number >> shift) as u32));
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most MOST")]
    let flows = FlowSet { count: period as u32, fields, values };
    Ok(PlanStream { flows: Some(flows), varied: Vec::new(), ..s.clone() })
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

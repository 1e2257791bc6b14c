//! Frame sizes, from the controller's plan.

use dutlab_protocol::plan;
use dutlab_protocol::reply::ArmedSize;
use dutlab_traffic::{NamedMix, Sizes, genome};
use dutlab_units::FrameSize;

/// Returns the sizes in their order.
pub fn lower(sizes: &plan::Sizes) -> Result<Sizes, String> {
    match sizes {
        plan::Sizes::FixedBytes(n) => Ok(Sizes::fixed(one(*n)?)),
        plan::Sizes::SequenceBytes(all) => {
            let all: Vec<_> = all.iter().map(|n| one(*n)).collect::<Result<_, _>>()?;
            Sizes::sequence(&all).map_err(|e| e.to_string())
        }
        plan::Sizes::SweptBytes(s) => Sizes::swept(one(s.from)?, one(s.to)?, s.step).map_err(|e| e.to_string()),
        plan::Sizes::Weighted(parts) => {
            let parts: Vec<_> = parts.iter().map(|p| Ok((one(p.bytes)?, p.weight))).collect::<Result<_, String>>()?;
            Sizes::weighted(&parts).map_err(|e| e.to_string())
        }
        plan::Sizes::Mix(name) => {
            let mix = NamedMix::find(name).map_err(|e| e.to_string())?;
            Sizes::weighted(&mix.frames()).map_err(|e| e.to_string())
        }
        plan::Sizes::Genome(g) => {
            let all = genome::read(&g.letters, &g.table).map_err(|e| format!("genome: {e}"))?;
            Sizes::sequence(&all).map_err(|e| e.to_string())
        }
    }
}

fn one(bytes: u32) -> Result<FrameSize, String> {
    FrameSize::new(bytes).map_err(|e| e.to_string())
}

/// Returns each size as different tools count it, behind `tags` VLAN tags.
pub fn stated(sizes: &Sizes, tags: u32) -> Vec<ArmedSize> {
    let state = |(size, count): (FrameSize, u64)| ArmedSize {
        with_fcs_bytes: size.with_fcs(),
        without_fcs_bytes: size.with_fcs() - u32::from(dutlab_units::FCS),
        ip_bytes: Some(size.ip_length(tags)),
        count,
    };
    sizes.counts().into_iter().map(state).collect()
}

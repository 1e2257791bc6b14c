//! Chains of streams, from the controller's plan.

use dutlab_protocol::plan::SendPlan;
use dutlab_traffic::{Chain, Step};
use dutlab_units::Nanos;

/// Returns the chains of a plan whose streams have these numbers, in this order. The error contains every fault with
/// its path.
pub fn lower(plan: &SendPlan, numbers: &[u16]) -> Result<Vec<Chain>, Vec<String>> {
    let endless = |stream: u16| {
        let made = plan.streams.iter().find(|s| s.stream == stream).map(|s| s.frames);
        let raw = plan.raw_streams.iter().find(|s| s.stream == stream).map(|s| s.frames);
        made.or(raw).flatten().is_none()
    };
    let (mut faults, mut taken) = (Vec::new(), Vec::new());
    let mut chains = Vec::new();
    for (i, chain) in plan.chains.iter().enumerate() {
        let at = format!("send.chains[{i}]");
        if chain.rounds == 0 || chain.steps.is_empty() {
            faults.push(format!("{at}: has at least one step and one round"));
        }
        let mut steps = Vec::new();
        for (j, step) in chain.steps.iter().enumerate() {
            let number = step.stream;
            let mut fault = |what: &str| faults.push(format!("{at}.steps[{j}].stream: {number} {what}"));
            match numbers.iter().position(|n| *n == number) {
                None => fault("is not a stream of this plan"),
                Some(_) if taken.contains(&number) => fault("is in a chain already"),
                Some(_) if endless(number) => fault("never ends; give it `frames`"),
                Some(stream) => steps.push(Step { stream, gap: Nanos(step.gap_ns) }),
            }
            taken.push(number);
        }
        chains.push(Chain::new(steps, chain.rounds));
    }
    if faults.is_empty() { Ok(chains) } else { Err(faults) }
}

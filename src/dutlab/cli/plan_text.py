"""A plan in lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from dutlab.plan.proof import proof_words
from dutlab.plan.trials import Plan
from dutlab.spec.testbed import Testbed
from dutlab.units import RFC2544_FRAME_SIZES, line_rate, si


def plan_lines(plan: Plan, testbed: Testbed) -> Iterator[str]:
    """What would be done, in which order, how long it takes, and what the links allow at most."""
    groups = len({t.group for t in plan.trials})
    yield f"{len(plan.trials)} trials in {groups} applications of a mode, about {plan.estimate_s / 60:.1f} min; order seed {plan.seed}"
    if plan.repeat_rule is not None:
        yield f"at most: each cell is {plan.repeat_rule.rule.words}"
    yield proof_words(plan)
    if plan.repeat_disturbed:
        longest = plan.estimate_s + plan.repeat_disturbed * sum(t.estimate_s for t in plan.trials)
        again = f"{plan.repeat_disturbed} times" if plan.repeat_disturbed > 1 else "once"
        yield f"a trial that other work disturbs is done again, at most {again}: about {longest / 60:.1f} min if each of them is"
    for link in testbed.links.values():
        if link.speed is None:
            yield f"link {link.name}: no speed known, so no ceiling"
        else:
            rates = ", ".join(f"{size} B {si(line_rate(link.speed, size), 'pps')}" for size in RFC2544_FRAME_SIZES)
            yield f"link {link.name}: {si(link.speed, 'bit/s')} L1; at most {rates}"
    for trial in plan.trials:
        cell = trial.cell
        params = " ".join(f"{k}={v}" for k, v in cell.params.items() if v is not None)
        factors = "".join(f"{k}={v} " for k, v in cell.factors.items() if k != "mode")
        yield f"{trial.number:5d}  {cell.mode:<16} {factors}{cell.workload:<8} {cell.link_label:<4} #{cell.repeat}  {params}"

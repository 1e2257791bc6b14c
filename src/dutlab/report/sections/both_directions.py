"""Finding of the finished run: a direction is slower while the other direction is driven too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Comparison, Pair
from dutlab.analysis.doctor import CureStep, Evidence, Finding, Price
from dutlab.analysis.verdict import Verdict
from dutlab.report.model.groups import Group
from dutlab.report.sections.headline import link_words
from dutlab.spec.workloads.setting import identity_of
from dutlab.stats.ratio import FEWEST
from dutlab.store.cell_figures import CellFigures
from dutlab.subject import Way, subject_of
from dutlab.units import si

KIND = "both-ways"
_FIGURE = "goodput_bps"
_OPEN = frozenset({"direction", "directions", "duration_s", "omit_s"})
"""Settings that may differ between a test of both directions and one of a single direction."""
_MUCH = 0.9
"""Ratio to the single direction below which a result is reported, if there are too few repeats for a test."""


def both_directions_slower(groups: Sequence[Group]) -> tuple[Finding, ...]:
    """Return a finding for each direction that is slower while the other is driven too."""
    alike: dict[object, list[CellFigures]] = defaultdict(list)
    for group in groups:
        if any(_FIGURE in of for record in group.measured for of in record.figures.values()):
            settings = {name: value for name, value in group.cell.params.items() if name not in _OPEN}
            key = (group.label, group.cell.workload, group.cell.tool, group.cell.links, identity_of(settings))
            alike[key].append(CellFigures(group.cell, tuple(group.measured)))
    pairs = [one for same in alike.values() for one in _pairs(same)]
    compared = compare([pair for _, _, pair in pairs])
    return tuple(
        _finding(cell, place, comparison) for (cell, place, _), comparison in zip(pairs, compared, strict=True) if _is_slower(comparison)
    )


def _pairs(same: Sequence[CellFigures]) -> Iterator[tuple[CellFigures, str, Pair]]:
    """Yield each direction of each two-way cell, paired with the same direction alone."""
    for both in same:
        for place in both.names if subject_of(both.names[0]).way is Way.BOTH else ():
            if subject_of(place).way is Way.BOTH:
                continue
            alone = next((of for of in same if of.names[0] == place), None)
            if alone is None:
                continue
            first, second = alone.readings(place, _FIGURE), both.readings(place, _FIGURE)
            if first and second:
                (a, a_at), (b, b_at) = ((tuple(r.value for r in of), tuple(r.repeat for r in of)) for of in (first, second))
                yield both, place, Pair(place, _FIGURE, a, b, first_at=a_at, second_at=b_at)


def _is_slower(of: Comparison) -> bool:
    if of.first is None or of.second is None or not of.first.value:
        return False
    few = min(of.first.n, of.second.n) < FEWEST
    return of.verdict is Verdict.WORSE or (few and of.second.value < of.first.value * _MUCH)


def _finding(cell: CellFigures, place: str, of: Comparison) -> Finding:
    alone, together = (side.value if side is not None else 0.0 for side in (of.first, of.second))
    repeats = min(side.n for side in (of.first, of.second) if side is not None)
    proven = "" if of.verdict is Verdict.WORSE else ", too few to prove it"
    where, label = link_words(cell.cell.links, place), cell.cell.mode
    step = "by hand: look for a part that both directions share: a half-duplex port, one core or queue, a slot, a cable of one medium"
    return Finding(
        KIND,
        f"{label}, {where}: {si(together, 'bit/s')} while the other direction is driven too, {si(alone, 'bit/s')} alone",
        Price(100 * (1 - together / alone), f"goodput of {where}", f"measured in this run, {repeats} of each{proven}"),
        tuple(f"link {link}" for link in cell.cell.links),
        (Evidence(label, f"trials {', '.join(str(r.trial) for r in cell.records)}", f"{_FIGURE} of {place}"),),
        (CureStep(label, step),),
        (CureStep(label, "by hand: as it was"),),
    )

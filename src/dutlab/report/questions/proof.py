"""Comparison of the levels of a run that was made to prove a finding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.doctor import FindingProof
from dutlab.analysis.doctor.proof import NOTHING, ProofPair, level_of
from dutlab.measures import direction_of
from dutlab.report.questions.sides import ComparedRun
from dutlab.store.cell_figures import CellFigure, CellFigures, cells_of
from dutlab.workloads import main_figures

_Side = tuple[str, Sequence[CellFigure]]
"""A level, and its readings."""


def proof_pairs(run: ComparedRun, proof: FindingProof) -> tuple[ProofPair, ...]:
    """Compare each level with the one before it, cell by cell; with both directions at once, compare each direction with it alone.

    Returns nothing for a cell if a level has no main figure.
    """
    cells: dict[tuple[str, ...], dict[str, CellFigures]] = defaultdict(dict)
    for of in cells_of(run.records).values():
        setting = of.cell.setting
        place = (of.cell.link_label, str(getattr(setting, "size", "")), " to ".join(getattr(setting, "ends", ())))
        cells[place][level_of(of.cell.factors, setting, proof)] = of
    order = [NOTHING] if proof.levels is None else [str(value) for value in proof.levels[1]]
    couples = [(place, figure, sides) for place, of in cells.items() for figure, sides in _couples(_in_order(of, order))]
    pairs = [_pair(" · ".join(filter(None, place)), figure, sides[0][1], sides[1][1]) for place, figure, sides in couples]
    return tuple(
        ProofPair(before, after, pair.label, comparison)
        for (_, _, ((before, _), (after, _))), pair, comparison in zip(couples, pairs, compare(pairs), strict=True)
    )


def _pair(label: str, figure: str, first: Sequence[CellFigure], second: Sequence[CellFigure]) -> Pair:
    (a, a_at), (b, b_at) = ((tuple(r.value for r in of), tuple(r.repeat for r in of)) for of in (first, second))
    return Pair(label, figure, a, b, first_at=a_at, second_at=b_at)


def _in_order(levels: dict[str, CellFigures], order: Sequence[str]) -> dict[str, CellFigures]:
    """Return the levels in the order of the proof, not of the measurement."""
    named = {level: levels[level] for level in order if level in levels}
    return {**named, **levels}


def _couples(levels: dict[str, CellFigures]) -> Iterator[tuple[str, tuple[_Side, _Side]]]:
    if "bidir" in levels:
        both = levels["bidir"]
        for alone in ("forward", "reverse"):
            if (one := levels.get(alone)) is not None:
                name, figure = next(_judged(one), ("", ""))
                if name and (together := both.readings(name, figure)):
                    yield figure, ((alone, one.readings(name, figure)), (f"{alone} of both at once", together))
        return
    for (before, first), (after, second) in pairwise(levels.items()):
        for name, figure in _judged(first):
            if readings := second.readings(name, figure):
                yield figure, ((before, first.readings(name, figure)), (after, readings))
                break


def _judged(of: CellFigures) -> Iterator[tuple[str, str]]:
    """Yield (name, figure) of the main figures with a known better direction."""
    for name in of.names:
        yield from ((name, figure) for figure in main_figures(of.cell.workload, of.figures(name)) if direction_of(figure))
